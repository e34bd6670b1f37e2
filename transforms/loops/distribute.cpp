#include "transforms/loops/distribute.h"

#include "dsl/poly/dependences.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::Stmt;

namespace {

// Nodes of the graph of parts: groups of sums and single leaves, merged where they depend on each other in a circle.
struct Node {
  int group = -1;
  StmtSet leaves;
  std::vector<bool> needs;  // nodes that must come first
};

void close_transitively(std::vector<Node>& nodes) {
  for (std::size_t via = 0; via < nodes.size(); ++via) {
    for (Node& node : nodes) {
      if (!node.needs[via]) continue;
      for (std::size_t k = 0; k < nodes.size(); ++k) {
        if (nodes[via].needs[k]) node.needs[k] = true;
      }
    }
  }
}

}  // namespace

LeafOrder::LeafOrder(const poly::Model& model, const Stmt& nest) {
  for (const Stmt& leaf : leaves(nest)) leaves_.push_back(leaf.get());
  auto n = static_cast<int>(model.statements.size());
  // What a statement of the model stands for: a leaf for itself, a header for every leaf below it.
  std::vector<std::vector<const ir::StmtNode*>> stands_for;
  for (const poly::Statement& s : model.statements) {
    std::vector<const ir::StmtNode*> list;
    for (const Stmt& leaf : leaves(s.stmt)) list.push_back(leaf.get());
    stands_for.push_back(std::move(list));
  }
  for (int first = 0; first < n; ++first) {
    for (int second = 0; second < n; ++second) {
      if (!poly::must_precede(model, first, second)) continue;
      for (auto* a : stands_for[static_cast<std::size_t>(first)]) {
        for (auto* b : stands_for[static_cast<std::size_t>(second)]) before_.insert({a, b});
      }
    }
  }
}

bool LeafOrder::ordered_within(const StmtSet& set) const {
  return std::any_of(set.begin(), set.end(), [&](auto* a) {
    return std::any_of(set.begin(), set.end(), [&](auto* b) { return precedes(a, b); });
  });
}

std::optional<std::vector<NestPart>> LeafOrder::split(const std::vector<StmtSet>& groups) const {
  std::vector<Node> nodes;
  StmtSet grouped;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    nodes.push_back({static_cast<int>(g), groups[g], {}});
    grouped.insert(groups[g].begin(), groups[g].end());
  }
  for (auto* leaf : leaves_) {
    if (!grouped.count(leaf)) nodes.push_back({-1, {leaf}, {}});
  }
  for (Node& node : nodes) {
    for (const Node& other : nodes) {
      node.needs.push_back(&node != &other && std::any_of(other.leaves.begin(), other.leaves.end(), [&](auto* a) {
        return std::any_of(node.leaves.begin(), node.leaves.end(), [&](auto* b) { return precedes(a, b); });
      }));
    }
  }
  close_transitively(nodes);
  for (std::size_t k = 0; k < nodes.size(); ++k) {
    if (nodes[k].group >= 0 && nodes[k].needs[k]) return std::nullopt;
  }

  std::vector<NestPart> parts;
  std::vector<bool> done(nodes.size(), false);
  // Leaves that need each other go into one part, so a circle does not keep a node waiting.
  auto ready = [&](std::size_t k) {
    for (std::size_t l = 0; l < nodes.size(); ++l) {
      if (nodes[k].needs[l] && !nodes[l].needs[k] && !done[l]) return false;
    }
    return true;
  };
  for (std::size_t left = nodes.size(); left > 0;) {
    for (std::size_t k = 0; k < nodes.size(); ++k) {
      if (done[k] || nodes[k].group < 0 || !ready(k)) continue;
      parts.push_back({nodes[k].group, nodes[k].leaves});
      done[k] = true;
      --left;
    }
    NestPart rest;
    for (bool more = true; more;) {
      more = false;
      for (std::size_t k = 0; k < nodes.size(); ++k) {
        if (done[k] || nodes[k].group >= 0 || !ready(k)) continue;
        rest.leaves.insert(nodes[k].leaves.begin(), nodes[k].leaves.end());
        done[k] = more = true;
        --left;
      }
    }
    if (!rest.leaves.empty()) parts.push_back(std::move(rest));
  }
  return parts;
}

std::vector<ir::Array> crossing_locals(const Stmt& nest, const std::vector<NestPart>& parts) {
  std::vector<Stmt> slices;
  for (const NestPart& part : parts) slices.push_back(slice(nest, part.leaves));
  std::vector<ir::Array> result;
  for (const LocalArray& local : locals_of(nest)) {
    auto users = std::count_if(slices.begin(), slices.end(), [&](const Stmt& s) { return uses(s, local.array); });
    if (users > 1) result.push_back(local.array);
  }
  return result;
}

}  // namespace loopgrad::transforms

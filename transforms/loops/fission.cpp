#include "transforms/loops/fission.h"

#include "dsl/ir/rewriter.h"
#include "transforms/loops/loops.h"

#include <fmt/format.h>

#include <algorithm>

namespace loopgrad::transforms {

using ir::Expr;
using ir::Stmt;

namespace {

using PartOf = std::map<const ir::StmtNode*, int>;  // of leaves

PartOf part_of_leaves(const std::vector<StmtSet>& parts) {
  PartOf result;
  for (std::size_t k = 0; k < parts.size(); ++k)
    for (auto* leaf : parts[k]) result[leaf] = static_cast<int>(k);
  return result;
}

// The part that all leaves of a statement are in, or -1.
int only_part(const Stmt& s, const PartOf& part_of) {
  int result = -1;
  bool same = true;
  for (const Stmt& leaf : leaves(s)) {
    const int part = part_of.at(leaf.get());
    same = same && (result < 0 || part == result);
    result = part;
  }
  return same ? result : -1;
}

// Iterations of parallel loops do not see each other, so parts that only these are split into, in the order of the
// text, need no analysis.
bool splits_parallel_loops_only(const Stmt& nest, const PartOf& part_of) {
  int last = 0;
  bool fits = true;
  ir::walk_stmts(nest, [&](const Stmt& s) {
    const auto leaf = part_of.find(s.get());
    if (leaf != part_of.end()) {
      fits = fits && leaf->second >= last;
      last = leaf->second;
    } else if (s.kind() == ir::Kind::While || (s.kind() == ir::Kind::For && !is_parallel_loop(s))) {
      fits = fits && only_part(s, part_of) >= 0;
    }
  });
  return fits;
}

// The headers of statements that are split are evaluated by each part.
Legality headers_stay(const ir::Program& program, const Stmt& nest, const PartOf& part_of) {
  Legality result;
  ir::walk_stmts(nest, [&](const Stmt& s) {
    std::vector<Expr> header;
    if (auto* loop = s.as<ir::For>()) header = {loop->lower, loop->upper};
    if (auto* branch = s.as<ir::If>()) header = {branch->condition};
    if (auto* loop = s.as<ir::While>()) header = {loop->condition};
    if (result.ok && !header.empty() && only_part(s, part_of) < 0) result = stays(program, header, nest);
  });
  return result;
}

StmtSet leaves_between(const std::vector<Stmt>& statements, std::size_t first, std::size_t end) {
  StmtSet result;
  for (std::size_t k = first; k < end; ++k)
    for (const Stmt& leaf : leaves(statements[k])) result.insert(leaf.get());
  return result;
}

}  // namespace

// Nodes of the graph of parts: groups of sums and single leaves, merged where they depend on each other in a circle.
struct LeafOrder::Node {
  int group = -1;
  StmtSet leaves;
  std::vector<unsigned char> needs = {};  // nodes that must come first; bytes, since closures go over all of them
};

void LeafOrder::close_transitively(std::vector<Node>& nodes) {
  for (std::size_t via = 0; via < nodes.size(); ++via) {
    for (Node& node : nodes) {
      if (!node.needs[via]) continue;
      for (std::size_t k = 0; k < nodes.size(); ++k) node.needs[k] |= nodes[via].needs[k];
    }
  }
}

LeafOrder::LeafOrder(const poly::Model& model, const Stmt& nest) {
  for (const Stmt& leaf : leaves(nest)) {
    leaves_.push_back(leaf.get());
    numbers_.emplace(leaf.get(), numbers_.size());
  }
  auto n = static_cast<int>(model.statements.size());
  // What a statement of the model stands for: a leaf for itself, a header for every leaf below it.
  std::vector<std::vector<std::size_t>> stands_for;
  for (const poly::Statement& s : model.statements) {
    std::vector<std::size_t> list;
    for (const Stmt& leaf : leaves(s.stmt)) list.push_back(numbers_.emplace(leaf.get(), numbers_.size()).first->second);
    stands_for.push_back(std::move(list));
  }
  before_.assign(numbers_.size(), std::vector<bool>(numbers_.size(), false));
  for (int first = 0; first < n; ++first) {
    for (int second = 0; second < n; ++second) {
      if (!poly::must_precede(model, first, second)) continue;
      for (const std::size_t a : stands_for[static_cast<std::size_t>(first)]) {
        for (const std::size_t b : stands_for[static_cast<std::size_t>(second)]) before_[a][b] = true;
      }
    }
  }
}

// Of those in the set that the model knows: others are in no order.
std::vector<std::size_t> LeafOrder::numbers_of(const StmtSet& set) const {
  std::vector<std::size_t> result;
  for (auto* leaf : set)
    if (const auto found = numbers_.find(leaf); found != numbers_.end()) result.push_back(found->second);
  return result;
}

bool LeafOrder::any_precedes(const std::vector<std::size_t>& first, const std::vector<std::size_t>& second) const {
  return std::any_of(first.begin(), first.end(), [&](std::size_t a) {
    return std::any_of(second.begin(), second.end(), [&](std::size_t b) { return before_[a][b]; });
  });
}

bool LeafOrder::ordered_within(const StmtSet& set) const {
  const std::vector<std::size_t> numbers = numbers_of(set);
  return any_precedes(numbers, numbers);
}

void LeafOrder::note_needs(std::vector<Node>& nodes) const {
  std::vector<std::size_t> node_of(numbers_.size(), nodes.size());
  for (std::size_t k = 0; k < nodes.size(); ++k) {
    nodes[k].needs.assign(nodes.size(), 0);
    for (const std::size_t leaf : numbers_of(nodes[k].leaves)) node_of[leaf] = k;
  }
  for (std::size_t a = 0; a < node_of.size(); ++a) {
    if (node_of[a] == nodes.size()) continue;
    for (std::size_t b = 0; b < node_of.size(); ++b)
      if (before_[a][b] && node_of[b] < nodes.size() && node_of[a] != node_of[b])
        nodes[node_of[b]].needs[node_of[a]] = 1;
  }
}

std::optional<std::vector<NestPart>> LeafOrder::split(const std::vector<StmtSet>& groups) const {
  std::vector<Node> nodes;
  StmtSet grouped;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    nodes.push_back({static_cast<int>(g), groups[g]});
    grouped.insert(groups[g].begin(), groups[g].end());
  }
  for (auto* leaf : leaves_) {
    if (!grouped.count(leaf)) nodes.push_back({-1, {leaf}});
  }
  note_needs(nodes);
  close_transitively(nodes);
  for (std::size_t k = 0; k < nodes.size(); ++k) {
    if (nodes[k].group >= 0 && nodes[k].needs[k]) return std::nullopt;
  }

  std::vector<NestPart> parts;
  std::vector<bool> done(nodes.size(), false);
  // Leaves that need each other go into one part, so a circle does not keep a node waiting.
  const auto waits_for = [&](std::size_t k, std::size_t l) { return nodes[k].needs[l] && !nodes[l].needs[k]; };
  std::vector<std::size_t> awaited(nodes.size(), 0);  // nodes that are not done
  for (std::size_t k = 0; k < nodes.size(); ++k)
    for (std::size_t l = 0; l < nodes.size(); ++l) awaited[k] += waits_for(k, l);
  std::size_t left = nodes.size();
  const auto finish = [&](std::size_t l) {
    done[l] = true;
    --left;
    for (std::size_t k = 0; k < nodes.size(); ++k) awaited[k] -= waits_for(k, l);
  };
  while (left > 0) {
    for (std::size_t k = 0; k < nodes.size(); ++k) {
      if (done[k] || nodes[k].group < 0 || awaited[k] > 0) continue;
      parts.push_back({nodes[k].group, nodes[k].leaves});
      finish(k);
    }
    NestPart rest;
    for (bool more = true; more;) {
      more = false;
      for (std::size_t k = 0; k < nodes.size(); ++k) {
        if (done[k] || nodes[k].group >= 0 || awaited[k] > 0) continue;
        rest.leaves.insert(nodes[k].leaves.begin(), nodes[k].leaves.end());
        more = true;
        finish(k);
      }
    }
    if (!rest.leaves.empty()) parts.push_back(std::move(rest));
  }
  return parts;
}

std::vector<ir::Array> crossing_locals(const Stmt& nest, const std::vector<StmtSet>& parts) {
  std::map<ir::Array, int> users;
  for (const StmtSet& part : parts) {
    std::set<ir::Array> used;  // each slice is walked once: there may be hundreds of both
    ir::walk(
        slice(nest, part),
        [&](const Stmt& s) {
          for_each_store(s, [&](const ir::Array& stored, const std::vector<Expr>&) { used.insert(stored); });
        },
        [&](const Expr& e) {
          if (const auto* load = e.as<ir::Load>()) used.insert(load->array);
        });
    for (const ir::Array& array : used) ++users[array];
  }
  std::vector<ir::Array> result;
  for (const LocalArray& local : locals_of(nest))
    if (const auto found = users.find(local.array); found != users.end() && found->second > 1)
      result.push_back(local.array);
  return result;
}

std::vector<ir::Array> crossing_locals(const Stmt& nest, const std::vector<NestPart>& parts) {
  std::vector<StmtSet> sets;
  for (const NestPart& part : parts) sets.push_back(part.leaves);
  return crossing_locals(nest, sets);
}

Legality can_split(const Analysed& program, const Stmt& nest, const std::vector<StmtSet>& parts) {
  const PartOf part_of = part_of_leaves(parts);
  if (leaves(nest).size() != part_of.size()) return Legality::refused("one statement stands at several places in it");
  if (Legality stay = headers_stay(program, nest, part_of); !stay.ok) return stay;
  if (const auto crossing = crossing_locals(nest, parts); !crossing.empty()) {
    const ir::ArrayDecl& local = *crossing.front();
    const auto* loop = nest.as<ir::For>();
    Legality result = Legality::refused(
        "the local '" + local.name + "' is used in both parts",
        fmt::format("expand({}, {}) gives each iteration its own", local.name, loop ? loop->iterator.name : "LOOP"));
    result.array = local.name;
    result.where = local.location;
    return result;
  }
  if (splits_parallel_loops_only(nest, part_of)) return {};
  return can_reorder(program, nest, [&](const poly::Statement& statement) -> std::optional<std::vector<Expr>> {
    const int part = only_part(statement.stmt, part_of);
    return part < 0 ? std::nullopt : std::optional(std::vector<Expr>{ir::int_const(part)});
  });
}

std::vector<Stmt> split(const Stmt& nest, const std::vector<StmtSet>& parts) {
  std::vector<Stmt> result;
  for (const StmtSet& part : parts) {
    const Stmt one = slice(nest, part);
    result.push_back(result.empty() ? one : ir::with_fresh_names(one));
  }
  return result;
}

Scheduled split_body(const Analysed& program, const LoopName& name, int after) {
  Stmt loop = find_loop(program, name);
  std::string action = fmt::format("split the body of '{}'", name.name());
  const std::vector<Stmt> statements = statements_of(loop.as<ir::For>()->body);
  const std::size_t count = statements.size(), only = after < 0 ? count : static_cast<std::size_t>(after);
  if (only >= count) {
    misuse(program, loop, action, fmt::format("it has {} statement{}", count, count == 1 ? "" : "s"),
           "split after at least one statement and before the last");
  }
  // A place where the statements before it may be parts of their own, whatever parts these are.
  std::vector<StmtSet> parts;
  Legality all, last;
  std::size_t done = 0;
  for (std::size_t k = 1; k < count; ++k) {
    if (only && k != only) continue;
    last = can_split(program, loop, {leaves_between(statements, 0, k), leaves_between(statements, k, count)});
    if (!last.ok) continue;
    if (all.sum.empty()) all.sum = last.sum;
    parts.push_back(leaves_between(statements, done, k));
    done = k;
  }
  if (parts.empty()) require(last, program, loop, action);
  parts.push_back(leaves_between(statements, done, count));
  return {with_replaced(program, loop, ir::block(split(loop, parts))), all};
}

}  // namespace loopgrad::transforms

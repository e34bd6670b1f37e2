#include "transforms/map/gpu/split_kernels.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "transforms/analysis/analyses.h"
#include "transforms/analysis/nest.h"
#include "transforms/analysis/strides.h"
#include "transforms/loops/fission.h"
#include "transforms/loops/parallelize_loops.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::Expr;
using ir::Stmt;

namespace {

/// The parts that what is in parallel loops falls into, in order.
std::vector<Stmt> parts_of(const Stmt& s) {
  if (ir::is_empty(s)) return {};
  if (!contains_parallel_loop(s)) return {s};
  if (const auto* block = s.as<ir::Block>()) {
    std::vector<Stmt> parts;
    bool plain = false;  // the last part is one without parallel loops
    for (const Stmt& child : block->body) {
      if (plain && !contains_parallel_loop(child)) {
        parts.back() = ir::block({parts.back(), child});
        continue;
      }
      plain = !contains_parallel_loop(child);
      for (Stmt& part : parts_of(child)) parts.push_back(std::move(part));
    }
    return parts;
  }
  std::vector<Stmt> parts;
  if (const auto* branch = s.as<ir::If>(); branch && !has_load(branch->condition)) {
    for (const Stmt& side : {branch->then_body, branch->else_body})
      for (const Stmt& part : parts_of(side)) parts.push_back(part);
    return parts;
  }
  const auto* loop = s.as<ir::For>();
  if (!loop || !is_parallel_loop(s) || has_load(loop->lower) || has_load(loop->upper)) return {s};
  return parts_of(loop->body);
}

/// More than a row of work for the threads of one block, as a part of a parallel loop.
bool is_nest_of_its_own(const Stmt& part) {
  const Stmt& inside = part.as<ir::For>()->body;
  if (const auto* branch = inside.as<ir::If>()) return contains_parallel_loop(branch->then_body);
  const auto* loop = inside.as<ir::For>();
  return loop && is_parallel_loop(inside) && contains_parallel_loop(loop->body);
}

bool is_parallel_throughout(const Stmt& nest) {
  bool parallel = true;
  ir::walk_stmts(nest, [&](const Stmt& s) { parallel &= !s.as<ir::For>() || is_parallel_loop(s); });
  return parallel;
}

/// The one constant that all leaves of a nest assign, or null.
Expr constant_fill(const ir::Program& program, const Stmt& nest) {
  Expr value;
  std::vector<ir::Array> targets;
  for (const Stmt& leaf : leaves(nest)) {
    const auto* assign = leaf.as<ir::Assign>();
    if (!assign || (assign->value.kind() != ir::Kind::FloatConst && assign->value.kind() != ir::Kind::IntConst))
      return {};
    if (value && !ir::equal(value, assign->value)) return {};
    value = assign->value;
    targets.push_back(assign->array);
  }
  const std::set<ir::Array> aliased = ir::aliased_arrays(program);
  if (std::any_of(targets.begin(), targets.end(), [&](const ir::Array& target) { return aliased.count(target) > 0; }))
    return {};
  bool plain = true;  // neither indices nor bounds read what is set
  ir::walk_stmts(nest, [&](const Stmt& s) {
    plain &= s.kind() != ir::Kind::While && s.kind() != ir::Kind::Allocate;
    for (const ir::Array& target : targets) {
      if (const auto* f = s.as<ir::For>()) plain &= !uses(f->lower, target) && !uses(f->upper, target);
      if (const auto* branch = s.as<ir::If>()) plain &= !uses(branch->condition, target);
      for_each_store(s, [&](const ir::Array&, const std::vector<Expr>& indices) {
        for (const Expr& index : indices) plain &= !uses(index, target);
      });
    }
  });
  return plain ? value : Expr();
}

/// Assignments of a nest in groups: those of one array that differ in indices without iterators only, such as opposite
/// borders. Their elements lie side by side in memory, or are a few rows apart.
std::vector<StmtSet> groups_of(const std::vector<Stmt>& assignments, const Stmt& nest) {
  std::vector<ir::Symbol> iterators;
  ir::walk_stmts(nest, [&](const Stmt& s) {
    if (const auto* loop = s.as<ir::For>()) iterators.push_back(loop->iterator);
  });
  auto moves = [&](const Expr& index) {
    return has_load(index) ||
           std::any_of(iterators.begin(), iterators.end(), [&](const ir::Symbol& i) { return mentions(index, i); });
  };
  auto alike = [&](const ir::Assign& a, const ir::Assign& b) {
    if (a.array != b.array) return false;
    for (std::size_t d = 0; d < a.indices.size(); ++d)
      if (!ir::equal(a.indices[d], b.indices[d]) && (moves(a.indices[d]) || moves(b.indices[d]))) return false;
    return true;
  };
  std::vector<std::pair<const ir::Assign*, StmtSet>> groups;
  for (const Stmt& s : assignments) {
    const auto* assign = s.as<ir::Assign>();
    auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return alike(*g.first, *assign); });
    if (group == groups.end()) group = groups.insert(groups.end(), {assign, {}});
    group->second.insert(s.get());
  }
  std::vector<StmtSet> result;
  for (auto& [first, members] : groups) result.push_back(std::move(members));
  return result;
}

class Splitter {
 public:
  explicit Splitter(const Analysed& program) : program_(program) {}

  bool has_fills = false;

  Stmt visit(const Stmt& s) {
    return ir::rewrite(s, {}, [&](const Stmt& child) -> std::optional<Stmt> {
      const auto* loop = child.as<ir::For>();
      if (!loop) return std::nullopt;
      // In whatever order: nothing sees one of them before the others.
      if (const auto assignments = leaves(child);
          assignments.size() > 1 && !is_parallel_throughout(child) && constant_fill(program_.program, child)) {
        has_fills = true;
        return ir::block(split(child, groups_of(assignments, child)));
      }
      if (!is_parallel_loop(child) || has_load(loop->lower) || has_load(loop->upper)) return std::nullopt;
      std::vector<StmtSet> parts;
      for (const Stmt& part : parts_of(loop->body)) parts.push_back(set_of(leaves(part)));
      if (parts.size() < 2) return child;
      const std::vector<Stmt> nests = split(child, parts);
      const bool pays = std::any_of(nests.begin(), nests.end(), is_nest_of_its_own);
      return pays && can_split(program_, child, parts).ok ? ir::block(nests) : child;
    });
  }

 private:
  const Analysed program_;
};

}  // namespace

ir::Program split_kernels(const ir::Program& program, PassContext& outer) {
  Splitter splitter({program, analyses(outer)});
  const ir::Program split = ir::with_body(program, splitter.visit(program.body));
  if (!splitter.has_fills) return split;
  Report decisions;
  const LowerOptions options;
  PassContext context{options, decisions};
  context.analyses = outer.analyses;
  return parallelize_loops(split, context);
}

}  // namespace loopgrad::transforms

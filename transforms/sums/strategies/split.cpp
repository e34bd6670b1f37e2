// Gathered sums with few elements and many terms each: a thread for each element and each block of terms.
//
//   for i in 0..n:                          parallel for block in 0..64:
//     for r in 0..d:                          for r in 0..d:
//       for c in 0..d:                 ->       for c in 0..d:
//         t[r, c] += a[i, r]*b[i, c]              t_part[block, r, c] = 0
//                                                 for i in block's share of 0..n: t_part[block, r, c] += a[i, r]*b[i,
//                                                 c]
//                                           t[r, c] += t_part[block, r, c], block by block
//
// Blocks and their combination are those of partial results (tree_sums.h), but the sums have a nest of their own, in
// which the loops over elements are outermost: what a thread sums up stays in a register. In a nest with other
// statements the threads of a block would meet after each of these, in every iteration, with the partial results in
// memory. Known as split-K where the sum is a product of matrices.
#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "transforms/analysis/analyses.h"
#include "transforms/sums/strategies.h"
#include "transforms/sums/tree_sums.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::Stmt;

namespace {

/// A nest with nothing else in it has its loops in this order in any case, whatever it is called. A target that all
/// iterations share has no loops over elements: leaving the nest, its sum no longer keeps the rest in order.
bool suits(const SumNest& nest, const SumGroup& group) {
  const bool is_alone = leaves(nest.now.nest).size() == group.sums.size();
  return nest.machine().is_gpu() && group.shared && !is_alone;
}

std::optional<std::string> obstacle(SumNest& nest, const SumGroup& group, std::vector<ir::Array>& kept) {
  if (nest.request.all_or_none) return "an outer loop is parallel: sums are gathered or stay";
  const bool is_one_element = group.separators.dims.empty();
  if ((!group.separators.exact_bounds && !is_one_element) || has_targets_from_data(group))
    return "the elements it adds to and the loop bounds are known only at run time";
  if (!can_be_held_back(nest.now.model, group.sums)) return "the loop uses it before it is complete";
  return obstacle_to_splitting(nest, group, kept);
}

/// A loop of so many trips as data tell, in which none of these sums are.
bool has_ragged_loop(const Stmt& nest, const StmtSet& sums) {
  bool found = false;
  ir::walk_stmts(nest, [&](const Stmt& s) {
    const auto* loop = s.as<ir::For>();
    if (!loop || !(ir::has_load(loop->lower) || ir::has_load(loop->upper))) return;
    const std::vector<Stmt> inside = leaves(s);
    found |= std::none_of(inside.begin(), inside.end(), [&](const Stmt& leaf) { return sums.contains(leaf.get()); });
  });
  return found;
}

/// In blocks of iterations each would be done by one thread, however long its rows are.
std::optional<std::string> claim(const SumNest& nest, const SumGroup& group, Strategy) {
  const auto is_scalar = [](const ir::Array& local) { return local->shape.empty(); };
  if (!suits(nest, group) || !std::all_of(group.kept.begin(), group.kept.end(), is_scalar)) return std::nullopt;
  if (!has_ragged_loop(nest.now.nest, set_of(group.sums))) return std::nullopt;
  return "iterations have rows of different lengths, which threads share where no partial results are made of them";
}

PlanCandidate cost(SumCosts& costs, const SumGroup& group) {
  return costs.split(group.sums, group.separators, group.kept, group.blocks);
}

/// The sums of a block, which `iterations` has in the order of the program, by their elements. Where a block begins and
/// ends is no affine expression, and is not looked into.
Stmt by_elements(SumNest& nest, const ir::Program& program, const Stmt& iterations) {
  const ir::For& loop = *iterations.as<ir::For>();
  const ir::Symbol first = ir::make_symbol("first"), end = ir::make_symbol("end");
  const Stmt plain =
      ir::for_loop(loop.iterator, ir::var(first), ir::var(end), loop.body, loop.mode, loop.location, loop.at_most);
  const ir::Program with_plain = ir::with_body(program, replace(program.body, iterations, plain));
  const poly::Model model = *analyses(nest.context).model_of(with_plain, plain);
  const std::vector<Stmt> sums = leaves(plain);
  const Stmt gathered = gather_sums(model, plain, sums, separators_of(model, plain, sums), nest.machine());
  return ir::substitute(gathered ? gathered : plain, {{first, loop.lower}, {end, loop.upper}});
}

Stmt apply(SumNest& nest, const Stmt& piece, const std::vector<SumGroup*>& groups) {
  const NestVersion version = nest.version_of(piece);
  const Stmt code = tree_sums(version.program, version.model, piece, {groups[0]->sums}, nest.machine());
  nest.note_new_arrays(piece, code);
  if (groups[0]->separators.dims.empty()) return code;
  const ir::Program program = ir::with_body(version.program, replace(version.program.body, piece, code));
  const ir::Symbol& root = piece.as<ir::For>()->iterator;
  return ir::rewrite(code, {}, [&](const Stmt& s) -> std::optional<Stmt> {
    const auto* loop = s.as<ir::For>();
    return loop && loop->iterator == root ? std::optional(by_elements(nest, program, s)) : std::nullopt;
  });
}

std::string reason(const SumGroup&, const std::string& why) {
  return "a thread owns each element in each block of terms, and what blocks have is combined in a fixed order: " + why;
}

}  // namespace

const SumStrategy split_strategy = {.strategy = Strategy::Split,
                                    .in_own_nest = true,
                                    .by_estimate = true,
                                    .obstacle = obstacle,
                                    .claim = claim,
                                    .cost = cost,
                                    .suits = suits,
                                    .apply = apply,
                                    .reason = reason};

}  // namespace loopgrad::transforms

// Each element is summed by one iteration of loops over the elements: gather_sums.h.
#include "dsl/ir/printer.h"
#include "dsl/ir/queries.h"
#include "transforms/analysis/analyses.h"
#include "transforms/sums/strategies.h"
#include "transforms/sums/tree_sums.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace loopgrad::transforms {

using ir::Stmt;

namespace {

bool can_gather_alone(const SumNest& nest, const SumGroup& group) {
  const Stmt alone = nest.alone(group);
  ir::Program program = nest.now.program;
  program.body = replace(program.body, nest.now.nest, alone);
  const poly::Model model = *analyses(nest.context).model_of(program, alone);
  return static_cast<bool>(gather_sums(model, alone, group.sums, group.separators, nest.machine()));
}

/// A local that would have to be kept for each entry of a row with each entry of another one; null where there is none.
ir::Array kept_for_pairs(const SumNest& nest, const std::vector<ir::Array>& kept) {
  ir::Array found;
  std::vector<const ir::For*> rows;
  const std::function<void(const Stmt&)> visit = [&](const Stmt& s) {
    const auto* loop = s.as<ir::For>();
    const bool is_row = loop && ir::has_load(loop->lower);
    if (is_row) rows.push_back(loop);
    if (const auto* local = s.as<ir::Allocate>(); local && rows.size() > 1)
      if (std::find(kept.begin(), kept.end(), local->array) != kept.end()) found = local->array;
    ir::for_each_child(s, ir::overloaded{[](const ir::Expr&) {}, visit});
    if (is_row) rows.pop_back();
  };
  visit(nest.now.nest);
  return found;
}

std::optional<std::string> obstacle(SumNest& nest, const SumGroup& group, std::vector<ir::Array>& kept) {
  const Separators& separators = group.separators;
  if (separators.dims.empty()) {
    return separators.follows ? "the elements it adds to are known only at run time"
                              : "all iterations add to one element";
  }
  if (!group.shared && separators.small) return "the target has too few elements to give each to a thread";
  if (auto obstacle = obstacle_to_splitting(nest, group, kept)) return obstacle;
  if (!separators.exact_bounds && (!group.shared || !can_gather_alone(nest, group)))
    return "needs an inverted index: the elements it adds to and the loop bounds are known only at run time";
  if (const ir::Array pairs = separators.exact_bounds ? ir::Array() : kept_for_pairs(nest, kept))
    return fmt::format("'{}' would have to be kept for all pairs of entries of rows", pairs->name);
  return std::nullopt;
}

std::string doubt(const SumNest&, const SumGroup& group) {
  const Separators& separators = group.separators;
  if (!group.shared) return "";
  if (separators.small) return "the target has too few elements to give each to a thread";
  if (separators.follows) return "";
  if (separators.dims.size() == 1) return "all iterations add to every element of a vector";
  if (group.kept.empty()) return "";
  return fmt::format("all iterations add to every element, and '{}' would have to be kept for all of them",
                     group.kept[0]->name);
}

/// One of many small steps on a GPU, such as a column of a factorisation, where the number of kernels decides.
std::optional<std::string> claim(const SumNest& nest, const SumGroup& group, Strategy suggested) {
  if (suggested == Strategy::Gather || !nest.machine().counts_kernels) return std::nullopt;
  if (!group.kept.empty() || group.separators.small) return std::nullopt;
  if (!varying_trips(nest.original, *nest.original_nest.as<ir::For>())) return std::nullopt;
  return "partial results would take a kernel more in each of many small steps";
}

PlanCandidate cost(SumCosts& costs, const SumGroup& group) {
  if (group.separators.dims.empty()) return {Strategy::Gather};
  return costs.gather(group.sums, group.separators, group.kept);
}

Stmt apply(SumNest& nest, const Stmt& piece, const std::vector<SumGroup*>& groups) {
  const NestVersion version = nest.version_of(piece);
  const Stmt code = gather_sums(version.model, piece, groups[0]->sums, groups[0]->separators, nest.machine());
  if (!code) throw InternalError("a sum that was found to be gatherable is not");
  return code;
}

std::string reason(const SumGroup& group, const std::string& why) {
  std::string indices;
  const ir::Reduce& sum = *group.sums[0].as<ir::Reduce>();
  for (int dim : group.separators.dims)
    indices += (indices.empty() ? "" : ", ") + ir::print(sum.indices[static_cast<std::size_t>(dim)]);
  return fmt::format("the outermost loops enumerate {} of the target, one thread owns each element{}{}", indices,
                     why.empty() ? "" : ": ", why);
}

}  // namespace

const SumStrategy gather_strategy = {.strategy = Strategy::Gather,
                                     .in_own_nest = true,
                                     .by_estimate = true,
                                     .obstacle = obstacle,
                                     .doubt = doubt,
                                     .claim = claim,
                                     .cost = cost,
                                     .apply = apply,
                                     .reason = reason};

}  // namespace loopgrad::transforms

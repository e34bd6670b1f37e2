// Partial results of blocks of iterations, combined in a fixed order: tree_sums.h.
#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/symbolic/ranges.h"
#include "transforms/sums/strategies.h"
#include "transforms/sums/tree_sums.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::Stmt;

namespace {

std::optional<std::string> obstacle(SumNest& nest, const SumGroup& group, std::vector<ir::Array>&) {
  if (nest.request.all_or_none) return "an outer loop is parallel: sums are gathered or stay";
  if (!can_be_held_back(nest.now.model, group.sums)) return "the loop uses it before it is complete";
  return std::nullopt;
}

/// What is left where nothing else does it. Whether it can be is asked of what stays in the nest, by `apply`.
std::string doubt(const SumNest&, const SumGroup&) { return ""; }

PlanCandidate cost(SumCosts& costs, const SumGroup& group) { return costs.partials(group.sums, group.blocks); }

/// Known better than when the candidate was made.
void set_level(SumPlan& plan, Level level) {
  plan.level = level;
  for (PlanCandidate& c : plan.candidates)
    if (c.strategy == plan.strategy) c.level = level;
}

/// Of a GPU, as many partial results as threads that fill it where the threads of a block would find little to share:
/// the paths of a simulation, say, whose steps stay in order. (1,024 partial results kept 1,024 threads at work.)
Machine machine_for(const SumNest& nest, const std::vector<SumGroup*>& groups) {
  Machine machine = nest.machine();
  if (!machine.is_gpu()) return machine;
  const bool is_thin = std::all_of(groups.begin(), groups.end(), [&](const SumGroup* group) {
    const PlanCandidate* candidate = group->plan.candidate(Strategy::Partials);
    return candidate && candidate->parallel < static_cast<double>(machine.enough_threads) / 4;
  });
  if (is_thin) machine.most_partials = machine.enough_threads;
  return machine;
}

/// A single block of iterations, in one thread, only has the partial results in addition.
bool has_one_block(const SumGroup* group) { return ir::as_int(group->blocks) == 1; }

void stay_in_order(SumPlan& plan) {
  plan.strategy = Strategy::Serial;
  plan.level = Level::None;
  plan.reason = "one block of iterations would have partial results: in order";
}

/// Of one block that sizes tell: in each step of a loop what it has of many elements costs more than the sums.
Stmt unless_one_block(const SumNest& nest, const std::vector<SumGroup*>& groups, const Stmt& code, const Stmt& piece) {
  if (nest.machine().is_gpu() || code.same_as(piece) || !runs_again(nest)) return code;
  ir::Expr blocks;
  for (const SumGroup* group : groups) {
    if (ir::as_int(group->blocks)) continue;  // no fewer than others have
    blocks = blocks ? ir::smaller(blocks, group->blocks) : group->blocks;
  }
  if (!blocks || ir::has_load(blocks)) return code;
  return ir::if_then(ir::binary(ir::BinaryOp::Lt, ir::int_const(1), blocks), code, ir::with_fresh_names(piece),
                     piece->location);
}

/// One loop for all groups: they share its blocks.
Stmt apply(SumNest& nest, const Stmt& piece, const std::vector<SumGroup*>& groups) {
  if (!nest.machine().is_gpu() && std::any_of(groups.begin(), groups.end(), has_one_block)) {
    for (SumGroup* group : groups) stay_in_order(group->plan);
    return piece;
  }
  const NestVersion version = nest.version_of(piece);
  std::vector<std::vector<Stmt>> sums;
  for (const SumGroup* group : groups) {
    if (!can_be_held_back(version.model, group->sums)) return {};
    sums.push_back(group->sums);
  }
  const Stmt code = tree_sums(version.program, version.model, piece, sums, machine_for(nest, groups));
  nest.note_new_arrays(piece, code);
  for (SumGroup* group : groups) {
    SumPlan& plan = group->plan;
    const bool few = nest.by_partials || has_few_targets(nest, *group);
    if (code.same_as(piece)) set_level(plan, Level::Block);
    else if (plan.level == Level::Grid && nest.machine().sorts_scatters && has_targets_from_data(*group) && few)
      set_level(plan, Level::Lanes);
  }
  return unless_one_block(nest, groups, code, piece);
}

std::string reason(const SumGroup& group, const std::string& why) {
  if (group.plan.level == Level::Block) return why + ": partial results of threads, combined in a fixed order";
  return why + ": partial results of blocks of iterations, combined in a fixed order";
}

}  // namespace

const SumStrategy partials_strategy = {.strategy = Strategy::Partials,
                                       .by_estimate = true,
                                       .obstacle = obstacle,
                                       .doubt = doubt,
                                       .cost = cost,
                                       .apply = apply,
                                       .reason = reason};

}  // namespace loopgrad::transforms

#include "transforms/pass/sum_plan.h"

#include "transforms/pass/pass.h"

#include <algorithm>

namespace loopgrad::transforms {

namespace {

std::string name_of(Level level) {
  static const char* const names[] = {"", "register", "lanes", "block", "grid"};
  return names[static_cast<std::size_t>(level)];
}

}  // namespace

const PlanCandidate* SumPlan::candidate(Strategy which) const {
  const auto found =
      std::find_if(candidates.begin(), candidates.end(), [&](const PlanCandidate& c) { return c.strategy == which; });
  return found == candidates.end() ? nullptr : &*found;
}

std::string name_of(Strategy strategy, Level level) {
  static const char* const names[] = {"none", "gather", "segments", "partials", "apart", "serial", "atomic"};
  const bool few = strategy == Strategy::Partials && (level == Level::Register || level == Level::Block);
  return few ? "tree" : names[static_cast<std::size_t>(strategy)];
}

std::vector<SumDecision> decisions_of(const SumPlan& plan) {
  std::vector<SumCandidate> candidates;
  for (const PlanCandidate& c : plan.candidates)
    candidates.push_back({name_of(c.strategy, c.level), c.operations, c.bytes, c.parallel, c.microseconds, c.possible,
                          c.note, name_of(c.level)});
  std::vector<SumDecision> result;
  for (const PlannedSum& sum : plan.sums)
    result.push_back({sum.text, sum.where, name_of(plan.strategy, plan.level), plan.reason, candidates, plan.basis,
                      name_of(plan.level)});
  return result;
}

void add_plan(PassContext& context, SumPlan plan) {
  const std::vector<SumDecision> decisions = decisions_of(plan);
  context.report.sums.insert(context.report.sums.end(), decisions.begin(), decisions.end());
  context.plans.push_back(std::move(plan));
}

bool has_plan(const PassContext& context, const ir::Reduce& sum) {
  const auto is_it = [&](const PlannedSum& s) { return s.array == sum.array->id && s.where.line == sum.location.line; };
  return std::any_of(context.plans.begin(), context.plans.end(),
                     [&](const SumPlan& plan) { return std::any_of(plan.sums.begin(), plan.sums.end(), is_it); });
}

}  // namespace loopgrad::transforms

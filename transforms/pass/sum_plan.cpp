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
  static const char* const names[] = {"none",  "gather", "segments", "partials", "split",
                                      "apart", "serial", "exact",    "atomic",   "library"};
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

namespace {

bool is_of(const PlannedSum& planned, std::int64_t array, const SourceLocation& where) {
  return planned.array == array && planned.where.line == where.line;
}

/// What the loops of a product do goes into its plan, and into what the report says of it.
bool add_to_product(PassContext& context, const SumPlan& loops) {
  if (loops.strategy == Strategy::Library || loops.sums.size() != 1) return false;
  const PlannedSum& sum = loops.sums[0];
  const auto product = std::find_if(context.plans.begin(), context.plans.end(), [&](const SumPlan& plan) {
    return plan.strategy == Strategy::Library && plan.sums[0].text == sum.text &&
           is_of(plan.sums[0], sum.array, sum.where);
  });
  if (product == context.plans.end()) return false;
  const std::string also = "; loops: ";
  if (product->reason.find(also) != std::string::npos) return true;  // copies of the loops do the same
  product->candidates.insert(product->candidates.end(), loops.candidates.begin(), loops.candidates.end());
  product->basis = loops.basis;
  product->assumed = loops.assumed;
  product->reason += also + name_of(loops.strategy, loops.level) + ", " + loops.reason;
  for (SumDecision& row : context.report.sums)
    if (row.sum == sum.text && row.where.str() == sum.where.str() && row.plan == "library")
      row = decisions_of(*product)[0];
  return true;
}

}  // namespace

void add_plan(PassContext& context, SumPlan plan) {
  if (add_to_product(context, plan)) return;
  const std::vector<SumDecision> decisions = decisions_of(plan);
  context.report.sums.insert(context.report.sums.end(), decisions.begin(), decisions.end());
  context.plans.push_back(std::move(plan));
}

bool has_plan(const PassContext& context, const ir::Reduce& sum) {
  const auto is_it = [&](const PlannedSum& s) { return is_of(s, sum.array->id, sum.location); };
  return std::any_of(context.plans.begin(), context.plans.end(),
                     [&](const SumPlan& plan) { return std::any_of(plan.sums.begin(), plan.sums.end(), is_it); });
}

}  // namespace loopgrad::transforms

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
bool is_of(const PlannedSum& planned, const ir::Reduce& sum) { return is_of(planned, sum.array->id, sum.location); }

/// What the loops of a product do goes into its plan.
bool add_to_product(PassContext& context, const SumPlan& loops) {
  if (loops.strategy == Strategy::Library || loops.sums.size() != 1) return false;
  const PlannedSum& sum = loops.sums[0];
  const auto product = std::find_if(context.plans.begin(), context.plans.end(), [&](const SumPlan& plan) {
    return plan.strategy == Strategy::Library && plan.sums[0].text == sum.text &&
           is_of(plan.sums[0], sum.array, sum.where);
  });
  if (product == context.plans.end()) return false;
  if (!product->loops.empty()) return true;  // copies of the loops do the same
  product->candidates.insert(product->candidates.end(), loops.candidates.begin(), loops.candidates.end());
  product->basis = loops.basis;
  product->assumed = loops.assumed;
  product->reason += "; loops: " + name_of(loops.strategy, loops.level) + ", " + loops.reason;
  product->loops = {loops};
  return true;
}

}  // namespace

void add_plan(PassContext& context, SumPlan plan) {
  if (!add_to_product(context, plan)) context.plans.push_back(std::move(plan));
}

bool has_plan(const PassContext& context, const ir::Reduce& sum) {
  const auto is_it = [&](const PlannedSum& s) { return is_of(s, sum); };
  return std::any_of(context.plans.begin(), context.plans.end(),
                     [&](const SumPlan& plan) { return std::any_of(plan.sums.begin(), plan.sums.end(), is_it); });
}

void replan(PassContext& context, const ir::Reduce& sum, const PlanChange& change) {
  std::vector<SumPlan> result;
  for (SumPlan& plan : context.plans) {
    const auto own =
        std::stable_partition(plan.sums.begin(), plan.sums.end(), [&](const PlannedSum& s) { return !is_of(s, sum); });
    SumPlan changed = plan;
    changed.sums.assign(own, plan.sums.end());
    plan.sums.erase(own, plan.sums.end());
    if (!changed.sums.empty()) change(changed);
    if (!plan.sums.empty()) result.push_back(std::move(plan));
    if (!changed.sums.empty()) result.push_back(std::move(changed));
  }
  context.plans = std::move(result);
}

void report_plans(PassContext& context) {
  const auto is_record = [&](const PlannedSum& sum) {
    return std::any_of(context.records.begin(), context.records.end(),
                       [&](const Record& record) { return record.array && record.array->id == sum.array; });
  };
  for (SumPlan plan : context.plans) {
    std::erase_if(plan.sums, is_record);
    const std::vector<SumDecision> decisions = decisions_of(plan);
    context.report.sums.insert(context.report.sums.end(), decisions.begin(), decisions.end());
  }
}

}  // namespace loopgrad::transforms

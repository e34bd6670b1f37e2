#include "transforms/sums/restructure_nest.h"

#include "transforms/analysis/analyses.h"
#include "transforms/sums/plan_sums.h"
#include "transforms/sums/strategies.h"

#include <algorithm>
#include <utility>

namespace loopgrad::transforms {

using ir::Stmt;

namespace {

constexpr std::size_t most_leaves_of_two_plans = 8;  // statements of a nest of which there are two versions

/// A nest with its sums done as planned.
struct Planned {
  Stmt nest;
  std::vector<Stmt> freed = {};     // see RestructuredNest
  std::vector<SumPlan> plans = {};  // of what has changed, or has been asked for
};

/// A copy of code that stands elsewhere, too; what it has of arrays that no user knows of is noted again.
Stmt copied(const Stmt& code, PassContext& context) {
  const Stmt copy = ir::with_fresh_names(code);
  const std::vector<LocalArray> before = locals_of(code), after = locals_of(copy);
  for (std::size_t k = 0; k < before.size(); ++k)
    for (std::set<std::int64_t>* noted : {&context.introduced, &context.partials})
      if (noted->count(before[k].array->id)) noted->insert(after[k].array->id);
  return copy;
}

/// Acts by the plans of a nest.
class Restructured {
 public:
  explicit Restructured(SumNest& nest) : nest_(nest), groups_(nest.groups) {}

  Planned run() {
    const auto apart = [](const SumGroup& g) { return g.is_apart(); };
    const auto unshared = [](const SumGroup& g) { return !g.shared; };
    const bool none = std::none_of(groups_.begin(), groups_.end(), apart);
    const auto unasked = [&](const SumGroup& g) { return apart(g) || unshared(g); };
    if (none && std::all_of(groups_.begin(), groups_.end(), unshared)) return {nest_.original_nest};
    if (nest_.request.all_or_none && !std::all_of(groups_.begin(), groups_.end(), unasked))
      return {nest_.original_nest};
    Planned result{code(), std::move(freed_)};
    bool serial = true;
    for (SumGroup& group : groups_) {
      serial = serial && group.plan.strategy == Strategy::Serial;
      if (group.shared || group.plan.strategy == Strategy::Gather) result.plans.push_back(finished(group));
    }
    if (serial) result = {nest_.original_nest, {}, std::move(result.plans)};
    return result;
  }

 private:
  /// With what is done in place of sums, and around.
  Stmt code() {
    std::vector<ExactSums> around;
    for (const SumStrategy* row : sum_strategies()) {
      std::vector<SumGroup*> groups;
      for (SumGroup& group : groups_)
        if (row->in_place && group.plan.strategy == row->strategy) groups.push_back(&group);
      if (groups.empty()) continue;
      auto sums = row->in_place(nest_, {groups.begin(), groups.end()});
      if (!sums) {
        for (SumGroup* group : groups) stay(*group);
        continue;
      }
      nest_.replace_leaves(sums->in_place);
      around.push_back(std::move(*sums));
    }
    Stmt all = parts();
    for (const ExactSums& sums : around) all = sums.around(all, nest_.original_nest->location);
    return all;
  }

  Stmt parts() {
    std::vector<std::size_t> numbers;
    std::vector<StmtSet> separate;
    for (std::size_t k = 0; k < groups_.size(); ++k) {
      if (!groups_[k].is_apart()) continue;
      numbers.push_back(k);
      separate.push_back(set_of(groups_[k].sums));
    }
    if (separate.empty()) return rest(nest_.now.nest);
    nest_.now.model.context->restart_budget();
    std::vector<ir::Array> crossing;
    auto parts = nest_.leaf_order().split(separate);
    const auto kept = parts ? nest_.expand(*parts, crossing) : std::nullopt;
    if (!kept) {  // putting locals back has closed a circle
      for (SumGroup& group : groups_) stay(group);
      return rest(nest_.now.nest);
    }
    for (const ir::Array& array : crossing) kept_ += (kept_.empty() ? "" : ", ") + array->name;
    std::vector<Stmt> result;
    for (const Stmt& before : kept->before) result.push_back(copied(before, nest_.context));
    bool is_first = true;  // its names stay
    for (const NestPart& part : *parts) {
      const Stmt piece = nest_.piece_of(part.leaves, *kept);
      SumGroup* const group = part.group < 0 ? nullptr : &groups_[numbers[static_cast<std::size_t>(part.group)]];
      result.push_back(group ? applied(*group, piece) : rest(piece));
      if (!std::exchange(is_first, false)) result.back() = copied(result.back(), nest_.context);
      if (!group && shared_in(piece).empty() && result.back().kind() == ir::Kind::For) freed_.push_back(result.back());
    }
    Stmt all = ir::block(std::move(result));
    for (const ir::Array& array : kept->arrays) all = ir::allocate(array, all, nest_.original_nest->location);
    return all;
  }

  static void stay(SumGroup& group) {
    if (group.is_apart()) group.plan.reason = "the rest of the loop needs what it needs";
    group.plan.strategy = Strategy::Partials;
    if (const auto* partials = group.plan.candidate(Strategy::Partials)) group.plan.level = partials->level;
  }

  Stmt applied(SumGroup& group, const Stmt& piece) {
    const SumStrategy& row = strategy(group.plan.strategy);
    return row.apply ? row.apply(nest_, piece, {&group}) : piece;
  }

  /// The groups with shared sums in a piece; each without those that are in another piece.
  std::vector<std::pair<SumGroup*, SumGroup>> shared_in(const Stmt& piece) {
    const StmtSet here = set_of(leaves(piece));
    std::vector<std::pair<SumGroup*, SumGroup>> result;
    for (SumGroup& group : groups_) {
      if (!group.shared || !group.stays()) continue;
      SumGroup part = group;
      std::erase_if(part.sums, [&](const Stmt& sum) { return !here.count(sum.get()); });
      if (!part.sums.empty()) result.push_back({&group, std::move(part)});
    }
    return result;
  }

  // A nest with the sums that stay in it.
  Stmt rest(const Stmt& piece) {
    std::vector<SumGroup*> left;
    std::vector<SumGroup> parts;
    for (auto& [group, part] : shared_in(piece)) {
      left.push_back(group);
      parts.push_back(std::move(part));
    }
    const auto in_order = [](const SumGroup* group) { return group->plan.strategy == Strategy::Serial; };
    if (std::all_of(left.begin(), left.end(), in_order)) return piece;
    if (std::any_of(left.begin(), left.end(), in_order) && all_do_best_in_order(left)) {
      for (SumGroup* group : left) {
        if (in_order(group)) continue;
        group->plan.strategy = Strategy::Serial;
        group->plan.level = Level::None;
        group->plan.reason += "; in order, as other sums of the loop do best so";
      }
      return piece;
    }
    std::vector<SumGroup*> now;
    for (SumGroup& part : parts) now.push_back(&part);
    if (const Stmt code = strategy(Strategy::Partials).apply(nest_, piece, now)) {
      for (std::size_t k = 0; k < left.size(); ++k) left[k]->plan = parts[k].plan;
      return code;
    }
    for (SumGroup* group : left) {
      group->plan.strategy = Strategy::Serial;
      group->plan.level = Level::None;
      group->plan.reason += ", and the loop uses it before it is complete";
    }
    return piece;
  }

  /// Of sums in one loop, which go the same way: blocks of iterations would have the partial results of them all.
  static bool all_do_best_in_order(const std::vector<SumGroup*>& groups) {
    double serial = 0, partials = 0;
    for (const SumGroup* group : groups) {
      const PlanCandidate* const one = group->plan.candidate(Strategy::Serial);
      const PlanCandidate* const other = group->plan.candidate(Strategy::Partials);
      if (!one || !other) return false;
      serial += one->microseconds;
      partials += other->microseconds;
    }
    return serial <= partials;
  }

  SumPlan finished(SumGroup& group) const {
    SumPlan& plan = group.plan;
    plan.reason = strategy(plan.strategy).reason(group, plan.reason);
    if (group.is_apart() && !kept_.empty()) plan.reason += "; kept for all iterations: " + kept_;
    for (const Stmt& sum : group.written) plan.sums.push_back(planned(*sum.as<ir::Reduce>()));
    return plan;
  }

  SumNest& nest_;
  std::vector<SumGroup>& groups_;
  std::string kept_;
  std::vector<Stmt> freed_;
};

Planned restructured(SumNest& nest) {
  if (nest.groups.empty()) return {nest.original_nest};
  plan_sums(nest);
  return Restructured(nest).run();
}

/// When the nest has nothing but sums into one vector, whose length nobody has stated, by segments or in whole numbers:
/// whether it is so short that partial results are better. Null for others.
ir::Expr has_few_elements(const SumNest& nest) {
  if (nest.groups.empty() || nest.groups[0].target->shape.size() != 1) return {};
  const ir::Array& target = nest.groups[0].target;
  if (leaves(nest.original_nest).size() > most_leaves_of_two_plans || ir::as_int(target->shape[0])) return {};
  for (const SumGroup& group : nest.groups) {
    const Strategy plan = group.plan.strategy;
    if ((plan != Strategy::Segments && plan != Strategy::Exact) || group.target != target) return {};
  }
  SizeEstimator estimator(nest.original, nest.context.options.expected_sizes);
  estimator.value_of(target->shape[0], {});
  if (!estimator.assumed()) return {};
  return ir::binary(ir::BinaryOp::Le, target->shape[0], ir::int_const(static_cast<std::int64_t>(few_targets)));
}

}  // namespace

RestructuredNest restructure_nest(const ir::Program& program, const Stmt& nest, const NestRequest& request,
                                  PassContext& context) {
  try {
    SumNest sums(program, nest, request, context, false);
    Planned result = restructured(sums);
    for (SumPlan& plan : result.plans) add_plan(context, std::move(plan));
    const ir::Expr few = has_few_elements(sums);
    if (!few || result.nest.same_as(nest)) return {result.nest, std::move(result.freed)};
    // The host chooses: the report has what is done where it matters.
    SumNest by_partials(program, nest, request, context, true);
    return {ir::if_then(few, restructured(by_partials).nest, copied(result.nest, context), nest->location)};
  } catch (const poly::BudgetError& e) {
    const ir::For& loop = *nest.as<ir::For>();
    context.report.remarks.push_back(
        {"sums in loop '" + loop.iterator.name + "' keep their order: " + e.info().message, nest->location});
    return {nest};
  }
}

}  // namespace loopgrad::transforms

#include "transforms/sums/settle_plans.h"

#include "dsl/ir/visit.h"
#include "transforms/analysis/nest.h"

#include <algorithm>

namespace loopgrad::transforms {

void MadeOrders::note(const ir::Reduce& sum, DataOrder order) {
  DataOrder& known = orders_.emplace(key_of(sum), order).first->second;
  known = std::max(known, order);
}

DataOrder MadeOrders::of(const ir::Reduce& sum) const {
  const auto found = orders_.find(key_of(sum));
  return found == orders_.end() ? DataOrder::AsItStands : found->second;
}

namespace {

constexpr const char* from_data = "the elements it adds to are known only at run time: ";

void settle(SumPlan& plan, DataOrder order, bool in_parallel, const OrderTexts& how) {
  const std::string before = name_of(plan.strategy, plan.level) + ", " + plan.reason;
  const auto take = [&](Strategy strategy, std::string reason) {
    plan.strategy = strategy;
    plan.level = Level::None;
    plan.reason = std::move(reason);
  };
  const bool planned = plan.strategy == Strategy::Segments;
  switch (order) {
    case DataOrder::Made:
      if (!planned) take(Strategy::Segments, std::string(from_data) + how.made + "; elsewhere: " + before);
      return;
    case DataOrder::MadeElsewhere:
      if (!planned) plan.reason += std::string("; ") + how.made;
      return;
    case DataOrder::Owned:
      if (planned)
        take(Strategy::Gather, std::string(from_data) + how.none +
                                   ": each block owns a range of the elements, and looks at all iterations");
      return;
    case DataOrder::AsItStands:
      if (!planned) return;
      if (in_parallel)
        take(Strategy::None, std::string(from_data) + how.none + ": each parallel iteration adds up its own, in order");
      else take(Strategy::Serial, std::string(from_data) + how.none + ": in order");
  }
}

}  // namespace

namespace {

/// A marked sum, and whether iterations of a loop around it are done at once.
struct Marked {
  const ir::Reduce* sum;
  bool in_parallel;
};

std::vector<Marked> marked_sums(const ir::Program& program) {
  std::vector<Marked> result;
  const auto visit = [&](const auto& self, const ir::Stmt& s, bool in_parallel) -> void {
    const auto* sum = s.as<ir::Reduce>();
    if (sum && sum->by_segments) result.push_back({sum, in_parallel});
    in_parallel |= is_parallel_loop(s);
    ir::for_each_child(
        s, ir::overloaded{[](const ir::Expr&) {}, [&](const ir::Stmt& child) { self(self, child, in_parallel); }});
  };
  if (program.body) visit(visit, program.body, false);
  return result;
}

/// Sums that are planned to go by their elements, and are nowhere: another one into their array has them by now
/// (join_scatters.h). With the lines that plans know them by.
std::vector<std::pair<ir::Stmt, Marked>> joined_sums(const std::vector<Marked>& marked, const PassContext& context) {
  std::vector<std::pair<ir::Stmt, Marked>> result;
  for (const SumPlan& plan : context.plans) {
    if (plan.strategy != Strategy::Segments) continue;
    for (const PlannedSum& planned : plan.sums) {
      const auto has_array = [&](const Marked& m) { return m.sum->array->id == planned.array; };
      const auto is_it = [&](const Marked& m) { return has_array(m) && m.sum->location.str() == planned.where.str(); };
      const auto other = std::find_if(marked.begin(), marked.end(), has_array);
      if (other == marked.end() || std::any_of(marked.begin(), marked.end(), is_it)) continue;
      const ir::Reduce& sum = *other->sum;
      result.push_back({ir::reduce(sum.array, sum.indices, sum.op, sum.value, planned.where), *other});
    }
  }
  return result;
}

}  // namespace

void settle_segments(const ir::Program& program, const MadeOrders& orders, const OrderTexts& how,
                     PassContext& context) {
  const std::vector<Marked> marked = marked_sums(program);
  const auto settle_as = [&](const ir::Reduce& planned, const Marked& done) {
    replan(context, planned, [&](SumPlan& plan) { settle(plan, orders.of(*done.sum), done.in_parallel, how); });
  };
  const auto joined = joined_sums(marked, context);
  for (const Marked& one : marked) settle_as(*one.sum, one);
  for (const auto& [planned, done] : joined) settle_as(*planned.as<ir::Reduce>(), done);
}

namespace {

/// Sums in products, by line and array.
std::map<std::pair<std::string, std::int64_t>, const ir::Reduce*> sums_in_products(const ir::Program& program) {
  std::map<std::pair<std::string, std::int64_t>, const ir::Reduce*> result;
  ir::walk_stmts(program.body, [&](const ir::Stmt& s) {
    if (s.kind() != ir::Kind::Contraction) return;
    ir::walk_stmts(s, [&](const ir::Stmt& inner) {
      if (const auto* sum = inner.as<ir::Reduce>()) result[{sum->location.str(), sum->array->id}] = sum;
    });
  });
  return result;
}

}  // namespace

void settle_products(const ir::Program& program, const ir::Program& mapped, PassContext& context) {
  const auto left = sums_in_products(mapped);
  for (const auto& [key, sum] : sums_in_products(program)) {
    if (left.count(key)) continue;
    replan(context, *sum, [](SumPlan& plan) {
      if (plan.strategy != Strategy::Library) return;
      const std::string why = "a product of matrices in a kernel, which has no library";
      const std::vector<PlannedSum> sums = plan.sums;
      if (plan.loops.empty())
        plan = {sums, Strategy::None, Level::None, why + ": each element is summed by one thread or block"};
      else plan = SumPlan(plan.loops.front()), plan.sums = sums, plan.reason = why + ": " + plan.reason;
    });
  }
}

}  // namespace loopgrad::transforms

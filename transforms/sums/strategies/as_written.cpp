// The strategies that leave a sum as it is written: in order, or with atomic operations.
#include "dsl/ir/visit.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/sums/strategies.h"

#include <algorithm>

namespace loopgrad::transforms {

namespace {

std::optional<std::string> not_repeatable(SumNest&, const SumGroup&, std::vector<ir::Array>&) {
  return "not repeatable: only in the variant 'atomic'";
}
std::optional<std::string> last_resort(SumNest&, const SumGroup&, std::vector<ir::Array>&) { return std::nullopt; }

constexpr double most_terms_in_order = 64;  // which one thread has added up sooner than several have met

/// A loop of a few iterations, a fixed number, in every step of another one, say.
std::optional<std::string> few_terms(const SumNest& nest, const SumGroup&, Strategy suggested) {
  if (suggested != Strategy::Partials) return std::nullopt;
  double terms = 1;
  ir::walk_stmts(nest.now.nest, [&](const ir::Stmt& s) {
    if (s.kind() == ir::Kind::While) terms = most_terms_in_order + 1;
    const auto* loop = s.as<ir::For>();
    if (!loop) return;
    const auto trips = ir::as_int(simplify_indices(loop->upper - loop->lower));
    terms *= trips ? static_cast<double>(std::max<std::int64_t>(*trips, 1)) : most_terms_in_order + 1;
  });
  return terms <= most_terms_in_order ? std::optional(std::string("so few terms are added up in order")) : std::nullopt;
}

PlanCandidate atomic_cost(SumCosts& costs, const SumGroup& group) { return costs.atomic(group.sums); }
PlanCandidate serial_cost(SumCosts& costs, const SumGroup& group) { return costs.serial(group.sums); }

}  // namespace

const SumStrategy atomic_strategy = {.strategy = Strategy::Atomic, .obstacle = not_repeatable, .cost = atomic_cost};

const SumStrategy serial_strategy = {
    .strategy = Strategy::Serial, .obstacle = last_resort, .claim = few_terms, .cost = serial_cost};

}  // namespace loopgrad::transforms

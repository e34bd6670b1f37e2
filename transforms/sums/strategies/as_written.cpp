// The strategies that leave a sum as it is written: in order, or with atomic operations.
#include "dsl/ir/visit.h"
#include "dsl/symbolic/csr_rows.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/sums/strategies.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace loopgrad::transforms {

namespace {

std::optional<std::string> not_repeatable(SumNest&, const SumGroup&, std::vector<ir::Array>&) {
  return "not repeatable: only in the variant 'atomic'";
}
std::optional<std::string> last_resort(SumNest&, const SumGroup&, std::vector<ir::Array>&) { return std::nullopt; }

constexpr double most_terms_in_order = 64;
constexpr double times_faster = 2;  // than partial results, by estimate

/// A loop of a few iterations, a fixed number.
bool has_few_terms(const ir::Stmt& nest) {
  double terms = 1;
  ir::walk_stmts(nest, [&](const ir::Stmt& s) {
    if (s.kind() == ir::Kind::While) terms = most_terms_in_order + 1;
    const auto* loop = s.as<ir::For>();
    if (!loop) return;
    const auto trips = ir::as_int(simplify_indices(loop->upper - loop->lower));
    terms *= trips ? static_cast<double>(std::max<std::int64_t>(*trips, 1)) : most_terms_in_order + 1;
  });
  return terms <= most_terms_in_order;
}

/// Whether loops around the nest decide how long its loops are: of these no estimate knows where they stand.
bool varies_around(const SumNest& nest) {
  std::set<ir::Symbol> known(nest.original.sizes.begin(), nest.original.sizes.end());
  bool varies = false;
  ir::walk_stmts(nest.original_nest, [&](const ir::Stmt& s) {
    const auto* loop = s.as<ir::For>();
    if (!loop) return;
    for (const ir::Expr& bound : {loop->lower, loop->upper}) {
      ir::walk(bound, [&](const ir::Expr& e) {
        const auto* v = e.as<ir::Var>();
        varies = varies || (v && !known.count(v->symbol));
      });
    }
    known.insert(loop->iterator);
  });
  return varies;
}

/// Whether the nest is a loop over a row of a CSR structure: its length on average is that of all rows.
bool is_row(const SumNest& nest) {
  const auto& loop = *nest.original_nest.as<ir::For>();
  const ir::Load* const end = ir::pointer_bounds(loop.lower, loop.upper).end;
  return end && ir::csr_fact(nest.original, end->array) && !ir::contains_loop(loop.body);
}

/// Of a row in every step of a loop, kernels would be started for its partial results, and for all that sorting takes.
/// A block that goes through the steps alone shares out what a row has.
std::optional<std::string> short_rows(const SumNest& nest, const SumGroup& group) {
  if (!is_row(nest) || !runs_again(nest)) return std::nullopt;
  const PlanCandidate* others = group.plan.candidate(Strategy::Segments);
  if (!others || !others->possible) others = group.plan.candidate(Strategy::Partials);
  const double in_order = group.plan.candidate(Strategy::Serial)->microseconds;
  if (!others || in_order * times_faster > others->microseconds) return std::nullopt;
  return fmt::format("in order estimated {:.3g} us against {:.3g} us of {}, for every row in turn", in_order,
                     others->microseconds, others->strategy == Strategy::Segments ? "sorting" : "partial results");
}

/// One thread has added up sooner than several have met: a loop of a few iterations, or of so many as have been stated,
/// in every step of another one. Where data decide how many, the run does (tree_sums.h).
std::optional<std::string> few_terms(const SumNest& nest, const SumGroup& group, Strategy suggested) {
  if (suggested != Strategy::Partials) return std::nullopt;
  if (has_few_terms(nest.now.nest)) return "so few terms are added up in order";
  if (nest.machine().is_gpu()) return short_rows(nest, group);
  const ir::For& loop = *nest.original_nest.as<ir::For>();
  if (group.plan.assumed || ir::has_load(loop.upper - loop.lower)) return std::nullopt;
  const double in_order = group.plan.candidate(Strategy::Serial)->microseconds;
  const double by_blocks = group.plan.candidate(Strategy::Partials)->microseconds;
  if (in_order * times_faster > by_blocks || varies_around(nest) || !runs_again(nest)) return std::nullopt;
  return fmt::format("in order estimated {:.3g} us against {:.3g} us of partial results, in every step of a loop",
                     in_order, by_blocks);
}

PlanCandidate atomic_cost(SumCosts& costs, const SumGroup& group) { return costs.atomic(group.sums); }
PlanCandidate serial_cost(SumCosts& costs, const SumGroup& group) { return costs.serial(group.sums); }

}  // namespace

bool runs_again(const SumNest& nest) {
  const auto around = loops_around(nest.original.body, nest.original_nest);
  return around && !around->empty();
}

const SumStrategy atomic_strategy = {.strategy = Strategy::Atomic, .obstacle = not_repeatable, .cost = atomic_cost};

const SumStrategy serial_strategy = {
    .strategy = Strategy::Serial, .obstacle = last_resort, .claim = few_terms, .cost = serial_cost};

}  // namespace loopgrad::transforms

// Data choose the elements: a nest of its own, in the old order, of which the mapping does the iterations in the order
// of their elements. A GPU sorts them (sort_scatters.h), a CPU makes an inverse of the indices (invert_scatters.h).
#include "dsl/ir/queries.h"
#include "transforms/sums/scatters.h"
#include "transforms/sums/strategies.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::Stmt;

namespace {

constexpr double margin_of_order = 2;  // an order serves several sums, and is kept from call to call
// Of so few elements each thread has a copy, unless that keeps threads from a nest that does much else.
constexpr double margin_of_few = 8;

// Rows share what there is room for, most often: what is known of their lengths is far from what they are. Measured on
// an H100 (pairs in rows, estimated at 1 to 16): sorting was faster by 2.8.
constexpr double margin_of_rows = 64;
// Whole numbers need no such room.
constexpr double margin_of_whole = 2;

/// How much faster partial results have to be than sorting where data decide how often a loop runs: within a bound that
/// is stated, or as rows may be long. Nullopt: no data do.
std::optional<double> margin_of_room(const Stmt& nest) {
  std::optional<double> margin;
  ir::walk_stmts(nest, [&](const Stmt& s) {
    const auto* loop = s.as<ir::For>();
    if (!loop || !(ir::has_load(loop->lower) || ir::has_load(loop->upper))) return;
    margin = loop->at_most ? 1 : margin.value_or(margin_of_rows);
  });
  return margin;
}

/// A CPU makes the inverse in one thread, which only pays where partial results are known to leave the whole nest to
/// one thread.
std::optional<std::string> does_not_pay(const SumNest& nest, const SumGroup& group) {
  if (!has_targets_from_data(group)) return "no data choose the elements";
  if (nest.machine().sorts_scatters) {
    return nest.by_partials ? std::optional<std::string>("partial results of them need fewer copies") : std::nullopt;
  }
  if (leaves(nest.now.nest).size() == group.sums.size())
    return "the nest does nothing else: where there are rows, the mapping makes an inverse as it stands";
  const bool one_thread = group.plan.candidate(Strategy::Partials)->parallel <= 1 && !group.plan.assumed;
  if (!one_thread || !(group.separators.dims.empty() || group.family > 0))
    return "the inverse is made by one thread: pays where that does all of the nest otherwise";
  return std::nullopt;
}

std::optional<std::string> obstacle(SumNest& nest, const SumGroup& group, std::vector<ir::Array>& kept) {
  if (!group.shared) return "no iterations share its elements";
  if (nest.request.all_or_none && !nest.machine().sorts_scatters)
    return "an outer loop is parallel: sums are gathered or stay";
  if (auto reason = does_not_pay(nest, group)) return reason;
  if (auto reason = obstacle_to_splitting(nest, group, kept)) return reason;
  // Its locals will be arrays around the nest.
  if (!scatter_form(nest.now.program, without_allocations(nest.alone(group))))
    return "the number of iterations is known to data alone, or they choose more than elements";
  return std::nullopt;
}

/// Whether other indices share the elements out to enough threads, each of which goes through all iterations.
bool is_gathered_sooner(const SumNest& nest, const SumGroup& group) {
  const PlanCandidate* const gather = group.plan.candidate(Strategy::Gather);
  return !nest.machine().sorts_scatters && gather && gather->possible &&
         gather->parallel >= static_cast<double>(nest.machine().enough_threads) &&
         gather->microseconds * margin_of_order < group.plan.candidate(Strategy::Segments)->microseconds;
}

/// Not where bounds leave room for so many more iterations than there are that sorting takes longer than adding up
/// partial results.
std::optional<std::string> claim(const SumNest& nest, const SumGroup& group, Strategy) {
  if (is_gathered_sooner(nest, group)) return std::nullopt;
  const PlanCandidate* const partials = group.plan.candidate(Strategy::Partials);
  const PlanCandidate* const exact = group.plan.candidate(Strategy::Exact);
  double sorting = group.plan.candidate(Strategy::Segments)->microseconds;
  // What is to be sorted may be counted in whole numbers in the end.
  if (exact && exact->possible) sorting = std::min(sorting, exact->microseconds);
  const auto room = margin_of_room(nest.alone(group));
  const auto are_faster = [&](const PlanCandidate* other, double margin) {
    return !other || !other->possible || partials->microseconds * margin < other->microseconds;
  };
  if (nest.machine().sorts_scatters && room && partials && partials->possible &&
      are_faster(group.plan.candidate(Strategy::Segments), *room) && are_faster(exact, margin_of_whole))
    return std::nullopt;
  if (nest.machine().sorts_scatters && has_few_targets(nest, group) && partials && partials->possible &&
      partials->microseconds < sorting * margin_of_few)
    return std::nullopt;
  if (!nest.machine().sorts_scatters && partials && partials->possible && partials->microseconds <= sorting)
    return std::nullopt;
  const char* how =
      nest.machine().sorts_scatters ? "whose iterations are sorted by them" : "by an inverse of the indices";
  return std::string("the elements it adds to are known only at run time: a nest of its own, ") + how;
}

PlanCandidate cost(SumCosts& costs, const SumGroup& group) { return costs.segments(group.sums, group.kept); }

}  // namespace

const SumStrategy segments_strategy = {
    .strategy = Strategy::Segments,
    .in_own_nest = true,
    .obstacle = obstacle,
    .claim = claim,
    .cost = cost,
    .suits = [](const SumNest&, const SumGroup& group) { return has_targets_from_data(group); }};

}  // namespace loopgrad::transforms

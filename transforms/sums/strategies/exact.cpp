// Elements that data choose, in whole numbers (exact_sums.h), where a GPU's cache has them: for what would have to be
// sorted in every run.
#include "dsl/ir/queries.h"
#include "dsl/ir/visit.h"
#include "dsl/symbolic/ranges.h"
#include "transforms/analysis/deciding_leaves.h"
#include "transforms/sums/exact_sums.h"
#include "transforms/sums/scatters.h"
#include "transforms/sums/strategies.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::Expr;
using ir::Stmt;

namespace {

/// The product of numbers of trips, as far as it counts: bounds may be far above them.
Expr product_of(const std::vector<Expr>& trips) {
  if (trips.size() == 1) return trips[0];
  const auto limited = [](const Expr& e) { return ir::smaller(e, ir::int_const(many_terms)); };
  Expr result = ir::int_const(1);
  for (const Expr& one : trips) result = limited(result) * limited(ir::larger(one, ir::int_const(0)));
  return result;
}

/// The trips of all loops of `nest`.
std::vector<Expr> trips_of(const Stmt& nest) {
  std::vector<Expr> result;
  ir::walk_stmts(nest, [&](const Stmt& s) {
    if (const auto* loop = s.as<ir::While>()) result.push_back(loop->max_trips);
    if (const auto* loop = s.as<ir::For>()) result.push_back(loop->at_most ? loop->at_most : loop->upper - loop->lower);
  });
  return result;
}

/// How many terms an element can get from the sum that `nest` is; null where that is not known before it.
Expr terms_of(const ir::Program& program, const Stmt& nest) {
  std::vector<Expr> trips;
  if (const auto scatter = scatter_form(program, without_allocations(nest))) {
    for (const ScatterFactor& factor : scatter->factors) trips.push_back(factor.extent);
    for (const ir::For* loop : scatter->summed) trips.push_back(loop->upper - loop->lower);
  } else {
    trips = trips_of(nest);
  }
  const Expr result = product_of(trips);
  bool is_known = !ir::has_load(result);
  ir::walk_stmts(nest, [&](const Stmt& s) {
    if (const auto* loop = s.as<ir::For>()) is_known &= !mentions(result, loop->iterator);
    if (const auto* loop = s.as<ir::While>()) is_known &= !mentions(result, loop->iterator);
  });
  return is_known ? result : Expr();
}

}  // namespace

Expr most_terms_of(const ir::Program& program, const Stmt& nest, const std::vector<Stmt>& sums) {
  Expr all = ir::int_const(0);
  for (const Stmt& sum : sums) {
    const Expr own = terms_of(program, slice(nest, {sum.get()}));
    if (!own) return {};
    all = all + own;
  }
  return all;
}

namespace {

/// The nest reads the target, or changes it in another way than by adding to it.
bool uses_result(const SumNest& nest, const SumGroup& group) {
  if (ir::aliased_arrays(nest.now.program).count(group.target)) return true;
  bool any = false;
  ir::walk(
      nest.now.nest,
      [&](const Stmt& s) {
        for_each_store(s, [&](const ir::Array& array, const std::vector<Expr>&) {
          const auto* sum = s.as<ir::Reduce>();
          any |= array == group.target && !(sum && sum->op == ir::ReduceOp::Add);
        });
      },
      [&](const Expr& e) {
        const auto* load = e.as<ir::Load>();
        any |= load && load->array == group.target;
      });
  return any;
}

std::optional<std::string> obstacle(SumNest& nest, const SumGroup& group, std::vector<ir::Array>&) {
  if (!group.shared) return "no iterations share its elements";
  if (!nest.machine().sorts_scatters) return "threads of a CPU have elements of their own";
  if (nest.request.all_or_none) return "an outer loop is parallel: sums are gathered or stay";
  if (!can_be_exact(group.target)) return "its numbers are whole ones";
  const bool adds = std::all_of(group.sums.begin(), group.sums.end(),
                                [](const Stmt& sum) { return sum.as<ir::Reduce>()->op == ir::ReduceOp::Add; });
  if (!adds) return "it does not add";
  const DecidingLeaves deciding(nest.now.program, nest.now.nest, &nest.now.model);
  if (nest.context.options.orders != Orders::Computed && runs_again(nest) && has_lasting_order(nest, group))
    return "only index arrays decide: these are sorted once for all steps";
  if (uses_result(nest, group)) return "the loop also uses its result";
  if (can_have_bins(group.target, nest.machine())) return std::nullopt;
  if (ir::uses_stack(nest.now.nest) || has_contraction(nest.now.nest)) return "the loop cannot run twice";
  if (!deciding.of(group.sums)) return "what it adds follows from what the loop changes";
  if (!most_terms_of(nest.now.program, nest.now.nest, group.sums)) return "the number of terms is known to data alone";
  return std::nullopt;
}

std::string reason(const SumGroup& group, const std::string& why) {
  const char* how = group.exact.in_bins ? " for each of 16 sizes of terms" : ", once the largest term of each is known";
  return std::string("the elements it adds to are known only at run time: in whole numbers") + how +
         ", by atomic operations whose order does not matter, " + why;
}

PlanCandidate cost(SumCosts& costs, const SumGroup& group) { return costs.exact(group.sums); }

/// The leaves that find the terms; nullopt where these cannot be made twice.
std::optional<StmtSet> finding_terms(const SumNest& nest, const std::vector<Stmt>& sums) {
  if (ir::uses_stack(nest.now.nest) || has_contraction(nest.now.nest)) return std::nullopt;
  return DecidingLeaves(nest.now.program, nest.now.nest, &nest.now.model).of(sums);
}

/// Of all groups, so that what terms need that are made twice is found once.
std::optional<ExactSums> in_place(SumNest& nest, const std::vector<const SumGroup*>& groups) {
  std::vector<WholeSums> targets;
  std::vector<Stmt> twice;
  for (const SumGroup* group : groups) {
    const Expr terms = most_terms_of(nest.now.program, nest.now.nest, group->sums);
    ExactForm form = group->exact;
    if (!form.in_bins && can_have_bins(group->target, nest.machine()))
      form.in_bins = !terms || !finding_terms(nest, group->sums);
    targets.push_back({group->sums, terms, form});
    if (form.in_bins) continue;
    if (!terms) return std::nullopt;
    twice.insert(twice.end(), group->sums.begin(), group->sums.end());
  }
  Stmt finding_nest;
  if (!twice.empty()) {
    auto finding = finding_terms(nest, twice);
    if (!finding) return std::nullopt;
    finding->merge(set_of(twice));
    finding_nest = slice(nest.now.nest, *finding);
  }
  ExactSums result = exact_sums(nest.now.nest, finding_nest, targets, &nest.now.model);
  for (const ir::Array& array : result.arrays) note_partials(nest.context, array);
  return result;
}

}  // namespace

bool has_lasting_order(const SumNest& nest, const SumGroup& group) {
  const DecidingLeaves deciding(nest.now.program, nest.now.nest, &nest.now.model);
  const std::set<ir::Array> written = stored_in(nest.original.body);
  bool lasts = true;
  const auto look_at = [&](const Expr& e) {
    ir::walk(e, [&](const Expr& part) {
      const auto* load = part.as<ir::Load>();
      if (!load || deciding.locals().count(load->array)) return;
      lasts &= load->array->role == ir::ArrayRole::Input && !is_float(load->array->type) && !written.count(load->array);
    });
  };
  const auto look_around = [&](const ir::StmtNode* leaf) {
    for (const Stmt& s : deciding.around().at(leaf)) ir::for_each_child(s, ir::overloaded{look_at, [](const Stmt&) {}});
  };
  std::vector<Expr> indices;
  for (const Stmt& sum : group.sums) {
    const auto& own = sum.as<ir::Reduce>()->indices;
    indices.insert(indices.end(), own.begin(), own.end());
    look_around(sum.get());
  }
  for (const Expr& index : indices) look_at(index);
  const auto found = deciding.of(indices);
  if (!found) return false;
  for (const Stmt& leaf : leaves(slice(nest.now.nest, *found))) {
    ir::walk(
        leaf, [](const Stmt&) {}, look_at);
    look_around(leaf.get());
  }
  return lasts;
}

bool finds_terms_in_loops(const SumNest& nest, const std::vector<Stmt>& sums) {
  if (std::all_of(sums.begin(), sums.end(),
                  [&](const Stmt& sum) { return can_have_bins(sum.as<ir::Reduce>()->array, nest.machine()); }))
    return false;
  const DecidingLeaves deciding(nest.now.program, nest.now.nest, &nest.now.model);
  const auto finding = deciding.of(sums);
  if (!finding) return true;
  std::set<const ir::StmtNode*> around;
  for (const Stmt& sum : sums)
    for (const Stmt& s : deciding.around().at(sum.get())) around.insert(s.get());
  return std::any_of(finding->begin(), finding->end(), [&](const ir::StmtNode* leaf) {
    const std::vector<Stmt>& own = deciding.around().at(leaf);
    return std::any_of(own.begin(), own.end(),
                       [&](const Stmt& s) { return s.kind() == ir::Kind::For && !around.count(s.get()); });
  });
}

bool are_one_vector(const SumNest& nest, const std::vector<Stmt>& sums) {
  return std::all_of(nest.groups.begin(), nest.groups.end(),
                     [&](const SumGroup& g) { return g.target == nest.groups[0].target; }) &&
         std::all_of(sums.begin(), sums.end(), [&](const Stmt& sum) {
           const auto scatter = scatter_form(nest.now.program, without_allocations(slice(nest.now.nest, {sum.get()})));
           return scatter && sum.as<ir::Reduce>()->indices.size() == 1 && scatter->outer.empty() &&
                  scatter->inner.empty() && scatter->summed.empty();
         });
}

const SumStrategy exact_strategy = {
    .strategy = Strategy::Exact,
    .obstacle = obstacle,
    .cost = cost,
    .suits = [](const SumNest& nest,
                const SumGroup& group) { return nest.machine().sorts_scatters && has_targets_from_data(group); },
    .in_place = in_place,
    .reason = reason};

}  // namespace loopgrad::transforms

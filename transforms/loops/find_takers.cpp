#include "transforms/loops/find_takers.h"

#include "dsl/ir/element_loops.h"
#include "dsl/ir/printer.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/ir/visit.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/analyses.h"
#include "transforms/analysis/deciding_leaves.h"
#include "transforms/analysis/size_estimates.h"
#include "transforms/loops/legality.h"
#include "transforms/loops/search_loops.h"
#include "transforms/loops/takers.h"

#include <fmt/format.h>

#include <algorithm>

namespace loopgrad::transforms {

using ir::Array;
using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

namespace {

bool clears(const ir::Assign& assign) { return ir::is_const(assign.value, 0) && is_float(assign.array->type); }

bool is_chosen_by_data(const ir::Assign& assign) {
  return std::any_of(assign.indices.begin(), assign.indices.end(), ir::has_load);
}

/// Whether each index is one for all of the loop, or is an iterator in it.
bool is_chosen_by_loops(const Stmt& loop, const ir::Assign& assign) {
  const std::vector<Expr> fixed = fixed_indices(loop, {assign.indices});
  for (std::size_t d = 0; d < fixed.size(); ++d)
    if (!fixed[d] && !assign.indices[d].as<ir::Var>()) return false;
  return true;
}

class TakerFinder {
 public:
  TakerFinder(const ir::Program& program, PassContext& context)
      : program_(program), context_(context), aliased_(ir::aliased_arrays(program)) {}

  ir::Program run() {
    const Stmt body = ir::rewrite(program_.body, {}, [&](const Stmt& s) -> std::optional<Stmt> {
      const auto* loop = s.as<ir::For>();
      return loop && !ir::is_parallel(loop->mode) ? without_takers(s) : std::nullopt;
    });
    return ir::with_body(program_, body);
  }

 private:
  /// What is made of a loop, and around it.
  struct Apart {
    std::vector<Array> turns;
    std::vector<Stmt> before, after;
    std::map<const ir::StmtNode*, Stmt> in_place;
    double iterations = 0;  // of all takers, by estimate
  };

  /// The loop, if nothing but sums is carried besides.
  std::optional<Stmt> without_takers(const Stmt& loop) {
    const std::vector<Stmt> cleared = cleared_in(loop);
    if (cleared.empty() || ir::uses_stack(loop) || has_contraction(loop) || !bounds_stay(program_, loop).ok)
      return std::nullopt;
    const bool is_inside = !loops_around(program_.body, loop).value().empty();
    if ((is_inside && !is_gpu()) || is_search(program_, loop) || carries_sums_only(program_, loop)) return std::nullopt;
    Apart apart;
    for (const Stmt& one : cleared)
      if (!take_apart(loop, *one.as<ir::Assign>(), apart)) return std::nullopt;
    const Stmt rest = with(loop, apart.in_place);
    std::vector<Stmt> all = apart.before;
    all.push_back(rest);
    all.insert(all.end(), apart.after.begin(), apart.after.end());
    Stmt result = ir::block(all);
    for (const Array& turn : apart.turns) result = ir::allocate(turn, result, loop->location);
    const ir::Program candidate = ir::with_body(program_, replace(program_.body, loop, result));
    if (!is_worth(apart, is_inside) || !carries_sums_only(candidate, rest)) return std::nullopt;
    note(loop, cleared);
    return result;
  }

  /// Whether no loop around is shared out: then its iterations are in order, each with searches of its own.
  bool is_in_order(const Stmt& loop) {
    const std::vector<Stmt> around = loops_around(program_.body, loop).value();
    return std::none_of(around.begin(), around.end(),
                        [&](const Stmt& outer) { return outer.as<ir::For>() && carries_sums_only(program_, outer); });
  }

  /// Whether turns of all elements are not much more than what the loop touches; of a loop in another one, whether one
  /// thread takes longer for the loop in order than all do for the turns.
  bool is_worth(const Apart& apart, bool is_inside) const {
    constexpr double loops_for_turns = 3, us_of_one = 0.05;  // as in a recurrence: see Machine::least_scanned
    constexpr double most_turns = 4;                         // for each iteration: to clear one is little
    const Machine& machine = context_.options.machine;
    SizeEstimator sizes(program_, context_.options.expected_sizes);
    double bytes = 0, all = 0;
    for (const Array& turn : apart.turns) {
      double elements = 1;
      for (const Expr& extent : turn->shape) elements *= sizes.value_of(extent, {});
      bytes += 2 * elements * static_cast<double>(bytes_of(turn->type));
      all += elements;
    }
    if (!is_inside) return all <= most_turns * apart.iterations;
    const double ns_of_turns = bytes * machine.ns_per_byte / static_cast<double>(machine.threads);
    return apart.iterations * us_of_one > loops_for_turns * machine.start_us + ns_of_turns / 1000;
  }

  double iterations_of(const Stmt& loop, const Taker& taker) const {
    SizeEstimator sizes(program_, context_.options.expected_sizes);
    double result = 1;
    const auto count = [&](const ir::For& one) { result *= std::max(1.0, sizes.trips_of(one.lower, one.upper, {})); };
    count(*loop.as<ir::For>());
    for (const Stmt& inner : taker.loops) count(*inner.as<ir::For>());
    return result;
  }

  /// One store to each element, or to all those that may be one, in the order of the text.
  std::vector<Stmt> cleared_in(const Stmt& loop) const {
    std::set<Array> others = aliased_;
    for (const LocalArray& local : locals_of(loop)) others.insert(local.array);
    std::vector<Stmt> result;
    for (const Stmt& leaf : leaves(loop)) {
      const auto* assign = leaf.as<ir::Assign>();
      if (!assign || others.count(assign->array) || !clears(*assign) || !can_have_turns(loop, *assign)) continue;
      const bool is_known = std::any_of(result.begin(), result.end(), [&](const Stmt& s) {
        const auto& known = *s.as<ir::Assign>();
        return known.array == assign->array && !ir::are_in_different_planes(known.indices, assign->indices);
      });
      if (!is_known) result.push_back(leaf);
    }
    return result;
  }

  bool can_have_turns(const Stmt& loop, const ir::Assign& element) const {
    return is_chosen_by_data(element) ? is_gpu() : is_chosen_by_loops(loop, element);
  }

  static Stmt with(const Stmt& s, const std::map<const ir::StmtNode*, Stmt>& others) {
    return ir::rewrite(s, {}, [&](const Stmt& one) -> std::optional<Stmt> {
      const auto other = others.find(one.get());
      return other == others.end() ? std::nullopt : std::optional(other->second);
    });
  }

  /// What is done for one element, or for all that may be one. false: something is in the way.
  bool take_apart(const Stmt& loop, const ir::Assign& element, Apart& apart) {
    const Array& array = element.array;
    Takers takers(element);
    if (!takers.find(loop)) return false;
    bool by_data = false, takes = false;
    for (const Taker& taker : takers.all) {
      if (apart.in_place.count(taker.cleared.get()) || !can_have_turns(loop, taker.element())) return false;
      by_data = by_data || is_chosen_by_data(taker.element());
      takes = takes || !taker.readers.empty();
    }
    if (!by_data && (!takes || !is_in_order(loop))) return false;
    const Turns turns(*loop.as<ir::For>(), takers.all);
    if (!turns.can_be_counted()) return false;
    std::vector<Stmt> sums;
    for (const Taker& taker : takers.all) sums.push_back(taker.cleared);
    auto finding = DecidingLeaves(program_, loop).of(sums);
    if (!finding) return false;
    finding->merge(set_of(sums));
    const SourceLocation where = sums[0]->location;
    std::vector<std::vector<Expr>> elements;
    for (const Taker& taker : takers.all) elements.push_back(taker.element().indices);
    const std::vector<Expr> fixed = fixed_indices(loop, elements);
    const auto own = [&](const std::vector<Expr>& all) {
      std::vector<Expr> result;
      for (std::size_t d = 0; d < all.size(); ++d)
        if (!fixed[d]) result.push_back(all[d]);
      return result;
    };
    const Array turn = ir::make_array("turn", ScalarType::I64, own(array->shape), ir::ArrayRole::Local, where);
    context_.introduced.insert(turn->id);
    apart.turns.push_back(turn);
    std::map<const ir::StmtNode*, Stmt> found;
    for (std::size_t k = 0; k < takers.all.size(); ++k) {
      const Taker& taker = takers.all[k];
      apart.iterations += iterations_of(loop, taker);
      const std::vector<Expr> at = own(taker.element().indices);
      found[taker.cleared.get()] = ir::reduce(turn, at, ir::ReduceOp::Max, turns.of(k), where, by_data);
      apart.in_place[taker.cleared.get()] = ir::block({});
      const Expr is_first = ir::binary(BinaryOp::Eq, ir::load(turn, at, where), turns.of(k));
      for (const Stmt& reader : taker.readers) {
        // It may read elements of several of the arrays.
        Stmt& now = apart.in_place.try_emplace(reader.get(), reader).first->second;
        now = of_first(now, taker.element(), is_first);
      }
    }
    const Stmt none = ir::over_elements(
        turn->shape, where, [&](const std::vector<Expr>& at) { return ir::assign(turn, at, ir::int_const(0), where); });
    apart.before.push_back(ir::block({none, ir::with_fresh_names(with(slice(loop, *finding), found))}));
    apart.after.push_back(ir::over_elements(turn->shape, where, [&](const std::vector<Expr>& at) {
      const Expr is_taken = ir::binary(BinaryOp::Ne, ir::load(turn, at, where), ir::int_const(0));
      std::vector<Expr> place = fixed;
      std::size_t next = 0;
      for (Expr& index : place)
        if (!index) index = at[next++];
      return ir::if_then(is_taken, ir::assign(array, place, ir::const_of(0, array->type), where));
    }));
    return true;
  }

  /// What a statement does that reads the element: nothing, where it would add a multiple of it.
  static Stmt of_first(const Stmt& reader, const ir::Assign& element, const Expr& is_first) {
    const auto* sum = reader.as<ir::Reduce>();
    if (sum && sum->op == ir::ReduceOp::Add && vanishes_with(sum->value, element))
      return ir::if_then(is_first, reader, {}, reader->location);
    return ir::rewrite(reader, [&](const Expr& e) -> std::optional<Expr> {
      const auto* load = e.as<ir::Load>();
      if (!load || load->array != element.array || !ir::equal(load->indices, element.indices)) return std::nullopt;
      return ir::select(is_first, e, ir::const_of(0, e.type()));
    });
  }

  bool is_gpu() const { return context_.options.machine.is_gpu(); }

  bool carries_sums_only(const ir::Program& program, const Stmt& loop) {
    try {
      const auto& conflicts = analyses(context_).carried_by(program, loop, poly::Search::UntilNotASum);
      return std::all_of(conflicts.begin(), conflicts.end(),
                         [](const poly::Conflict& conflict) { return conflict.sum; });
    } catch (const poly::BudgetError&) {
      return false;
    }
  }

  void note(const Stmt& loop, const std::vector<Stmt>& cleared) {
    std::string names;
    for (const Stmt& s : cleared) {
      const auto& element = *s.as<ir::Assign>();
      names += (names.empty() ? "" : ", ") + ir::print(ir::load(element.array, element.indices));
    }
    context_.report.remarks.push_back(
        {fmt::format(
             "loop '{}': what the first iteration takes from {} goes to the one with the greatest turn: a maximum of "
             "whole numbers, which is the same in any order",
             loop.as<ir::For>()->iterator.name, names),
         loop->location});
  }

  const ir::Program& program_;
  PassContext& context_;
  const std::set<Array> aliased_;
};

}  // namespace

ir::Program find_takers(const ir::Program& program, PassContext& context) {
  return TakerFinder(program, context).run();
}

}  // namespace loopgrad::transforms

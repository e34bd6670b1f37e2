#include "dsl/symbolic/closed_forms.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/wrapping.h"
#include "dsl/symbolic/linear_form.h"

#include <algorithm>

namespace loopgrad::ir {
namespace {

constexpr int longest_value = 32;  // nodes

bool wraps_somewhere(const Expr& e) {
  bool found = false;
  walk(e, [&](const Expr& part) { found |= may_wrap(part); });
  return found;
}

Expr wide(const Expr& e) { return cast(ScalarType::I64, e); }

/// `e` less the value of `start`, in i64, where that is the same for all values of it. `narrow`: modulo 2^32, where
/// casts change nothing.
std::optional<Expr> step_from(const Symbol& start, const Expr& e, bool narrow) {
  if (const auto* n = e.as<Var>(); n && n->symbol == start) return int_const(0);
  if (const auto* n = e.as<Cast>(); n && narrow && is_integer(n->a.type())) return step_from(start, n->a, narrow);
  const auto* n = e.as<Binary>();
  if (!n || (n->op != BinaryOp::Add && n->op != BinaryOp::Sub)) return std::nullopt;
  const bool first = mentions(n->a, start);
  if (first == mentions(n->b, start) || (!first && n->op == BinaryOp::Sub)) return std::nullopt;
  const auto step = step_from(start, first ? n->a : n->b, narrow);
  return step ? std::optional(binary(n->op, *step, wide(first ? n->b : n->a))) : std::nullopt;
}

/// Solves for one of `all`, `c`, which is `end` when an iteration ends.
bool solve_one(CarriedScalar& c, const Expr& end, const std::vector<CarriedScalar>& all, const Trips& trips) {
  const auto depends = [&](const Expr& e) {
    return std::any_of(all.begin(), all.end(),
                       [&](const CarriedScalar& o) { return !o.value && mentions(e, o.start); });
  };
  Expr value, after;
  const Expr base = wide(c.base);
  const auto step = step_from(c.start, end, c.array->type == ScalarType::I32);
  if (step && !depends(*step) && !mentions(*step, trips.iterator)) {
    value = simplify_indices(base + *step * trips.number);
    after = simplify_indices(base + *step * trips.count);
  } else if (!depends(end)) {
    const auto at = [&](const Expr& i) { return simplify_indices(substitute(wide(end), {{trips.iterator, i}})); };
    value = select(binary(BinaryOp::Eq, var(trips.iterator), trips.first), base, at(trips.before));
    after = select(binary(BinaryOp::Lt, trips.lower, trips.upper), at(trips.last), base);
  }
  if (!value || !is_short_value(value) || !is_short_value(after)) return false;
  // Sums of what leaves its type are not those of indices: a quotient of them, say, is not the sum of quotients.
  if (wraps_somewhere(value) || wraps_somewhere(after)) return false;
  c.value = value;
  c.after = after;
  return true;
}

}  // namespace

Trips trips_of(const Program& program, const For& n, const Expr& lower, const Expr& upper) {
  const Expr i = var(n.iterator), one = int_const(1);
  const bool forward = n.mode != LoopMode::Backward;
  const Expr length = simplify_indices(upper - lower), end = simplify_indices(upper - one);
  const Expr count = is_never_negative(program, length) ? length : binary(BinaryOp::Max, length, int_const(0));
  const Expr number = forward ? i - lower : end - i, before = forward ? i - one : i + one;
  return {n.iterator, lower, upper, count, number, forward ? lower : end, forward ? end : lower, before};
}

bool is_short_value(const Expr& e) {
  int nodes = 0;
  walk(e, [&](const Expr&) { return ++nodes <= longest_value; });
  return nodes <= longest_value;
}

Expr settled(const Expr& e, const Substitution& values) {
  const Expr result = substitute(e, values);
  return result.same_as(e) || result.type() != ScalarType::I64 ? result : simplify_indices(result);
}

bool solve(std::vector<CarriedScalar>& scalars, const Trips& trips) {
  Substitution solved;
  std::vector<CarriedScalar> in_order;
  for (bool progress = true; progress;) {
    progress = false;
    for (CarriedScalar& c : scalars) {
      if (c.value || !c.at_end || !solve_one(c, settled(c.at_end, solved), scalars, trips)) continue;
      solved[c.start] = c.value;
      in_order.push_back(c);
      progress = true;
    }
  }
  if (in_order.size() < scalars.size()) return false;
  scalars = std::move(in_order);
  return true;
}

}  // namespace loopgrad::ir

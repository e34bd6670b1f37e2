#include "transforms/map/cpu/loop_work.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/visit.h"
#include "dsl/symbolic/linear_form.h"

#include <algorithm>
#include <set>

namespace loopgrad::transforms {
namespace {

using namespace ir;

constexpr std::int64_t unknown_trips = 8;

std::int64_t operations(const Expr& e) {
  std::int64_t count = 0;
  walk(e, [&](const Expr& x) {
    if (x.kind() == Kind::Load || x.kind() == Kind::Binary || x.kind() == Kind::Select) count += 1;
    if (x.kind() == Kind::Fma) count += 2;
    if (const auto* u = x.as<Unary>()) {
      const bool cheap = u->op == UnaryOp::Neg || u->op == UnaryOp::Not || u->op == UnaryOp::Abs ||
                         u->op == UnaryOp::RoundF16 || u->op == UnaryOp::RoundBF16;
      count += cheap ? 1 : 10;
    }
  });
  return count;
}

Expr work_below(const Stmt& s, std::set<Symbol>& inner);

bool is_known(const Expr& e, const std::set<Symbol>& inner) {
  return !has_load(e) && std::none_of(inner.begin(), inner.end(), [&](const Symbol& s) { return mentions(e, s); });
}

/// Trips of a loop as an expression that iterators of the loops around do not occur in. Of a block of all iterations,
/// block * size .. min(block * size + size, n), this is the size.
Expr trips_of(const Expr& lower, const Expr& upper, const Expr& at_most, const std::set<Symbol>& inner) {
  if (is_known(lower, inner) && is_known(upper, inner)) return upper - lower;
  if (const auto* least = upper.as<Binary>(); least && least->op == BinaryOp::Min)
    for (const Expr& end : {least->a, least->b})
      if (const Expr trips = ir::simplify_indices(end - lower); is_known(trips, inner)) return trips;
  return at_most ? at_most : int_const(unknown_trips);
}

Expr trips_work(const Expr& lower, const Expr& upper, const Expr& at_most, const Symbol& iterator, const Stmt& body,
                std::set<Symbol>& inner) {
  const Expr trips = trips_of(lower, upper, at_most, inner);
  inner.insert(iterator);
  return trips * (work_below(body, inner) + int_const(2));
}

Expr work_below(const Stmt& s, std::set<Symbol>& inner) {
  if (!s) return int_const(0);
  return visit(s, overloaded{
                      [&](const Block& n) {
                        // Constants are summed apart, so that the expression stays short.
                        std::int64_t constant = 0;
                        Expr sum = int_const(0);
                        for (const Stmt& child : n.body) {
                          const Expr work = work_below(child, inner);
                          if (const auto c = as_int(work)) constant += *c;
                          else sum = sum + work;
                        }
                        return sum + int_const(constant);
                      },
                      [&](const For& n) { return trips_work(n.lower, n.upper, n.at_most, n.iterator, n.body, inner); },
                      [&](const While& n) {
                        return trips_work(int_const(0), int_const(unknown_trips), {}, n.iterator, n.body, inner);
                      },
                      [&](const If& n) {
                        return int_const(operations(n.condition)) + work_below(n.then_body, inner) +
                               work_below(n.else_body, inner);
                      },
                      [&](const Allocate& n) { return work_below(n.body, inner); },
                      [&](const Contraction& n) { return work_below(n.loops, inner); },
                      [](const Assign& n) { return int_const(1 + operations(n.value)); },
                      [](const Reduce& n) { return int_const((n.atomic ? 8 : 2) + operations(n.value)); },
                      [](const Push&) { return int_const(2); },
                      [](const Pop&) { return int_const(2); },
                  });
}

}  // namespace

Expr work_of_trip(const For& loop) {
  std::set<Symbol> inner = {loop.iterator};
  return work_below(loop.body, inner);
}

}  // namespace loopgrad::transforms

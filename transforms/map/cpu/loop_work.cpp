#include "transforms/map/cpu/loop_work.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/ir/visit.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/average_row.h"
#include "transforms/analysis/moving_trips.h"

#include <vector>

namespace loopgrad::transforms {
namespace {

using namespace ir;
using ir::Program;

constexpr std::int64_t unknown_trips = 8;

constexpr std::int64_t usual_lanes = 8;

/// Of an iteration that shares its time with those in the other lanes, where it is known.
Expr shared_by_lanes(const Expr& work) {
  const auto known = as_int(work);
  return known ? int_const((*known + usual_lanes - 1) / usual_lanes) : work;
}

/// a - b, as it is written where a is b + something: simplified, it would be another expression to who names extents.
Expr difference(const Expr& a, const Expr& b) {
  const auto* sum = a.as<Binary>();
  if (sum && sum->op == BinaryOp::Add && equal(sum->a, b)) return sum->b;
  return simplify_indices(a - b);
}

/// Estimates what is done below a loop.
class Work {
 public:
  Work(const Program& program, const For& loop, int together)
      : program_(program), inner_{loop.iterator}, without_lanes_(together - 1) {
    moving_.of(loop, loop.upper - loop.lower);
  }

  Expr below(const Stmt& s) {
    if (!s) return int_const(0);
    return visit(
        s,
        overloaded{
            [&](const Block& n) {
              // Constants are summed apart, so that the expression stays short.
              std::int64_t constant = 0;
              Expr sum = int_const(0);
              for (const Stmt& child : n.body) {
                const Expr work = below(child);
                if (const auto c = as_int(work)) constant += *c;
                else sum = sum + work;
              }
              return sum + int_const(constant);
            },
            [&](const For& n) {
              const bool in_lanes = without_lanes_-- <= 0 && n.run.lanes != 1;
              return times(trips_of(n), n.iterator, n.body, in_lanes);
            },
            [&](const While& n) { return times(int_const(unknown_trips), n.iterator, n.body); },
            [&](const If& n) { return int_const(operations(n.condition)) + below(n.then_body) + below(n.else_body); },
            [&](const Allocate& n) { return below(n.body); }, [&](const Contraction& n) { return below(n.loops); },
            [&](const Assign& n) { return int_const(1 + operations(n.value)); },
            [&](const Reduce& n) { return int_const((n.atomic ? 8 : 2) + operations(n.value)); },
            [](const Push&) { return int_const(2); }, [](const Pop&) { return int_const(2); },
            [](const Barrier&) { return int_const(0); },
            [](const CustomGradient&) { return int_const(0); },  // no pass meets one
        });
  }

 private:
  Expr times(const Expr& trips, const Symbol& iterator, const Stmt& body, bool in_lanes = false) {
    inner_.push_back(iterator);
    const Expr each = below(body) + int_const(2);
    return trips * (in_lanes ? shared_by_lanes(each) : each);
  }

  /// Trips of a loop as an expression that iterators of the loops around do not occur in. Of a block of all iterations,
  /// block * size .. min(block * size + size, n), this is the size.
  Expr trips_of(const For& loop) {
    const Expr &lower = loop.lower, &upper = loop.upper;
    const Expr moving = moving_.of(loop, upper - lower);
    if (is_fixed(lower, inner_) && is_fixed(upper, inner_)) return upper - lower;
    if (const auto* least = upper.as<Binary>(); least && least->op == BinaryOp::Min)
      for (const Expr& end : {least->a, least->b})
        if (const Expr trips = difference(end, lower); is_fixed(trips, inner_)) return trips;
    if (const Expr trips = difference(upper, lower); is_fixed(trips, inner_)) return trips;
    if (moving) return moving;
    if (const Expr average = average_row(program_, loop)) return average;
    if (loop.at_most && is_fixed(loop.at_most, inner_)) return loop.at_most;
    const Expr most = most_of_data(loop);
    return most ? binary(BinaryOp::FloorDiv, most, int_const(2)) : int_const(unknown_trips);
  }

  /// The most trips of a loop from 0 to an element of an array, by a fact about these; or null.
  Expr most_of_data(const For& loop) const {
    const Expr* end = &loop.upper;
    while (const auto* cast = end->as<Cast>()) end = &cast->a;
    const auto* load = end->as<Load>();
    if (!load || as_int(loop.lower) != 0) return {};
    for (const Fact& fact : program_.facts)
      if (fact.kind == FactKind::InRange && fact.array == load->array) return fact.upper;
    return {};
  }

  std::int64_t operations(const Expr& e) const {
    std::int64_t count = 0;
    walk(e, [&](const Expr& x) {
      if (x.kind() == Kind::Binary && is_large_of_sizes(x)) return false;
      if (x.kind() == Kind::Load || x.kind() == Kind::Binary || x.kind() == Kind::Select) count += 1;
      if (x.kind() == Kind::Fma) count += 2;
      if (const auto* u = x.as<Unary>()) {
        const bool cheap = u->op == UnaryOp::Neg || u->op == UnaryOp::Not || u->op == UnaryOp::Abs ||
                           u->op == UnaryOp::RoundF16 || u->op == UnaryOp::RoundBF16;
        count += cheap ? 1 : 10;
      }
      return true;
    });
    return count;
  }

  /// Whether it is the same in all trips of all loops, and of several divisions, minima and maxima: what repeats of
  /// such gets a name, and is computed once.
  bool is_large_of_sizes(const Expr& e) const {
    int dear = 0;
    walk(e, [&](const Expr& x) {
      const auto* b = x.as<Binary>();
      dear += b && (b->op == BinaryOp::Min || b->op == BinaryOp::Max || b->op == BinaryOp::FloorDiv ||
                    b->op == BinaryOp::Mod);
    });
    return dear > 1 && is_of_sizes(e, program_);
  }

  const Program& program_;
  std::vector<Symbol> inner_;  // iterators of loops below
  MovingTrips moving_{inner_};
  int without_lanes_;  // of the loops that come next: they are one loop with the first
};

}  // namespace

Expr work_of_trip(const Program& program, const For& loop, int together) {
  const Expr work = Work(program, loop, together).below(loop.body);
  return together == 1 && loop.run.lanes != 1 ? shared_by_lanes(work) : work;
}

}  // namespace loopgrad::transforms

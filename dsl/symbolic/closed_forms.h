// Integers that a loop carries from iteration to iteration, solved for: what each is, as an expression of the iterator.
#pragma once

#include "dsl/ir/rewriter.h"

#include <vector>

namespace loopgrad::ir {

/// How the iterations of a loop in order are counted, in i64.
struct Trips {
  Symbol iterator;
  Expr lower, upper;
  Expr count, number;        // how many, and how many came before this one
  Expr first, last, before;  // iterators: of the first and last iteration, and of the one before this one
};
/// Of loops with the iterator and mode of `n`, and these bounds.
Trips trips_of(const Program& program, const For& n, const Expr& lower, const Expr& upper);

/// An integer scalar that a loop carries.
struct CarriedScalar {
  Array array;
  Symbol start;       // stands for its value when an iteration begins
  Expr base;          // its value before the loop, in its type
  Expr at_end;        // when an iteration ends, of what all of them are when it begins; null where nobody knows
  Expr value, after;  // solved: when an iteration begins, and after the loop; i64, the same modulo 2^bits
};

/// Solves for all scalars of a loop, and brings them into an order in which each is made of values that come before it.
/// False where some are not solved: their `value` is null. Two kinds are:
/// ```
///   counters               k' = k + step          base + step*number
///   anew in each iteration  k' = f(i, others)      f of the iteration before, or base in the first one
/// ```
/// Values are short: they stand wherever a scalar is read.
bool solve(std::vector<CarriedScalar>& scalars, const Trips& trips);

/// Whether the expression may stand for a scalar wherever that is read.
bool is_short_value(const Expr& e);

/// Replaces variables, and collects the sums of what has changed.
Expr settled(const Expr& e, const Substitution& values);

}  // namespace loopgrad::ir

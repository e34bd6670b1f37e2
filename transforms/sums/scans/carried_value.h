// A value that a loop carries, followed symbolically through one iteration.
#pragma once

#include "transforms/sums/scans/recurrence.h"

namespace loopgrad::transforms {

/// One element that every iteration of a loop updates (a scalar), or that each sets from the one before (`x[i]` from
/// `x[i - 1]`).
struct CarriedValue {
  ir::Stmt loop;
  ir::Array array;
  std::vector<ir::Expr> indices;  // of the element that an iteration sets
  bool moves = false;             // with the iterations

  /// What stands for the value that an iteration finds.
  std::vector<ir::Expr> before() const;
};

/// All that may be, in textual order: a loop's own statements store to it and read what is before.
std::vector<CarriedValue> carried_values(const ir::Stmt& loop);

/// An iteration in which one statement sets the value, from `previous` and what no iteration changes, and all others
/// read elements in which it is kept.
struct Separated {
  ir::Stmt body;
  ir::Stmt update;  // in it
};

/// `at`: the array and indices where a value that does not move is kept, and `previous`, what to read for the value
/// before. Nullopt where that cannot be followed: what it depends on is changed meanwhile, or is long.
struct KeptAt {
  ir::Array array;
  std::vector<ir::Expr> indices;
  ir::Expr previous;
};
std::optional<Separated> separated(const CarriedValue& value, const KeptAt& at);

/// Whether every iteration assigns the scalar before anything reads it, so that it carries nothing.
bool is_set_first(const CarriedValue& value);
/// Whether every iteration stores to the value, whatever conditions are: then there is such an element.
bool is_set_in_each(const CarriedValue& value);
/// The loop with a scalar of its own in each iteration, in place of the value; `first` is what it holds then, if not
/// null.
ir::Stmt with_own_scalar(const CarriedValue& value, const ir::Expr& first);

}  // namespace loopgrad::transforms

// What a loop carries from one iteration to the next, where pieces of the loop can be composed.
//
// next = factor*previous + term is linear in `previous` when neither depends on it, through select, fma and division as
// well; then two steps are one of the same form, (a2, b2) after (a1, b1) = (a2*a1, a2*b1 + b2). So are two extrema.
// Of integers it is what is only added to, by steps from data or none: a count under conditions. Those wrap around as
// they do in the loop, in whatever order they are added up.
#pragma once

#include "dsl/ir/program.h"

#include <functional>
#include <optional>

namespace loopgrad::transforms {

/// One step of a recurrence.
struct Update {
  enum class Kind : std::uint8_t { Linear, Min, Max };
  Kind kind = Kind::Linear;
  ir::Expr factor = {};        // Linear; null: 1
  ir::Expr term = {};          // Linear: null: 0
  bool rearranged = false;     // Linear: the loop does not multiply by the factor and then add the term
  bool forgets = false;        // Linear: where the factor is 0, the step does not look at `previous` at all
  bool previous_first = true;  // extrema: `previous` is the first operand, which counts when they are unordered
};

using IsPrevious = std::function<bool(const ir::Expr&)>;

/// How `value` depends on what `is_previous` names; nullopt where that is neither linear nor a single extremum.
std::optional<Update> update_of(const ir::Expr& value, const IsPrevious& is_previous);

/// A loop in order that does nothing but to set one element of an array in each iteration, from the one that the
/// iteration before has set.
struct Recurrence {
  ir::Stmt statement;             // a For around one Assign or Reduce
  const ir::For* loop = nullptr;  // that
  ir::Array array;
  std::vector<ir::Expr> indices;  // of the element that an iteration sets
  ir::Expr start;                 // what the first iteration takes for `previous`
  ir::Array previous;             // a scalar that stands for the value before, in
  ir::Expr value;                 // what an iteration sets, as it is written
  Update update;
  SourceLocation where;
};

/// How many iterations there are: what an array with an element for each has room for.
ir::Expr extent_of(const ir::Program& program, const ir::For& loop);
/// The indices of the iteration before.
std::vector<ir::Expr> indices_before(const ir::For& loop, const std::vector<ir::Expr>& indices);
/// Whether e is array[indices].
bool is_element(const ir::Expr& e, const ir::Array& array, const std::vector<ir::Expr>& indices);

/// The recurrence that `loop` is, if no other array is in its memory; nullopt for other loops. Bounds of it read no
/// data.
///   for i in l..u: x[i] = a[i]*x[i - 1] + b[i]
///   for i in l..u: s[i] = select(i == l, start, s[i - 1]) + b[i]
/// Where the last iterations leave it out (`if i < v: ..`), these are none of the recurrence's.
std::optional<Recurrence> recurrence_of(const ir::Stmt& loop);

/// Whether neighbouring iterations of `loop` touch neighbouring elements more often than those of the loops `around`
/// do: threads that share it find what they load side by side.
bool runs_along(const ir::Stmt& loop, const std::vector<ir::Symbol>& around);

}  // namespace loopgrad::transforms

// Whether statements need the value that an element had before them.
//
//   for i in 0..n:
//     if i > 0: s += y        needs it where i > 0: in the first iteration, nobody need have written y
//     y = x[i]
//
//   y = exp(select(i == 1, y, 0.5))    needs it where i == 1
//
// For passes that put an element into a scalar, which must not read what the program as written does not.
#pragma once

#include "transforms/storage/elements_in_scalars.h"

#include <set>

namespace loopgrad::transforms {

struct OldValue {
  ir::Expr when;         // a condition that can be asked before the statements; null: never
  bool is_exact = true;  // or they may yet not need it where the condition holds, which is then `true`

  bool is_sure() const { return when && is_exact && ir::as_int(when) == 1; }
};

/// What `s` needs of the old value of an element that fits; it is wanted after `s`, too, unless it got another one. The
/// condition does not grow with the branches in a row. `aliases`: arrays that may share memory with another one.
OldValue old_value(const ir::Stmt& s, const Element& e, const std::set<ir::Array>& aliases);

}  // namespace loopgrad::transforms

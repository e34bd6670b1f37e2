// Updates of one element, one directly after the other, become one statement.
//
//   d[i] = a[i]                     d[i] = a[i] + 0.1*b[i + 1] + c[i]
//   d[i] += 0.1*b[i + 1]     ->
//   d[i] += c[i]
//
// The element then stays in a register, which a C++ compiler cannot arrange in a vector loop over arrays that it does
// not know to be different. Requires: nothing. Guarantees: every element gets the same operations in the same order (up
// to the sign of zeros: `x = 0` and `x += v` become `x = v`). Leaves alone: updates whose value may read the element
// itself, atomic ones, arrays that may alias others, f16 and bf16 (rounded at each step in memory).
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::transforms {

enum class Updates {
  OfConstants,  // only after `x = 0` (or 1 where the update multiplies): sums stay recognisable as sums
  All,
};

ir::Program merge_updates(const ir::Program& program, Updates which);

}  // namespace loopgrad::transforms

// Statements of a nest that keep a loop in order get nests of their own.
//
//   for i in 0..n:                         for i in 0..n:
//     z[i] = 0                               z[i] = 0
//     z[i + 1] += x[i]           ->        for i in 0..n:
//     y[i] = x[i]                            z[i + 1] += x[i]
//                                          for i in 0..n:
//                                            y[i] = x[i]
#pragma once

#include "transforms/pass/pass.h"

namespace loopgrad::transforms {

/// The nest, a statement of the program, in parts, one after the other, so that neither it nor the loop with that
/// iterator carries more than sums in any of them; as few as it takes. Scalars that several parts need are kept for all
/// iterations. Null where parts need each other, a local array would have to be kept, or there are many parts. Costs
/// grow with the square of the statements. Throws poly::BudgetError.
ir::Stmt take_apart(const ir::Program& program, const ir::Stmt& nest, const ir::Symbol& iterator, PassContext& context);

}  // namespace loopgrad::transforms

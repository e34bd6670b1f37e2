// Names for what the adjoint of a program would otherwise compute again and again.
//
//   for i:                                        for i:
//     y[i, 0] = exp(a[i]*b[i])*c[i]                 value0 = a[i]*b[i]
//     y[i, 1] = exp(a[i]*b[i])*sin(c[i])            value1 = exp(value0)
//                                            ->     y[i, 0] = value1*c[i]
//                                                   y[i, 1] = value1*sin(c[i])
//
// where both exp(..) are one recorded value. The adjoint of a statement sends a term to each element that it reads, and
// writes for each the whole product along the way from the result: that is quadratic in the size of the expression, and
// all of it once per use of what is shared. The adjoint of statements with a few operations each is linear.
#pragma once

#include "tape/adjoint_rules.h"

#include "dsl/ir/stmt.h"

#include <set>

namespace loopgrad::tape {

/// Gives names, as scalars assigned directly before the first statement that uses them, to values that
///   - several statements of a body share (the same node, and nothing that it reads is written in between), or
///   - are used within a statement by operations that are not linear,
/// where the adjoint written per element would take several times the operations of the statements as recorded, or
///   - are functions of a library, which take as long as many operations, and what these are called with, where the
///     adjoint of the statement would call them more than three times as often: its sums may go to nests of their own,
///     as those of a stencil do, or
///   - are single elements that data choose and that several operations read: the adjoint adds to each once.
/// Small statements (products of a few elements) stay as they are. Values do not change: nothing is computed in another
/// way, and what a fused sum adds keeps its product. `active`: the arrays that get adjoints. The locals are added to
/// `named`: each is assigned once, from the same values wherever it is read.
ir::Stmt name_values(const ir::Stmt& body, const IsActive& active, std::set<ir::Array>& named);

}  // namespace loopgrad::tape

// Several directions at once: derivatives with an extra last dimension, and one loop over it.
#pragma once

#include "tape/adjoint_statement.h"

#include "dsl/ir/program.h"

#include <loopgrad/autodiff.h>

namespace loopgrad::tape {

/// What has derivatives along several directions.
struct Directions {
  ir::Expr count;        // the extent of the last dimension
  ArrayMap derivatives;  // of active arrays: the same extents and `count`
  /// Whether the values of active arrays are computed as well (tangents). Else `body` is linear in them, as a backward
  /// program is in its adjoints, and only the derivatives stay.
  bool with_values = true;
};

/// An array for the derivatives of `like` along `count` directions.
ir::Array array_of_directions(const ir::Array& like, std::string name, ScalarType type, ir::ArrayRole role,
                              const ir::Expr& count);

/// Before -> after, for `y[i] = x[i] * sin(x[i])` where x and y are active:
/// ```
///   slope = sin(x[i]) + x[i]*cos(x[i])
///   y[i] = x[i]*sin(x[i])
///   for direction in 0..count:
///     t_y[i, direction] = slope*t_x[i, direction]
/// ```
/// Whatever the directions share is computed once. Statements that follow each other share one loop over directions, in
/// which the derivatives of their locals are scalars, unless one of them writes what the index of an earlier one reads.
/// Products of active arrays and extrema must have been expanded (see expand_reductions).
ir::Stmt along_directions(const ir::Stmt& body, const Directions& directions);

/// What GradientOptions::directions says: a number, or a new size, which `program` gets. Throws UsageError where that
/// name is taken.
ir::Expr count_directions(ir::Program& program, const std::string& directions);

/// A backward program for several incoming gradients at once: every array of `backward` that is none of `primal` and no
/// tape gets the extra dimension.
ir::Program with_adjoints(const ir::Program& backward, const ir::Program& primal, const ir::Expr& count);

/// Forward mode along `count` directions, of sizes of the program; null: along one without the extra dimension.
ir::Program tangent_along(const ir::Program& program, const GradientOptions& options, const ir::Expr& count);

}  // namespace loopgrad::tape

// The frame around both generators of gradients: which arrays get adjoints, their roles, seeds and zeros.
#pragma once

#include "tape/activity.h"
#include "tape/adjoint_statement.h"
#include "tape/custom_rules.h"

#include <loopgrad/autodiff.h>

#include <functional>

namespace loopgrad::tape {

/// What a gradient is asked for, resolved and checked.
struct Request {
  std::vector<ir::Array> wrt, of;
  bool wants(const ir::Array& array) const;  // in `wrt`
  bool given(const ir::Array& array) const;  // in `of`
  std::vector<ir::Array> accumulated = {};   // of `wrt`: the gradient is added to what there is
  bool accumulates(const ir::Array& array) const;
};

/// Throws UsageError for unknown names, wrong roles, non-float arrays, and what cannot be accumulated.
Request resolve_request(const ir::Program& program, const GradientOptions& options);

/// A program made ready for differentiation: products of active arrays spelled out, shared values named.
struct Prepared {
  ir::Program program;
  Request request;
  Activity activity;
  ArrayMap adjoints;  // active array -> its adjoint, named d_<name>; a Local unless the array is a program array
  std::set<ir::Array> named;  // locals that only name parts of what the user wrote as one value (see name_values.h)
  std::set<std::string> taken = {};  // names that tapes may not have, other than those in the program
  bool is_part = false;              // what it is given may be computed by other parts
};

/// Throws DifferentiationError where aliasing makes a correct gradient impossible to guarantee. Regions with custom
/// gradients become their bodies and a rule beside each, see custom_rules.h.
Prepared prepare(const ir::Program& program, const GradientOptions& options, RuleMode mode = RuleMode::Adjoint);

/// Throws UsageError where two arguments of a generated program have one name: arguments are passed by name.
void refuse_equal_names(const ir::Program& program);

/// Wraps the reverse sweep: allocates or declares every adjoint of a program array, zeroes results, copies incoming
/// gradients that the sweep changes, and declares those primal and tape arrays that the sweep reads as inputs.
ir::Program backward_program(const Prepared& prepared, const ir::Stmt& sweep, const std::vector<ir::Array>& tape,
                             const std::vector<ir::Symbol>& extra_sizes);

/// array[...] = 0 for every element; a nest of loops over the shape.
ir::Stmt zero_fill(const ir::Array& array);
/// to[...] = from[...] for every element.
ir::Stmt copy_all(const ir::Array& to, const ir::Array& from);

}  // namespace loopgrad::tape

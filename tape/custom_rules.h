// Gradients that the user wrote for regions of a program.
#pragma once

#include "tape/activity.h"
#include "tape/adjoint_statement.h"

namespace loopgrad::tape {

enum class RuleMode { Adjoint, Tangent };

/// Before -> after, for RuleMode::Adjoint:
/// ```
///   custom gradient of y by x:           y[i] = stop_gradient(floor(x[i]))
///     y[i] = floor(x[i])            ->   custom gradient of y by x:
///   adjoint d_y to d_x:                    pass
///     d_x[i] += d_y[i]                   adjoint d_y to d_x:
///                                          d_x[i] += d_y[i]
/// ```
/// The statements of a region are constants to derivatives: the sweeps of both modes do with them what they always do,
/// and clear derivatives of what is overwritten. Behind them stands the rule, at the place whose values it reads.
/// RuleMode::Tangent keeps tangents in place of adjoints, and regions without one are their bodies.
ir::Stmt rules_beside_bodies(const ir::Stmt& body, RuleMode mode);

/// Throws DifferentiationError where a region of `program` that has a rule for this mode computes something of which
/// the rule knows nothing: from an array that carries derivatives and that it does not name, or from what one of its
/// outputs held before.
void refuse_unnamed_inputs(const ir::Program& program, const Activity& activity, RuleMode mode);

/// `rule`, of `region`, in derivatives of the program: those that there are not are zero, and what is written to them
/// is left out. Empty where no output or no input has one.
ir::Stmt in_derivatives(const ir::Stmt& rule, const ir::CustomGradient& region, const ArrayMap& derivatives);

/// Of the first region with a rule: `ir::Program::from_rule` of derivatives that are made from this program.
std::optional<SourceLocation> location_of_rule(const ir::Program& program);

/// Throws DifferentiationError where a rule has taken part in this program, which says nothing of its own derivative.
void refuse_derivatives_of_rules(const ir::Program& program);

/// Throws DifferentiationError with these words about the first region, where there is one.
void refuse_rules(const ir::Program& program, const std::string& message, const std::string& hint);

}  // namespace loopgrad::tape

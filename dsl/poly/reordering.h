// Whether the statements of a region may run in another order, with a concrete pair of instances where they may not.
#pragma once

#include "dsl/poly/examples.h"

namespace loopgrad::poly {

/// The new time of each statement of a model, in the order of `Model::statements`: expressions in the statement's
/// iterators that are affine but for divisions by constants, compared in lexicographic order (a shorter one counts as
/// filled up with zeros). Instances with equal times keep their present order. nullopt: the statement's place does not
/// change with respect to any other.
using Times = std::vector<std::optional<std::vector<ir::Expr>>>;

/// Which pairs of instances are looked for.
enum class Exchanged {
  Dependences,  // those that must keep their order
  Sums,         // those that add to one element: exchanging them is legal, but changes the rounding
};

/// A pair of instances in conflict whose order the new times would reverse, or nothing. Over-approximate like
/// `dependences`. nullopt times are skipped. Throws BudgetError, and InternalError when a time is not affine.
std::optional<Conflict> exchanged_by(const Model& model, const Times& times, Exchanged which = Exchanged::Dependences);

/// Whether a value can be used in a time.
bool is_time(const Model& model, const ir::Expr& value);

/// A concrete pair of instances of a conflict, with small sizes where isl finds them.
Example example_of(const Model& model, const Conflict& conflict);

/// "y[i, j] is written at f.cpp:12 for (i = 1, j = 2) and read as y[i - 1, j + 1] at f.cpp:12 for (i = 2, j = 1), with
/// n = 3": both accesses, with their lines and iterations.
std::string describe_pair(const Model& model, const Conflict& conflict);

}  // namespace loopgrad::poly

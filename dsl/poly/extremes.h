// The least and the greatest value of a dimension of a set.
//
// isl 0.25 takes { [i] : exists e : i <= 2e < i + n }, which holds i nowhere, for bounded, and ends with an internal
// error when asked for the least i. So bounds count here that hold without the integers of which only existence is
// known.
#pragma once

#include "dsl/poly/isl_bridge.h"

#include <isl/aff.h>
#include <isl/cpp.h>

#include <optional>

namespace loopgrad::poly {

/// The dimension's least value, for the parameters for which the set has points; nullopt where nothing bounds it.
std::optional<isl::pw_aff> least_of(const Context& context, const isl::set& set, unsigned dimension);
/// Likewise the greatest.
std::optional<isl::pw_aff> greatest_of(const Context& context, const isl::set& set, unsigned dimension);

}  // namespace loopgrad::poly

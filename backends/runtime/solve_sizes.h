// Which values the size symbols of a program have, given its arguments.
#pragma once

#include "backends/runtime/binding.h"

#include <optional>

namespace loopgrad::backend {

/// As `evaluate`, with nullopt for what it throws on.
std::optional<std::int64_t> try_evaluate(const ir::Expr& e, const SizeValues& sizes);

/// Values for all sizes of `program`: those in `given`; then extents that are a size alone; then, repeatedly, extents
/// that are affine with one unknown left, such as `n + k - 1` once k is known. `views` are the arguments in the order
/// of `program.arrays`, of the declared ranks. Whether the other extents agree is the caller's to check.
///
/// Throws UsageError(BadSize) for a given size that is unknown or negative and for a size that cannot be found, and
/// UsageError(BadShape) when no non-negative integer gives the extent that an argument has.
SizeValues solve_sizes(const ir::Program& program, const std::vector<View>& views, const Sizes& given);

}  // namespace loopgrad::backend

// Expressions of sizes as C++ of the host that notices what does not fit in 64 bits, and the checks of a caller's sizes
// that emitted sources start with. They say what the runtime says to users of the library (SizeChecks, FactVerifier).
#pragma once

#include "backends/emit/plan.h"

namespace loopgrad::backend {

/// The C++ type `Number` and its operations.
extern const char* const number_text;
/// `Argument` and `check_arguments`: null, alignment, overlaps.
extern const char* const argument_text_of_caller;

/// `Places`, which puts arrays one after the other at multiples of `line` bytes, and `aligned`.
std::string places_text(int line);
/// `finished(layout, tape, workspace)`, for the `Layout` that a source defines: to be printed before it.
extern const char* const layout_end_text;
/// `or_spare`, for records.
extern const char* const spare_text;

/// The expression as a `Number`; sizes are spelled as they are, of type Number or int64_t.
std::string number_of(const ir::Expr& e, Spelling& names);

/// "{n_, Number(k_) * 2}": the extents of an array.
std::string extents_of(const ir::Array& array, Spelling& names);
std::string extents_of(const std::vector<ir::Expr>& shape, Spelling& names);

/// Whether an expression reads nothing but the caller's sizes.
bool is_of_sizes(const ir::Expr& e, const std::vector<std::string>& sizes);

/// `static int look_at_sizes(Number n_, ..)`: sizes, extents of arguments, bounds of loops and extents of local arrays,
/// and accesses that leave an array for these sizes.
std::string look_at_sizes_text(const EmitPlan& plan);

/// "Number n_, Number k_" and "n_, k_".
std::string size_parameters(const EmitPlan& plan, const char* type);
std::string size_arguments(const EmitPlan& plan);

}  // namespace loopgrad::backend

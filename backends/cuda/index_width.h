// Whether kernels may compute their indices in 32 bits: integers of 64 bits take a GPU two to four instructions where
// one does, and two registers. Kernels are written with `index_t`; the executor compiles and takes the narrow ones for
// a run whose sizes let every index fit, and the wide ones for all others. Narrow kernels also leave out the turns that
// blocks take when a grid is too small, which costs registers; launches whose grid would be too large are wide.
#pragma once

#include "backends/runtime/binding.h"

namespace loopgrad::backend {

/// The C++ type of indices in kernels that exist for both widths.
inline constexpr const char* either_width = "index_t";

/// Whether it is worth to have both: not for programs with a stack, which one thread executes.
bool may_have_narrow_indices(const ir::Program& program);

/// Whether every integer that the mapped program's kernels compute from sizes and iterators for these sizes, each step
/// of every index and the number of elements of every array, is between -2^30 and 2^30: then the sum of any two fits
/// into 32 bits. What data has a part in is computed with 64 bits all the same (see `is_wide`). By interval arithmetic;
/// false where that gives no bounds.
bool has_narrow_indices(const ir::Program& program, const SizeValues& sizes);

}  // namespace loopgrad::backend

// Whether kernels may compute their indices in 32 bits: integers of 64 bits take a GPU two to four instructions where
// one does, and two registers. Kernels are written with `index_t`; the executor compiles and takes the narrow ones for
// a run whose sizes let every index fit, and the wide ones for all others. Of the narrow ones there are those in which
// blocks take turns, for grids that would be too large, and those without the loops for that, which cost registers.
#pragma once

#include "backends/runtime/binding.h"

namespace loopgrad::backend {

/// In which form a kernel is compiled, when a launch wants it.
enum class KernelForm {
  OneTurn,  // indices of 32 bits; the grid has a block for each iteration of the loops over blocks
  Narrow,   // indices of 32 bits
  Wide,     // indices of 64 bits, the only form of some programs
};
inline constexpr std::size_t kernel_forms = 3;

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

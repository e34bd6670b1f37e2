// The C++ helper by which generated code hands a product of matrices to a BLAS.
//
// The library is called on panels of the result, each by one thread. Which panels there are depends on the extents
// alone, and so do the bits of the result: not on the number of threads.
#pragma once

#include "backends/c_text/expr_text.h"

namespace loopgrad::backend {

extern const char* const multiply_text;

/// What a call of the helper for a product is given.
std::vector<std::string> multiply_arguments(const ir::Contraction& n, EmitState& state);

}  // namespace loopgrad::backend

// What emitted CUDA sources bring with them in place of cuda::Executor and cuda::MatrixLibrary, which they follow:
// memory for local arrays, the shape of launches, products by cuBLAS.
#pragma once

#include <string>

namespace loopgrad::backend {

/// The class `Run`. `macro`: NAME, as in NAME_NO_CUBLAS.
std::string run_text(int slots, int most_words, bool uses_products, const std::string& macro);

/// `is_reachable`, and memory for the time of a call.
extern const char* const device_memory_text;

}  // namespace loopgrad::backend

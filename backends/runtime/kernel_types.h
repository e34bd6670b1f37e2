// What functions of generated C++ take and return, as the runtime sees it. (backends/openmp/emitter.cpp prints them.)
#pragma once

#include <cstdint>

namespace loopgrad::backend {

/// What a generated function returns.
enum class KernelStatus { Ok = 0, OutOfMemory = 1, BadStack = 2 };

/// The C structs that generated functions take, as the runtime sees them.
struct KernelStack {
  unsigned char* data = nullptr;
  std::int64_t size = 0, capacity = 0, peak = 0;  // bytes
};
struct KernelBlock {
  void* data = nullptr;  // from aligned_alloc; release with free
  std::int64_t bytes = 0;
};
struct KernelBlas {
  void (*sgemm)() = nullptr;  // with the parameters of the Fortran interface, integers of 32 bits
  void (*dgemm)() = nullptr;
  double least_work = 0;  // products of fewer multiplications are left to the loops
};

}  // namespace loopgrad::backend

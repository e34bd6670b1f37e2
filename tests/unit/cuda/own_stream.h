// A stream of the caller's.
#pragma once

#include <cuda_runtime_api.h>

namespace loopgrad::test {

struct OwnStream {
  OwnStream() { cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking); }
  ~OwnStream() { cudaStreamDestroy(stream); }
  cudaStream_t stream = nullptr;
};

}  // namespace loopgrad::test

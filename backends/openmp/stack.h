// The run-time stack of a naive tape in the host's memory.
#pragma once

#include "backends/interface/backend.h"
#include "backends/runtime/kernel_types.h"

#include <cstdlib>

namespace loopgrad::backend {

class HostStack final : public TapeStack {
 public:
  HostStack() = default;
  HostStack(const HostStack&) = delete;
  ~HostStack() override { std::free(kernel.data); }
  void clear() override { kernel.size = kernel.peak = 0; }
  void mark() override { marked_ = kernel.size; }
  void rewind() override { kernel.size = marked_; }
  std::int64_t peak_bytes() const override { return kernel.peak; }

  KernelStack kernel;

 private:
  std::int64_t marked_ = 0;
};

}  // namespace loopgrad::backend

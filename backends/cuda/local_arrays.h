// Declarations of local arrays inside a kernel: registers, shared memory, or memory that comes with the launch.
#pragma once

#include "backends/cuda/kernel_frame.h"

namespace loopgrad::backend {

class LocalArrays {
 public:
  /// All must outlive it. Adds to the kernel's `locals`.
  LocalArrays(const ir::Program& program, KernelFrame& frame, KernelScope& scope)
      : program_(program), frame_(frame), scope_(scope) {}

  /// Where its place says; `in_thread`: inside of a loop over threads. Throws CompileError where no bound of an extent
  /// is known outside of the kernel.
  void declare(const ir::Allocate& n, bool in_thread);

  /// Lines at the top of the kernel that the declarations need.
  const std::string& preamble() const { return preamble_; }

 private:
  void declare_memory(const ir::Allocate& n);
  void declare_of_team(const ir::Array& array);
  std::int64_t most_teams() const;
  void need_block_number();
  void need_dynamic_shared();

  const ir::Program& program_;
  KernelFrame& frame_;
  KernelScope& scope_;
  std::string preamble_;
  bool has_block_number_ = false, has_dynamic_shared_ = false;
};

}  // namespace loopgrad::backend

// Runs mapped programs on the device: the host's part of the program, as a sequence of launches.
#pragma once

#include "backends/cuda/device.h"
#include "backends/cuda/emitter.h"
#include "backends/runtime/binding.h"

#include <map>

namespace loopgrad::backend::cuda {

/// The run-time stack of a naive tape, in device memory.
struct DeviceStack {
  std::shared_ptr<void> bytes, state;
  std::int64_t capacity = 0;
};

/// How much of a stack is in use.
struct StackUse {
  std::int64_t size = 0, peak = 0;
};

/// One mapped program with its loaded kernels. Keeps the memory of local arrays and the last sequence of launches: a
/// run with the arguments and sizes of the run before allocates nothing, evaluates nothing and, when it has several
/// launches, replays them as one graph.
class Executor {
 public:
  Executor(const ir::Program& program, const std::vector<CudaKernel>& kernels, const Module& module);

  /// Starts the program on `stream`; returns before it has finished, except for programs with a stack, which wait.
  /// Throws RuntimeError naming program, kernel and call; OutOfMemory when the stack does not fit.
  void run(const Binding& binding, Stream stream, DeviceStack* stack, StackUse* use);

 private:
  struct KernelState {
    const void* function = nullptr;
    std::int64_t allowed_shared_bytes = 48 * 1024;
    std::vector<std::shared_ptr<void>> memory;  // of each local
    std::vector<std::int64_t> memory_bytes;
  };
  struct HostLocal {
    std::shared_ptr<void> memory;
    std::int64_t bytes = 0;
  };

  void plan(const Binding& binding);
  void visit(const ir::Stmt& s);
  void visit_allocate(const ir::Allocate& n);
  void visit_loop(const ir::For& n);
  void prepare(std::size_t kernel);
  void place_locals(std::size_t kernel, Launch& launch);
  std::int64_t value(const ir::Expr& e) const { return evaluate(e, symbols_); }
  void* grow(std::shared_ptr<void>& memory, std::int64_t& bytes, std::int64_t wanted);
  void replay(Stream stream);
  void run_with_stack(Stream stream, DeviceStack& stack, StackUse& use);

  const ir::Program& program_;
  const std::vector<CudaKernel>& kernels_;
  Module module_;
  std::map<const ir::StmtNode*, std::size_t> kernel_of_;
  std::vector<KernelState> states_;
  std::map<const ir::ArrayDecl*, HostLocal> host_locals_;

  // The last run.
  std::vector<std::int64_t> key_;  // sizes and pointers
  std::vector<Launch> launches_;
  std::vector<std::shared_ptr<void>> retired_;  // outgrown memory that the launches refer to
  Graph graph_;
  int repeats_ = 0;
  Stream last_stream_ = nullptr;

  // While planning.
  SizeValues symbols_;
  std::map<const ir::ArrayDecl*, void*> pointers_;
};

}  // namespace loopgrad::backend::cuda

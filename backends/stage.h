// One lowered program, ready to run on its target; and how a few of them are built together.
#pragma once

#include "backends/cuda/executor.h"
#include "backends/interpreter/interpreter.h"
#include "backends/jit/kernel_cache.h"
#include "backends/openmp/emitter.h"
#include "backends/orders.h"
#include "backends/records.h"
#include "backends/runtime/size_checks.h"
#include "backends/runtime/workspace.h"

#include <loopgrad/compile.h>

#include <cstdlib>
#include <optional>

namespace loopgrad::backend {

class BlasSession;

/// The run-time stack of a naive tape, for either target. Memory is kept from call to call.
struct TapeStack {
  TapeStack() = default;
  TapeStack(const TapeStack&) = delete;
  ~TapeStack() { std::free(kernel.data); }

  KernelStack kernel;  // with CUDA only its size and peak
  ValueStack interpreter;
  cuda::DeviceStack device;
};

/// A program on its target. Arrays of role Tape are not bound by name but given by the caller. Runs on any threads at
/// once are right: each has a workspace of its own; with CUDA, where a run only starts work, they follow each other.
class Stage {
 public:
  Stage(ir::Program program, const CompileOptions& options);
  Stage(ir::Program program, const CompileOptions& options, const KernelLibrary& library,
        const EmittedFunction& function);
  /// For CUDA. `mapped` and `unit` are kept alive.
  Stage(std::shared_ptr<const ir::Program> mapped, const CompileOptions& options, std::shared_ptr<const CudaUnit> unit,
        std::size_t index, cuda::Executor::Modules modules);

  /// Arrays of the program in which it notes what it has left out, and those that it finds again; given before the
  /// first run.
  void keep(std::vector<transforms::Record> records, transforms::KeptOrders orders = {});

  const ir::Program& program() const { return program_; }
  /// Sizes and all arrays but the tape, checked; nothing is written.
  Binding bind(const Arguments& arguments, const Sizes& sizes, bool ignore_unknown = false) const;
  /// Runs on what `bind` gave and the tape arrays by name. Throws RuntimeError, of indices and trip counts out of range
  /// after the run.
  void run(const Binding& bound, const std::map<std::string, View>& tape, TapeStack* stack,
           void* stream = nullptr) const;
  /// The same compiled code, with memory of its own where runs would follow each other.
  Stage independent() const;
  /// Whether a CUDA graph of the caller's may refer to the arrays of past runs.
  bool was_captured() const;
  /// Kernels of the CUDA program.
  int kernel_count() const;

 private:
  void run_on_target(const Binding& all, TapeStack* stack, void* stream) const;
  void run_kernel(const Binding& binding, TapeStack* stack) const;
  void run_kernel(const Binding& binding, TapeStack* stack, Workspace& workspace) const;
  int threads_of_run(const BlasSession* blas) const;
  void run_on_device(const Binding& binding, TapeStack* stack, void* stream) const;

  ir::Program program_;
  ir::Program without_tape_;  // for binding: what callers give
  CompileOptions options_;
  std::shared_ptr<const SizeChecks> sizes_;
  std::shared_ptr<Records> records_;
  std::shared_ptr<Orders> orders_;
  KernelLibrary library_;  // OpenMP only, like the rest
  int (*function_)(const void*) = nullptr;
  int (*openmp_threads_)() = nullptr;  // null where nothing runs in parallel
  std::shared_ptr<WorkspacePool> workspaces_;
  bool uses_blas_ = false;
  std::shared_ptr<const ir::Program> mapped_;  // CUDA only, like the rest
  std::shared_ptr<const CudaUnit> unit_;
  std::size_t index_ = 0;  // in the unit
  std::shared_ptr<cuda::Executor> executor_;
};

/// Stages of one compilation: for OpenMP one translation unit.
struct Build {
  std::vector<Stage> stages;  // one per program, in order
  std::string source;
  double milliseconds = 0;
  bool from_cache = false;
};

/// `reasons`: why kernels of each program look as they do, for comments in the code of a GPU. `name`: what messages
/// call all of this; that of the last program when empty. Throws UsageError for options that do not fit the target,
/// CompileError as load_kernels does.
Build build_stages(const std::vector<ir::Program>& lowered, const CompileOptions& options, const std::string& name = {},
                   const std::vector<std::vector<KernelDecision>>& reasons = {});

}  // namespace loopgrad::backend

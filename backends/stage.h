// One lowered program, ready to run on its target; and how a few of them are built together.
#pragma once

#include "backends/interpreter/interpreter.h"
#include "backends/jit/kernel_cache.h"
#include "backends/openmp/emitter.h"

#include <loopgrad/compile.h>

#include <cstdlib>
#include <optional>

namespace loopgrad::backend {

/// The run-time stack of a naive tape, for either target. Memory is kept from call to call.
struct TapeStack {
  TapeStack() = default;
  TapeStack(const TapeStack&) = delete;
  ~TapeStack() { std::free(kernel.data); }

  KernelStack kernel;
  ValueStack interpreter;
};

/// The memory of a kernel's local arrays.
class Workspace {
 public:
  explicit Workspace(int blocks) : blocks_(static_cast<std::size_t>(blocks)) {}
  Workspace(const Workspace&) = delete;
  ~Workspace() {
    for (const KernelBlock& block : blocks_) std::free(block.data);
  }
  KernelBlock* data() { return blocks_.empty() ? nullptr : blocks_.data(); }

 private:
  std::vector<KernelBlock> blocks_;
};

/// A program on its target. Arrays of role Tape are not bound by name but given by the caller.
class Stage {
 public:
  Stage(ir::Program program, const CompileOptions& options);
  Stage(ir::Program program, const CompileOptions& options, const KernelLibrary& library,
        const EmittedFunction& function);

  const ir::Program& program() const { return program_; }
  /// Sizes and all arrays but the tape, checked; nothing is written.
  Binding bind(const Arguments& arguments, const Sizes& sizes, bool ignore_unknown = false) const;
  /// Runs on what `bind` gave and the tape arrays by name. Throws RuntimeError.
  void run(const Binding& bound, const std::map<std::string, HostArray>& tape, TapeStack* stack) const;

 private:
  void run_kernel(const Binding& binding, TapeStack* stack) const;

  ir::Program program_;
  ir::Program without_tape_;  // for binding
  CompileOptions options_;
  KernelLibrary library_;  // OpenMP only, like the rest
  int (*function_)(const void*) = nullptr;
  std::shared_ptr<Workspace> workspace_;
};

/// Stages of one compilation: for OpenMP one translation unit.
struct Build {
  std::vector<Stage> stages;  // one per program, in order
  std::string source;
  double milliseconds = 0;
  bool from_cache = false;
};

/// Throws UsageError for options that do not fit the target, CompileError as load_kernels does.
Build build_stages(const std::vector<ir::Program>& lowered, const CompileOptions& options);

}  // namespace loopgrad::backend

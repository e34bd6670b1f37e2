// A target: which machine its programs are mapped to, how they are emitted and compiled, and how they run.
//
// `Target` selects one of these, and nothing outside of a target's folder asks which one it is: a new target is a
// folder that implements Backend, and a row in backend.cpp (see CONTRIBUTING.md, "How to add a backend").
#pragma once

#include "backends/interface/memory.h"
#include "backends/runtime/binding.h"
#include "transforms/pipeline.h"

#include <loopgrad/compile.h>

#include <chrono>

namespace loopgrad::backend {

struct EmitPlan;
struct EmittedFiles;

/// The run-time stack of a naive tape, where its target keeps it. Memory is kept from call to call.
class TapeStack {
 public:
  virtual ~TapeStack() = default;
  /// Before a forward run: nothing is on it.
  virtual void clear() = 0;
  /// After a forward run, and before each backward run: what the forward run has pushed is there (again), as popping
  /// leaves the data where it is.
  virtual void mark() = 0;
  virtual void rewind() = 0;
  virtual std::int64_t peak_bytes() const = 0;
};

/// One program, ready to run. Runs on any threads at once are right.
class Code {
 public:
  virtual ~Code() = default;
  /// `arrays`: all of the program, in order. `stack`: from the same backend, or null for a program without one.
  /// Throws RuntimeError and, before anything is written, UsageError.
  virtual void run(const Binding& arrays, TapeStack* stack, void* stream) const = 0;
  /// The same code with memory of its own, where runs would follow each other; null where they do not.
  virtual std::shared_ptr<const Code> independent() const { return nullptr; }
  /// Whether a graph of the caller's may refer to the arrays of past runs.
  virtual bool was_captured() const { return false; }
  /// Kernels of a device that the program consists of.
  virtual int kernel_count() const { return 0; }
  /// Where the times of parts were asked for: of each (see c_text/parts.h), in seconds, of all runs so far.
  virtual std::vector<double> part_seconds() const { return {}; }
  /// The number of the device that it was compiled for.
  virtual int device_index() const { return 0; }
};

/// The programs of one compilation, which outlive it.
using Programs = std::shared_ptr<const std::vector<ir::Program>>;
/// Why the kernels of each program look as they do, for comments in the generated code.
using KernelReasons = std::vector<std::vector<KernelDecision>>;

struct Compiled {
  std::vector<std::shared_ptr<const Code>> codes;  // one per program, in order
  std::string source;
  bool from_cache = false;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual const char* name() const = 0;
  /// Where arguments and tapes are.
  virtual const Memory& memory() const = 0;
  /// What programs are lowered for.
  virtual transforms::Machine machine(const CompileOptions& options) const = 0;
  /// Whether it executes the IR itself: the options `checked`, `trap_nan`, `f64` and `gpu_mapped` are its own.
  virtual bool interprets() const { return false; }
  /// The C++ or the like that `compile` compiles. Throws UsageError where there is none.
  virtual std::string source(const std::vector<ir::Program>& lowered, const KernelReasons& reasons) const = 0;
  /// `name`: what messages call all of the programs. `timed`: parts are timed, if the target can. Throws CompileError.
  virtual Compiled compile(const Programs& lowered, const CompileOptions& options, const std::string& name,
                           const KernelReasons& reasons, bool timed) const = 0;
  /// The files that a user compiles, from a plan that was made for this target. Throws UsageError where there are none.
  virtual EmittedFiles files(const EmitPlan& plan) const = 0;
  virtual std::unique_ptr<TapeStack> make_stack() const = 0;
};

/// Throws UsageError for what is no target.
const Backend& backend_of(Target target);

/// Whether programs run as they are written and stop by themselves where an index or a fact is wrong: they are not
/// mapped, and nothing is bounded or verified for them.
bool runs_as_written(const CompileOptions& options);

/// Says what took how long, where LOOPGRAD_TIME asks for it.
void report_time(const char* what, const std::string& program, std::chrono::steady_clock::time_point start);

/// The implementations.
const Backend& interpreter_backend();
const Backend& openmp_backend();
const Backend& cuda_backend();

}  // namespace loopgrad::backend

/// @file
/// Running programs and gradients on a target.
#pragma once

#include <loopgrad/arrays.h>
#include <loopgrad/autodiff.h>
#include <loopgrad/schedule.h>

#include <memory>

namespace loopgrad {
/// @addtogroup running
/// @{

/// What runs a program.
enum class Target {
  Interpreter,  ///< slow; needs no compiler, and finds mistakes with `CompileOptions::checked`
  OpenMP,       ///< C++ through the system compiler, on the threads of a CPU
  Cuda,         ///< CUDA C++ through NVRTC, on an NVIDIA GPU
};
/// As on the command line: "interpreter", "openmp", "cuda".
const char* name_of(Target target);

/// What is done about the facts that a program states, and about indices that only data tell.
enum class Facts {
  /// Facts are verified before anything is written, in every run whose index arrays are not `versioned`, and sizes for
  /// which an iteration leaves an array are refused with UsageError(BadIndex). An index that no fact bounds and that
  /// data decide, or whether it is used, is compared with the extent before something is written there, and so is the
  /// trip count of a loop with its `at_most`; what does not fit is left out, and the run throws RuntimeError(BadIndex).
  Verify,
  /// Nothing of this: a false fact or index reads and writes anywhere.
  Trust,
  /// As Verify, and every index is compared, also where something is read.
  CheckAccesses,
};
/// As on the command line: "verify", "trust", "check-accesses".
const char* name_of(Facts facts);

/// What is compiled for, and how. Fields that begin with a target's name are for that target only.
struct CompileOptions {
  Target target = Target::OpenMP;  ///< what runs the program
  bool checked = false;            ///< Interpreter: look for bad indices, uninitialised reads, races and false facts
  bool f64 = false;  ///< Interpreter: compute in f64 whatever the declared float types (arrays given must then be f64)
  bool gpu_mapped = false;      ///< Interpreter: run the program as it is mapped to the blocks and threads of a GPU
  bool trap_nan = false;        ///< Interpreter, with `checked`: an operation that makes a NaN of numbers is an error
  Facts facts = Facts::Verify;  ///< how much is looked at before and in a run
  int threads = 0;              ///< OpenMP: 0 means the OpenMP default (OMP_NUM_THREADS); at most 4096. A run takes
                                ///< fewer where the system makes no more; no result depends on it
  int threads_per_block = 0;    ///< Cuda: of every block, a power of two from 32 to 1024; 0 means as fits the loops
  Schedule schedule = {};       ///< of the program, or of a gradient's forward program
  Schedule backward_schedule = {};  ///< of a gradient's backward program
  /// Sizes that runs are expected to have: what the summation plan's estimates are based on (others count as 1024).
  /// Runs of other sizes are as right, and slower where another plan would have been better.
  Sizes expected_sizes = {};
};

/// Options of one run.
struct RunOptions {
  /// Cuda: the cudaStream_t to work on (null: the default stream). A run only starts the work and returns; it may be
  /// captured into a CUDA graph once a run with the same arguments has been made. Arguments are memory of the device.
  void* stream = nullptr;
};

/// A program ready to run. It and its copies, which share everything, may be used by any threads at once: each run has
/// memory for local arrays of its own, which later runs use again. With Target::Cuda, where a run only starts work,
/// runs of one executable follow each other on the device, whatever their streams.
class Executable {
 public:
  /// Checks all arguments first (names, types, ranks, extents, layout, overlap) and only then runs.
  /// Throws UsageError, or RuntimeError(BadFact), with nothing written; RuntimeError from checked execution and for
  /// indices out of range.
  void run(const Arguments& arguments, const Sizes& sizes = {}, const RunOptions& options = {}) const;
  /// The generated C++ or CUDA C++ (empty for the interpreter).
  const std::string& source() const;
  /// Milliseconds spent generating and compiling (or fetching from the cache), and whether the cache had it.
  /// @{
  double build_ms() const;
  bool from_cache() const;
  /// @}

  struct Impl;
  /// For loopgrad's own use: `compile` makes executables.
  explicit Executable(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<Impl> impl_;
};

/// Finds parallel loops, lowers and compiles a program. Throws CompileError, and TransformError or UsageError for a
/// step of `options.schedule` that is refused.
Executable compile(const Program& program, const CompileOptions& options = {});

/// A gradient ready to run; owns the tape between forward and backward and reuses it from call to call.
///
/// One object serves one thread at a time, as the tape is that of its last `forward`: a call while another one is under
/// way is refused with UsageError, and so is `backward` on a thread whose own `forward` has been followed by that of
/// another one. Threads that work at once get a copy each: copying is cheap, and copies share the compiled code only. A
/// copy has no tape before its first `forward`. A CUDA graph refers to the memory of the object that it was captured
/// from, which must live as long.
class GradientExecutable {
 public:
  /// Shares the compiled code and has no tape. May be made while `other` is running.
  /// @{
  GradientExecutable(const GradientExecutable& other);
  GradientExecutable& operator=(const GradientExecutable& other);
  /// @}
  /// Takes the tape along. Using the other one is a UsageError then.
  /// @{
  GradientExecutable(GradientExecutable&&) noexcept = default;
  GradientExecutable& operator=(GradientExecutable&&) noexcept = default;
  /// @}

  /// Runs the primal program and fills the tape. Arrays that only `backward` takes may be given too and are ignored.
  /// Throws as `Executable::run`, and RuntimeError(OutOfMemory) for a tape that does not fit.
  void forward(const Arguments& arguments, const Sizes& sizes = {}, const RunOptions& options = {}) const;
  /// Runs the backward program on the tape of the last `forward`. Takes `d_` arrays and those of the primal's arrays
  /// that the backward program reads (others may be given too and are ignored). Throws as `Executable::run`, and
  /// UsageError where no `forward` came before, or one with other sizes.
  void backward(const Arguments& arguments, const Sizes& sizes = {}, const RunOptions& options = {}) const;
  /// Bytes of tape (arrays, or the peak of the stack) after the last `forward`.
  std::int64_t tape_bytes() const;
  /// Cuda: the kernels that the forward and the backward program consist of (each may be launched many times).
  int kernel_count() const;
  /// What was compiled, with a report that also has what compiling decided.
  const Gradient& gradient() const;
  /// As of an Executable, of all programs of the gradient together.
  /// @{
  const std::string& source() const;
  double build_ms() const;
  bool from_cache() const;
  /// @}

  struct Impl;
  /// For loopgrad's own use: `compile` makes executables.
  explicit GradientExecutable(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<Impl> impl_;
};

/// Compiles the programs of a gradient into one unit. Throws as it does for a program.
GradientExecutable compile(const Gradient& gradient, const CompileOptions& options = {});
/// Differentiates and compiles; throws as `differentiate` and `compile`.
/// **Example:** `auto g = compile_gradient(program, {.wrt = {"x"}}); g.forward(args); g.backward(args);`
GradientExecutable compile_gradient(const Program& program, const GradientOptions& gradient = {},
                                    const CompileOptions& options = {});

/// @}
}  // namespace loopgrad

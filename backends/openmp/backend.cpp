// The target `openmp`: C++ for the system's compiler, loaded into this process.
#include "backends/interface/backend.h"
#include "backends/c_text/parts.h"
#include "backends/emit/plan.h"
#include "backends/jit/kernel_cache.h"
#include "backends/openmp/emitted_source.h"
#include "backends/openmp/emitter.h"
#include "backends/openmp/stack.h"
#include "backends/runtime/blas_library.h"
#include "backends/runtime/size_checks.h"
#include "backends/runtime/threads.h"
#include "backends/runtime/workspace.h"

#include <fmt/format.h>
#include <loopgrad/error.h>

#include <optional>

namespace loopgrad::backend {
namespace {

void check_status(int status, const std::string& program) {
  switch (static_cast<KernelStatus>(status)) {
    case KernelStatus::Ok: return;
    case KernelStatus::OutOfMemory:
      throw RuntimeError(
          {.code = ErrorCode::OutOfMemory,
           .message = "there is no memory for the local arrays or the stack; outputs may be partly written",
           .program = program,
           .hint = "run with smaller sizes or fewer threads"});
    case KernelStatus::BadStack:
      throw RuntimeError(
          {.code = ErrorCode::BadArgument,
           .message = "the stack of the forward run does not fit; gradients may be partly written",
           .program = program,
           .hint = "do not change arrays that steer loops or branches between forward() and backward()"});
  }
  throw InternalError("unknown kernel status " + std::to_string(status));
}

/// A function of a loaded library. Each run has a workspace of its own.
class OpenmpCode final : public Code {
 public:
  OpenmpCode(std::shared_ptr<const ir::Program> program, int threads, const KernelLibrary& library,
             const EmittedFunction& function)
      : program_(std::move(program)),
        threads_(threads),
        sizes_(*program_),
        library_(library),
        function_(reinterpret_cast<int (*)(const void*)>(library.function(function.name))),
        openmp_threads_(function.uses_threads ? reinterpret_cast<int (*)()>(library.function("omp_get_max_threads"))
                                              : nullptr),
        workspaces_(function.workspace_blocks),
        uses_blas_(function.uses_blas),
        seconds_(function.timed_parts > 0 ? static_cast<const double*>(library.function(function.name + "seconds"))
                                          : nullptr),
        timed_parts_(function.timed_parts) {}

  std::vector<double> part_seconds() const override {
    std::vector<double> seconds(seconds_, seconds_ + timed_parts_);
    const Parts parts(*program_);
    for (std::size_t k = 0; k < seconds.size(); ++k) {
      if (!parts.is_rest(parts.all()[k])) continue;  // which was timed with the parts in its loop
      for (std::size_t inner = k + 1; inner <= k + parts.count_in(parts.all()[k]); ++inner)
        seconds[k] -= seconds_[inner];
    }
    return seconds;
  }

  void run(const Binding& arrays, TapeStack* stack, void*) const override {
    auto workspace = workspaces_.take();
    run(arrays, static_cast<HostStack*>(stack), *workspace);
    // After an error its memory is given up: the next run may want it elsewhere.
    workspaces_.give(std::move(workspace));
  }

 private:
  void run(const Binding& binding, HostStack* stack, Workspace& workspace) const {
    if (workspace.checked_sizes.empty() || workspace.checked_sizes != binding.sizes) {
      sizes_.check(binding.sizes);
      workspace.checked_sizes = binding.sizes;
    }
    // The argument struct of the generated function: members of 8 bytes each, see EmittedFunction.
    std::vector<std::int64_t>& words = workspace.words;
    words.clear();
    for (const ir::Symbol& size : program_->sizes) words.push_back(binding.sizes.at(size));
    auto add_pointer = [&](const void* pointer) { words.push_back(reinterpret_cast<std::intptr_t>(pointer)); };
    for (const View& array : binding.arrays) add_pointer(array.data);
    add_pointer(stack ? &stack->kernel : nullptr);
    add_pointer(workspace.data());
    std::optional<BlasSession> blas;
    if (uses_blas_) blas.emplace();
    words.push_back(threads_of_run(blas ? &*blas : nullptr));
    if (blas) add_pointer(blas->kernel());
    check_status(function_(words.data()), program_->name);
  }

  /// The number that OpenMP is asked for; it may make fewer.
  int threads_of_run(const BlasSession* blas) const {
    if (!openmp_threads_) return 1;
    const int openmp = blas && blas->openmp_threads() > 0 ? blas->openmp_threads() : openmp_threads_();
    const int wanted = threads_ > 0 ? threads_ : openmp;
    if (wanted > most_threads_of_a_run)
      throw UsageError({.code = ErrorCode::BadArgument,
                        .message = fmt::format("OpenMP is set to {} threads, more than the {} that a run can have",
                                               wanted, most_threads_of_a_run),
                        .program = program_->name,
                        .hint = "set OMP_NUM_THREADS to the number of cores, or leave it out"});
    return available_threads(wanted);
  }

  const std::shared_ptr<const ir::Program> program_;
  const int threads_;
  const SizeChecks sizes_;
  const KernelLibrary library_;
  int (*const function_)(const void*);
  int (*const openmp_threads_)();  // null where nothing runs in parallel
  mutable WorkspacePool workspaces_;
  const bool uses_blas_;
  const double* const seconds_;  // of each part that is timed
  const int timed_parts_;
};

class OpenmpBackend final : public Backend {
 public:
  const char* name() const override { return "openmp"; }
  const Memory& memory() const override { return host_memory(); }
  transforms::Machine machine(const CompileOptions&) const override { return transforms::cpu_machine(); }
  std::string source(const std::vector<ir::Program>& lowered, const KernelReasons&) const override {
    return emit_openmp(lowered).source;
  }
  Compiled compile(const Programs& lowered, const CompileOptions& options, const std::string& name,
                   const KernelReasons&, bool timed) const override {
    auto start = std::chrono::steady_clock::now();
    EmittedUnit unit = emit_openmp(*lowered, {}, timed);
    report_time("emit OpenMP C++", name, start);
    start = std::chrono::steady_clock::now();
    const KernelLibrary library = load_kernels(unit.source, fmt::format("{} {}", required_flags, speed_flags), name);
    report_time(library.from_cache() ? "load from the kernel cache" : "compile", name, start);
    Compiled result{{}, std::move(unit.source), library.from_cache()};
    for (std::size_t i = 0; i < lowered->size(); ++i)
      result.codes.push_back(std::make_shared<OpenmpCode>(std::shared_ptr<const ir::Program>(lowered, &(*lowered)[i]),
                                                          options.threads, library, unit.functions[i]));
    return result;
  }
  EmittedFiles files(const EmitPlan& plan) const override {
    const InterfaceWords words = openmp_interface(plan);
    std::string source = openmp_source(plan);  // gives out the statuses that the header declares
    return {plan.name + ".h", header_text(plan, words), plan.name + ".cpp", std::move(source), words.build};
  }
  std::unique_ptr<TapeStack> make_stack() const override { return std::make_unique<HostStack>(); }
};

}  // namespace

const Backend& openmp_backend() {
  static const OpenmpBackend backend;
  return backend;
}

}  // namespace loopgrad::backend

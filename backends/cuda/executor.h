// Runs mapped programs on the device: the host's part of the program, as a sequence of launches.
#pragma once

#include "backends/cuda/device.h"
#include "backends/cuda/emitter.h"
#include "backends/cuda/kernel_times.h"
#include "backends/cuda/matrix_library.h"
#include "backends/runtime/binding.h"
#include "backends/runtime/size_checks.h"

#include <array>
#include <atomic>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

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

/// One mapped program with its loaded kernels. Keeps the memory of local arrays and the last few sequences of launches:
/// a run with arguments and sizes seen before allocates nothing, evaluates nothing, waits for nothing and, when it has
/// several launches, replays them as one graph in which independent kernels are side by side.
///
/// Runs may be started by any threads at once: one is started after the other, and on the device they follow each other
/// too, since they share that memory.
///
/// Runs on a stream that the caller captures become part of the caller's graph, which then refers to memory of this
/// object: it must live as long as that graph.
class Executor {
 public:
  /// The kernels' machine code. May be called later as well, and may throw.
  using Modules = std::function<Module(KernelForm form)>;

  /// `any_form`: the kernels exist in all forms, else as KernelForm::Wide.
  Executor(const ir::Program& program, const std::vector<CudaKernel>& kernels, Modules modules, bool any_form);

  /// The same kernels with memory of their own, on the same device. They are loaded by the first run.
  std::shared_ptr<Executor> independent() const;

  /// Starts the program on `stream`; returns before it has finished, except for programs with a stack, which wait.
  /// Throws UsageError before anything is started: another device is current, a stream of another device, blocks that
  /// the device cannot run, a captured stream when memory would have to be allocated. Throws RuntimeError naming
  /// program, kernel and call; OutOfMemory when the stack does not fit.
  void run(const Binding& binding, Stream stream, DeviceStack* stack, StackUse* use);

  /// The device that this was made for.
  int device_index() const { return device_; }
  /// Whether a graph of the caller's may refer to the arrays of past runs.
  bool was_captured() const { return captured_; }

 private:
  Executor(const ir::Program& program, const std::vector<CudaKernel>& kernels, Modules modules, bool any_form,
           int device);

  /// What a kernel declares itself, at most: 40 KiB of local arrays (reserve_locals.h), and sums of blocks.
  static constexpr std::int64_t declared_shared_bytes = 44 * 1024;

  struct Function {
    const void* code = nullptr;
    int most_threads = 0;                                                   // in a block
    std::int64_t allowed_shared_bytes = 48 * 1024 - declared_shared_bytes;  // of a launch
  };
  struct KernelState {
    std::array<Function, kernel_forms> forms;   // those of the modules that are loaded
    std::vector<std::shared_ptr<void>> memory;  // of each local
    std::vector<std::int64_t> memory_bytes;
  };
  struct HostLocal {
    std::shared_ptr<void> memory;
    std::int64_t bytes = 0;
  };

  /// What one run starts.
  struct Plan {
    std::vector<std::int64_t> key;  // sizes and pointers
    std::vector<Launch> launches;
    LaunchOrder order;
    Graph graph;
    std::vector<std::shared_ptr<void>> outgrown;  // memory that was replaced while planning and is used all the same
    int repeats = 0;
  };

  Plan& plan_for(const Binding& binding);
  [[noreturn]] void refuse_capture(const char* why) const;
  void make_plan(const Binding& binding);
  void choose_width();
  void load(KernelForm form);
  void visit(const ir::Stmt& s);
  void visit_allocate(const ir::Allocate& n);
  void visit_loop(const ir::For& n);
  void visit_contraction(const ir::Contraction& n);
  void prepare(std::size_t kernel);
  [[noreturn]] void refuse_local(const KernelLocal& local) const;
  std::int64_t elements_of(const KernelLocal& local) const;
  void place_locals(std::size_t kernel, Function& function, Launch& launch, std::vector<const void*>& own);
  std::int64_t value(const ir::Expr& e) const { return evaluate(e, symbols_); }
  void* grow(std::shared_ptr<void>& memory, std::int64_t& bytes, std::int64_t wanted);
  void replay(Plan& plan, Stream stream, bool capturing);
  void run_with_stack(const Plan& plan, Stream stream, DeviceStack& stack, StackUse& use);

  const ir::Program& program_;
  const std::vector<CudaKernel>& kernels_;
  const Modules modules_;
  const bool any_form_;
  std::array<std::optional<Module>, kernel_forms> loaded_;
  const int device_;
  const SizeChecks size_checks_;
  std::map<const ir::StmtNode*, std::size_t> kernel_of_;
  std::vector<KernelState> states_;
  std::map<const ir::ArrayDecl*, HostLocal> host_locals_;
  std::vector<std::shared_ptr<void>> captured_memory_;  // outgrown, but graphs of the caller's may use it
  std::shared_ptr<const MatrixLibrary> library_;        // once a run has needed it
  bool uses_stack_ = false;
  std::size_t lanes_ = 1;

  std::list<Plan> plans_;  // the latest first
  Order runs_;             // local arrays are shared by all runs
  std::atomic<bool> captured_ = false;
  std::optional<KernelTimes> times_;  // where they are asked for

  std::mutex mutex_;  // of everything that a run changes

  // While planning.
  Plan* plan_ = nullptr;
  bool capturing_ = false;
  bool narrow_ = false;    // for `chosen_for_`
  SizeValues chosen_for_;  // the program's sizes
  SizeValues symbols_;
  std::map<const ir::ArrayDecl*, void*> pointers_;
};

}  // namespace loopgrad::backend::cuda

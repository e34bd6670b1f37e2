#include "backends/stage.h"

#include "backends/cuda/nvrtc.h"
#include "backends/jit/cached_bytes.h"
#include "backends/runtime/blas_library.h"
#include "backends/runtime/threads.h"

#include <fmt/format.h>
#include <loopgrad/error.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <mutex>

namespace loopgrad::backend {
namespace {

ir::Program without_tape(ir::Program program) {
  std::erase_if(program.arrays, [](const ir::Array& array) { return array->role == ir::ArrayRole::Tape; });
  return program;
}

void check_options(const CompileOptions& options, const std::string& program) {
  auto refuse = [&](const std::string& message, const char* hint) {
    throw UsageError({.code = ErrorCode::BadArgument, .message = message, .program = program, .hint = hint});
  };
  if (options.target != Target::Interpreter && (options.checked || options.f64 || options.gpu_mapped))
    refuse("'checked', 'f64' and 'gpu_mapped' are options of the interpreter", "use Target::Interpreter");
  const int block = options.threads_per_block;
  if (block != 0 && options.target != Target::Cuda && !options.gpu_mapped)
    refuse("'threads_per_block' is an option of the target cuda", "use Target::Cuda, or leave it out");
  if (block != 0 && (block < 32 || block > 1024 || (block & (block - 1)) != 0))
    refuse(fmt::format("a block of {} threads is not possible", block), "use a power of two from 32 to 1024");
  if (options.threads < 0) refuse("the number of threads is negative", "use 0 for the OpenMP default");
  if (options.threads > most_threads_of_a_run)
    refuse(fmt::format("{} threads are more than the {} that a run can have", options.threads, most_threads_of_a_run),
           "use 0 for the OpenMP default");
}

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

[[noreturn]] void refuse_memory(const ir::ArrayDecl& array, const std::string& program, const std::string& message,
                                const std::string& hint) {
  throw UsageError({.code = ErrorCode::BadArgument,
                    .message = message,
                    .program = program,
                    .array = array.name,
                    .hint = hint,
                    .location = array.location});
}

/// What the caller says of the memory.
void check_device(const ir::ArrayDecl& array, const View& view, Device due, const std::string& program) {
  if (view.device == due) return;
  refuse_memory(array, program,
                fmt::format("this is {} memory, and the target works on {} memory", name_of(view.device), name_of(due)),
                due == Device::Cuda ? "copy it into a DeviceArray, or use device_view() for memory of the device"
                                    : "use Target::Cuda, or copy it to the host");
}

/// What the driver says of it. `device` is the number of the CUDA device that the program runs on.
void check_place(const ir::ArrayDecl& array, const View& view, Device due, int device, const std::string& program) {
  using Kind = cuda::Place::Kind;
  if (due == Device::Host) {
    // Asking starts the driver, so only processes that use it anyway do.
    if (cuda::in_use() && cuda::place_of(view.data).kind == Kind::OneDevice)
      refuse_memory(array, program, "the pointer is memory of a CUDA device",
                    "use Target::Cuda, or copy the array to the host");
    return;
  }
  if (element_count(view.shape, view.type, array.name) == 0) return;
  const cuda::Place place = cuda::place_of(view.data);
  if (place.kind == Kind::Host)
    refuse_memory(array, program, "the pointer is not memory of a CUDA device", "copy the array into a DeviceArray");
  if (place.kind == Kind::OneDevice && place.device != device)
    refuse_memory(array, program,
                  fmt::format("this is memory of CUDA device {}, and the program was compiled for device {}",
                              place.device, device),
                  "copy it there, or compile the program while its device is current");
}

void report_time(const char* what, const std::string& program, double milliseconds) {
  const char* const wanted = std::getenv("LOOPGRAD_TIME");
  if (wanted && *wanted && *wanted != '0')
    fmt::print(stderr, "loopgrad: {:>9.3f} ms  {} ({})\n", milliseconds, what, program);
}

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Stage::Stage(ir::Program program, const CompileOptions& options)
    : program_(std::move(program)),
      without_tape_(without_tape(program_)),
      options_(options),
      sizes_(std::make_shared<SizeChecks>(program_)) {}

Stage::Stage(ir::Program program, const CompileOptions& options, const KernelLibrary& library,
             const EmittedFunction& function)
    : Stage(std::move(program), options) {
  library_ = library;
  function_ = reinterpret_cast<int (*)(const void*)>(library.function(function.name));
  if (function.uses_threads) openmp_threads_ = reinterpret_cast<int (*)()>(library.function("omp_get_max_threads"));
  workspaces_ = std::make_shared<WorkspacePool>(function.workspace_blocks);
  uses_blas_ = function.uses_blas;
}

Stage::Stage(std::shared_ptr<const ir::Program> mapped, const CompileOptions& options,
             std::shared_ptr<const CudaUnit> unit, std::size_t index, cuda::Executor::Modules modules)
    : Stage(*mapped, options) {
  mapped_ = std::move(mapped);
  unit_ = std::move(unit);
  index_ = index;
  executor_ = std::make_shared<cuda::Executor>(*mapped_, unit_->kernels[index], std::move(modules), unit_->any_form);
}

Stage Stage::independent() const {
  Stage copy = *this;
  if (executor_) copy.executor_ = executor_->independent();
  if (records_) copy.records_ = records_->independent();
  if (orders_) copy.orders_ = orders_->independent();
  return copy;
}

void Stage::keep(std::vector<transforms::Record> records, transforms::KeptOrders orders) {
  if (!orders.arrays.empty()) {
    for (const ir::Array& array : orders.arrays) std::erase(without_tape_.arrays, array);
    std::erase(without_tape_.sizes, orders.stale);
    orders_ = std::make_shared<Orders>(std::move(orders), options_.target == Target::Cuda, program_.name);
  }
  std::erase_if(records, [](const transforms::Record& record) { return record.array == nullptr; });
  if (records.empty()) return;
  for (const transforms::Record& record : records) std::erase(without_tape_.arrays, record.array);
  records_ = std::make_shared<Records>(std::move(records), options_.target == Target::Cuda, program_.name);
}

bool Stage::was_captured() const { return executor_ && executor_->was_captured(); }
int Stage::kernel_count() const { return unit_ ? static_cast<int>(unit_->kernels[index_].size()) : 0; }

Binding Stage::bind(const Arguments& arguments, const Sizes& sizes, bool ignore_unknown) const {
  const Device due = options_.target == Target::Cuda ? Device::Cuda : Device::Host;
  for (const auto& [name, view] : arguments) {
    const ir::Array array = ir::find_array(without_tape_, name);
    if (array) check_device(*array, view, due, program_.name);
  }
  Binding binding =
      backend::bind(without_tape_, arguments, sizes, {.ignore_unknown = ignore_unknown, .all_f64 = options_.f64});
  const int device = executor_ ? executor_->device_index() : 0;
  for (std::size_t i = 0; i < binding.arrays.size(); ++i)
    check_place(*without_tape_.arrays[i], binding.arrays[i], due, device, program_.name);
  return binding;
}

void Stage::run(const Binding& bound, const std::map<std::string, View>& tape, TapeStack* stack, void* stream) const {
  Binding all{bound.sizes, {}};
  auto next = bound.arrays.begin();
  // Runs of one stage that may record something follow each other.
  std::unique_lock<std::mutex> turn;
  if (records_) turn = records_->turn();
  std::optional<Orders::Turn> orders;
  if (orders_) orders.emplace(orders_->begin(without_tape_, bound, stream));
  if (orders) all.sizes[orders_->kept().stale] = orders->is_stale() ? 1 : 0;
  for (const ir::Array& array : program_.arrays) {
    if (array->role == ir::ArrayRole::Tape) all.arrays.push_back(tape.at(array->name));
    else if (records_ && records_->holds(array)) all.arrays.push_back(records_->view_of(array));
    else if (orders && orders->holds(array)) all.arrays.push_back(orders->view_of(array));
    else all.arrays.push_back(*next++);
  }
  if (records_) records_->give_elements(all.arrays);
  try {
    run_on_target(all, stack, stream);
  } catch (...) {
    if (records_) records_->forget();
    throw;
  }
  if (records_) records_->check(bound.sizes, stream);
  if (orders) orders->succeed();
}

void Stage::run_on_target(const Binding& all, TapeStack* stack, void* stream) const {
  if (function_) return run_kernel(all, stack);
  if (executor_) return run_on_device(all, stack, stream);
  sizes_->check(all.sizes);
  const InterpreterOptions options{.f64 = options_.f64, .checked = options_.checked};
  interpret(program_, all, options, stack ? &stack->interpreter : nullptr);
}

/// The number that OpenMP is asked for; it may make fewer.
int Stage::threads_of_run(const BlasSession* blas) const {
  if (!openmp_threads_) return 1;
  const int openmp = blas && blas->openmp_threads() > 0 ? blas->openmp_threads() : openmp_threads_();
  const int wanted = options_.threads > 0 ? options_.threads : openmp;
  if (wanted > most_threads_of_a_run)
    throw UsageError({.code = ErrorCode::BadArgument,
                      .message = fmt::format("OpenMP is set to {} threads, more than the {} that a run can have",
                                             wanted, most_threads_of_a_run),
                      .program = program_.name,
                      .hint = "set OMP_NUM_THREADS to the number of cores, or leave it out"});
  return available_threads(wanted);
}

void Stage::run_kernel(const Binding& binding, TapeStack* stack) const {
  auto workspace = workspaces_->take();
  run_kernel(binding, stack, *workspace);
  // After an error its memory is given up: the next run may want it elsewhere.
  workspaces_->give(std::move(workspace));
}

void Stage::run_kernel(const Binding& binding, TapeStack* stack, Workspace& workspace) const {
  if (workspace.checked_sizes.empty() || workspace.checked_sizes != binding.sizes) {
    sizes_->check(binding.sizes);
    workspace.checked_sizes = binding.sizes;
  }
  // The argument struct of the generated function: members of 8 bytes each, see EmittedFunction.
  std::vector<std::int64_t>& words = workspace.words;
  words.clear();
  for (const ir::Symbol& size : program_.sizes) words.push_back(binding.sizes.at(size));
  auto add_pointer = [&](const void* pointer) { words.push_back(reinterpret_cast<std::intptr_t>(pointer)); };
  for (const View& array : binding.arrays) add_pointer(array.data);
  add_pointer(stack ? &stack->kernel : nullptr);
  add_pointer(workspace.data());
  std::optional<BlasSession> blas;
  if (uses_blas_) blas.emplace();
  words.push_back(threads_of_run(blas ? &*blas : nullptr));
  if (blas) add_pointer(blas->kernel());
  check_status(function_(words.data()), program_.name);
}

void Stage::run_on_device(const Binding& binding, TapeStack* stack, void* stream) const {
  if (!stack) return executor_->run(binding, stream, nullptr, nullptr);
  cuda::StackUse use{stack->kernel.size, stack->kernel.peak};
  executor_->run(binding, stream, &stack->device, &use);
  stack->kernel.size = use.size;
  stack->kernel.peak = use.peak;
}

namespace {

/// Device machine code of a unit, from the cache or compiled for the device found, when it is first asked for.
class DeviceCode {
 public:
  /// Throws RuntimeError(NoDevice).
  DeviceCode(std::shared_ptr<const CudaUnit> unit, const std::string& name)
      : unit_(std::move(unit)), name_(name), architecture_(cuda::device(name).architecture) {}

  cuda::Module module(KernelForm form) {
    std::lock_guard lock(mutex_);
    std::optional<cuda::Module>& module = modules_[static_cast<std::size_t>(form)];
    if (module) return *module;
    const auto start = std::chrono::steady_clock::now();
    const std::string source = unit_->source(form);
    const bool found = with_cached_bytes(
        CacheFolder(name_), CacheKey({source, architecture_, nvrtc_version(name_), nvrtc_flags()}, ".cubin"),
        [&] { return compile_cubin(source, architecture_, name_); },
        [&](const std::string& cubin) { module.emplace(cubin, name_); });
    report_time(found ? "load from the kernel cache" : "compile", name_, milliseconds_since(start));
    all_from_cache_ &= found;
    return *module;
  }
  bool all_from_cache() const { return all_from_cache_; }

 private:
  const std::shared_ptr<const CudaUnit> unit_;
  const std::string name_, architecture_;
  std::mutex mutex_;
  std::array<std::optional<cuda::Module>, kernel_forms> modules_;
  bool all_from_cache_ = true;
};

Build build_for_device(const std::vector<ir::Program>& mapped, const std::vector<std::vector<KernelDecision>>& reasons,
                       const std::string& name, const CompileOptions& options) {
  Build build;
  const auto start = std::chrono::steady_clock::now();
  auto programs = std::make_shared<const std::vector<ir::Program>>(mapped);
  auto unit = std::make_shared<const CudaUnit>(emit_cuda(*programs, reasons));
  report_time("emit CUDA C++", name, milliseconds_since(start));
  const auto code = std::make_shared<DeviceCode>(unit, name);
  for (std::size_t i = 0; i < programs->size(); ++i)
    build.stages.emplace_back(std::shared_ptr<const ir::Program>(programs, &(*programs)[i]), options, unit, i,
                              [code](KernelForm form) { return code->module(form); });
  build.source = unit->source();
  build.from_cache = code->all_from_cache();
  return build;
}

}  // namespace

Build build_stages(const std::vector<ir::Program>& lowered, const CompileOptions& options, const std::string& given,
                   const std::vector<std::vector<KernelDecision>>& reasons) {
  Build build;
  const std::string& name = given.empty() ? lowered.back().name : given;
  check_options(options, name);
  if (options.target == Target::Interpreter) {
    for (const ir::Program& program : lowered) build.stages.emplace_back(program, options);
    return build;
  }
  if (options.target == Target::Cuda) return build_for_device(lowered, reasons, name, options);
  auto start = std::chrono::steady_clock::now();
  EmittedUnit unit = emit_openmp(lowered);
  report_time("emit OpenMP C++", name, milliseconds_since(start));
  start = std::chrono::steady_clock::now();
  const KernelLibrary library = load_kernels(unit.source, name);
  report_time(library.from_cache() ? "load from the kernel cache" : "compile", name, milliseconds_since(start));
  for (std::size_t i = 0; i < lowered.size(); ++i)
    build.stages.emplace_back(lowered[i], options, library, unit.functions[i]);
  build.source = std::move(unit.source);
  build.from_cache = library.from_cache();
  return build;
}

}  // namespace loopgrad::backend

#include "backends/cuda/executor.h"

#include "backends/cuda/device_checks.h"
#include "backends/cuda/index_width.h"
#include "backends/runtime/blas_library.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/visit.h"

#include <fmt/format.h>
#include <loopgrad/error.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace loopgrad::backend::cuda {
namespace {

constexpr std::int64_t most_grid_x = 2147483647, most_grid_yz = 65535;
constexpr std::int64_t most_shared_bytes = 64 * 1024;  // of local arrays: more would leave few blocks on a processor
constexpr std::size_t fewest_graph_launches = 2, most_graph_launches = 50000, most_launches = 4000000;
constexpr std::int64_t stack_capacity = std::int64_t{4} << 30;

constexpr std::int64_t most_spare_bytes = std::int64_t{64} << 20;
constexpr std::size_t most_lanes = 4;  // kernels side by side
constexpr std::size_t most_plans = 4;  // arguments and sizes that a caller takes turns with

std::int64_t round_up(std::int64_t bytes, std::int64_t step) { return (bytes + step - 1) / step * step; }

std::int64_t threads_in_block(const Launch& launch) {
  return std::int64_t{launch.threads[0]} * launch.threads[1] * launch.threads[2];
}

/// The user wants each launch reported on its own.
bool launch_blocking() {
  const char* const wanted = std::getenv("CUDA_LAUNCH_BLOCKING");
  return wanted && *wanted == '1';
}

}  // namespace

Executor::Executor(const ir::Program& program, const std::vector<CudaKernel>& kernels, Modules modules, bool any_form)
    : Executor(program, kernels, std::move(modules), any_form, current_device()) {
  load(any_form_ ? KernelForm::OneTurn : KernelForm::Wide);
}

std::shared_ptr<Executor> Executor::independent() const {
  return std::shared_ptr<Executor>(new Executor(program_, kernels_, modules_, any_form_, device_));
}

Executor::Executor(const ir::Program& program, const std::vector<CudaKernel>& kernels, Modules modules, bool any_form,
                   int device)
    : program_(program),
      kernels_(kernels),
      modules_(std::move(modules)),
      any_form_(any_form),
      device_(device),
      size_checks_(program) {
  for (std::size_t k = 0; k < kernels_.size(); ++k) {
    const CudaKernel& kernel = kernels_[k];
    kernel_of_[kernel.node] = k;
    KernelState& state = states_.emplace_back();
    state.memory.resize(kernel.locals.size());
    state.memory_bytes.resize(kernel.locals.size());
    uses_stack_ |= kernel.uses_stack;
  }
  const bool may_overlap = !ir::aliased_arrays(program_).empty();
  lanes_ = may_overlap || uses_stack_ ? 1 : most_lanes;
}

/// The machine code of one form, unless it is there.
void Executor::load(KernelForm form) {
  std::optional<Module>& module = loaded_[static_cast<std::size_t>(form)];
  if (module) return;
  if (capturing_) refuse_capture("it would have to load kernels for larger sizes");
  const Module loaded = modules_(form);
  for (std::size_t k = 0; k < kernels_.size(); ++k) {
    Function& function = states_[k].forms[static_cast<std::size_t>(form)];
    function.code = loaded.function(kernels_[k].name, program_.name);
    function.most_threads = most_threads(function.code, {program_.name, kernels_[k].name});
  }
  module = loaded;
}

void Executor::run(const Binding& binding, Stream stream, DeviceStack* stack, StackUse* use) {
  const std::lock_guard lock(mutex_);
  check_current_device(device_, current_device(), program_.name);
  capturing_ = is_capturing(stream);
  if (!capturing_) check_stream(stream, device_, program_.name);
  const bool stacked = uses_stack_ && stack && use;
  if (stacked && capturing_) refuse_capture("a program with a stack waits for its end");
  Plan& plan = plan_for(binding);
  note_started(program_.name);
  // What is captured is ordered by the graph that it becomes a part of, and by whoever launches that.
  if (!capturing_) runs_.follow(stream, program_.name);
  if (capturing_) {
    captured_ = true;
    captured_memory_.insert(captured_memory_.end(), plan.outgrown.begin(), plan.outgrown.end());
  }
  if (stacked) run_with_stack(plan, stream, *stack, *use);
  else replay(plan, stream, capturing_);
  if (!capturing_) runs_.note(stream, program_.name);
}

void Executor::replay(Plan& plan, Stream stream, bool capturing) {
  if (capturing) return record_launches(plan.launches, plan.order, stream, program_.name);
  if (times_kernels()) {
    if (!times_) times_.emplace(program_.name);
    return times_->run(plan.launches, stream);
  }
  const std::size_t count = plan.launches.size();
  const bool worth = count >= fewest_graph_launches && count <= most_graph_launches;
  if (worth && plan.repeats > 0 && !launch_blocking()) {
    if (!plan.graph) plan.graph = Graph(plan.launches, plan.order, program_.name);
    return plan.graph.launch(stream, program_.name);
  }
  for (const Launch& one : plan.launches) launch(one, stream, program_.name);
}

void Executor::refuse_capture(const char* why) const {
  throw UsageError({.code = ErrorCode::BadArgument,
                    .message = std::string("this run cannot be captured into a CUDA graph: ") + why,
                    .program = program_.name,
                    .hint = "make one run with the same arguments and sizes before the capture; programs with a "
                            "stack (the naive tape) cannot be captured"});
}

void Executor::run_with_stack(const Plan& plan, Stream stream, DeviceStack& stack, StackUse& use) {
  if (!stack.bytes) {
    stack.bytes = allocate(stack_capacity, program_.name);
    stack.capacity = stack_capacity;
    stack.state = allocate(sizeof use, program_.name);
  }
  copy_to_device(stack.state.get(), &use, sizeof use, stream);
  for (Launch one : plan.launches) {
    one.parameters.push_back(reinterpret_cast<std::intptr_t>(stack.bytes.get()));
    one.parameters.push_back(stack.capacity);
    one.parameters.push_back(reinterpret_cast<std::intptr_t>(stack.state.get()));
    launch(one, stream, program_.name);
  }
  copy_to_host(&use, stack.state.get(), sizeof use, stream);
  if (use.peak > stack.capacity)
    throw RuntimeError(
        {.code = ErrorCode::OutOfMemory,
         .message = fmt::format("the stack of the naive tape needs {} bytes and has {}", use.peak, stack.capacity),
         .program = program_.name,
         .hint = "run with smaller sizes, or use another variant"});
  if (use.size < 0)
    throw RuntimeError({.code = ErrorCode::BadArgument,
                        .message = "the stack of the forward run does not fit; gradients may be partly written",
                        .program = program_.name,
                        .hint = "do not change arrays that steer loops or branches between forward() and backward()"});
}

// Planning: the host's part of the program is executed once, its launches are written down.

Executor::Plan& Executor::plan_for(const Binding& binding) {
  std::vector<std::int64_t> key;
  for (const auto& [symbol, size] : binding.sizes) key.push_back(size);
  for (const View& view : binding.arrays) key.push_back(reinterpret_cast<std::intptr_t>(view.data));
  const auto found = std::find_if(plans_.begin(), plans_.end(), [&](const Plan& plan) { return plan.key == key; });
  if (found != plans_.end()) {
    plans_.splice(plans_.begin(), plans_, found);
    ++plans_.front().repeats;
    return plans_.front();
  }
  plans_.push_front(
      {.key = {}, .launches = {}, .order = LaunchOrder(lanes_), .graph = {}, .outgrown = {}, .repeats = 0});
  try {
    make_plan(binding);
  } catch (...) {
    plans_.pop_front();
    throw;
  }
  plans_.front().key = std::move(key);
  while (!capturing_ && plans_.size() > most_plans) plans_.pop_back();  // which waits
  return plans_.front();
}

void Executor::choose_width() {
  if (any_form_ && symbols_ != chosen_for_) {
    narrow_ = has_narrow_indices(program_, symbols_);
    chosen_for_ = symbols_;
  }
  load(narrow_ ? KernelForm::OneTurn : KernelForm::Wide);
}

void Executor::make_plan(const Binding& binding) {
  plan_ = &plans_.front();
  symbols_ = binding.sizes;
  size_checks_.check(symbols_);
  choose_width();
  pointers_.clear();
  for (std::size_t i = 0; i < program_.arrays.size(); ++i) pointers_[program_.arrays[i].get()] = binding.arrays[i].data;
  visit(program_.body);
}

void Executor::visit(const ir::Stmt& s) {
  if (!s) return;
  if (const auto found = kernel_of_.find(s.get()); found != kernel_of_.end()) return prepare(found->second);
  if (const auto* n = s.as<ir::Block>()) {
    for (const ir::Stmt& child : n->body) visit(child);
  } else if (const auto* branch = s.as<ir::If>()) {
    visit(value(branch->condition) ? branch->then_body : branch->else_body);
  } else if (const auto* local_array = s.as<ir::Allocate>()) {
    visit_allocate(*local_array);
  } else if (const auto* loop = s.as<ir::For>()) {
    visit_loop(*loop);
  } else if (const auto* product = s.as<ir::Contraction>()) {
    visit_contraction(*product);
  } else {
    throw InternalError("the host has been left a statement that only a kernel can execute");
  }
}

void Executor::visit_allocate(const ir::Allocate& n) {
  HostLocal& local = host_locals_[n.array.get()];
  const auto shape = shape_of(n.array, symbols_);
  const std::int64_t bytes =
      element_count(shape, n.array->type, n.array->name) * static_cast<std::int64_t>(bytes_of(n.array->type));
  pointers_[n.array.get()] = grow(local.memory, local.bytes, bytes);
  visit(n.body);
}

void Executor::visit_loop(const ir::For& n) {
  const std::int64_t from = value(n.lower), to = value(n.upper);
  for (std::int64_t k = 0; k < to - from; ++k) {
    symbols_[n.iterator] = n.mode == ir::LoopMode::Backward ? to - 1 - k : from + k;
    visit(n.body);
  }
  symbols_.erase(n.iterator);
}

/// By the library where there is one and it pays, else by the loops.
void Executor::visit_contraction(const ir::Contraction& n) {
  std::array<std::int64_t, 4> e{};
  for (std::size_t d = 0; d < e.size(); ++d) e[d] = value(n.extents[d]);
  const bool empty = std::any_of(e.begin(), e.end(), [](std::int64_t extent) { return extent < 1; });
  if (empty || !is_worth_a_library(e[0], e[1], e[2], e[3]) || !MatrixLibrary::found()) return visit(n.loops);
  auto matrix = [&](const ir::Array& array, const std::vector<ir::Expr>& place) {
    auto* const base = static_cast<char*>(pointers_.at(array.get()));
    return DeviceMatrix{base + value(place[0]) * static_cast<std::int64_t>(bytes_of(array->type)), value(place[1]),
                        value(place[2]), value(place[3])};
  };
  const auto product = normalized({.type = n.c->type,
                                   .batch = e[0],
                                   .m = e[1],
                                   .n = e[2],
                                   .k = e[3],
                                   .alpha = n.alpha,
                                   .beta = n.overwrites ? 0.0 : 1.0,
                                   .a = matrix(n.a, n.a_place),
                                   .b = matrix(n.b, n.b_place),
                                   .c = matrix(n.c, n.c_place)});
  if (!product) return visit(n.loops);
  if (!library_) {
    if (capturing_) refuse_capture("it would have to open cuBLAS");
    library_ = std::make_shared<const MatrixLibrary>(program_.name);
  }
  Launch launch;
  launch.product = std::make_shared<const Product>(*product);
  launch.library = library_;
  plan_->launches.push_back(std::move(launch));
  const void *a = pointers_.at(n.a.get()), *b = pointers_.at(n.b.get()), *c = pointers_.at(n.c.get());
  // One workspace: products of a run follow each other.
  plan_->order.add({a, b, c}, {c, library_->workspace()});
}

/// Memory of at least `wanted` bytes; what was there is kept when it is large enough. Launches of this plan may use the
/// old memory, so the plan keeps it; other plans are made anew when they are wanted again.
void* Executor::grow(std::shared_ptr<void>& memory, std::int64_t& bytes, std::int64_t wanted) {
  if (memory && bytes >= wanted) return memory.get();
  if (capturing_) refuse_capture("it would have to allocate memory");
  // What has grown once often does so in every step of a loop.
  if (memory) wanted = std::max(wanted, bytes + std::min(bytes / 2, most_spare_bytes));
  std::shared_ptr<void> larger = allocate(wanted, program_.name);
  if (memory) {
    plan_->outgrown.push_back(memory);
    if (captured_) captured_memory_.push_back(memory);
    plans_.erase(std::next(plans_.begin()), plans_.end());
  }
  memory = std::move(larger);
  bytes = wanted;
  return memory.get();
}

void Executor::prepare(std::size_t k) {
  const CudaKernel& kernel = kernels_[k];
  Launch launch;
  launch.kernel = &kernel.name;
  std::size_t axis = 0;
  bool one_turn = true;
  for (auto it = kernel.grid.rbegin(); it != kernel.grid.rend(); ++it, axis = std::min<std::size_t>(axis + 1, 2)) {
    std::int64_t extent = value((*it)->upper) - value((*it)->lower);
    if (extent <= 0) return;
    if (axis == 0 && kernel.teams) extent = (extent + value(kernel.teams) - 1) / value(kernel.teams);
    const std::int64_t most = axis == 0 ? most_grid_x : most_grid_yz;
    // Several loops share z; an extent above `most` is reached in several turns.
    const std::int64_t all = launch.grid[axis] * std::min(extent, most);
    one_turn &= extent <= most && all <= most;
    launch.grid[axis] = static_cast<unsigned>(std::min(all, most));
  }
  // Blocks with memory of their own take turns in every form.
  one_turn |= !kernel.locals.empty();
  const KernelForm form = !narrow_ ? KernelForm::Wide : one_turn ? KernelForm::OneTurn : KernelForm::Narrow;
  load(form);
  Function& function = states_[k].forms[static_cast<std::size_t>(form)];
  launch.function = function.code;
  for (std::size_t d = 0; d < kernel.threads.size(); ++d)
    launch.threads[d] = static_cast<unsigned>(value(kernel.threads[d]));
  if (kernel.teams) launch.threads[1] = static_cast<unsigned>(value(kernel.teams));
  for (const ir::Symbol& symbol : kernel.symbols) launch.parameters.push_back(symbols_.at(symbol));
  std::vector<const void*> touched, written;
  for (const ir::Array& array : kernel.arrays) {
    touched.push_back(pointers_.at(array.get()));
    launch.parameters.push_back(reinterpret_cast<std::intptr_t>(touched.back()));
  }
  for (const std::size_t index : kernel.written) written.push_back(touched[index]);
  check_block(threads_in_block(launch), function.most_threads, kernel.name, program_.name);
  place_locals(k, function, launch, written);
  if (plan_->launches.size() >= most_launches)
    throw RuntimeError({.code = ErrorCode::BadSize,
                        .message = fmt::format("more than {} kernel launches in one run", most_launches),
                        .program = program_.name,
                        .hint = "run with smaller sizes, or use Target::OpenMP"});
  plan_->launches.push_back(std::move(launch));
  plan_->order.add(touched, written);
}

void Executor::refuse_local(const KernelLocal& local) const {
  throw UsageError({.code = ErrorCode::BadSize,
                    .message = "the bytes of a local array do not fit in 64 bits",
                    .program = program_.name,
                    .array = local.array->name,
                    .hint = "use smaller sizes"});
}

/// Of one part, with room for accesses of four; its bytes leave room for rounding up.
std::int64_t Executor::elements_of(const KernelLocal& local) const {
  constexpr std::int64_t most_bytes = std::numeric_limits<std::int64_t>::max() - 1024;
  std::int64_t count = 1;
  for (const ir::Expr& extent : local.shape)
    if (__builtin_mul_overflow(count, std::max<std::int64_t>(value(extent), 0), &count)) refuse_local(local);
  if (count > most_bytes / static_cast<std::int64_t>(bytes_of(local.array->type))) refuse_local(local);
  return round_up(count, 4);
}

/// `own`: gets the memory that the launch has for itself, which the kernel's next launch uses again.
void Executor::place_locals(std::size_t k, Function& function, Launch& launch, std::vector<const void*>& own) {
  const CudaKernel& kernel = kernels_[k];
  KernelState& state = states_[k];
  if (kernel.locals.empty()) return;
  const DeviceInfo& info = device(program_.name);
  std::vector<std::int64_t> elements;
  std::int64_t shared = 0, per_thread = 0;
  for (const KernelLocal& local : kernel.locals) {
    elements.push_back(elements_of(local));
    const std::int64_t bytes = elements.back() * static_cast<std::int64_t>(bytes_of(local.array->type));
    std::int64_t& sum = local.per_thread ? per_thread : shared;
    if (__builtin_add_overflow(sum, round_up(bytes, 16), &sum)) refuse_local(local);
  }
  const bool fits = shared <= std::min(most_shared_bytes, info.shared_bytes - declared_shared_bytes);
  // With memory of their own there are only as many blocks as run at once; each takes several turns.
  const std::int64_t threads = threads_in_block(launch);
  if (per_thread > 0 || !fits) {
    std::int64_t most =
        std::max<std::int64_t>(info.processors * (info.threads_per_processor / std::max<std::int64_t>(threads, 32)), 1);
    for (unsigned& extent : launch.grid) {
      extent = static_cast<unsigned>(std::min<std::int64_t>(extent, most));
      most = std::max<std::int64_t>(most / extent, 1);
    }
  }
  const std::int64_t blocks = std::int64_t{launch.grid[0]} * launch.grid[1] * launch.grid[2];
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < kernel.locals.size(); ++i) {
    const KernelLocal& local = kernel.locals[i];
    const std::int64_t bytes = elements[i] * static_cast<std::int64_t>(bytes_of(local.array->type));
    if (!local.per_thread && fits) {
      launch.parameters.push_back(0);
      launch.parameters.push_back(offset);
      offset += round_up(bytes, 16);
      continue;
    }
    std::int64_t all = 0;
    if (__builtin_mul_overflow(bytes, local.per_thread ? blocks * threads : blocks, &all)) refuse_local(local);
    void* const memory = grow(state.memory[i], state.memory_bytes[i], all);
    own.push_back(memory);
    launch.parameters.push_back(reinterpret_cast<std::intptr_t>(memory));
    launch.parameters.push_back(elements[i]);
  }
  launch.shared_bytes = offset;
  if (offset > function.allowed_shared_bytes) {
    allow_shared_memory(function.code, offset, {program_.name, kernel.name});
    function.allowed_shared_bytes = offset;
  }
}

}  // namespace loopgrad::backend::cuda

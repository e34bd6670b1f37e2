#include "backends/cuda/executor.h"

#include "dsl/ir/visit.h"

#include <fmt/format.h>
#include <loopgrad/error.h>

#include <algorithm>

namespace loopgrad::backend::cuda {
namespace {

constexpr std::int64_t most_grid_x = 2147483647, most_grid_yz = 65535;
constexpr std::int64_t most_shared_bytes = 64 * 1024;  // of local arrays: more would leave few blocks on a processor
constexpr std::size_t fewest_graph_launches = 2, most_graph_launches = 50000, most_launches = 4000000;
constexpr std::int64_t stack_capacity = std::int64_t{4} << 30;

std::int64_t round_up(std::int64_t bytes, std::int64_t step) { return (bytes + step - 1) / step * step; }

}  // namespace

Executor::Executor(const ir::Program& program, const std::vector<CudaKernel>& kernels, const Module& module)
    : program_(program), kernels_(kernels), module_(module) {
  for (std::size_t k = 0; k < kernels_.size(); ++k) {
    kernel_of_[kernels_[k].node] = k;
    states_.emplace_back().function = module_.function(kernels_[k].name, program_.name);
    states_.back().memory.resize(kernels_[k].locals.size());
    states_.back().memory_bytes.resize(kernels_[k].locals.size());
  }
}

void Executor::run(const Binding& binding, Stream stream, DeviceStack* stack, StackUse* use) {
  std::vector<std::int64_t> key;
  for (const auto& [symbol, size] : binding.sizes) key.push_back(size);
  for (const View& view : binding.arrays) key.push_back(reinterpret_cast<std::intptr_t>(view.data));
  // Local arrays are shared by all runs.
  if (stream != last_stream_ && !key_.empty() && !is_capturing(stream)) synchronize(last_stream_, {program_.name, ""});
  last_stream_ = stream;
  if (key != key_) {
    key_.clear();
    graph_ = {};
    repeats_ = 0;
    plan(binding);
    key_ = std::move(key);
  } else {
    ++repeats_;
  }
  const bool stacked = std::any_of(kernels_.begin(), kernels_.end(), [](const CudaKernel& k) { return k.uses_stack; });
  if (stacked && stack && use) return run_with_stack(stream, *stack, *use);
  replay(stream);
}

void Executor::replay(Stream stream) {
  const bool worth = launches_.size() >= fewest_graph_launches && launches_.size() <= most_graph_launches;
  if (worth && repeats_ > 0 && !is_capturing(stream)) {
    if (!graph_) graph_ = Graph(launches_, program_.name);
    return graph_.launch(stream, program_.name);
  }
  for (const Launch& one : launches_) launch(one, stream, program_.name);
}

void Executor::run_with_stack(Stream stream, DeviceStack& stack, StackUse& use) {
  if (!stack.bytes) {
    stack.bytes = allocate(stack_capacity, program_.name);
    stack.capacity = stack_capacity;
    stack.state = allocate(sizeof use, program_.name);
  }
  copy_to_device(stack.state.get(), &use, sizeof use, stream);
  for (Launch one : launches_) {
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

void Executor::plan(const Binding& binding) {
  launches_.clear();
  retired_.clear();
  symbols_ = binding.sizes;
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
    visit(product->loops);
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

/// Memory of at least `wanted` bytes; what was there is kept when it is large enough. Launches that were planned before
/// may still use the old memory, so growing during a plan keeps it alive: it is given back with the next plan only.
void* Executor::grow(std::shared_ptr<void>& memory, std::int64_t& bytes, std::int64_t wanted) {
  if (!memory || bytes < wanted) {
    if (memory) retired_.push_back(memory);
    memory = allocate(wanted, program_.name);
    bytes = wanted;
  }
  return memory.get();
}

void Executor::prepare(std::size_t k) {
  const CudaKernel& kernel = kernels_[k];
  Launch launch;
  launch.function = states_[k].function;
  launch.kernel = &kernel.name;
  std::int64_t axis = 0;
  for (auto it = kernel.grid.rbegin(); it != kernel.grid.rend(); ++it, ++axis) {
    const std::int64_t extent = value((*it)->upper) - value((*it)->lower);
    if (extent <= 0) return;
    const std::int64_t most = axis == 0 ? most_grid_x : most_grid_yz;
    if (axis < 3) launch.grid[static_cast<std::size_t>(axis)] = static_cast<unsigned>(std::min(extent, most));
  }
  for (std::size_t d = 0; d < kernel.threads.size(); ++d)
    launch.threads[d] = static_cast<unsigned>(value(kernel.threads[d]));
  for (const ir::Symbol& symbol : kernel.symbols) launch.parameters.push_back(symbols_.at(symbol));
  for (const ir::Array& array : kernel.arrays)
    launch.parameters.push_back(reinterpret_cast<std::intptr_t>(pointers_.at(array.get())));
  place_locals(k, launch);
  if (launches_.size() >= most_launches)
    throw RuntimeError({.code = ErrorCode::BadSize,
                        .message = fmt::format("more than {} kernel launches in one run", most_launches),
                        .program = program_.name,
                        .hint = "run with smaller sizes, or use Target::OpenMP"});
  launches_.push_back(std::move(launch));
}

void Executor::place_locals(std::size_t k, Launch& launch) {
  const CudaKernel& kernel = kernels_[k];
  KernelState& state = states_[k];
  if (kernel.locals.empty()) return;
  const DeviceInfo& info = device(program_.name);
  std::vector<std::int64_t> elements;
  std::int64_t shared = 0, per_thread = 0;
  for (const KernelLocal& local : kernel.locals) {
    std::int64_t count = 1;
    for (const ir::Expr& extent : local.shape)
      if (__builtin_mul_overflow(count, std::max<std::int64_t>(value(extent), 0), &count))
        throw UsageError({.code = ErrorCode::BadSize,
                          .message = "the extents of a local array overflow",
                          .program = program_.name,
                          .array = local.name,
                          .hint = "use other sizes"});
    elements.push_back(round_up(count, 4));
    const std::int64_t bytes = elements.back() * static_cast<std::int64_t>(bytes_of(local.type));
    (local.per_thread ? per_thread : shared) += round_up(bytes, 16);
  }
  const bool fits = shared <= std::min(most_shared_bytes, info.shared_bytes - 16 * 1024);
  // With memory of their own there are only as many blocks as run at once; each takes several turns.
  const std::int64_t threads = std::int64_t{launch.threads[0]} * launch.threads[1] * launch.threads[2];
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
    const std::int64_t bytes = elements[i] * static_cast<std::int64_t>(bytes_of(local.type));
    if (!local.per_thread && fits) {
      launch.parameters.push_back(0);
      launch.parameters.push_back(offset);
      offset += round_up(bytes, 16);
      continue;
    }
    const std::int64_t parts = local.per_thread ? blocks * threads : blocks;
    void* const memory = grow(state.memory[i], state.memory_bytes[i], bytes * parts);
    launch.parameters.push_back(reinterpret_cast<std::intptr_t>(memory));
    launch.parameters.push_back(elements[i]);
  }
  launch.shared_bytes = offset;
  if (offset > state.allowed_shared_bytes) {
    allow_shared_memory(state.function, offset, {program_.name, kernel.name});
    state.allowed_shared_bytes = offset;
  }
}

}  // namespace loopgrad::backend::cuda

// Where the modules meet: programs are lowered, emitted and made callable.
#include <loopgrad/compile.h>

#include "backends/fact_verifier.h"
#include "backends/stage.h"
#include "dsl/ir/known_scalars.h"
#include "transforms/bound_accesses.h"
#include "transforms/cpu/map_to_cpu.h"
#include "transforms/gpu/map_to_gpu.h"
#include "transforms/pipeline.h"

#include <loopgrad/device_array.h>
#include <loopgrad/error.h>

#include <chrono>

namespace loopgrad {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// A program as it runs, and what it notes meanwhile.
struct Lowered {
  ir::Program program;
  std::vector<transforms::Record> records = {};
};

/// What of the program decides for a target.
struct LowerInput {
  const ir::Program& program;
  transforms::SumMode mode;
  const Schedule& schedule = {};
  bool records_trips = true;  // it is the first to run loops with a promised trip count
};

/// The passes that every target shares, then those of the target.
Lowered lower_for(const CompileOptions& options, const LowerInput& input, Report& report) {
  const bool map = (options.target == Target::Cuda || options.gpu_mapped) && input.mode != transforms::SumMode::Serial;
  const std::int64_t tree_blocks = map ? transforms::gpu_tree_blocks : transforms::cpu_tree_blocks;
  // The interpreter stops by itself.
  const bool bounded = options.facts != Facts::Trust && (options.target != Target::Interpreter || options.gpu_mapped);
  transforms::Record trips, indices;
  ir::Program source = ir::with_known_bounds(input.program);
  if (bounded) {
    source = transforms::bound_trips(source, input.records_trips ? &trips : nullptr);
    source = transforms::bound_accesses(source, options.facts == Facts::CheckAccesses, indices);
  }
  const ir::Program lowered =
      transforms::lower(source, input.mode, report, {input.schedule, options.expected_sizes, tree_blocks});
  const std::vector<transforms::Record> records = {trips, indices};
  if (map) return {transforms::map_to_gpu(lowered, {options.threads_per_block}), records};
  return {options.target == Target::OpenMP ? transforms::map_to_cpu(lowered) : lowered, records};
}

/// Compiles what verifies the facts of `program` together with `lowered`.
backend::Build build(const std::vector<Lowered>& lowered, const std::string& name, const CompileOptions& options,
                     backend::FactVerifier& facts) {
  const bool verifies = (options.target != Target::Interpreter || options.gpu_mapped) &&
                        options.facts != Facts::Trust && !ir::is_empty(facts.program().body);
  std::vector<ir::Program> programs;
  for (const Lowered& one : lowered) programs.push_back(one.program);
  Report ignored;  // nobody is interested in how facts are verified
  CompileOptions for_facts = options;
  for_facts.facts = Facts::Trust;
  for_facts.schedule = {};
  if (verifies)
    programs.push_back(lower_for(for_facts, {facts.program(), transforms::SumMode::Restructured}, ignored).program);
  backend::Build result = backend::build_stages(programs, options, name);
  for (std::size_t i = 0; i < lowered.size(); ++i) result.stages[i].keep(lowered[i].records);
  if (!verifies) {
    facts.use(backend::Stage(facts.program(), options), options);
    return result;
  }
  facts.use(std::move(result.stages.back()), options);
  result.stages.pop_back();
  return result;
}

}  // namespace

const char* name_of(Facts facts) {
  switch (facts) {
    case Facts::Verify: return "verify";
    case Facts::Trust: return "trust";
    case Facts::CheckAccesses: return "check-accesses";
  }
  return "?";
}

const char* name_of(Target target) {
  switch (target) {
    case Target::Interpreter: return "interpreter";
    case Target::OpenMP: return "openmp";
    case Target::Cuda: return "cuda";
  }
  return "?";
}

struct Executable::Impl {
  explicit Impl(const ir::Program& program) : facts(program) {}
  backend::Build build;
  backend::FactVerifier facts;
};

Executable compile(const Program& program, const CompileOptions& options) {
  const auto start = Clock::now();
  Report report;
  const Lowered lowered =
      lower_for(options, {program.ir(), transforms::SumMode::Restructured, options.schedule}, report);
  auto impl = std::make_shared<Executable::Impl>(program.ir());
  impl->build = build({lowered}, program.name(), options, impl->facts);
  impl->build.milliseconds = milliseconds_since(start);
  return Executable(std::move(impl));
}

void Executable::run(const Arguments& arguments, const Sizes& sizes, const RunOptions& options) const {
  const backend::Stage& stage = impl_->build.stages.front();
  const backend::Binding bound = stage.bind(arguments, sizes);
  impl_->facts.verify(arguments, sizes, options.stream);
  stage.run(bound, {}, nullptr, options.stream);
}

const std::string& Executable::source() const { return impl_->build.source; }
double Executable::build_ms() const { return impl_->build.milliseconds; }
bool Executable::from_cache() const { return impl_->build.from_cache; }

// Gradients.

namespace {

transforms::SumMode mode_of(Variant variant) {
  switch (variant) {
    case Variant::NaiveTape: return transforms::SumMode::Serial;
    case Variant::Atomic: return transforms::SumMode::Atomic;
    case Variant::Restructured: return transforms::SumMode::Restructured;
  }
  throw InternalError("unknown variant");
}

/// One tape array, where the target works.
struct TapeArray {
  HostArray host;
  DeviceArray device;
  View view() const { return device.data() ? device.view() : host.view(); }
  std::int64_t bytes() const { return device.data() ? device.bytes() : host.bytes(); }
};

bool declares(const ir::Program& program, const std::string& array) {
  return ir::find_array(program, array) != nullptr;
}

}  // namespace

struct GradientExecutable::Impl {
  explicit Impl(Gradient g) : gradient(std::move(g)), facts(gradient.forward.ir()) {}

  const backend::Stage& sizing() const { return build.stages[0]; }
  const backend::Stage& forward() const { return build.stages[1]; }
  const backend::Stage& backward() const { return build.stages[2]; }

  Sizes computed_sizes(const Arguments& arguments, const Sizes& sizes, void* stream) const;
  std::map<std::string, View> tape_views() const;
  void allocate_tape(const backend::SizeValues& sizes);
  Sizes sizes_of_last_forward(const Sizes& given) const;

  Gradient gradient;
  CompileOptions options;
  backend::Build build;
  backend::FactVerifier facts;
  // The state that forward() leaves to backward().
  bool has_run_forward = false;
  Sizes sizes;
  std::map<std::string, TapeArray> tape;
  std::vector<TapeArray> captured_tape;  // outgrown, but graphs of the caller's may still use it
  backend::TapeStack stack;
  std::int64_t stack_size = 0;
};

/// Runs the sizing program; its rank-0 results are sizes of the others.
Sizes GradientExecutable::Impl::computed_sizes(const Arguments& arguments, const Sizes& given, void* stream) const {
  const ir::Program& program = sizing().program();
  Sizes results = given;
  if (ir::is_empty(program.body)) return results;
  std::map<std::string, std::int64_t> values;
  Arguments all = arguments;
  std::map<std::string, DeviceArray> on_device;
  for (const ir::Array& array : program.arrays) {
    if (array->role != ir::ArrayRole::Output) continue;
    all[array->name] = view(&values[array->name], {});
    if (options.target != Target::Cuda) continue;
    on_device[array->name] = DeviceArray(ScalarType::I64, {});
    all[array->name] = on_device[array->name].view();
  }
  sizing().run(sizing().bind(all, given, true), {}, nullptr, stream);
  for (const auto& [name, array] : on_device) array.download(&values[name]);
  for (const auto& [name, value] : values) results[name] = value;
  return results;
}

std::map<std::string, View> GradientExecutable::Impl::tape_views() const {
  std::map<std::string, View> views;
  for (const auto& [name, array] : tape) views[name] = array.view();
  return views;
}

/// Keeps what fits from the last call.
void GradientExecutable::Impl::allocate_tape(const backend::SizeValues& values) {
  for (const ir::Array& array : forward().program().arrays) {
    if (array->role != ir::ArrayRole::Tape) continue;
    const auto shape = backend::shape_of(array, values);
    const ScalarType type = options.f64 && is_float(array->type) ? ScalarType::F64 : array->type;
    TapeArray& memory = tape[array->name];
    const View last = memory.view();
    if (last.data && last.shape == shape) continue;
    if (forward().was_captured()) captured_tape.push_back(memory);
    memory = {};  // released before the new one is asked for
    try {
      if (options.target == Target::Cuda) memory.device = DeviceArray(type, shape);
      else memory.host = HostArray(type, shape);
    } catch (const RuntimeError& error) {  // which does not know what the memory is for
      ErrorInfo info = error.info();
      info.program = forward().program().name;
      info.array = array->name;
      throw RuntimeError(info);
    }
  }
}

/// The sizes for backward(): those of forward(), which `given` may repeat but not contradict.
Sizes GradientExecutable::Impl::sizes_of_last_forward(const Sizes& given) const {
  Sizes all = given;
  for (const ir::Symbol& size : backward().program().sizes) {
    const auto known = sizes.find(size.name);
    if (known == sizes.end()) continue;
    const auto [it, added] = all.insert(*known);
    if (!added && it->second != known->second)
      throw UsageError({.code = ErrorCode::BadSize,
                        .message = "backward() is given size '" + size.name + "' = " + std::to_string(it->second) +
                                   ", but forward() ran with " + std::to_string(known->second),
                        .program = backward().program().name,
                        .hint = "run forward() with these sizes first"});
  }
  return all;
}

void GradientExecutable::forward(const Arguments& arguments, const Sizes& sizes, const RunOptions& options) const {
  Impl& impl = *impl_;
  impl.facts.verify(arguments, sizes, options.stream);  // first: trip counts are read from what facts are about
  const Sizes all = impl.computed_sizes(arguments, sizes, options.stream);
  const backend::Binding bound = impl.forward().bind(arguments, all);
  impl.has_run_forward = false;
  impl.allocate_tape(bound.sizes);
  impl.sizes.clear();
  for (const auto& [symbol, value] : bound.sizes) impl.sizes[symbol.name] = value;
  impl.stack.kernel.size = impl.stack.kernel.peak = 0;
  impl.stack.interpreter = {};
  impl.forward().run(bound, impl.tape_views(), &impl.stack, options.stream);
  impl.stack_size = impl.stack.kernel.size;
  impl.has_run_forward = true;
}

void GradientExecutable::backward(const Arguments& arguments, const Sizes& sizes, const RunOptions& options) const {
  Impl& impl = *impl_;
  const ir::Program& program = impl.backward().program();
  if (!impl.has_run_forward)
    throw UsageError({.code = ErrorCode::BadArgument,
                      .message = "backward() is called before forward()",
                      .program = program.name,
                      .hint = "call forward() first: it fills the tape"});
  for (const auto& [name, array] : arguments)
    if (!declares(program, name) && !declares(impl.forward().program(), name))
      throw UsageError({.code = ErrorCode::BadArgument,
                        .message = "there is no array of this name",
                        .program = program.name,
                        .array = name,
                        .hint = "gradients are named d_<array>"});
  const backend::Binding bound = impl.backward().bind(arguments, impl.sizes_of_last_forward(sizes), true);
  impl.facts.verify_others(program, bound);
  // Popping leaves the data where it is, so that backward() can be repeated.
  impl.stack.kernel.size = impl.stack_size;
  const backend::ValueStack kept = impl.stack.interpreter;
  impl.backward().run(bound, impl.tape_views(), &impl.stack, options.stream);
  impl.stack.interpreter = kept;
}

std::int64_t GradientExecutable::tape_bytes() const {
  std::int64_t bytes = impl_->stack.kernel.peak + impl_->stack.interpreter.peak_bytes;
  for (const auto& [name, array] : impl_->tape) bytes += array.bytes();
  return bytes;
}

int GradientExecutable::kernel_count() const {
  return impl_->forward().kernel_count() + impl_->backward().kernel_count();
}

const Gradient& GradientExecutable::gradient() const { return impl_->gradient; }
const std::string& GradientExecutable::source() const { return impl_->build.source; }
double GradientExecutable::build_ms() const { return impl_->build.milliseconds; }
bool GradientExecutable::from_cache() const { return impl_->build.from_cache; }

GradientExecutable compile(const Gradient& gradient, const CompileOptions& options) {
  const auto start = Clock::now();
  auto impl = std::make_shared<GradientExecutable::Impl>(gradient);
  const transforms::SumMode mode = mode_of(gradient.variant);
  std::vector<Lowered> lowered;
  Report ignored;  // how the sizing program runs interests nobody
  lowered.push_back(lower_for(options, {gradient.sizing.ir(), mode, {}, false}, ignored));
  lowered.push_back(lower_for(options, {gradient.forward.ir(), mode, options.schedule}, impl->gradient.report));
  lowered.push_back(
      lower_for(options, {gradient.backward.ir(), mode, options.backward_schedule, false}, impl->gradient.report));
  impl->options = options;
  impl->build = build(lowered, gradient.backward.name(), options, impl->facts);
  impl->build.milliseconds = milliseconds_since(start);
  return GradientExecutable(std::move(impl));
}

GradientExecutable compile_gradient(const Program& program, const GradientOptions& gradient,
                                    const CompileOptions& options) {
  return compile(differentiate(program, gradient), options);
}

}  // namespace loopgrad

// Where the modules meet: programs are lowered, emitted and made callable.
#include <loopgrad/compile.h>

#include "backends/compile_together.h"
#include "backends/fact_verifier.h"
#include "backends/lowering.h"
#include "backends/runtime/size_checks.h"
#include "backends/stage.h"
#include "dsl/frontend/out_of_memory.h"

#include <loopgrad/error.h>

#include <atomic>
#include <chrono>
#include <set>
#include <thread>

namespace loopgrad {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// The programs of one executable, and what verifies its facts.
struct Part {
  std::vector<transforms::Lowered> lowered;
  const CompileOptions& options;
  backend::FactVerifier& facts;

  bool verifies() const { return backend::verifies(facts.program(), options); }
};

/// Facts that no program verifies: its arguments are bound all the same.
backend::Stage bound_only(const Part& part) {
  return {std::make_shared<const ir::Program>(part.facts.program()), part.options, nullptr};
}

/// One compilation of all parts. The result has the stages of the parts one after the other, without those that verify
/// facts, which the verifiers get.
backend::Build build(const std::vector<Part>& parts, const std::string& name, bool timed = false) {
  std::vector<ir::Program> programs;
  backend::KernelReasons reasons;
  for (const Part& part : parts) {
    for (const transforms::Lowered& one : part.lowered) {
      programs.push_back(one.program);
      reasons.push_back(one.kernels);
    }
    if (!part.verifies()) continue;
    programs.push_back(backend::lowered_facts(part.facts.program(), part.options));
    reasons.emplace_back();
  }
  backend::Build result = backend::build_stages(programs, parts.front().options, name, reasons, timed);
  std::vector<backend::Stage> stages;
  auto next = result.stages.begin();
  for (const Part& part : parts) {
    for (const transforms::Lowered& one : part.lowered) {
      stages.push_back(std::move(*next++));
      stages.back().keep(one.records, one.kept);
    }
    part.facts.use(part.verifies() ? std::move(*next++) : bound_only(part), part.options);
  }
  result.stages = std::move(stages);
  return result;
}

/// What an executable stands for; refuses one that was moved from or made from nothing.
template <class Impl>
Impl& required(const std::shared_ptr<Impl>& impl) {
  if (!impl)
    throw UsageError({.code = ErrorCode::BadArgument,
                      .message = "this executable holds nothing",
                      .hint = "it was moved from, or made from a null pointer: use the one that it was moved to"});
  return *impl;
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

struct Executable::Impl {
  explicit Impl(const ir::Program& program) : facts(program), bounds(program) {}
  backend::Build build;
  backend::FactVerifier facts;
  const backend::WrittenBounds bounds;
};

Executable compile(const Program& program, const CompileOptions& options) {
  return reporting_memory(program.name(), [&] {
    const auto start = Clock::now();
    Report report;
    auto impl = std::make_shared<Executable::Impl>(program.ir());
    const auto lowering = backend::lowering_of(options, transforms::SumMode::Restructured, options.schedule);
    std::vector<transforms::Lowered> lowered = {transforms::lower_for(program.ir(), lowering, report)};
    impl->build = build({{std::move(lowered), options, impl->facts}}, program.name());
    impl->build.milliseconds = milliseconds_since(start);
    return Executable(std::move(impl));
  });
}

void Executable::run(const Arguments& arguments, const Sizes& sizes, const RunOptions& options) const {
  const backend::Stage& stage = required(impl_).build.stages.front();
  reporting_memory(stage.program().name, [&] {
    const backend::Binding bound = stage.bind(arguments, sizes);
    impl_->bounds.check(bound.sizes, stage.program().name);
    impl_->facts.verify(arguments, sizes, options.stream);
    stage.run(bound, {}, nullptr, options.stream);
  });
}

const std::string& Executable::source() const { return required(impl_).build.source; }
double Executable::build_ms() const { return required(impl_).build.milliseconds; }
bool Executable::from_cache() const { return required(impl_).build.from_cache; }

// Gradients.

namespace {

bool declares(const ir::Program& program, const std::string& array) {
  return ir::find_array(program, array) != nullptr;
}

/// What copies of a gradient share.
struct GradientCode {
  GradientCode(const Gradient& g, const CompileOptions& o) : gradient(g), bounds(g.verified().ir()), options(o) {}

  Gradient gradient;
  backend::WrittenBounds bounds;
  CompileOptions options;
  std::string source;
  double milliseconds = 0;
  bool from_cache = false;
};

/// Whose forward run the tape holds, so that no thread takes that of another one for its own.
class TapeOwner {
 public:
  void note_forward() {
    const auto me = std::this_thread::get_id();
    if (waits_for_backward_ && last_ != me) overtaken_.insert(last_);
    overtaken_.erase(me);
    last_ = me;
    waits_for_backward_ = true;
  }
  void note_backward() { waits_for_backward_ = false; }
  bool is_overtaken() const { return overtaken_.count(std::this_thread::get_id()) > 0; }

 private:
  std::thread::id last_;
  bool waits_for_backward_ = false;
  std::set<std::thread::id> overtaken_;  // their forward runs have been followed by another thread's
};

/// The right to change a gradient's state, for the time of one call.
class Turn {
 public:
  Turn(std::atomic<bool>& taken, const std::string& program) : taken_(taken) {
    if (!taken_.exchange(true, std::memory_order_acquire)) return;
    throw UsageError({.code = ErrorCode::BadArgument,
                      .message = "forward() or backward() is called while another thread is in one of them",
                      .program = program,
                      .hint = "give each thread a copy of the GradientExecutable: copies have a tape each"});
  }
  ~Turn() { taken_.store(false, std::memory_order_release); }
  Turn(const Turn&) = delete;

 private:
  std::atomic<bool>& taken_;
};

}  // namespace

struct GradientExecutable::Impl {
  Impl(std::shared_ptr<const GradientCode> shared, std::vector<backend::Stage> three,
       std::unique_ptr<backend::FactVerifier> verifier)
      : code(std::move(shared)), stages(std::move(three)), facts(std::move(verifier)), stack(target().make_stack()) {}

  /// The same gradient without a tape. Reads only what never changes, so `this` may be in use.
  std::shared_ptr<Impl> independent() const {
    std::vector<backend::Stage> own;
    for (const backend::Stage& stage : stages) own.push_back(stage.independent());
    return std::make_shared<Impl>(code, std::move(own), facts->independent());
  }

  const backend::Backend& target() const { return backend::backend_of(code->options.target); }
  const backend::Memory& memory() const { return target().memory(); }
  const backend::Stage& sizing() const { return stages[0]; }
  const backend::Stage& forward() const { return stages[1]; }
  const backend::Stage& backward() const { return stages[2]; }

  Sizes computed_sizes(const Arguments& arguments, const Sizes& sizes, void* stream);
  std::map<std::string, View> tape_views() const;
  Arguments of_forward(const Arguments& arguments) const;
  bool is_of_backward_alone(const std::string& name) const;
  void run_forward(const Arguments& arguments, const Sizes& sizes, void* stream);
  void run_backward(const Arguments& arguments, const Sizes& sizes, void* stream);
  void check_budget(const Sizes& computed) const;
  void allocate_tape(const backend::SizeValues& sizes);
  void note_tape_bytes();
  Sizes sizes_of_last_forward(const Sizes& given) const;
  void check_backward(const Arguments& arguments) const;

  const std::shared_ptr<const GradientCode> code;
  const std::vector<backend::Stage> stages;
  const std::unique_ptr<backend::FactVerifier> facts;
  std::atomic<bool> taken = false;  // everything below is the caller's whose Turn it is
  // The state that forward() leaves to backward().
  bool has_run_forward = false;
  TapeOwner owner;
  Sizes sizes;
  backend::SizeValues lengths_for;                           // sizes of the last sizing run
  Sizes lengths;                                             // what it found
  std::map<std::string, backend::OwnedArray> length_memory;  // where it writes that
  std::map<std::string, backend::OwnedArray> tape;
  std::vector<backend::OwnedArray> captured_tape;  // outgrown, but graphs of the caller's may still use it
  const std::unique_ptr<backend::TapeStack> stack;
  std::atomic<std::int64_t> tape_bytes = 0;  // may be asked for at any time
};

/// Runs the sizing program; its rank-0 results are sizes of the others. Where no data decide, what it found for the
/// same sizes is known.
Sizes GradientExecutable::Impl::computed_sizes(const Arguments& arguments, const Sizes& given, void* stream) {
  const ir::Program& program = sizing().program();
  Sizes results = given;
  if (ir::is_empty(program.body)) return results;
  Arguments all = arguments;
  for (const ir::Array& array : program.arrays) {
    if (array->role != ir::ArrayRole::Output) continue;
    backend::OwnedArray& value = length_memory[array->name];
    if (!value.owner) value = memory().make_array(ScalarType::I64, {});
    all[array->name] = value.view;
  }
  const backend::Binding bound = sizing().bind(all, given, true);
  const std::vector<ir::Array>& own = code->gradient.sizing.ir().arrays;
  const bool of_sizes =
      std::all_of(own.begin(), own.end(), [](const ir::Array& a) { return a->role == ir::ArrayRole::Output; });
  if (!of_sizes || lengths.empty() || lengths_for != bound.sizes) {
    lengths.clear();
    sizing().run(bound, {}, nullptr, stream);
    memory().synchronize();
    for (const auto& [name, array] : length_memory)
      memory().copy_out(&lengths[name], array.view.data, array.bytes, nullptr);
    lengths_for = bound.sizes;
  }
  for (const auto& [name, value] : lengths) results[name] = value;
  return results;
}

std::map<std::string, View> GradientExecutable::Impl::tape_views() const {
  std::map<std::string, View> views;
  for (const auto& [name, array] : tape) views[name] = array.view;
  return views;
}

/// Before memory is asked for.
void GradientExecutable::Impl::check_budget(const Sizes& computed) const {
  const std::int64_t most = code->gradient.max_tape_bytes;
  if (most <= 0) return;
  const auto needed = computed.find("needed_tape_bytes");
  if (needed == computed.end() || needed->second <= most) return;
  throw RuntimeError({.code = ErrorCode::OutOfMemory,
                      .message = "the tape takes at least " + std::to_string(needed->second) +
                                 " bytes at these sizes, more than max_tape_bytes = " + std::to_string(most),
                      .program = forward().program().name,
                      .hint = "allow that many; `explain` says which loops can run again in place of a tape"});
}

/// Keeps what fits from the last call.
void GradientExecutable::Impl::allocate_tape(const backend::SizeValues& values) {
  for (const ir::Array& array : forward().program().arrays) {
    if (array->role != ir::ArrayRole::Tape) continue;
    const auto shape = backend::shape_of(array, values);
    const ScalarType type = code->options.f64 && is_float(array->type) ? ScalarType::F64 : array->type;
    backend::OwnedArray& last = tape[array->name];
    if (last.owner && last.view.shape == shape) continue;
    if (forward().was_captured()) captured_tape.push_back(last);
    last = {};  // released before the new one is asked for
    try {
      last = memory().make_array(type, shape);
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

void GradientExecutable::Impl::note_tape_bytes() {
  std::int64_t bytes = stack->peak_bytes();
  for (const auto& [name, array] : tape) bytes += array.bytes;
  tape_bytes = bytes;
}

/// Without the arrays that only the backward program has, so that both take one map.
Arguments GradientExecutable::Impl::of_forward(const Arguments& arguments) const {
  Arguments own = arguments;
  std::erase_if(own, [&](const auto& argument) { return is_of_backward_alone(argument.first); });
  return own;
}

bool GradientExecutable::Impl::is_of_backward_alone(const std::string& name) const {
  return !declares(forward().program(), name) && declares(backward().program(), name);
}

void GradientExecutable::Impl::run_forward(const Arguments& arguments, const Sizes& given, void* stream) {
  for (const auto& [name, view] : arguments)
    if (is_of_backward_alone(name)) return run_forward(of_forward(arguments), given, stream);
  facts->verify(arguments, given, stream);  // first: trip counts are read from what facts are about
  const Sizes computed = computed_sizes(arguments, given, stream);
  check_budget(computed);
  const backend::Binding bound = forward().bind(arguments, computed);
  code->bounds.check(bound.sizes, forward().program().name);
  owner.note_forward();
  has_run_forward = false;
  allocate_tape(bound.sizes);
  sizes.clear();
  for (const auto& [symbol, value] : bound.sizes) sizes[symbol.name] = value;
  stack->clear();
  forward().run(bound, tape_views(), stack.get(), stream);
  stack->mark();
  has_run_forward = true;
  note_tape_bytes();
}

/// That there is a tape for this thread, and no unknown array.
void GradientExecutable::Impl::check_backward(const Arguments& arguments) const {
  const ir::Program& program = backward().program();
  auto refuse = [&](const char* message, const char* hint, const std::string& array = {}) {
    throw UsageError(
        {.code = ErrorCode::BadArgument, .message = message, .program = program.name, .array = array, .hint = hint});
  };
  if (!has_run_forward) refuse("backward() is called before forward()", "call forward() first: it fills the tape");
  if (owner.is_overtaken())
    refuse("another thread has called forward() since this one did, so the tape is not that of this thread",
           "give each thread a copy of the GradientExecutable: copies have a tape each");
  for (const auto& [name, array] : arguments)
    if (!declares(program, name) && !declares(forward().program(), name))
      refuse("there is no array of this name", "gradients are named d_<array>", name);
}

void GradientExecutable::Impl::run_backward(const Arguments& arguments, const Sizes& given, void* stream) {
  check_backward(arguments);
  const backend::Binding bound = backward().bind(arguments, sizes_of_last_forward(given), true);
  facts->verify_others(backward().program(), bound);
  stack->rewind();
  backward().run(bound, tape_views(), stack.get(), stream);
  owner.note_backward();
  note_tape_bytes();
}

void GradientExecutable::forward(const Arguments& arguments, const Sizes& sizes, const RunOptions& options) const {
  const std::string& program = required(impl_).forward().program().name;
  const Turn turn(impl_->taken, program);
  reporting_memory(program, [&] { impl_->run_forward(arguments, sizes, options.stream); });
}

void GradientExecutable::backward(const Arguments& arguments, const Sizes& sizes, const RunOptions& options) const {
  const std::string& program = required(impl_).backward().program().name;
  const Turn turn(impl_->taken, program);
  reporting_memory(program, [&] { impl_->run_backward(arguments, sizes, options.stream); });
}

GradientExecutable::GradientExecutable(const GradientExecutable& other)
    : impl_(other.impl_ ? other.impl_->independent() : nullptr) {}

GradientExecutable& GradientExecutable::operator=(const GradientExecutable& other) {
  if (this != &other) impl_ = other.impl_ ? other.impl_->independent() : nullptr;
  return *this;
}

std::int64_t GradientExecutable::tape_bytes() const { return required(impl_).tape_bytes; }

int GradientExecutable::kernel_count() const {
  return required(impl_).forward().kernel_count() + required(impl_).backward().kernel_count();
}

const Gradient& GradientExecutable::gradient() const { return required(impl_).code->gradient; }
const std::string& GradientExecutable::source() const { return required(impl_).code->source; }
double GradientExecutable::build_ms() const { return required(impl_).code->milliseconds; }
bool GradientExecutable::from_cache() const { return required(impl_).code->from_cache; }

std::vector<GradientExecutable> backend::compile_together(const std::vector<Gradient>& gradients,
                                                          const std::vector<CompileOptions>& options,
                                                          std::vector<PartTimes>* times) {
  const auto start = Clock::now();
  std::vector<std::shared_ptr<GradientCode>> codes;
  std::vector<std::unique_ptr<FactVerifier>> verifiers;
  std::vector<Part> parts;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const Gradient& gradient = gradients[i];
    const CompileOptions& own = options[i];
    auto code = std::make_shared<GradientCode>(gradient, own);
    Report& report = code->gradient.report;
    LoweredGradient one = lower_gradient(gradient, own, report, report);
    std::vector<transforms::Lowered> lowered;
    for (transforms::Lowered* part : {&one.sizing, &one.forward, &one.backward}) lowered.push_back(std::move(*part));
    verifiers.push_back(std::make_unique<FactVerifier>(gradient.verified().ir()));
    parts.push_back({std::move(lowered), own, *verifiers.back()});
    codes.push_back(std::move(code));
  }
  const Build all = build(parts, gradients.back().backward.name(), times != nullptr);
  std::vector<GradientExecutable> result;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const auto first = all.stages.begin() + static_cast<std::ptrdiff_t>(3 * i);
    codes[i]->source = all.source;
    codes[i]->from_cache = all.from_cache;
    codes[i]->milliseconds = milliseconds_since(start);
    std::vector<Stage> own(first, first + 3);
    if (times)
      times->push_back({[forward = own[1]] { return forward.part_seconds(); },
                        [backward = own[2]] { return backward.part_seconds(); }});
    result.push_back(GradientExecutable(
        std::make_shared<GradientExecutable::Impl>(std::move(codes[i]), std::move(own), std::move(verifiers[i]))));
  }
  return result;
}

GradientExecutable compile(const Gradient& gradient, const CompileOptions& options) {
  return reporting_memory(gradient.backward.name(), [&] {
    std::vector<GradientExecutable> one = backend::compile_together({gradient}, {options});
    return std::move(one.front());
  });
}

GradientExecutable compile_gradient(const Program& program, const GradientOptions& gradient,
                                    const CompileOptions& options) {
  return compile(differentiate(program, gradient), options);
}

}  // namespace loopgrad

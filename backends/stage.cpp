#include "backends/stage.h"

#include <fmt/format.h>
#include <loopgrad/error.h>

#include <chrono>
#include <cstdio>

namespace loopgrad::backend {
namespace {

ir::Program without_tape(ir::Program program) {
  std::erase_if(program.arrays, [](const ir::Array& array) { return array->role == ir::ArrayRole::Tape; });
  return program;
}

void check_options(const CompileOptions& options, const std::string& program) {
  auto refuse = [&](const char* message, const char* hint) {
    throw UsageError({.code = ErrorCode::BadArgument, .message = message, .program = program, .hint = hint});
  };
  if (options.target == Target::OpenMP && (options.checked || options.f64))
    refuse("'checked' and 'f64' are options of the interpreter", "use Target::Interpreter");
  if (options.threads < 0) refuse("the number of threads is negative", "use 0 for the OpenMP default");
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
    : program_(std::move(program)), without_tape_(without_tape(program_)), options_(options) {}

Stage::Stage(ir::Program program, const CompileOptions& options, const KernelLibrary& library,
             const EmittedFunction& function)
    : Stage(std::move(program), options) {
  library_ = library;
  function_ = reinterpret_cast<int (*)(const void*)>(library.function(function.name));
  workspace_ = std::make_shared<Workspace>(function.workspace_blocks);
}

Binding Stage::bind(const Arguments& arguments, const Sizes& sizes, bool ignore_unknown) const {
  return backend::bind(without_tape_, arguments, sizes, {.ignore_unknown = ignore_unknown, .all_f64 = options_.f64});
}

void Stage::run(const Binding& bound, const std::map<std::string, HostArray>& tape, TapeStack* stack) const {
  Binding all{bound.sizes, {}};
  auto next = bound.arrays.begin();
  for (const ir::Array& array : program_.arrays)
    all.arrays.push_back(array->role == ir::ArrayRole::Tape ? tape.at(array->name).view() : *next++);
  if (function_) return run_kernel(all, stack);
  const InterpreterOptions options{.f64 = options_.f64, .checked = options_.checked};
  interpret(program_, all, options, stack ? &stack->interpreter : nullptr);
}

void Stage::run_kernel(const Binding& binding, TapeStack* stack) const {
  // The argument struct of the generated function: members of 8 bytes each, see EmittedFunction.
  std::vector<std::int64_t> words;
  for (const ir::Symbol& size : program_.sizes) words.push_back(binding.sizes.at(size));
  auto add_pointer = [&](const void* pointer) { words.push_back(reinterpret_cast<std::intptr_t>(pointer)); };
  for (const View& array : binding.arrays) add_pointer(array.data);
  add_pointer(stack ? &stack->kernel : nullptr);
  add_pointer(workspace_->data());
  words.push_back(options_.threads);
  check_status(function_(words.data()), program_.name);
}

Build build_stages(const std::vector<ir::Program>& lowered, const CompileOptions& options) {
  Build build;
  const std::string& name = lowered.front().name;
  check_options(options, name);
  if (options.target == Target::Interpreter) {
    for (const ir::Program& program : lowered) build.stages.emplace_back(program, options);
    return build;
  }
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

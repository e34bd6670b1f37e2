#include "tools/cli/commands.h"
#include "tools/cli/lowered.h"

#include "dsl/ir/printer.h"

#include <fmt/format.h>

namespace loopgrad::cli {
namespace {

/// A heading for one of several programs shown together.
std::string section(const std::string& title, const std::string& text) { return fmt::format("// {}\n{}", title, text); }

/// `sizing` may be empty.
std::string sections(const ir::Program& sizing, const ir::Program& forward, const ir::Program& backward) {
  std::string text;
  if (!ir::is_empty(sizing.body)) text += section("sizing", ir::print(sizing)) + "\n";
  text += section("forward", ir::print(forward)) + "\n";
  return text + section("backward", ir::print(backward));
}

/// The programs of the gradient as they are handed to the target's emitter, or when it is decided how sums are done.
std::string lowered(const Gradient& gradient, const CompileOptions& options, backend::Until until) {
  Report ignored;
  const auto [sizing, forward, backward] = backend::lower_gradient(gradient, options, ignored, ignored, until);
  return sections(sizing.program, forward.program, backward.program);
}

std::string text_of(const Options& options) {
  Program program = options.program->build();
  if (options.stage == Stage::Program) return program.str();
  GradientOptions gradient_options{
      .wrt = options.program->wrt, .variant = options.variant, .max_tape_bytes = options.max_tape_bytes};
  const Target fallback = options.stage == Stage::Code ? Target::OpenMP : Target::Interpreter;
  const CompileOptions compiling = compile_options(options, fallback, sizes_of(options, options.program->sizes));
  const Gradient gradient = differentiate(program, gradient_options);
  if (options.stage == Stage::Adjoint)
    return sections(gradient.sizing.ir(), gradient.forward.ir(), gradient.backward.ir());
  if (options.stage == Stage::Summation) return lowered(gradient, compiling, backend::Until::Summed);
  if (options.stage == Stage::Loops) return lowered(gradient, compiling, backend::Until::BeforeSchedule);
  if (options.stage == Stage::Schedule) return lowered(gradient, compiling, backend::Until::Emitted);
  if (compiling.target == Target::Interpreter)
    bad_input("the interpreter has no generated code", "use --target openmp, or --stage schedule");
  return backend::source_of(gradient, compiling);
}

}  // namespace

int show_program(const Options& options) {
  std::string text = text_of(options);
  if (text.empty() || text.back() != '\n') text += '\n';
  report(options, text, {{"program", options.program->name}, {"text", text}});
  return 0;
}

}  // namespace loopgrad::cli

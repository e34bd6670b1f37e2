#include "tools/cli/commands.h"
#include "tools/cli/lowered.h"

#include "dsl/ir/printer.h"

#include <fmt/format.h>

namespace loopgrad::cli {
namespace {

/// A heading for one of several programs shown together.
std::string section(const std::string& title, const std::string& text) { return fmt::format("// {}\n{}", title, text); }

std::string programs_of(const Gradient& gradient, const std::function<std::string(const Program&)>& print) {
  std::string text;
  if (!ir::is_empty(gradient.sizing.ir().body)) text += section("sizing", print(gradient.sizing)) + "\n";
  text += section("forward", print(gradient.forward)) + "\n";
  return text + section("backward", print(gradient.backward));
}

/// The programs of the gradient as they are handed to the target's emitter or, `summed`, when it is decided how sums
/// are done: for `restructured` that is before loops are made parallel, for `atomic` it is the same step.
std::string lowered(const Gradient& gradient, const CompileOptions& options, bool summed) {
  return programs_of(gradient, [&](const Program& p) {
    const bool forward = &p == &gradient.forward, backward = &p == &gradient.backward;
    const Schedule none;
    const Schedule& schedule = forward ? options.schedule : backward ? options.backward_schedule : none;
    transforms::LowerOptions lowering = backend::lowering_of(options, backend::sum_mode(gradient.variant), schedule);
    if (summed) {
      lowering.last = transforms::Part::Shared;
      if (gradient.variant == Variant::Restructured) lowering.until = "restructure_sums";
    }
    Report ignored;
    return ir::print(transforms::lower_for(p.ir(), lowering, ignored).program);
  });
}

std::string text_of(const Options& options) {
  Program program = options.program->build();
  if (options.stage == Stage::Program) return program.str();
  GradientOptions gradient_options{.wrt = options.program->wrt, .variant = options.variant};
  const Target fallback = options.stage == Stage::Code ? Target::OpenMP : Target::Interpreter;
  const CompileOptions compiling = compile_options(options, fallback, sizes_of(options, options.program->sizes));
  const Gradient gradient = differentiate(program, gradient_options);
  if (options.stage == Stage::Adjoint) return programs_of(gradient, [](const Program& p) { return p.str(); });
  if (options.stage != Stage::Code) return lowered(gradient, compiling, options.stage == Stage::Summation);
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

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

std::string text_of(const Options& options) {
  Program program = options.program->build();
  if (options.stage == Stage::Program) return program.str();
  GradientOptions gradient_options{.wrt = options.program->wrt, .variant = options.variant};
  if (options.stage == Stage::Code) {
    CompileOptions compile_options;
    compile_options.target = options.target.value_or(Target::OpenMP);
    if (compile_options.target == Target::Interpreter)
      bad_input("the interpreter has no generated code", "use --target openmp, or --stage schedule");
    return compile_gradient(program, gradient_options, compile_options).source();
  }
  Gradient gradient = differentiate(program, gradient_options);
  if (options.stage == Stage::Adjoint) return programs_of(gradient, [](const Program& p) { return p.str(); });
  return programs_of(gradient, [&](const Program& p) {
    Report decisions;
    return ir::print(transforms::lower(p.ir(), sum_mode(options.variant), decisions));
  });
}

}  // namespace

int show_program(const Options& options) {
  std::string text = text_of(options);
  if (text.empty() || text.back() != '\n') text += '\n';
  report(options, text, {{"program", options.program->name}, {"text", text}});
  return 0;
}

}  // namespace loopgrad::cli

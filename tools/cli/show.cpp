#include "tools/cli/commands.h"
#include "tools/cli/lowered.h"

#include "backends/cuda/emitter.h"
#include "dsl/ir/printer.h"
#include "transforms/cpu/map_to_cpu.h"
#include "transforms/pass.h"
#include "transforms/restructure_sums.h"

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

/// A program of the gradient when it is decided how sums are done: for `restructured` that is before loops are made
/// parallel, for `atomic` it is the same step.
ir::Program summed(const Options& options, const Program& program) {
  Report decisions;
  transforms::PassContext context{sum_mode(options.variant), decisions, {}, {}};
  ir::Program result = program.ir();
  for (const transforms::Pass& pass : transforms::passes(context.mode)) {
    result = pass.run(result, context);
    if (pass.run == transforms::restructure_sums) break;
  }
  return result;
}

/// A program of the gradient as it is handed to the target's emitter.
ir::Program scheduled(const Options& options, const Program& program, const Schedule& schedule = {}) {
  if (options.target == Target::Cuda) return mapped_to_gpu(program, options.variant, options.threads_per_block);
  Report decisions;
  ir::Program lowered =
      transforms::lower(program.ir(), sum_mode(options.variant), decisions, {schedule, options.sizes});
  return options.target == Target::OpenMP ? transforms::map_to_cpu(lowered) : lowered;
}

/// Generated without a GPU and without a compiler.
std::string cuda_source(const Options& options, const Gradient& gradient) {
  std::vector<ir::Program> programs;
  for (const Program* program : {&gradient.sizing, &gradient.forward, &gradient.backward})
    programs.push_back(scheduled(options, *program));
  return backend::emit_cuda(programs).source();
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
    if (compile_options.target == Target::Cuda) return cuda_source(options, differentiate(program, gradient_options));
    compile_options.expected_sizes = options.sizes;
    compile_options.schedule = options.schedule;
    compile_options.backward_schedule = options.backward_schedule;
    return compile_gradient(program, gradient_options, compile_options).source();
  }
  Gradient gradient = differentiate(program, gradient_options);
  if (options.stage == Stage::Adjoint) return programs_of(gradient, [](const Program& p) { return p.str(); });
  if (options.stage == Stage::Summation)
    return programs_of(gradient, [&](const Program& p) { return ir::print(summed(options, p)); });
  return programs_of(gradient, [&](const Program& p) {
    const bool forward = &p == &gradient.forward, backward = &p == &gradient.backward;
    const Schedule none;
    return ir::print(scheduled(options, p, forward ? options.schedule : backward ? options.backward_schedule : none));
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

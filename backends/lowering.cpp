#include "backends/lowering.h"

#include "backends/cuda/emitter.h"
#include "backends/facts_program.h"
#include "backends/openmp/emitter.h"
#include "dsl/ir/queries.h"

#include <loopgrad/error.h>

namespace loopgrad::backend {

using transforms::Bounded;
using transforms::Lowered;
using transforms::LowerOptions;
using transforms::Part;
using transforms::SumMode;

SumMode sum_mode(Variant variant) {
  switch (variant) {
    case Variant::NaiveTape: return SumMode::Serial;
    case Variant::Atomic: return SumMode::Atomic;
    case Variant::Restructured: return SumMode::Restructured;
  }
  throw InternalError("unknown variant");
}

LowerOptions lowering_of(const CompileOptions& options, SumMode mode, const Schedule& schedule) {
  const bool for_gpu = options.target == Target::Cuda || options.gpu_mapped;
  const bool interpreted = options.target == Target::Interpreter && !options.gpu_mapped;
  LowerOptions result;
  result.mode = mode;
  result.machine = for_gpu ? transforms::gpu_machine() : transforms::cpu_machine();
  // The interpreter stops by itself.
  if (!interpreted && options.facts != Facts::Trust)
    result.bounded = options.facts == Facts::CheckAccesses ? Bounded::Accesses : Bounded::Writes;
  result.schedule = schedule;
  result.expected_sizes = options.expected_sizes;
  result.threads_per_block = options.threads_per_block;
  if (interpreted) result.last = Part::Shared;
  return result;
}

LoweredGradient lower_gradient(const Gradient& gradient, const CompileOptions& options, Report& forward,
                               Report& backward) {
  Report ignored;  // how the sizing program runs interests nobody
  const SumMode mode = sum_mode(gradient.variant);
  const auto lowered = [&](const Program& program, const Schedule& schedule, Report& report, bool first) {
    LowerOptions own = lowering_of(options, mode, schedule);
    own.records_trips = first;
    return transforms::lower_for(program.ir(), own, report);
  };
  return {lowered(gradient.sizing, {}, ignored, false), lowered(gradient.forward, options.schedule, forward, true),
          lowered(gradient.backward, options.backward_schedule, backward, false)};
}

ir::Program lowered_facts(const ir::Program& facts, const CompileOptions& options) {
  Report ignored;  // nobody is interested in how facts are verified
  LowerOptions own = lowering_of(options, SumMode::Restructured);
  own.bounded = Bounded::Nothing;
  return transforms::lower_for(facts, own, ignored).program;
}

bool verifies(const ir::Program& facts, const CompileOptions& options) {
  return (options.target != Target::Interpreter || options.gpu_mapped) && options.facts != Facts::Trust &&
         !ir::is_empty(facts.body);
}

std::string source_of(const Gradient& gradient, const CompileOptions& options) {
  if (options.target == Target::Interpreter)
    throw UsageError({.code = ErrorCode::BadInput,
                      .message = "the interpreter has no generated code",
                      .program = gradient.backward.name(),
                      .hint = "choose the target openmp or cuda"});
  Report ignored;
  LoweredGradient lowered = lower_gradient(gradient, options, ignored, ignored);
  std::vector<ir::Program> programs;
  for (Lowered* one : {&lowered.sizing, &lowered.forward, &lowered.backward})
    programs.push_back(std::move(one->program));
  const FactsProgram facts = facts_program(gradient.forward.ir());
  if (verifies(facts.program, options)) programs.push_back(lowered_facts(facts.program, options));
  return options.target == Target::Cuda ? emit_cuda(programs).source() : emit_openmp(programs).source;
}

}  // namespace loopgrad::backend

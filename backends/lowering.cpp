#include "backends/lowering.h"

#include "backends/facts_program.h"
#include "backends/interface/backend.h"
#include "dsl/ir/queries.h"
#include "transforms/pipeline.h"

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
  throw UsageError({.code = ErrorCode::BadArgument,
                    .message = "`variant` is " + std::to_string(static_cast<int>(variant)) + ", which is no Variant",
                    .hint = "use the Gradient as differentiate() returns it"});
}

namespace {

void check_facts(Facts facts) {
  switch (facts) {
    case Facts::Verify:
    case Facts::Trust:
    case Facts::CheckAccesses: return;
  }
  throw UsageError({.code = ErrorCode::BadArgument,
                    .message = "`facts` is " + std::to_string(static_cast<int>(facts)) + ", which is no value of Facts",
                    .hint = "use Facts::Verify, Facts::Trust or Facts::CheckAccesses"});
}

}  // namespace

LowerOptions lowering_of(const CompileOptions& options, SumMode mode, const Schedule& schedule) {
  check_facts(options.facts);
  LowerOptions result;
  result.mode = mode;
  result.machine = backend_of(options.target).machine(options);
  if (!runs_as_written(options) && options.facts != Facts::Trust)
    result.bounded = options.facts == Facts::CheckAccesses ? Bounded::Accesses : Bounded::Writes;
  result.orders = transforms::Orders::Compared;
  result.schedule = schedule;
  result.expected_sizes = options.expected_sizes;
  result.threads_per_block = options.threads_per_block;
  if (runs_as_written(options)) result.last = Part::Shared;
  return result;
}

namespace {

/// Inputs of the backward program that the forward program writes: nobody has looked at what is in them.
std::set<ir::Array> inputs_computed_by(const ir::Program& forward, const ir::Program& backward) {
  std::set<ir::Array> computed;
  for (const ir::Array& array : backward.arrays) {
    const ir::Array before = ir::find_array(forward, array->name);
    if (array->role == ir::ArrayRole::Input && before && before->role != ir::ArrayRole::Input) computed.insert(array);
  }
  return computed;
}

/// The sizing program with the arguments of the forward program: their extents tell sizes that its own do not.
ir::Program with_arguments_of(ir::Program sizing, const ir::Program& forward) {
  for (const ir::Array& array : forward.arrays)
    if (array->role != ir::ArrayRole::Tape && !ir::find_array(sizing, array->name))
      sizing.arrays.push_back(ir::make_array_like(array, array->name, array->type, ir::ArrayRole::Input));
  return sizing;
}

}  // namespace

LoweredGradient lower_gradient(const Gradient& gradient, const CompileOptions& options, Report& forward,
                               Report& backward, Until until, transforms::Orders orders) {
  Report ignored;  // how the sizing program runs interests nobody
  const SumMode mode = sum_mode(gradient.variant);
  LowerOptions sizing = lowering_of(options, mode), first = lowering_of(options, mode, options.schedule),
               second = lowering_of(options, mode, options.backward_schedule);
  sizing.records_trips = second.records_trips = false;
  sizing.orders = transforms::Orders::Computed;
  // It follows data alone, and so is where a list that leads out of its array is noticed before anything is computed.
  if (sizing.bounded == Bounded::Writes) sizing.bounded = Bounded::Accesses;
  if (until == Until::Summed) {
    for (LowerOptions* own : {&sizing, &first, &second}) {
      own->last = Part::Shared;
      // The atomic variant decides where loops become parallel, which is the end of this part.
      if (mode == SumMode::Restructured) own->until = "restructure_sums";
    }
  }
  if (until == Until::BeforeSchedule) {
    for (LowerOptions* own : {&first, &second}) *own = transforms::up_to_schedule(*own);
  }
  first.orders = second.orders = orders;
  second.computed = inputs_computed_by(gradient.forward.ir(), gradient.backward.ir());
  using transforms::lower_for;
  return {lower_for(with_arguments_of(gradient.sizing.ir(), gradient.forward.ir()), sizing, ignored),
          lower_for(gradient.forward.ir(), first, forward), lower_for(gradient.backward.ir(), second, backward)};
}

ir::Program lowered_facts(const ir::Program& facts, const CompileOptions& options) {
  Report ignored;  // nobody is interested in how facts are verified
  LowerOptions own = lowering_of(options, SumMode::Restructured);
  own.bounded = Bounded::Nothing;
  own.orders = transforms::Orders::Computed;
  return transforms::lower_for(facts, own, ignored).program;
}

bool verifies(const ir::Program& facts, const CompileOptions& options) {
  return !runs_as_written(options) && options.facts != Facts::Trust && !ir::is_empty(facts.body);
}

std::string source_of(const Gradient& gradient, const CompileOptions& options) {
  const Backend& backend = backend_of(options.target);
  if (backend.interprets()) return backend.source({gradient.backward.ir()}, {});  // which says that there is none
  Report ignored;
  LoweredGradient lowered = lower_gradient(gradient, options, ignored, ignored);
  std::vector<ir::Program> programs;
  KernelReasons reasons;
  for (Lowered* one : {&lowered.sizing, &lowered.forward, &lowered.backward}) {
    programs.push_back(std::move(one->program));
    reasons.push_back(std::move(one->kernels));
  }
  const FactsProgram facts = facts_program(gradient.verified().ir());
  if (verifies(facts.program, options)) programs.push_back(lowered_facts(facts.program, options));
  return backend.source(programs, reasons);
}

}  // namespace loopgrad::backend

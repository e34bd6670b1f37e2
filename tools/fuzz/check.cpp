#include "tools/fuzz/check.h"

#include "dsl/ir/visit.h"
#include "tools/fuzz/check_plan.h"
#include "tools/fuzz/derivative_modes.h"
#include "tools/fuzz/false_facts.h"
#include "tools/fuzz/reference.h"
#include "tools/fuzz/schedules.h"
#include "tools/support/random.h"
#include "transforms/pass/pass.h"

#include <loopgrad/autodiff.h>
#include <loopgrad/error.h>

#include <fmt/format.h>

#include <ctime>

namespace loopgrad::fuzz {
namespace {

using transforms::SumMode;

/// Programs that are larger are not differentiated twice: it would take minutes.
constexpr std::int64_t most_statements_twice = 60;

std::int64_t statements_of(const ir::Program& program) {
  std::int64_t count = 0;
  ir::walk_stmts(program.body, [&](const ir::Stmt&) { ++count; });
  return count;
}

/// Of which there are no derivatives of derivatives.
bool has_own_gradient(const ir::Program& program) {
  bool found = false;
  ir::walk_stmts(program.body, [&](const ir::Stmt& s) { found |= s.kind() == ir::Kind::CustomGradient; });
  return found;
}

class Checker {
 public:
  Checker(const Case& c, const CheckOptions& options)
      : case_(c),
        cpu_seconds_(options.cpu_seconds),
        plan_(c.seed, options.thorough),
        reference_(c.program, make_arrays(c, true), c.sizes, gradient_options(c), c.seed) {}

  Outcome run_all() {
    Outcome& outcome = outcome_;
    try {
      stage_ = "primal";
      if (!is_finite()) return outcome;
      if (plan_.false_fact) false_fact();
      if (plan_.broken_promise) broken_promise();
      lowered_primal();
      if (plan_.schedule && !plan_.schedule_backward) scheduled_primal();
      stage_ = "tangent";
      reference_.run_tangent(8);
      gradients();
      derivative_modes();
    } catch (const DifferentiationError& error) {
      outcome.refusal = error.what();
    } catch (const std::exception& error) {
      outcome.failure = Failure{stage_, error.what()};
    }
    outcome.largest_derivative = reference_.largest();
    return outcome;
  }

 private:
  void tried(const std::string& what) { outcome_.tried.insert(what); }

  /// Runs the program. Of a gradient that is a program (`twice`) it is a finding, for the first one was finite.
  bool is_finite() {
    try {
      reference_.run_primal();
    } catch (const NotFinite& error) {
      outcome_.not_finite = error.what();
    }
    return outcome_.not_finite.empty();
  }

  /// Some programs take the analyses a hundred times as long as others.
  bool is_late() {
    const bool late = cpu_seconds_ > 0 && static_cast<double>(std::clock() - start_) / CLOCKS_PER_SEC > cpu_seconds_;
    if (late) tried("check: cut short, as analyses took long");
    return late;
  }

  void false_fact() {
    stage_ = "a false fact";
    Arrays arrays = copy_of(reference_.inputs());
    const auto broken = break_a_fact(case_, arrays);
    if (!broken) return;
    tried("check: a false fact, interpreted");
    try {
      run(case_.program.ir(), arrays, case_.sizes, {});
    } catch (const RuntimeError& error) {
      if (error.code() == ErrorCode::BadFact && error.array() == *broken) return;
      throw Disagreement(fmt::format("the false fact about '{}' gives: {}", *broken, error.what()));
    }
    throw Disagreement(fmt::format("the false fact about '{}' is not found", *broken));
  }

  void broken_promise() {
    stage_ = "a broken promise";
    const auto promise = break_a_promise(case_, reference_.inputs(), true);
    if (!promise) return;
    tried("check: a broken at_most, interpreted");
    try {
      Arrays arrays = copy_of(reference_.inputs());
      run(promise->program.ir(), arrays, case_.sizes, {});
    } catch (const RuntimeError& error) {
      return expect_broken(*promise, error);
    }
    throw Disagreement(fmt::format("the broken promise of '{}' is not found", promise->loop));
  }

  void lowered_primal() {
    const auto one = [&](SumMode mode, Form form, const std::string& name) {
      if (is_late()) return;
      stage_ = fmt::format("primal, {}", name);
      tried("check: " + stage_);
      note_left_out(form);
      Arrays arrays = copy_of(reference_.inputs());
      transforms::LowerOptions options = lowering();
      options.mode = mode;
      run(formed(case_.program.ir(), form, case_.sizes, options), arrays, case_.sizes, {.seed = case_.seed + 7});
      reference_.expect_outputs(arrays);
    };
    if (plan_.primal_cpu) one(SumMode::Restructured, Form::Cpu, "restructured for a CPU");
    if (plan_.primal_gpu) one(SumMode::Restructured, Form::Gpu, "restructured for a GPU");
    if (plan_.wide_gpu) one(SumMode::Restructured, Form::WideGpu, "restructured for a wide GPU");
    if (plan_.primal_atomic) {
      one(SumMode::Atomic, Form::Cpu, "atomic for a CPU");
      one(SumMode::Atomic, Form::Gpu, "atomic for a GPU");
    }
    if (plan_.bounded_cpu) bounded_primal(Form::Cpu);
    if (plan_.bounded_gpu) bounded_primal(Form::Gpu);
  }

  /// With a look at every index. Programs leave no array, so that there is nothing to note.
  void bounded_primal(Form form) {
    if (is_late()) return;
    stage_ = fmt::format("primal{}, every index looked at", label(form));
    tried("check: " + stage_);
    note_left_out(form);
    transforms::LowerOptions options = lowering();
    options.bounded = transforms::Bounded::Accesses;
    const ir::Program program = formed(case_.program.ir(), form, case_.sizes, options);
    Arrays arrays = copy_of(reference_.inputs());
    run_noting(program, case_.program.ir(), arrays, case_.sizes, {.seed = case_.seed + 7});
    reference_.expect_outputs(arrays);
  }

  void scheduled_primal() {
    stage_ = "schedule of the primal";
    const Form form = plan_.schedule_form;
    const RandomSchedule random =
        random_schedule(case_.program, case_.seed, 10, on_machine(form, case_.sizes, lowering()));
    if (random.refused > 0) tried("schedule: a refused step");
    if (random.schedule.empty()) return;
    note_steps(random.schedule);
    stage_ = fmt::format("primal{} with the schedule {}", label(form), random.schedule.str());
    tried(fmt::format("check: a schedule of a program{}", label(form)));
    note_left_out(form);
    transforms::LowerOptions options = lowering();
    options.schedule = random.schedule;
    Arrays arrays = copy_of(reference_.inputs());
    run(formed(case_.program.ir(), form, case_.sizes, options), arrays, case_.sizes, {.seed = case_.seed + 7});
    reference_.expect_outputs(arrays);
  }

  transforms::LowerOptions lowering() const { return {.expected_sizes = case_.expected, .skip = case_.left_out}; }

  /// Those that the target has.
  void note_left_out(Form form) {
    if (form == Form::AsWritten) return;
    const transforms::LowerOptions options = {.machine = form == Form::Cpu ? transforms::cpu_machine()
                                                                           : transforms::gpu_machine()};
    for (const transforms::Pass& pass : transforms::passes(options))
      if (case_.left_out.contains(pass.name)) tried(fmt::format("pass left out: {}", pass.name));
  }

  /// Runs a gradient without the passes that the program goes without.
  void gradient_run(const Gradient& gradient, GradientRun how) {
    for (const Form form : how.forms) note_left_out(form);
    how.lowering = lowering();
    // As they are compiled where nobody trusts indices. Steps of a schedule are for loops without notes.
    const bool has_schedule = !how.forward_schedule.empty() || !how.backward_schedule.empty();
    if (plan_.bounded_gradient && how.kept == GradientRun::Kept::Nothing && !has_schedule) {
      tried("check: a gradient whose indices are looked at");
      how.lowering.bounded = case_.seed % 2 == 0 ? transforms::Bounded::Writes : transforms::Bounded::Accesses;
    }
    check_gradient(reference_, gradient, how, case_.seed, stage_);
  }

  void note_steps(const Schedule& schedule) {
    for (const Schedule::Step& step : schedule.steps()) tried("schedule: " + step.op);
  }

  void gradients() {
    const auto differentiated = [&](Variant variant) {
      stage_ = fmt::format("{}: differentiate", name_of(variant));
      GradientOptions options = reference_.what();
      options.variant = variant;
      const Gradient gradient = differentiate(case_.program, options);
      stage_.clear();
      return gradient;
    };
    gradient_run(differentiated(Variant::NaiveTape),
                 {.variant = Variant::NaiveTape, .forms = {Form::AsWritten, Form::Cpu}});
    const Gradient gradient = differentiated(Variant::Restructured);
    for (const Form form : forms()) {
      if (form != Form::AsWritten && is_late()) return;
      tried(fmt::format("check: restructured gradient{}", label(form)));
      gradient_run(gradient, {.variant = Variant::Restructured, .forms = {form}, .kept = kept()});
    }
    if (is_late()) return;
    if (plan_.budget) gradient_in_segments();
    if (is_late()) return;
    if (plan_.atomic) {
      GradientRun how{.variant = Variant::Atomic};
      if (plan_.atomic_lowered) how.forms = {Form::AsWritten, plan_.gpu ? Form::Gpu : Form::Cpu};
      for (const Form form : how.forms) tried(fmt::format("check: atomic gradient{}", label(form)));
      gradient_run(differentiated(Variant::Atomic), how);
    }
    if (plan_.schedule && plan_.schedule_backward && !is_late()) scheduled_gradient(gradient);
    if (plan_.twice && !is_late()) twice(gradient);
  }

  /// What lowered programs find of an earlier run.
  GradientRun::Kept kept() {
    using Kept = GradientRun::Kept;
    constexpr Kept all[] = {Kept::Nothing, Kept::Same, Kept::Other, Kept::Nothing};
    const Kept result = all[case_.seed / 2 % 4];
    if (result != Kept::Nothing)
      tried(fmt::format("check: kept orders of {} index arrays", result == Kept::Same ? "the same" : "other"));
    return result;
  }

  /// Loops run again where their tape takes more than a few bytes; whether that fits in the end is not asked here.
  void gradient_in_segments() {
    constexpr Form all[] = {Form::AsWritten, Form::Cpu, Form::Gpu};
    const Form form = all[plan_.budget_form];
    stage_ = fmt::format("restructured: differentiate within {} bytes", plan_.budget_bytes);
    GradientOptions options = reference_.what();
    options.max_tape_bytes = plan_.budget_bytes;
    std::optional<Gradient> gradient;
    try {
      gradient = differentiate(case_.program, options);
    } catch (const DifferentiationError&) {
      return tried("check: a budget that is refused");
    }
    tried(fmt::format("check: gradient within a budget{}", label(form)));
    gradient_run(*gradient, {.variant = Variant::Restructured, .forms = {form}});
  }

  void derivative_modes() {
    const auto tangent_for = [&](Form form) {
      if (is_late()) return;
      stage_ = fmt::format("tangent{}", label(form));
      tried("check: " + stage_);
      note_left_out(form);
      check_tangent(reference_, {form, lowering(), case_.seed + 19});
    };
    if (plan_.tangent_cpu) tangent_for(Form::Cpu);
    if (plan_.tangent_gpu) tangent_for(Form::Gpu);
    constexpr Form all[] = {Form::AsWritten, Form::Cpu, Form::Gpu};
    if (plan_.accumulated && !is_late()) {
      const ModeRun how{all[plan_.accumulated_form], lowering(), case_.seed + 29};
      note_left_out(how.form);
      stage_ = fmt::format("accumulated gradient{}", label(how.form));
      if (check_accumulated(reference_, how)) tried("check: " + stage_);
    }
    if (!plan_.at_once || is_late() || has_rule_) return;  // one direction at a time
    const ModeRun how{all[plan_.at_once_form], lowering(), case_.seed + 23};
    note_left_out(how.form);
    stage_ = fmt::format("tangents at once{}", label(how.form));
    tried("check: " + stage_);
    check_tangents_at_once(reference_, how);
    stage_ = fmt::format("adjoints at once{}", label(how.form));
    tried("check: " + stage_);
    check_adjoints_at_once(reference_, how);
  }

  std::vector<Form> forms() const {
    std::vector<Form> result = {Form::AsWritten};
    if (plan_.cpu) result.push_back(Form::Cpu);
    if (plan_.gpu) result.push_back(Form::Gpu);
    if (plan_.wide_gpu) result.push_back(Form::WideGpu);
    return result;
  }

  void scheduled_gradient(const Gradient& gradient) {
    stage_ = "schedule of the backward program";
    const Form form = plan_.schedule_form;
    const Sizes sizes = all_sizes(gradient, reference_.inputs(), case_.sizes, {});
    const transforms::LowerOptions options = on_machine(form, sizes, lowering());
    const RandomSchedule forward = random_schedule(gradient.forward, case_.seed, 5, options);
    const RandomSchedule backward = random_schedule(gradient.backward, case_.seed + 1, 8, options);
    if (forward.refused + backward.refused > 0) tried("schedule: a refused step");
    note_steps(forward.schedule);
    note_steps(backward.schedule);
    tried(fmt::format("check: a schedule of a gradient{}", label(form)));
    stage_ = fmt::format("schedules {} and {}: ", forward.schedule.str(), backward.schedule.str());
    gradient_run(gradient, {.variant = Variant::Restructured,
                            .forms = {form},
                            .forward_schedule = forward.schedule,
                            .backward_schedule = backward.schedule});
  }

  /// The gradient as a program with a gradient of its own: forward over reverse against reverse over reverse.
  void twice(const Gradient& gradient) {
    if (!ir::is_empty(gradient.sizing.ir().body) || has_rule_) return;
    if (statements_of(gradient.backward.ir()) > most_statements_twice) return;
    if (!case_.shared.empty()) return;  // a gradient writes what may not share memory with its inputs
    stage_ = "second order: joined";
    const Program program = joined(gradient);
    Arrays inputs = copy_of(reference_.inputs());
    for (const auto& [name, array] : reference_.incoming()) inputs["g_" + name.substr(2)] = copy_of(array);
    for (const ir::Array& array : program.ir().arrays) {
      if (inputs.contains(array->name)) continue;
      inputs.emplace(array->name, HostArray(is_float(array->type) ? ScalarType::F64 : array->type,
                                            backend::shape_of(array, values_of(program.ir(), case_.sizes))));
    }
    Reference second(program, std::move(inputs), case_.sizes, {}, case_.seed + 41);
    second.run_primal();
    reference_.expect_outputs(second.outputs());
    Arrays first;
    for (const auto& [name, array] : second.outputs())
      if (name.starts_with("g_")) first.emplace("d_" + name.substr(2), array);
    reference_.expect_gradient(first);
    stage_ = "second order: tangent";
    second.run_tangent(6);
    for (const Variant variant : {Variant::NaiveTape, Variant::Restructured}) {
      stage_ = fmt::format("second order: {}: differentiate", name_of(variant));
      const Gradient again = differentiate(program, {.variant = variant});
      stage_ = "second order: ";
      check_gradient(second, again, {.variant = variant}, case_.seed, stage_);
    }
    tried("check: a gradient of a gradient");
  }

  const Case& case_;
  const double cpu_seconds_;
  const std::clock_t start_ = std::clock();
  const Plan plan_;
  const bool has_rule_ = has_own_gradient(case_.program.ir());
  Reference reference_;
  std::string stage_;
  Outcome outcome_;
};

}  // namespace

GradientOptions gradient_options(const Case& c) {
  GradientOptions options;
  tools::Random random(c.seed * 3 + 1);
  if (random.below(100) >= 35) return options;
  std::vector<std::string> inputs, outputs;
  for (const ir::Array& array : c.program.ir().arrays) {
    if (!is_float(array->type)) continue;
    std::uint64_t hash = c.seed;  // by name, so that dropping an array does not change what is asked of the others
    for (char letter : array->name) hash = hash * 131 + static_cast<unsigned char>(letter);
    if (array->role != ir::ArrayRole::Output) inputs.push_back(array->name);
    if (array->role != ir::ArrayRole::Output && tools::Random(hash).below(3) > 0) options.wrt.push_back(array->name);
    if (array->role != ir::ArrayRole::Input) outputs.push_back(array->name);
    if (array->role != ir::ArrayRole::Input && tools::Random(hash + 1).below(3) > 0) options.of.push_back(array->name);
  }
  if (options.wrt.empty() && !inputs.empty()) options.wrt = {inputs.front()};
  if (options.of.empty() && !outputs.empty()) options.of = {outputs.back()};
  return options;
}

Outcome check(const Case& c, const CheckOptions& options) {
  try {
    return Checker(c, options).run_all();
  } catch (const std::exception& error) {  // of the inputs: the generator's fault
    Outcome outcome;
    outcome.failure = Failure{"primal", error.what()};
    return outcome;
  }
}

}  // namespace loopgrad::fuzz

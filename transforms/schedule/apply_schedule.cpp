#include "transforms/schedule/apply_schedule.h"

#include "dsl/ir/verifier.h"
#include "transforms/analysis/analyses.h"
#include "transforms/loops/fission.h"
#include "transforms/loops/fuse.h"
#include "transforms/loops/unroll.h"
#include "transforms/storage/local_storage.h"

#include <loopgrad/error.h>

#include <fmt/format.h>

#include <functional>

namespace loopgrad::transforms {

namespace {

// A kind of step: how many names and numbers it takes, and what it does.
struct StepKind {
  const char* op;
  std::size_t names_at_least, names_at_most, numbers_at_least, numbers_at_most;
  std::function<Scheduled(const Analysed&, const Schedule::Step&)> run;
};

constexpr std::size_t any = 16;

const std::vector<StepKind>& step_kinds() {
  using Step = Schedule::Step;
  using Prog = Analysed;
  static const std::vector<StepKind> kinds = {
      {"split", 1, 1, 1, 1, [](const Prog& p, const Step& s) { return split_loop(p, s.names[0], s.numbers[0]); }},
      {"tile", 1, any, 1, any, [](const Prog& p, const Step& s) { return tile_loops(p, s.names, s.numbers); }},
      {"interchange", 2, 2, 0, 0,
       [](const Prog& p, const Step& s) { return interchange_loops(p, s.names[0], s.names[1]); }},
      {"reorder", 2, any, 0, 0, [](const Prog& p, const Step& s) { return reorder_loops(p, s.names); }},
      {"fuse", 2, 2, 0, 0, [](const Prog& p, const Step& s) { return fuse_two_loops(p, s.names[0], s.names[1]); }},
      {"fission", 1, 1, 0, 1,
       [](const Prog& p, const Step& s) {
         return split_body(p, s.names[0], s.numbers.empty() ? 0 : static_cast<int>(s.numbers[0]));
       }},
      {"unroll", 1, 1, 0, 1,
       [](const Prog& p, const Step& s) { return unroll_loop(p, s.names[0], s.numbers.empty() ? 0 : s.numbers[0]); }},
      {"unroll_and_jam", 1, 1, 1, 1,
       [](const Prog& p, const Step& s) { return unroll_and_jam(p, s.names[0], s.numbers[0]); }},
      {"parallelize", 1, 1, 0, 0, [](const Prog& p, const Step& s) { return parallelize_loop(p, s.names[0]); }},
      {"vectorize", 1, 1, 1, 1,
       [](const Prog& p, const Step& s) { return vectorize_loop(p, s.names[0], s.numbers[0]); }},
      {"reverse", 1, 1, 0, 0, [](const Prog& p, const Step& s) { return reverse_loop(p, s.names[0]); }},
      {"expand", 2, 2, 0, 0,
       [](const Prog& p, const Step& s) { return expand_local(p, s.names[0].name(), s.names[1]); }},
      {"contract", 1, 1, 0, 0, [](const Prog& p, const Step& s) { return contract_local(p, s.names[0].name()); }},
  };
  return kinds;
}

const StepKind& kind_of(const Schedule::Step& step) {
  std::string known;
  for (const StepKind& kind : step_kinds()) {
    known += (known.empty() ? "" : ", ") + std::string(kind.op);
    if (step.op != kind.op) continue;
    bool fits = step.names.size() >= kind.names_at_least && step.names.size() <= kind.names_at_most &&
                step.numbers.size() >= kind.numbers_at_least && step.numbers.size() <= kind.numbers_at_most;
    if (fits) return kind;
    throw UsageError({.code = ErrorCode::BadArgument,
                      .message = fmt::format("the step '{}' has the wrong number of arguments", step.str()),
                      .hint = "names first, then numbers: see docs/scheduling.md"});
  }
  throw UsageError({.code = ErrorCode::BadArgument,
                    .message = fmt::format("there is no step '{}' in a schedule", step.op),
                    .hint = "the steps are " + known});
}

}  // namespace

ir::Program apply_step(const Analysed& program, const Schedule::Step& step, Report& report) {
  Scheduled result = kind_of(step).run(program, step);
  ir::verify(result.program, step.op);
  if (!result.legality.sum.empty()) {
    report.remarks.push_back(
        {fmt::format("{} changes the order of sums into '{}', and so their rounding", step.str(), result.legality.sum),
         program->location});
  }
  return result.program;
}

ir::Program apply_step(const ir::Program& program, const Schedule::Step& step, Report& report) {
  Analyses analyses;
  return apply_step({program, analyses}, step, report);
}

ir::Program apply_schedule(const ir::Program& program, PassContext& context) {
  ir::Program result = program;
  for (const Schedule::Step& step : context.options.schedule.steps())
    result = apply_step({result, analyses(context)}, step, context.report);
  return result;
}

}  // namespace loopgrad::transforms

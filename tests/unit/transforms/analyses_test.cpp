// What passes ask is found once in a run of the pipeline.
#include "transforms/analysis/analyses.h"
#include "tests/unit/transforms/lowered.h"

#include <loopgrad/autodiff.h>

namespace loopgrad::transforms {
namespace {

// Rows that are normalised: several loops over each row, sums into scalars and into columns.
Program rows() {
  ProgramBuilder p("rows");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<double>("x", {n, m}), g = p.input<double>("g", {m});
  auto y = p.output<double>("y", {n, m});
  for (auto i : p.loop("i", 0, n)) {
    auto mean = p.scalar<double>("mean"), spread = p.scalar<double>("spread");
    mean = 0;
    spread = 0;
    for (auto j : p.loop("j", 0, m)) mean += x(i, j) / cast<double>(m);
    for (auto j : p.loop("j", 0, m)) spread += (x(i, j) - mean) * (x(i, j) - mean);
    for (auto j : p.loop("j", 0, m)) y(i, j) = g(j) * (x(i, j) - mean) / sqrt(spread + 1.0);
  }
  return p.build();
}

ir::Stmt first_loop(const ir::Stmt& body) {
  ir::Stmt found;
  ir::walk_stmts(body, [&](const ir::Stmt& s) {
    if (!found && s.as<ir::For>()) found = s;
  });
  return found;
}

TEST(Analyses, AQuestionIsAskedOnce) {
  const Program program = smoothing();
  const ir::Stmt loop = first_loop(program.ir().body);
  Analyses analyses;
  const auto& conflicts = analyses.carried_by(program.ir(), loop, poly::Search::UntilAny);
  EXPECT_TRUE(conflicts.empty());
  EXPECT_EQ(&analyses.carried_by(program.ir(), loop, poly::Search::UntilAny), &conflicts);
  EXPECT_EQ(analyses.questions(), 1u);
  analyses.carried_by(program.ir(), loop.as<ir::For>()->body, poly::Search::UntilAny);
  analyses.carried_by(program.ir(), loop, poly::Search::All);
  EXPECT_EQ(analyses.questions(), 3u) << "another loop, another search";
}

TEST(Analyses, ThatABudgetIsSpentIsAnAnswer) {
  const Program program = rows();
  const ir::Stmt loop = first_loop(program.ir().body);
  Analyses analyses(50);
  for (int time = 0; time < 2; ++time)
    EXPECT_THROW(analyses.carried_by(program.ir(), loop, poly::Search::UntilAny), poly::BudgetError);
  const auto model = Analyses().model_of(program.ir(), program.ir().body);  // models outlive who built them
  EXPECT_EQ(model->statements.size(), 5u);
}

TEST(Analyses, LastWritesPastTheBudgetAreUnknown) {
  const Program program = smoothing();
  Analyses analyses;
  const auto model = analyses.model_of(program.ir(), program.ir().body);
  const poly::Statement& sum = model->statements[1];
  EXPECT_FALSE(analyses.last_writes(model, 1, sum.accesses.back(), 10).exact);
  EXPECT_FALSE(analyses.last_writes(model, 1, sum.accesses.back(), 10).exact);
  EXPECT_TRUE(analyses.last_writes(model, 1, sum.accesses.back(), 1'000'000).exact) << "another budget";
  EXPECT_EQ(analyses.questions(), 2u);
}

struct Built {
  std::size_t models = 0, statements = 0, questions = 0;
};

Built built_for(const ir::Program& program, const Machine& machine) {
  const LowerOptions options = {.machine = machine, .bounded = Bounded::Accesses};
  Report report;
  PassContext context{options, report};
  ir::Program result = program;
  for (const Pass& pass : passes(options)) result = run_pass(pass, result, context);
  const Analyses& known = analyses(context);
  return {known.models().count(), known.models().statements(), known.questions()};
}

// A pass that asks anew what is known, or takes programs apart that it does not change, shows here. The bounds are what
// was counted, and a little.
TEST(Analyses, OneLoweringBuildsFewModels) {
  const ir::Program backward = differentiate(rows(), {}).backward.ir();
  const Built cpu = built_for(backward, cpu_machine());
  EXPECT_LE(cpu.models, 16u);
  EXPECT_LE(cpu.statements, 56u);
  EXPECT_LE(cpu.questions, 11u);
  const Built gpu = built_for(backward, gpu_machine());
  EXPECT_LE(gpu.models, 27u);
  EXPECT_LE(gpu.statements, 95u);
  EXPECT_LE(gpu.questions, 28u);  // what has lost its shared sums is asked about again
}

}  // namespace
}  // namespace loopgrad::transforms

// The list of passes as a whole: its names, leaving rows out, stopping early.
#include "tests/unit/transforms/lowered.h"

#include <loopgrad/autodiff.h>
#include <loopgrad/error.h>

#include <cstdlib>

namespace loopgrad::transforms {
namespace {

ir::Program backward_of(const Program& program) { return differentiate(program, {}).backward.ir(); }

/// Sets an environment variable for the time of a test.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Environment() { unsetenv(name_); }
  Environment(const Environment&) = delete;

 private:
  const char* name_;
};

/// On the machine "cpu" or "gpu".
class Pipeline : public testing::TestWithParam<std::string> {
 protected:
  Machine machine() const { return GetParam() == "gpu" ? gpu_machine() : cpu_machine(); }
  LowerOptions options() const { return {.machine = machine(), .bounded = Bounded::Accesses}; }
};

TEST_P(Pipeline, HasANameAndAReasonForEachRow) {
  std::set<std::string> names;
  for (const Pass& pass : passes(options())) {
    EXPECT_TRUE(names.insert(pass.name).second) << pass.name << " names two rows";
    EXPECT_GT(std::string(pass.why_here).size(), 10u) << pass.name;
  }
}

TEST_P(Pipeline, PartsFollowEachOther) {
  Part last = Part::Bounds;
  for (const Pass& pass : passes(options())) {
    EXPECT_GE(pass.part, last) << pass.name;
    last = pass.part;
  }
  EXPECT_EQ(last, Part::Running);
}

TEST_P(Pipeline, ComputesTheSameWithoutAnyOneOfItsRows) {
  const ir::Program program = backward_of(smoothing());
  for (const Pass& pass : passes(options())) {
    LoweredProgram l;
    l.before = program;
    LowerOptions without = options();
    without.skip = {pass.name};
    l.after = lower_for(program, without, l.report).program;
    ir::verify(l.after, "lower_for");
    SCOPED_TRACE(pass.name);
    expect_same_results(l, {{"n", 13}, {"k", 4}});
  }
}

TEST_P(Pipeline, RowsThatAreRequiredStay) {
  LowerOptions nothing = options();
  for (const Pass& pass : passes(nothing)) nothing.skip.insert(pass.name);
  Report report;
  const ir::Program after = lower_for(backward_of(smoothing()), nothing, report).program;
  bool grid = false;
  ir::walk_stmts(after.body, [&](const ir::Stmt& s) {
    const auto* loop = s.as<ir::For>();
    grid |= loop && loop->mode == ir::LoopMode::Grid;
  });
  EXPECT_EQ(grid, machine().is_gpu()) << ir::print(after.body);
}

/// No pass and no emitter knows a region with a gradient of its own.
TEST_P(Pipeline, RegionsBecomeTheirBodies) {
  ProgramBuilder p("region");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n}), y = p.output<float>("y", {n});
  p.custom_gradient({y}, {x},
                    {.forward =
                         [&] {
                           for (auto i : p.loop("i", 0, n)) y(i) = 2.0f * x(i);
                         },
                     .adjoint =
                         [&](const Derivatives& d) {
                           for (auto i : p.loop("i", 0, n)) d(x)(i) += 2.0f * d(y)(i);
                         }});
  const Program program = p.build();
  LowerOptions nothing = options();
  for (const Pass& pass : passes(nothing)) nothing.skip.insert(pass.name);
  Report report;
  ir::walk_stmts(lower_for(program.ir(), nothing, report).program.body,
                 [](const ir::Stmt& s) { EXPECT_NE(s.kind(), ir::Kind::CustomGradient); });
}

INSTANTIATE_TEST_SUITE_P(Machines, Pipeline, testing::Values("cpu", "gpu"),
                         [](const auto& tested) { return tested.param; });

TEST(LowerFor, LeavesOutWhatTheEnvironmentNames) {
  const ir::Program program = backward_of(smoothing());
  Report with, without;
  lower_for(program, {}, with);
  EXPECT_EQ(plan_of(with, "d_x"), "gather");
  const Environment skip("LOOPGRAD_SKIP", "restructure_sums,delay_sums");
  lower_for(program, {}, without);
  EXPECT_EQ(plan_of(without, "d_x"), "none") << "no plan is made";
}

TEST(LowerFor, RefusesANameThatNoPassHas) {
  const Environment skip("LOOPGRAD_SKIP", "restructure_sum");
  Report report;
  try {
    lower_for(backward_of(smoothing()), {}, report);
    FAIL() << "it was accepted";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("restructure_sum'"), std::string::npos) << error.what();
    EXPECT_NE(error.info().hint.find("restructure_sums"), std::string::npos) << error.info().hint;
  }
}

TEST(LowerFor, RefusesToDumpWhatNoPassIs) {
  for (const std::string asked : {"after:restructure_sum", "restructure_sums", "after:"}) {
    const Environment dump("LOOPGRAD_DUMP", asked.c_str());
    Report report;
    try {
      lower_for(backward_of(smoothing()), {}, report);
      FAIL() << asked << " was accepted";
    } catch (const UsageError& error) {
      EXPECT_NE(error.info().hint.find(asked[0] == 'a' ? "restructure_sums" : "after:PASS"), std::string::npos)
          << error.what();
    }
  }
}

TEST(LowerFor, AcceptsTheNamesOfOtherTargets) {
  const Environment skip("LOOPGRAD_SKIP", "lane_copies,tile_lanes");
  Report report;
  EXPECT_NO_THROW(lower_for(backward_of(smoothing()), {}, report));
}

TEST(LowerFor, StopsAfterAPass) {
  const ir::Program program = backward_of(smoothing());
  Report report;
  const ir::Program early = lower_for(program, {.until = "restructure_sums"}, report).program;
  EXPECT_EQ(plan_of(report, "d_x"), "gather");
  EXPECT_TRUE(report.loops.empty()) << "parallel loops come later";
  EXPECT_FALSE(early.body.same_as(program.body));
}

}  // namespace
}  // namespace loopgrad::transforms

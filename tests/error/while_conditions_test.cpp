// What the condition of a `while` reads is looked at like everything else, also where it ends the loop.
#include "tests/error/compiled_case.h"
#include "tests/error/expect_error.h"

namespace loopgrad::test {
namespace {

class WhileConditions : public testing::TestWithParam<CompiledCase> {};

TEST_P(WhileConditions, ReadNothingOutsideUnseen) {
  ProgramBuilder p("while_read");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<double>("x", {m});
  auto start = p.input<int>("start", {n});
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", n)) {
    y(i) = 0.0;
    for (auto k : p.loop_while("k", m, [&](Value trip) { return x(start(i) + trip) > 0.0; })) y(i) += x(k);
  }
  const Executable run = compile(p.build(), GetParam().options(Facts::CheckAccesses));
  std::vector<double> xs = {1, 2, 3, -1}, ys(2);
  std::vector<int> starts = {0, 1};
  const Arguments arguments = {
      {"x", view(xs.data(), {4})}, {"start", view(starts.data(), {2})}, {"y", view(ys.data(), {2})}};
  EXPECT_NO_THROW(run.run(arguments));
  EXPECT_EQ(ys, (std::vector<double>{6, 3}));
  starts[1] = 7;  // at once: the last element, which ends the loop, is read in its place
  expect_error<RuntimeError>(ErrorCode::BadIndex, {"'x'", "index 7 is outside of [0, 4)"}, [&] { run.run(arguments); });
  starts[1] = 2;
  xs[3] = 1;  // in the third trip, and in the fourth
  expect_error<RuntimeError>(ErrorCode::BadIndex, {"'x'", "index 5 is outside of [0, 4)"}, [&] { run.run(arguments); });
  starts = {0, 0};  // all that there are: the condition is not asked again
  EXPECT_NO_THROW(run.run(arguments));
}

INSTANTIATE_TEST_SUITE_P(Targets, WhileConditions,
                         testing::Values(CompiledCase{Target::OpenMP, Variant::Restructured},
                                         CompiledCase{Target::Interpreter, Variant::Restructured, true}),
                         case_name);

}  // namespace
}  // namespace loopgrad::test

// Which sums get nests of their own, and which stay: by what is around them and who else has left.
#include "dsl/ir/printer.h"
#include "dsl/ir/verifier.h"
#include "tests/unit/passes/parts.h"
#include "transforms/sums/scatters.h"

namespace loopgrad::transforms {
namespace {

constexpr const char* ring = R"(
  program p(n)
    input  f32 x[n, 8]
    inout  f32 t[n, 8]
)";

// Neighbours meet, but none meets itself: there is nothing to combine, and more to share out than one index.
TEST(SumNests, NeighboursOnARingArePartedOnEveryMachine) {
  for (const Machine& machine : {cpu_machine(), gpu_machine()})
    expect_pass("restructure_sums", ring, R"(
      for i in 0..n:
        for s in 0..8:
          t[i, s] += x[i, s]
          t[(i + 1)%n, s] += -x[i, s]
      )",
                R"(
      for i in 0..n:
        for s in 0..8:
          t[i, s] += x[i, s]
      for i in 0..n:
        for s in 0..8:
          t[i, s] += -x[(i - 1)%n, s]
      )",
                "alone it adds to each element in one iteration", machine);
}

TEST(RecognizeContractions, ASmallProductKeepsNoLoopAroundItFromRunningSideBySide) {
  expect_kept("recognize_contractions", R"(
    program p(n)
      input  f32 a[n, 8, 8]
      input  f32 b[8, 8]
      input  i64 k[n]
      inout  f32 t[n, 8]
      fact   k in 0..n
    )",
              R"(
    for i in 0..n:
      local f32 s[8, 8]
      for u in 0..8:
        for v in 0..8:
          s[u, v] = 0
      for u in 0..8:
        for v in 0..8:
          for w in 0..8:
            s[u, v] += a[i, u, w]*b[w, v]
      for u in 0..8:
        for v in 0..8:
          t[k[i], v] += s[u, v]
    )",
              "can run side by side");
}

TEST(SumNests, StayWhereOnlyOthersMeetThemThatHaveLeft) {
  expect_pass("restructure_sums", R"(
    program p(n, m)
      input  i64 k[n, m]
      input  f32 x[n]
      inout  f32 t[n]
      inout  f32 w[n, m]
      fact   k in 0..n
    )",
              R"(
    for i in 0..n:
      local f32 s
      s = 1
      for e in 0..m:
        local f32 f
        f = sin(s*(x[i] - x[k[i, e]]))
        s = s + f*w[i, e]
        t[i] += f
        t[k[i, e]] += -f
    )",
              R"(
    local f32 f_all[n, m]
    for i in 0..n:
      local f32 s
      s = 1
      for e in 0..m:
        f_all[i, e] = sin(s*(x[i] - x[k[i, e]]))
        s = s + f_all[i, e]*w[i, e]
        t[i] += f_all[i, e]
    for i in 0..n:
      for e in 0..m:
        t[k[i, e]] += (segments) -f_all[i, e]
    )",
              "sorted by them", gpu_machine());
}

TEST(SumNests, ScattersLeaveTheFewIterationsOfAParallelLoop) {
  expect_pass("restructure_sums", R"(
    program p(s, n)
      input  i64 k[n]
      input  f32 x[s, n]
      inout  f32 t[s, n]
      inout  f32 u[s]
      fact   k in 0..n
    )",
              R"(
    for i in 0..s:
      u[i] = sin(u[i])
      for e in 0..n:
        t[i, k[e]] += x[i, e]*u[i]
    )",
              R"(
    for i in 0..s:
      u[i] = sin(u[i])
    for i in 0..s:
      for e in 0..n:
        t[i, k[e]] += (segments) x[i, e]*u[i]
    )",
              "sorted by them", gpu_machine());
}

TEST(SumNests, ThreadsOfABlockGatherInEachStep) {
  expect_pass("restructure_sums", R"(
    program p(h, n, d)
      input  f32 x[h, n, d]
      inout  f32 state[h, d, d]
      inout  f32 r[h, d]
      inout  f32 total[h, n]
    )",
              R"(
    for a in 0..h:
      for t in 0..n:
        for i in 0..d:
          local f32 s
          s = 0
          for j in 0..d:
            s += state[a, i, j]*x[a, t, j]
            r[a, j] += state[a, i, j]*x[a, t, i]
          total[a, t] += s*s
        for i in 0..d:
          for j in 0..d:
            state[a, i, j] = tanh(r[a, j] + state[a, i, j])
    )",
              R"(
    for a in 0..h:
      for t in 0..n:
        local f32 s_all[d]:
          for j in 0..d:
            for i in 0..d:
              r[a, j] += state[a, i, j]*x[a, t, i]
          for i in 0..d:
            s_all[i] = 0
            for j in 0..d:
              s_all[i] += state[a, i, j]*x[a, t, j]
          for i in 0..d:
            total[a, t] += s_all[i]*s_all[i]
        for i in 0..d:
          for j in 0..d:
            state[a, i, j] = tanh(r[a, j] + state[a, i, j])
    )",
              "threads of a block", gpu_machine());
}

TEST(SumNests, ElementsThatOtherIndicesShareOutAreGatheredOnACpu) {
  const PassResult result = run_passes("restructure_sums", R"(
    program p(n, m, f)
      input  i64 k[n, f]
      input  f32 x[n, f]
      inout  f32 t[m, f]
      fact   k in 0..m
    )",
                                       R"(
    for i in 0..n:
      for a in 0..f:
        for b in a + 1..f:
          t[k[i, a], b] += x[i, b]
    )");
  EXPECT_NE(reasons_in(result.report).find("the outermost loops enumerate b"), std::string::npos)
      << reasons_in(result.report);
}

TEST(Scatters, MayReadAnotherLevelOfTheirTarget) {
  const auto may_read = [](const std::string& value) {
    const ir::Program program = program_of(R"(
      program p(l, n)
        input  i64 k[n]
        inout  f32 z[l + 2, n]
        fact   k in 0..n
      )",
                                           "for i in 0..n:\n  z[l, k[i]] += " + value + "\n");
    const ir::For& loop = *program.body.as<ir::For>();
    const ir::Reduce& sum = *loop.body.as<ir::Reduce>();
    EXPECT_EQ(scatter_form(program, program.body).has_value(), !may_read_target(sum.value, sum, {loop.iterator}));
    return may_read_target(sum.value, sum, {loop.iterator});
  };
  EXPECT_FALSE(may_read("z[l + 1, i]"));
  EXPECT_TRUE(may_read("z[l, i]"));
  EXPECT_TRUE(may_read("z[i, k[i]]")) << "a level that iterations choose";
  EXPECT_TRUE(may_read("z[k[i], i]")) << "or data";
}

}  // namespace
}  // namespace loopgrad::transforms

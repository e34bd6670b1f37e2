// Steps of a schedule that join loops or part them: fuse, contract, fission, expand.
#include "tests/unit/transforms/scheduled.h"

namespace loopgrad::transforms {
namespace {

TEST(Schedule, Fuses) {
  EXPECT_HAS(after(two_loops(0), "fuse(i, k)"),
             "for i in 0..n:\n"
             "  a[i] = exp(x[i])\n"
             "  y[i] = 3*a[i]\n");
  expect_same(two_loops(0), "fuse(i, k)", {{{"n", 6}}, {{"n", 0}}});
}

TEST(Schedule, RefusesToFuseWithALaterIteration) {
  std::string text = refusal(two_loops(1), "fuse(i, k)");
  EXPECT_HAS(text, "cannot fuse 'i' and 'k': a[i] is written at scheduled.h:");
  EXPECT_HAS(text, "for (i = 1) and read as a[k + 1] at");
  EXPECT_HAS(text, "for (k = 0)");
  EXPECT_HAS(refusal(two_loops(0), "fuse(z, i)"), "the bounds of the loops differ");
  EXPECT_HAS(refusal(two_loops(0), "reverse(k); fuse(i, k)"), "the loops run in opposite directions");
  EXPECT_HAS(refusal<UsageError>(two_loops(0), "fuse(z, k)"), "the second loop does not follow right after the first");
}

// Bounds that are a constant apart: iterations are counted from the same one. Where that is too early, it is refused.
TEST(Schedule, FusesLoopsAConstantApart) {
  const auto program = [](int reads) {
    ProgramBuilder p("apart");
    auto n = p.size("n");
    auto x = p.input<float>("x", {n + 2});
    auto a = p.inout<float>("a", {n + 2});
    auto y = p.output<float>("y", {n + 2});
    for (auto i : p.loop("i", 0, n)) a(i) = exp(x(i));
    for (auto k : p.loop("k", 2, n + 2)) y(k) = 3.0f * a(k - reads);
    return p.build();
  };
  EXPECT_HAS(after(program(2), "fuse(i, k)"),
             "for i in 0..n:\n"
             "  a[i] = exp(x[i])\n"
             "  y[i + 2] = 3*a[i]\n");
  expect_same(program(2), "fuse(i, k)", {{{"n", 5}}, {{"n", 0}}});
  expect_same(program(2), "reverse(i); reverse(k); fuse(i, k)", {{{"n", 5}}});
  EXPECT_HAS(refusal(program(1), "fuse(i, k)"), "for (i = 1) and read as a[k - 1]");
}

TEST(Schedule, ContractsWhatFusionMadeLocal) {
  ProgramBuilder p("pair");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n});
  auto a = p.local<float>("a", {n});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) a(i) = exp(x(i));
  for (auto k : p.loop("k", 0, n)) y(k) = 3.0f * a(k);
  Program program = p.build();
  EXPECT_EQ(after(program, "fuse(i, k); contract(a)"),
            "for i in 0..n:\n"
            "  local f32 a\n"
            "  a = exp(x[i])\n"
            "  y[i] = 3*a\n");
  expect_same(program, "fuse(i, k); contract(a)", {{{"n", 6}}});
  EXPECT_HAS(refusal<UsageError>(program, "contract(a)"), "cannot contract 'a': it is used outside of one loop");
}

TEST(Schedule, RefusesToContractWhatIterationsShare) {
  ProgramBuilder p("shared");
  auto n = p.size("n");
  auto a = p.local<float>("a", {n + 1});
  auto y = p.output<float>("y", {n});
  a(0) = 1.0f;
  for (auto i : p.loop("i", 0, n)) {
    a(i + 1) = 2.0f * a(i);
    y(i) = a(i);
  }
  EXPECT_HAS(refusal<UsageError>(p.build(), "contract(a)"), "cannot contract 'a'");
}

TEST(Schedule, FissionNeedsLocalsExpanded) {
  std::string text = refusal(row_sums(), "fission(i, 2)");
  EXPECT_HAS(text, "the local 's' is used in both parts");
  EXPECT_HAS(text, "Hint: expand(s, i)");
  EXPECT_HAS(after(row_sums(), "expand(s, i); fission(i); interchange(i#2, j)"),
             "for j in 0..m:\n"
             "  for i in 0..n:\n"
             "    s_all[i] += x[i, j]\n");
  expect_same(row_sums(), "expand(s, i); fission(i); interchange(i#2, j)", squares);
}

TEST(Schedule, RefusesFissionOfACircle) {
  ProgramBuilder p("circle");
  auto n = p.size("n");
  auto a = p.inout<float>("a", {n}), b = p.inout<float>("b", {n});
  for (auto i : p.loop("i", 1, n)) {
    a(i) = b(i - 1);
    b(i) = a(i);
  }
  std::string text = refusal(p.build(), "fission(i, 1)");
  EXPECT_HAS(text, "cannot split the body of 'i': b[i] is written at");
  EXPECT_HAS(text, "for (i = 1) and read as b[i - 1] at");
  EXPECT_HAS(text, "for (i = 2)");
}

// Programs that fission was not made for: a triangle with a time loop around, rows of a CSR structure whose bounds are
// data, and a condition that the first part changes.
TEST(Schedule, SplitsTrianglesAndRowsOfData) {
  ProgramBuilder t("triangle");
  auto n = t.size("n"), steps = t.size("steps");
  auto x = t.input<float>("x", {n, n});
  auto a = t.inout<float>("a", {n, n}), y = t.inout<float>("y", {n, n});
  for ([[maybe_unused]] auto s : t.loop("s", 0, steps))
    for (auto i : t.loop("i", 0, n))
      for (auto j : t.loop("j", i, n)) {
        a(i, j) += x(i, j);
        y(i, j) += 2.0f * a(i, n - 1 - j + i);
        y(i, j) = y(i, j) * 0.5f;
      }
  const Program triangle = t.build();
  EXPECT_HAS(refusal(triangle, "fission(j, 1)"), "and added to as a[i, j] at");
  EXPECT_HAS(after(triangle, "fission(i)"),
             "    for j in i..n:\n"
             "      a[i, j] += x[i, j]\n");
  expect_same(triangle, "fission(j, 2); fission(i)", {{{"n", 5}, {"steps", 3}}, {{"n", 1}, {"steps", 1}}});

  ProgramBuilder c("rows");
  auto m = c.size("m"), entries = c.size("entries");
  auto ptr = c.input<int>("ptr", {m + 1});
  auto w = c.inout<float>("w", {entries}), z = c.inout<float>("z", {m});
  c.csr(ptr, entries);
  for (auto v : c.loop("v", 0, m))
    for (auto e : c.loop("e", ptr(v), ptr(v + 1))) {
      w(e) = w(e) * 2.0f;
      z(v) += w(e);
    }
  const Program rows = c.build();
  expect_same(rows, "fission(e); fission(v)", {{{"m", 4}, {"entries", 9}}, {{"m", 1}, {"entries", 0}}});
}

}  // namespace
}  // namespace loopgrad::transforms

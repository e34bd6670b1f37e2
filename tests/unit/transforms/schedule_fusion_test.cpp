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

// Programs that unrolling, jamming and interchange were not made for: a triangle below a condition, rows of a CSR
// structure, and a time loop over two levels whose number of steps is odd.
TEST(Schedule, JamsAndExchangesLoopsOfOtherShapes) {
  ProgramBuilder t("below");
  auto n = t.size("n");
  auto x = t.input<float>("x", {n, n});
  auto y = t.inout<float>("y", {n, n});
  for (auto i : t.loop("i", 0, n))
    for (auto j : t.loop("j", i, n)) {
      t.when(i + j < n, [&] { y(j, i) = x(i, j) + y(j, i); }).otherwise([&] { y(j, i) = 2.0f * x(j, i); });
    }
  const Program triangle = t.build();
  const std::vector<Sizes> sizes = {{{"n", 7}}, {{"n", 1}}, {{"n", 0}}};
  expect_same(triangle, "interchange(i, j); unroll_and_jam(j, 3)", sizes);
  expect_same(triangle, "unroll_and_jam(i, 2)", sizes);
  expect_same(triangle, "parallelize(i); unroll_and_jam(i, 4)", sizes);

  ProgramBuilder c("rows");
  auto m = c.size("m"), entries = c.size("entries");
  auto ptr = c.input<int>("ptr", {m + 1});
  auto w = c.input<float>("w", {entries});
  auto z = c.inout<float>("z", {m});
  c.csr(ptr, entries);
  for (auto v : c.loop("v", 0, m))
    for (auto e : c.loop("e", ptr(v), ptr(v + 1))) z(v) = 0.5f * z(v) + w(e);
  const Program rows = c.build();
  expect_same(rows, "unroll_and_jam(v, 2); unroll(e#1, 3)", {{{"m", 5}, {"entries", 11}}});
  EXPECT_HAS(refusal(rows, "interchange(v, e)"), "the bounds of 'e' read data");
  EXPECT_HAS(refusal(rows, "reverse(e)"), "z[v] may be read at");

  ProgramBuilder h("steps");
  auto k = h.size("k"), T = h.size("T");
  auto u = h.inout<float>("u", {2, k + 2});
  for (auto s : h.loop("s", 0, T))
    for (auto i : h.loop("i", 1, k + 1)) u((s + 1) % 2, i) = u(s % 2, i - 1) + 0.5f * u(s % 2, i + 1);
  const Program steps = h.build();
  const std::vector<Sizes> odd = {{{"k", 5}, {"T", 5}}, {{"k", 1}, {"T", 1}}, {{"k", 3}, {"T", 0}}};
  expect_same(steps, "unroll(s, 2)", odd);
  expect_same(steps, "unroll(s, 2); unroll_and_jam(i#1, 3)", odd);
  EXPECT_HAS(refusal(steps, "interchange(s, i)"), "cannot interchange 's' and 'i'");
}

}  // namespace
}  // namespace loopgrad::transforms

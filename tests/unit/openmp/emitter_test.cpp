// The generated text of a few programs, as a whole.
#include "tests/unit/openmp/kernels.h"
#include "tests/unit/transforms/passes.h"
#include "transforms/storage/accumulate_in_registers.h"

namespace loopgrad::test {
namespace {

/// Only what follows the helpers: they are the same for all.
std::string functions_of(const backend::EmittedUnit& unit) {
  return unit.source.substr(unit.source.find("static int "));
}

TEST(Emitter, LanesSideBySide) {
  lg::ProgramBuilder p("conv1d");
  auto n = p.size("n"), k = p.size("k");
  auto x = p.input<float>("x", {n + k - 1});
  auto w = p.input<float>("w", {k});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    y(i) = 0;
    for (auto j : p.loop("j", 0, k)) y(i) += x(i + j) * w(j);
  }
  const backend::EmittedUnit unit = emitted({transforms::mapped_to_cpu(parallel(p.build(), {"i"}))});
  expect_golden("conv1d.cpp", unit.source);
  expect_golden("conv1d.h", unit.header);
}

TEST(Emitter, RowsOfASparseMatrix) {
  lg::ProgramBuilder p("graph_max");
  auto v = p.size("v"), e = p.size("e"), d = p.size("d");
  auto ptr = p.input<std::int32_t>("ptr", {v + 1});
  auto col = p.input<std::int32_t>("col", {e});
  auto h = p.input<float>("h", {v, d});
  auto y = p.output<float>("y", {v, d});
  p.csr(ptr, e);
  p.in_range(col, 0, v);
  for (auto r : p.loop("r", 0, v)) {
    for (auto f : p.loop("f", 0, d)) y(r, f) = 0;
    for (auto j : p.loop("j", ptr(r), ptr(r + 1)))
      for (auto f : p.loop("f", 0, d)) y(r, f).max_with(h(col(j), f));
  }
  expect_golden("graph_max.cpp", functions_of(emitted({parallel(p.build(), {"r", "f"})})));
}

TEST(Emitter, LocalsOfEveryKind) {
  lg::ProgramBuilder p("locals");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<float>("x", {n, m});
  auto y = p.output<half>("y", {n});
  auto all = p.local<float>("all", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto s = p.scalar<float>("s");
    auto small = p.local<float>("small", {4});
    auto row = p.local<double>("row", {m});
    auto part = p.local<float>("part", {i + 1});
    s = 1;
    small(0) = s;
    for (auto j : p.loop("j", 0, m)) row(j) = lg::cast<double>(x(i, j));
    part(i) = lg::cast<float>(row(m - 1)) + small(0);
    all(i) = part(i);
    y(i) = all(i);
  }
  expect_golden("locals.cpp", functions_of(emitted({parallel(p.build(), {"i", "j"})})));
}

TEST(Emitter, StackOfANaiveTape) {
  using namespace ir;
  const Symbol n = make_symbol("n"), i = make_symbol("i"), j = make_symbol("i");
  const Array x = make_array("x", ScalarType::F32, {var(n)}, ArrayRole::InOut, {});
  const ir::Program forward{
      "step_forward",
      {n},
      {x},
      {},
      for_loop(i, int_const(0), var(n),
               block({push(load(x, {var(i)})), assign(x, {var(i)}, float_const(0, ScalarType::F32))})),
      {}};
  const ir::Program backward{
      "step_backward", {n}, {x}, {}, for_loop(j, int_const(0), var(n), pop(x, {var(j)}), LoopMode::Backward), {}};
  const backend::EmittedUnit unit = emitted({forward, backward});
  EXPECT_TRUE(unit.functions[0].uses_stack);
  EXPECT_EQ(unit.functions[1].name, "step_backward_");
  expect_golden("stack.cpp", functions_of(unit));
}

TEST(Emitter, NestsAreSharedOutTogether) {
  lg::ProgramBuilder p("heads");
  auto h = p.size("h"), n = p.size("n"), d = p.size("d");
  auto q = p.input<float>("q", {h, n, d});
  auto y = p.output<float>("y", {h, n});
  for (auto a : p.loop("a", 0, h))
    for (auto i : p.loop("i", 0, n)) {
      y(a, i) = 0;
      for (auto k : p.loop("k", 0, d)) y(a, i) += q(a, i, k) * q(a, i, k);
    }
  expect_golden("heads.cpp", functions_of(emitted({transforms::mapped_to_cpu(parallel(p.build(), {"a", "i"}))})));
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(Emitter, LoopsOverOneRangeShareARegion) {
  lg::ProgramBuilder p("region");
  auto n = p.size("n");
  auto count = p.inout<std::int32_t>("count", {1});
  auto x = p.inout<float>("x", {n}), y = p.inout<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) y(i) = x(n - 1 - i);
  for (auto i : p.loop("i", 0, n)) x(i) = y(n - 1 - i) * 2.0f;
  for (auto i : p.loop("i", 0, n)) y(i) += x(n - 1 - i);
  for (auto i : p.loop("i", 1, n)) x(i) = 0.0f;         // another range
  for (auto i : p.loop("i", 0, count(0))) y(i) = 0.0f;  // data
  for (auto i : p.loop("i", 0, count(0))) x(i) = 1.0f;
  const std::string text = functions_of(emitted({parallel(p.build(), {"i"})}));
  EXPECT_EQ(count_of(text, "omp parallel"), 4u) << text;
  EXPECT_EQ(count_of(text, "omp for"), 6u) << text;
  // All but the last of a region end with a barrier.
  EXPECT_EQ(count_of(text, "nowait"), 4u) << text;
}

/// Eight rows share one loop, whose lanes are added up all at once.
TEST(Emitter, SumsSideBySide) {
  lg::ProgramBuilder p("scores");
  auto n = p.size("n"), k = p.size("k"), d = p.size("d");
  auto q = p.input<float>("q", {n, d}), key = p.input<float>("key", {k, d});
  auto y = p.output<float>("y", {n, k});
  auto last = p.output<float>("last", {n});
  for (auto i : p.loop("i", 0, n)) {
    for (auto o : p.loop("o", 0, k)) {
      y(i, o) = 0;
      for (auto c : p.loop("c", 0, d)) y(i, o) += q(i, c) * key(o, c);
    }
    last(i) = y(i, k - 1);
  }
  expect_golden("scores.cpp", functions_of(emitted({transforms::mapped_to_cpu(parallel(p.build(), {"i", "o"}))})));
}

/// They are computed once, at the start of the function.
TEST(Emitter, RepeatedExtentsAreNamed) {
  lg::ProgramBuilder p("blocks");
  auto n = p.size("n");
  const lg::Value blocks = lg::max(lg::min(64, n / 4), 1), length = (n + blocks - 1) / blocks;
  auto x = p.input<float>("x", {n});
  auto y = p.output<float>("y", {1});
  auto part = p.local<float>("part", {blocks});
  for (auto b : p.loop("block", 0, blocks)) {
    part(b) = 0;
    for (auto i : p.loop("i", b * length, lg::min(n, (b + 1) * length))) part(b) += x(i);
  }
  y(0) = 0;
  for (auto b : p.loop("k", 0, blocks)) y(0) += part(b);
  expect_golden("blocks.cpp",
                functions_of(emitted({transforms::accumulate_in_registers(parallel(p.build(), {"block"}))})));
}

TEST(Emitter, HeaderStandsAloneAndSourceIncludesIt) {
  lg::ProgramBuilder p("double");
  auto n = p.size("n");
  auto x = p.inout<float>("x", {n});
  for (auto i : p.loop("i", 0, n)) x(i) *= 2.0f;
  const backend::EmittedUnit unit = emitted({p.build().ir()}, "double.h");
  EXPECT_EQ(unit.functions[0].name, "double_");
  EXPECT_NE(unit.source.find("#include \"double.h\""), std::string::npos);
  EXPECT_EQ(unit.source.find("struct double_args {"), std::string::npos);
  EXPECT_NE(unit.header.find("struct double_args {"), std::string::npos);
}

// Starting a region costs more than a short loop, also a region of one thread. What one thread does alone must not ask
// to be shared out: it would be shared out among the threads of a caller's region.
TEST(Emitter, RegionsInLoopsAreStartedOnlyWhereTheyPay) {
  lg::ProgramBuilder p("steps");
  auto n = p.size("n"), d = p.size("d");
  auto x = p.inout<float>("x", {d});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, d)) x(j) = x(j) * 0.5f + cast<float>(i);
  const std::string text = functions_of(emitted({parallel(p.build(), {"j"})}));
  const std::size_t threads = text.find("if (threads > 1 && ("), alone = text.find("} else {", threads);
  ASSERT_NE(alone, std::string::npos) << text;
  EXPECT_EQ(count_of(text, "omp parallel"), 1u) << text;
  EXPECT_LT(text.find("omp for"), alone) << text;
  EXPECT_EQ(text.find("omp for", alone), std::string::npos) << text;
}

// The gradient of a running maximum looks for the iteration that set it last: from the end, and no further than that.
TEST(Emitter, SearchesThroughBranchesGoFromTheEnd) {
  lg::ProgramBuilder p("largest");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<float>("x", {n, m});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", n)) {
    auto best = p.scalar<float>("best", -1e30f);
    // Short values are looked for without a branch (extremum_searches.h).
    for (auto k : p.loop("k", m)) p.when(exp(x(i, k)) > best, [&] { best = exp(x(i, k)); });
    y(i) = best * best;
  }
  const lg::Gradient gradient = lg::differentiate(p.build());
  Report report;
  const std::string text = functions_of(
      emitted({transforms::lower_for(gradient.backward.ir(), {.machine = transforms::cpu_machine()}, report).program}));
  EXPECT_NE(text.find("for (int64_t k_ = m_ - 1; k_ >= 0; --k_) {"), std::string::npos) << text;
  EXPECT_NE(text.find("break;"), std::string::npos) << text;
  EXPECT_NE(text.find("const uint8_t* __restrict branch_tape_"), std::string::npos) << text;
}

}  // namespace
}  // namespace loopgrad::test

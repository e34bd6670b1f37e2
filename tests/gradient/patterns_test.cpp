// Programs whose gradients other systems get silently wrong (see docs/limitations.md), and the overwrites, dynamic
// loops and branches that a direct-indexed tape must get right. Each is checked element by element.
#include "tests/gradient/jacobian.h"

#include <loopgrad/error.h>

namespace loopgrad::test {
namespace {

TEST(Patterns, NestedDynamicLoopsWithoutFacts) {
  ProgramBuilder p("nested_dynamic");
  auto n = p.size("n");
  auto rows = p.input<std::int32_t>("rows", {n});
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto s = p.scalar<double>("s");
    s = x(i);
    for (auto j : p.loop("j", 0, rows(i)))
      for (auto k : p.loop("k", j, rows(j))) s = s * (1 + 0.25 * x(k) * x(j));
    y(i) = s;
  }
  const Inputs inputs{.sizes = {{"n", 4}}, .values = {{"rows", {3, 0, 4, 2}}}, .options = {}};
  EXPECT_TRUE(gradient_is_right(p.build(), inputs));
}

TEST(Patterns, VariableFromBeforeTheLoop) {
  ProgramBuilder p("before_the_loop");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {});
  auto s = p.scalar<double>("s");
  s = x(0) * x(0);
  auto t = p.scalar<double>("t");
  t = s;
  for (auto i : p.loop("i", 0, n)) t = t * s + x(i);
  y() = t;
  EXPECT_TRUE(gradient_is_right(p.build(), {.sizes = {{"n", 5}}, .values = {}, .options = {}}));
}

TEST(Patterns, InPlaceUpdateOfAnArray) {
  ProgramBuilder p("in_place");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto v = p.inout<double>("v", {n});
  for (auto i : p.loop("i", 0, n)) v(i) = v(i) + x(i);
  for (auto i : p.loop("i", 0, n)) v(i) = v(i) * v(i) * x(i);
  for (auto i : p.loop("i", 0, n)) v(i) = sin(v(i)) / x(i);
  EXPECT_TRUE(gradient_is_right(p.build(), {.sizes = {{"n", 4}}, .values = {}, .options = {}}));
}

TEST(Patterns, LoopCarriedReadAfterWrite) {
  ProgramBuilder p("carried");
  auto n = p.size("n");
  auto a = p.input<double>("a", {n});
  auto x = p.inout<double>("x", {n});
  for (auto i : p.loop("i", 1, n)) x(i) = a(i) * x(i - 1) * x(i) + x(i - 1);
  for (auto i : p.loop("i", 0, n - 1)) x(i) = x(i) * x(i + 1);
  EXPECT_TRUE(gradient_is_right(p.build(), {.sizes = {{"n", 6}}, .values = {}, .options = {}}));
}

TEST(Patterns, ProductOfNeighbours) {
  ProgramBuilder p("neighbours");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n});
  y(0) = 0;
  for (auto i : p.loop("i", 1, n)) y(i) = x(i) * x(i - 1);
  EXPECT_TRUE(gradient_is_right(p.build(), {.sizes = {{"n", 6}}, .values = {}, .options = {}}));
}

TEST(Patterns, ZeroInitialisedLocalArray) {
  ProgramBuilder p("zeroed");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto work = p.local<double>("work", {n});
    for (auto j : p.loop("j", 0, n)) work(j) = 0;
    for (auto j : p.loop("j", 0, i + 1)) work(j) += x(j) * x(i);
    auto s = p.scalar<double>("s");
    s = 0;
    for (auto j : p.loop("j", 0, n)) s += work(j) * work(j);
    y(i) = s;
  }
  EXPECT_TRUE(gradient_is_right(p.build(), {.sizes = {{"n", 4}}, .values = {}, .options = {}}));
}

TEST(Patterns, DoubleBufferedTimeSteps) {
  ProgramBuilder p("double_buffer");
  auto n = p.size("n"), steps = p.size("T");
  auto u0 = p.input<double>("u0", {n});
  auto out = p.output<double>("out", {n});
  auto u = p.local<double>("u", {2, n});
  for (auto i : p.loop("i", 0, n)) {
    u(0, i) = u0(i);
    u(1, i) = u0(i);
  }
  for (auto t : p.loop("t", 0, steps))
    for (auto i : p.loop("i", 1, n - 1)) {
      auto now = u(t % 2, i);
      u((t + 1) % 2, i) = now + 0.1 * (u(t % 2, i - 1) - 2 * now + u(t % 2, i + 1) - now * now * now);
    }
  for (auto i : p.loop("i", 0, n)) out(i) = u(steps % 2, i);
  const Program program = p.build();
  for (const std::int64_t t : {0, 1, 2, 5})
    EXPECT_TRUE(gradient_is_right(program, {.sizes = {{"n", 6}, {"T", t}}, .values = {}, .options = {}}));
}

TEST(Patterns, TwoBuffersCopiedBackAndForth) {
  ProgramBuilder p("copied");
  auto n = p.size("n"), steps = p.size("T");
  auto u0 = p.input<double>("u0", {n});
  auto out = p.output<double>("out", {n});
  auto u = p.local<double>("u", {n});
  auto v = p.local<double>("v", {n});
  for (auto i : p.loop("i", 0, n)) u(i) = u0(i);
  for ([[maybe_unused]] auto t : p.loop("t", 0, steps)) {
    for (auto i : p.loop("i", 1, n - 1)) v(i) = u(i) + 0.1 * (u(i - 1) * u(i + 1) - u(i) * u(i));
    for (auto i : p.loop("i", 1, n - 1)) u(i) = v(i);
  }
  for (auto i : p.loop("i", 0, n)) out(i) = u(i);
  const Program program = p.build();
  EXPECT_TRUE(gradient_is_right(program, {.sizes = {{"n", 5}, {"T", 3}}, .values = {}, .options = {}}));
  // One state per step and nothing else: the first step reads the input itself. With its border, as it stands for `u`.
  EXPECT_EQ(tape_bytes(program, {{"n", 5}, {"T", 3}}), 3 * 5 * 8);
}

TEST(Patterns, BranchOnOverwrittenData) {
  ProgramBuilder p("branch");
  auto n = p.size("n");
  auto x = p.inout<double>("x", {n});
  for ([[maybe_unused]] auto t : p.loop("t", 0, 3))
    for (auto i : p.loop("i", 0, n))
      p.when(x(i) > 0.8, [&] { x(i) = x(i) * x(i) * 0.7; }).otherwise([&] { x(i) = 2 * x(i) + 0.1 * x(i) * x(i); });
  EXPECT_TRUE(gradient_is_right(p.build(), {.sizes = {{"n", 5}}, .values = {}, .options = {}}));
}

TEST(Patterns, WhileOnData) {
  ProgramBuilder p("newton");
  auto n = p.size("n");
  auto a = p.input<double>("a", {n});
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto r = p.scalar<double>("r");
    r = 1 + a(i);
    for ([[maybe_unused]] auto k : p.loop_while("k", 20, [&](const Value&) { return abs(r * r - a(i)) > 1e-3; }))
      r = 0.5 * (r + a(i) / r);
    y(i) = r;
  }
  EXPECT_TRUE(gradient_is_right(p.build(), {.sizes = {{"n", 4}}, .values = {}, .options = {}}));
}

TEST(Patterns, IndirectReadsAndWrites) {
  ProgramBuilder p("indirect");
  auto n = p.size("n"), m = p.size("m");
  auto from = p.input<std::int32_t>("from", {m});
  auto to = p.input<std::int32_t>("to", {m});
  auto w = p.input<double>("w", {m});
  auto h = p.inout<double>("h", {n});
  p.in_range(from, 0, n);
  p.in_range(to, 0, n);
  for (auto e : p.loop("e", 0, m)) {
    h(to(e)) += w(e) * h(from(e)) * h(from(e));
    h(from(e)) = h(from(e)) * h(to(e));
  }
  const Inputs inputs{.sizes = {{"n", 3}, {"m", 6}},
                      .values = {{"from", {0, 1, 1, 2, 0, 2}}, {"to", {1, 1, 0, 2, 2, 0}}},
                      .options = {}};
  EXPECT_TRUE(gradient_is_right(p.build(), inputs));
}

TEST(Patterns, CsrAttentionWithMaximum) {
  ProgramBuilder p("csr_attention");
  auto n = p.size("n"), edges = p.size("E");
  auto ptr = p.input<std::int32_t>("ptr", {n + 1});
  auto src = p.input<std::int32_t>("src", {edges});
  auto h = p.input<double>("h", {n});
  auto y = p.output<double>("y", {n});
  p.csr(ptr, edges);
  p.in_range(src, 0, n);
  for (auto v : p.loop("v", 0, n)) {
    auto best = p.scalar<double>("best"), total = p.scalar<double>("total"), sum = p.scalar<double>("sum");
    best = -1e30;
    for (auto e : p.loop("e", ptr(v), ptr(v + 1))) best.max_with(h(src(e)) * h(v));
    total = 0;
    sum = 0;
    for (auto e : p.loop("e", ptr(v), ptr(v + 1))) {
      auto a = p.scalar<double>("a");
      a = exp(h(src(e)) * h(v) - best);
      total += a;
      sum += a * h(src(e));
    }
    p.when(ptr(v + 1) > ptr(v), [&] { y(v) = sum / total; }).otherwise([&] { y(v) = h(v); });
  }
  const Inputs inputs{.sizes = {{"n", 4}, {"E", 7}},
                      .values = {{"ptr", {0, 3, 3, 6, 7}}, {"src", {1, 2, 0, 3, 0, 1, 2}}},
                      .options = {}};
  const Program program = p.build();
  EXPECT_TRUE(gradient_is_right(program, inputs));
  // Row values and the weights of the edges; nothing is indexed by (row, edge).
  EXPECT_LE(tape_bytes(program, inputs.sizes), 8 * (4 * 4 + 2 * 7));
}

TEST(Patterns, RunningMaximumWhoseIntermediateValuesAreUsed) {
  ProgramBuilder p("running_max");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n});
  auto m = p.scalar<double>("m");
  m = 0.1 * x(0);
  for (auto i : p.loop("i", 0, n)) {
    m.max_with(x(i) * x(i));
    y(i) = m * x(0);
  }
  EXPECT_TRUE(gradient_is_right(p.build(), {.sizes = {{"n", 7}}, .values = {}, .options = {}}));
}

TEST(Patterns, ExtremaAndProducts) {
  ProgramBuilder p("extrema");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<double>("x", {n, m});
  auto low = p.output<double>("low", {n});
  auto high = p.output<double>("high", {m});
  auto prod = p.output<double>("prod", {n});
  for (auto j : p.loop("j", 0, m)) high(j) = -1e30;
  for (auto i : p.loop("i", 0, n)) {
    low(i) = 1e30;
    prod(i) = 1;
    for (auto j : p.loop("j", 0, m)) {
      low(i).min_with(x(i, j));
      high(j).max_with(sin(x(i, j)));
      prod(i) *= x(i, j);
    }
  }
  EXPECT_TRUE(gradient_is_right(p.build(), {.sizes = {{"n", 3}, {"m", 4}}, .values = {}, .options = {}}));
}

TEST(Patterns, TriangularLoopsInPlace) {
  ProgramBuilder p("cholesky");
  auto n = p.size("n");
  auto a = p.inout<double>("a", {n, n});
  for (auto j : p.loop("j", 0, n)) {
    for (auto k : p.loop("k", 0, j)) a(j, j) -= a(j, k) * a(j, k);
    a(j, j) = sqrt(a(j, j));
    for (auto i : p.loop("i", j + 1, n)) {
      for (auto k : p.loop("k", 0, j)) a(i, j) -= a(i, k) * a(j, k);
      a(i, j) /= a(j, j);
    }
  }
  std::vector<double> spd;
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) spd.push_back(i == j ? 5 + i : 0.3 * (i + 1) - 0.2 * j);
  EXPECT_TRUE(gradient_is_right(p.build(), {.sizes = {{"n", 4}}, .values = {{"a", spd}}, .options = {}}));
}

TEST(Patterns, OutputsAreReadAndOverwritten) {
  ProgramBuilder p("outputs");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n});
  auto z = p.output<double>("z", {n});
  for (auto i : p.loop("i", 0, n)) y(i) = x(i) * x(i);
  for (auto i : p.loop("i", 0, n)) z(i) = exp(y(n - 1 - i));
  for (auto i : p.loop("i", 0, n)) y(i) = y(i) * z(i);
  const Program program = p.build();
  for (const auto& of : std::vector<std::vector<std::string>>{{}, {"y"}, {"z"}})
    EXPECT_TRUE(gradient_is_right(program, {.sizes = {{"n", 4}}, .values = {}, .options = {.wrt = {}, .of = of}}));
}

TEST(Patterns, GuardedNeighbour) {
  ProgramBuilder p("guarded");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", 0, n))
    y(i) = select(i > 0, x(i - 1) * x(i), x(i)) + select(i < n - 1, x(i + 1), 0.0) * x(i);
  EXPECT_TRUE(gradient_is_right(p.build(), {.sizes = {{"n", 5}}, .values = {}, .options = {}}));
}

TEST(Patterns, GuardedNeighbourInPlace) {
  ProgramBuilder p("guarded_in_place");
  auto n = p.size("n");
  auto x = p.inout<double>("x", {n});
  auto k = p.input<std::int32_t>("k", {n});
  for (auto i : p.loop("i", 0, n)) {
    x(i) = select(i > 0 && k(i) > 0, x(k(i) - 1) * x(i), x(i)) + select(i < n - 1, x(i + 1), 0.0) * x(i);
    x(i) *= select(i > 1, x(i - 2), 1.5);
  }
  const Inputs inputs{.sizes = {{"n", 5}}, .values = {{"k", {0, 3, 0, 5, 2}}}, .options = {}};
  EXPECT_TRUE(gradient_is_right(p.build(), inputs));
}

TEST(Patterns, ExtremumWhoseOperandIsReadUnderItsBranch) {
  ProgramBuilder p("extremum_guard");
  auto m = p.size("m");
  auto x = p.input<double>("x", {m});
  auto y = p.inout<double>("y", {});
  for (auto j : p.loop("j", 0, m)) y() = y() * x(j);
  y().max_with(min(y() * y(), 0.5) * x(0));
  y() = y() * x(1);
  EXPECT_TRUE(gradient_is_right(p.build(), {.sizes = {{"m", 3}}, .values = {}, .options = {}}));
}

TEST(Patterns, OneElementReadWithAndWithoutAGuard) {
  ProgramBuilder p("two_guards");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto s = p.output<double>("s", {});
  s() = 0.5;
  for (auto i : p.loop("i", 0, n)) s() = select(i > 0, s(), 0.5) * (s() * x(0)) + x(i);
  EXPECT_TRUE(gradient_is_right(p.build(), {.sizes = {{"n", 4}}, .values = {}, .options = {}}));
}

TEST(Patterns, SeveralMeasuredLoopsOfOneName) {
  ProgramBuilder p("measured");
  auto n = p.size("n");
  auto count = p.input<std::int32_t>("count", {n});
  auto x = p.input<double>("x", {n});
  auto y = p.inout<double>("y", {});
  for ([[maybe_unused]] auto j : p.loop("j", 0, count(0))) y() = y() * y() * x(0);
  for ([[maybe_unused]] auto j : p.loop("j", 0, count(1))) y() = y() * y() * x(1);
  EXPECT_TRUE(gradient_is_right(p.build(), {.sizes = {{"n", 2}}, .values = {{"count", {3, 2}}}, .options = {}}));
}

// How often the loop runs is looked up beforehand, where it runs: that asks for x.
TEST(Patterns, AMeasuredLoopBehindABranchOnFloats) {
  ProgramBuilder p("behind_a_branch");
  auto n = p.size("n");
  auto count = p.input<std::int32_t>("count", {n});
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    y(i) = x(i);
    p.when(x(i) > 0.75, [&] {
      for ([[maybe_unused]] auto j : p.loop("j", 0, count(i))) y(i) = y(i) * y(i) * x(i);
    });
  }
  const Inputs inputs{
      .sizes = {{"n", 4}}, .values = {{"count", {3, 2, 7, 0}}, {"x", {1, 0.5, 0.625, 1.5}}}, .options = {}};
  EXPECT_TRUE(gradient_is_right(p.build(), inputs));
}

TEST(Patterns, LoopBoundComputedByTheProgramNeedsAPromise) {
  auto build = [](bool promise) {
    ProgramBuilder p("computed_bound");
    auto n = p.size("n");
    auto x = p.input<double>("x", {n});
    auto y = p.output<double>("y", {n});
    for (auto i : p.loop("i", 0, n)) {
      auto s = p.scalar<double>("s");
      s = x(i);
      auto trips = p.scalar<std::int64_t>("trips");
      trips = cast<std::int64_t>(4 * s);  // of what the loop changes: no name for an input
      LoopOptions options;
      if (promise) options.at_most = {5};
      for ([[maybe_unused]] auto k : p.loop("k", 0, trips, options)) s = s * s + 0.1;
      y(i) = s;
    }
    return p.build();
  };
  EXPECT_TRUE(gradient_is_right(build(true), {.sizes = {{"n", 5}}, .values = {}, .options = {}}));
  try {
    differentiate(build(false));
    FAIL() << "must be refused";
  } catch (const DifferentiationError& e) {
    EXPECT_EQ(e.loop(), "k");
    EXPECT_NE(std::string(e.what()).find("at_most"), std::string::npos) << e.what();
    EXPECT_TRUE(e.location().known());
  }
}

TEST(Patterns, IndicesIntoAProductOfSizes) {
  ProgramBuilder p("inrange_product");
  auto n = p.size("n"), m = p.size("m"), k = p.size("k");
  auto u0 = p.input<double>("u0", {n * m});
  auto idx = p.input<std::int32_t>("idx", {k});
  p.in_range(idx, 0, n * m);
  auto y = p.output<double>("y", {k});
  auto u = p.local<double>("u", {n * m});
  for (auto i : p.loop("i", 0, n * m)) u(i) = u0(i) * u0(i);
  for (auto e : p.loop("e", 0, k)) y(e) = u(idx(e)) * u(idx(e));
  EXPECT_TRUE(gradient_is_right(
      p.build(), {.sizes = {{"n", 3}, {"m", 2}, {"k", 5}}, .values = {{"idx", {5, 0, 3, 3, 1}}}, .options = {}}));
}

TEST(Patterns, RowsWhoseEndsAreScalars) {
  ProgramBuilder p("row_ends");
  auto rows = p.size("rows"), count = p.size("count");
  auto ptr = p.input<std::int32_t>("ptr", {rows + 1});
  p.csr(ptr, count);
  auto x = p.input<double>("x", {count});
  auto y = p.output<double>("y", {rows});
  for (auto v : p.loop("v", 0, rows)) {
    auto first = p.scalar<std::int32_t>("first");
    auto last = p.scalar<std::int32_t>("last");
    auto sum = p.scalar<double>("sum");
    first = ptr(v);
    last = ptr(v + 1);
    sum = 0;
    for (auto e : p.loop("e", first, last)) sum = sum * x(e) + x(e) * x(e);
    y(v) = sum;
  }
  EXPECT_TRUE(gradient_is_right(
      p.build(), {.sizes = {{"rows", 3}, {"count", 6}}, .values = {{"ptr", {0, 3, 3, 6}}}, .options = {}}));
}

TEST(Patterns, WrittenAliasesAreRefused) {
  ProgramBuilder p("aliased");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto y = p.inout<double>("y", {n});
  p.may_alias(x, y);
  for (auto i : p.loop("i", 0, n)) y(i) = x(i) * x(i);
  try {
    differentiate(p.build());
    FAIL() << "must be refused";
  } catch (const DifferentiationError& e) {
    EXPECT_NE(std::string(e.what()).find("share memory"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace loopgrad::test

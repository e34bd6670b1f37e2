// Indices and trip counts that only data tell: nothing is written outside of arrays, and the run is an error that names
// array, index and line.
#include "tests/error/compiled_case.h"
#include "tests/error/expect_error.h"
#include "tests/error/guarded.h"
#include "tests/support/test_cache.h"

#include <loopgrad/compile.h>

#include <cstdlib>
#include <cstring>
#include <functional>

namespace loopgrad::test {
namespace {

using Case = CompiledCase;

class OutOfRange : public testing::TestWithParam<Case> {};

constexpr std::int64_t n = 3000, m = 50;

TEST_P(OutOfRange, InAGatherWithoutFacts) {
  ProgramBuilder p("gather");
  auto count = p.size("n"), extent = p.size("m");
  auto idx = p.input<int>("idx", {count});
  auto x = p.input<float>("x", {extent});
  auto y = p.output<float>("y", {count});
  const std::uint32_t line = std::source_location::current().line() + 1;
  for (auto i : p.loop("i", 0, count)) y(i) = x(idx(i)) * x(idx(i));
  const Program program = p.build();
  const GradientExecutable g =
      compile_gradient(program, {.wrt = {"x"}, .variant = GetParam().variant}, GetParam().options());
  for (const int bad : {60, -5}) {
    std::vector<int> indices(n, 3);
    Guarded xs(m, 2), ys(n, 0), d_x(m, 0), d_y(n, 1);
    const Arguments primal = {{"idx", view(indices.data(), {n})}, {"x", xs.view()}, {"y", ys.view()}};
    Arguments arguments = primal;
    arguments["d_y"] = d_y.view();
    arguments["d_x"] = d_x.view();
    g.forward(primal);
    g.backward(arguments);
    EXPECT_EQ(d_x[3], 4.0f * n);
    indices[17] = bad;
    const std::vector<float> before = ys.memory;
    const ErrorInfo info = expect_error<RuntimeError>(
        ErrorCode::BadIndex, {"'x'", "index " + std::to_string(bad) + " is outside of [0, 50)"},
        [&] { g.forward(primal); });
    EXPECT_EQ(info.location.line, line);
    EXPECT_EQ(ys.memory, before) << "only inputs decide, so nothing needs to be written";
    indices[17] = 3;  // and nothing is left of it
    g.forward(primal);
    EXPECT_NO_THROW(g.backward(arguments));
  }
}

/// A walk along links, with the nodes to come on a stack.
Program walk() {
  ProgramBuilder p("walk");
  auto count = p.size("n"), nodes = p.size("nodes"), depth = p.size("depth");
  auto mass = p.input<double>("mass", {nodes});
  auto next = p.input<std::int64_t>("next", {nodes});
  p.in_range(next, -1, nodes);
  auto y = p.output<double>("y", {count});
  for (auto i : p.loop("i", 0, count)) {
    auto stack = p.local<std::int64_t>("stack", {depth});
    auto top = p.scalar<std::int64_t>("top", 1);
    stack(0) = 0;
    y(i) = 0.0;
    for ([[maybe_unused]] auto k : p.loop_while("k", 4 * nodes, [&](const Value&) { return top > 0; })) {
      top -= 1;
      auto v = p.let("v", stack(top));
      y(i) += mass(v) * mass(v);
      p.when(next(v) >= 0, [&] {
        stack(top) = next(v);
        stack(top + 1) = next(v);
        top += 2;
      });
    }
  }
  return p.build();
}

TEST_P(OutOfRange, OfAStackThatIsTooShortIsReadNowhereElse) {
  const GradientExecutable g =
      compile_gradient(walk(), {.wrt = {"mass"}, .variant = GetParam().variant}, GetParam().options());
  std::vector<std::int64_t> next = {1, 2, 3, -1};
  std::vector<double> mass(4, 1), y(2);
  const auto forward = [&](std::int64_t depth) {
    g.forward({{"mass", view(mass.data(), {4})}, {"next", view(next.data(), {4})}, {"y", view(y.data(), {2})}},
              {{"depth", depth}});
  };
  forward(8);
  EXPECT_EQ(y[0], 15);
  // What was left out may be anything; no node has such a number, and none is read.
  for (const std::int64_t depth : {3, 2, 1})
    expect_error<RuntimeError>(ErrorCode::BadIndex, {"'stack'", "is outside of"}, [&] { forward(depth); });
}

/// h[index(i)] = x[i]^2 for i in order, of which the last one stays, and its gradient, in place of what is asked for.
void expect_last_stores(const Case& target, const std::function<Value(const Value& i, const Value& size)>& index,
                        const std::function<std::int64_t(std::int64_t)>& expected) {
  constexpr std::int64_t count = 200, extent = 10;
  ProgramBuilder p("last");
  auto c = p.size("n"), one = p.size("one");
  auto x = p.input<float>("x", {c});
  auto h = p.inout<float>("h", {extent});
  for (auto i : p.loop("i", 0, c)) h(index(i, one)) = x(i) * x(i);
  const GradientExecutable g = compile_gradient(p.build(), {.wrt = {"x"}, .variant = target.variant}, target.options());
  std::vector<float> x0(count), want(count, 0.0f);
  std::vector<std::int64_t> last(extent, -1);
  for (std::int64_t i = 0; i < count; ++i) {
    x0[static_cast<std::size_t>(i)] = 1.0f + static_cast<float>(i % 7);
    last[static_cast<std::size_t>(expected(i))] = i;
  }
  for (const std::int64_t i : last)
    if (i >= 0) want[static_cast<std::size_t>(i)] = 2 * x0[static_cast<std::size_t>(i)];
  Guarded hs(extent, 3), d_h(extent, 1), d_x(count, 9);
  Arguments arguments = {{"x", view(x0.data(), {count})}, {"h", hs.view()}};
  g.forward(arguments, {{"one", 1}});
  arguments["d_h"] = d_h.view();
  arguments["d_x"] = d_x.view();
  g.backward(arguments, {{"one", 1}});
  for (std::int64_t i = 0; i < count; ++i) EXPECT_EQ(d_x[i], want[static_cast<std::size_t>(i)]) << i;
}

std::int64_t floor_mod(std::int64_t a, std::int64_t b) { return b == 0 ? 0 : ((a % b) + b) % b; }

// Random numbers and hashes wrap around: what holds for their operands does not hold for them.
TEST_P(OutOfRange, IntegersWrapAround) {
  const auto step = [](std::int64_t i) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(i) * 6364136223846793005u + 1442695040888963407u);
  };
  expect_last_stores(
      GetParam(), [](const Value& i, const Value&) { return (i * 6364136223846793005 + 1442695040888963407) % 10; },
      [&](std::int64_t i) { return floor_mod(step(i), 10); });
  expect_last_stores(
      GetParam(),
      [](const Value& i, const Value&) { return cast<std::int64_t>(cast<int>(i) * 1073741824) / 1073741824 + 5; },
      [](std::int64_t i) {
        const auto wrapped = static_cast<std::int32_t>(static_cast<std::uint32_t>(i) * 1073741824u);
        return static_cast<std::int64_t>(wrapped) / 1073741824 + 5;
      });
}

// 0 by zero, and not positive by a negative number.
TEST_P(OutOfRange, RemaindersByWhatIsNotPositive) {
  expect_last_stores(
      GetParam(), [](const Value& i, const Value&) { return 7 + i % -7; },
      [](std::int64_t i) { return i % 7 == 0 ? 7 : i % 7; });
  expect_last_stores(
      GetParam(), [](const Value& i, const Value& one) { return i % (one - 1); }, [](std::int64_t) { return 0; });
}

TEST_P(OutOfRange, OfARowOfATable) {
  ProgramBuilder p("table");
  auto count = p.size("n"), rows = p.size("rows"), width = p.size("w");
  auto idx = p.input<std::int64_t>("idx", {count});
  auto x = p.input<float>("x", {count, width});
  auto y = p.inout<float>("y", {rows, width});
  for (auto i : p.loop("i", 0, count))
    for (auto c : p.loop("c", 0, width)) y(idx(i), c) += x(i, c);
  const Executable run = compile(p.build(), GetParam().options());
  const std::int64_t w = 10;
  std::vector<std::int64_t> indices(n, 2);
  std::vector<float> x_values(n * w, 1);
  for (const std::int64_t bad : {std::int64_t{60}, std::int64_t{-1}, std::int64_t{1} << 40}) {
    Guarded ys(m * w, 0);
    View table = ys.view();
    table.shape = {m, w};
    const Arguments arguments = {
        {"idx", view(indices.data(), {n})}, {"x", view(x_values.data(), {n, w})}, {"y", table}};
    indices[2900] = bad;
    expect_error<RuntimeError>(ErrorCode::BadIndex, {"'y'", "index " + std::to_string(bad), "[0, 50)"},
                               [&] { run.run(arguments); });
    EXPECT_TRUE(ys.is_whole());
    indices[2900] = 2;
    run.run(arguments);
  }
}

TEST_P(OutOfRange, OfAnIndexThatIsComputedFromInputs) {
  ProgramBuilder p("bins");
  auto count = p.size("n"), bins = p.size("bins");
  auto x = p.input<float>("x", {count});
  auto w = p.input<float>("w", {count});
  auto h = p.output<float>("h", {bins});
  for (auto b : p.loop("b", 0, bins)) h(b) = 0.0f;
  for (auto i : p.loop("i", 0, count)) {
    auto bin = p.scalar<std::int64_t>("bin");
    bin = cast<std::int64_t>(floor(x(i) * cast<float>(bins)));
    h(bin) += w(i) * w(i);
  }
  const Program program = p.build();
  const Executable run = compile(program, GetParam().options());
  std::vector<float> xs(n, 0.5f), ws(n, 1);
  Guarded hs(m, 0);
  const Arguments arguments = {{"x", view(xs.data(), {n})}, {"w", view(ws.data(), {n})}, {"h", hs.view()}};
  run.run(arguments);
  EXPECT_EQ(hs[25], n);
  xs[7] = 1.0f;
  expect_error<RuntimeError>(ErrorCode::BadIndex, {"'h'", "index 50 is outside of [0, 50)"},
                             [&] { run.run(arguments); });
  xs[7] = -0.1f;
  expect_error<RuntimeError>(ErrorCode::BadIndex, {"'h'", "index -5 is outside of [0, 50)"},
                             [&] { run.run(arguments); });
  EXPECT_TRUE(hs.is_whole());
}

/// Cells that particles have moved to, deposited to and interpolated from.
Program particles(std::uint32_t& line) {
  ProgramBuilder p("particles");
  auto count = p.size("n"), cells = p.size("cells");
  auto velocity = p.input<float>("velocity", {count});
  auto x = p.inout<float>("x", {count});
  auto field = p.input<float>("field", {cells});
  auto density = p.output<float>("density", {cells, 3});
  for (auto c : p.loop("c", 0, cells))
    for (auto k : p.loop("k", 0, 3)) density(c, k) = 0.0f;
  for (auto i : p.loop("i", 0, count)) x(i) += velocity(i) * velocity(i);
  for (auto i : p.loop("i", 0, count)) {
    auto cell = p.scalar<std::int64_t>("cell");
    cell = cast<std::int64_t>(floor(x(i)));
    line = std::source_location::current().line() + 1;
    for (auto k : p.loop("k", 0, 3)) density(cell, k) += velocity(i) * field(cell);
  }
  return p.build();
}

TEST_P(OutOfRange, OfAnIndexThatTheProgramComputes) {
  std::uint32_t line = 0;
  const Program program = particles(line);
  for (const Facts facts : {Facts::Verify, Facts::CheckAccesses}) {
    const GradientExecutable g = compile_gradient(
        program, {.wrt = {"field"}, .of = {"density"}, .variant = GetParam().variant}, GetParam().options(facts));
    std::vector<float> velocity(n, 1), x(n, 7);
    Guarded field(m, 2), density(3 * m, 0), d_field(m, 0), d_density(3 * m, 1);
    View table = density.view(), d_table = d_density.view();
    table.shape = d_table.shape = {m, 3};
    const Arguments primal = {{"velocity", view(velocity.data(), {n})},
                              {"x", view(x.data(), {n})},
                              {"field", field.view()},
                              {"density", table}};
    Arguments arguments = primal;
    arguments["d_density"] = d_table;
    arguments["d_field"] = d_field.view();
    g.forward(primal);
    g.backward(arguments);
    EXPECT_EQ(density[8 * 3 + 1], 2.0f * n);
    EXPECT_EQ(d_field[8], 3.0f * n);
    for (const float bad : {50.5f, -9.5f}) {
      std::fill(x.begin(), x.end(), 7.0f);
      x[2000] = bad;
      const std::string index = std::to_string(bad > 0 ? 51 : -9);
      // What is read may be found first: by the interpreter always, elsewhere on request.
      const bool writes_only = facts == Facts::Verify && GetParam().target != Target::Interpreter;
      const std::string array = writes_only ? "'density'" : "array";
      const ErrorInfo info = expect_error<RuntimeError>(ErrorCode::BadIndex, {array, "index " + index, "[0, 50)"},
                                                        [&] { g.forward(primal); });
      EXPECT_EQ(info.location.line, line);
      EXPECT_TRUE(density.is_whole() && field.is_whole());
      EXPECT_THROW(g.backward(arguments), UsageError) << "forward() has failed";
    }
    std::fill(x.begin(), x.end(), 7.0f);
    EXPECT_NO_THROW(g.forward(primal)) << "nothing is left of what has been found";
  }
}

TEST_P(OutOfRange, OfASumIntoWhatWasReadThroughAnOutput) {
  ProgramBuilder p("through_output");
  auto count = p.size("n"), extent = p.size("m");
  auto x = p.input<float>("x", {count});
  auto w = p.input<float>("w", {extent});
  auto place = p.output<std::int64_t>("place", {count});
  auto y = p.output<float>("y", {count});
  for (auto i : p.loop("i", 0, count)) place(i) = cast<std::int64_t>(x(i) * x(i));
  for (auto i : p.loop("j", 0, count)) y(i) = w(place(i)) * w(place(i));
  const GradientExecutable g =
      compile_gradient(p.build(), {.wrt = {"w"}, .variant = GetParam().variant}, GetParam().options());
  std::vector<float> xs(n, 2);
  std::vector<std::int64_t> places(n);
  Guarded ws(m, 2), ys(n, 0), d_w(m, 0), d_y(n, 1);
  const Arguments primal = {
      {"x", view(xs.data(), {n})}, {"w", ws.view()}, {"place", view(places.data(), {n})}, {"y", ys.view()}};
  Arguments arguments = primal;
  arguments["d_y"] = d_y.view();
  arguments["d_w"] = d_w.view();
  g.forward(primal);
  g.backward(arguments);
  EXPECT_EQ(d_w[4], 4.0f * n);
  xs[77] = 10;
  expect_error<RuntimeError>(ErrorCode::BadIndex, {"index 100 is outside of [0, 50)"}, [&] {
    g.forward(primal);  // reads there, which is not looked at
    g.backward(arguments);
  });
  EXPECT_TRUE(d_w.is_whole());
}

TEST_P(OutOfRange, OfWhatIsReadWhenEveryAccessIsCompared) {
  ProgramBuilder p("reads");
  auto count = p.size("n"), extent = p.size("m");
  auto outer = p.input<int>("outer", {count});
  auto inner = p.input<int>("inner", {count});
  auto x = p.input<float>("x", {extent});
  auto y = p.output<float>("y", {count});
  for (auto i : p.loop("i", 0, count)) {
    y(i) = 0.0f;
    p.when(outer(i) >= 0, [&] { y(i) = x(inner(outer(i))); });
    y(i) += select(outer(i) < 0, 1.0f, x(inner(outer(i))));
  }
  const Executable run = compile(p.build(), GetParam().options(Facts::CheckAccesses));
  std::vector<int> a(n, 5), b(n, 7);
  std::vector<float> xs(m, 2), ys(n);
  const Arguments arguments = {{"outer", view(a.data(), {n})},
                               {"inner", view(b.data(), {n})},
                               {"x", view(xs.data(), {m})},
                               {"y", view(ys.data(), {n})}};
  a[3] = -1;  // which the program looks at
  run.run(arguments);
  EXPECT_EQ(ys[3], 1.0f);
  EXPECT_EQ(ys[4], 4.0f);
  b[5] = 50;
  expect_error<RuntimeError>(ErrorCode::BadIndex, {"'x'", "index 50 is outside of [0, 50)"},
                             [&] { run.run(arguments); });
  a[9] = 100000000;
  expect_error<RuntimeError>(ErrorCode::BadIndex, {"'inner'", "index 100000000"}, [&] { run.run(arguments); });
}

TEST_P(OutOfRange, OfWhatIsReadInWindowsThatTheProgramComputes) {
  ProgramBuilder p("windows");
  auto count = p.size("n"), extent = p.size("m");
  auto q = p.input<float>("q", {count});
  auto x = p.input<float>("x", {extent});
  auto y = p.output<float>("y", {count});
  auto place = p.local<float>("place", {count});
  for (auto i : p.loop("i", 0, count)) place(i) = 2.0f * q(i);
  for (auto i : p.loop("i", 0, count)) {
    y(i) = x(cast<std::int64_t>(place(i)) + 2);
    for (auto k : p.loop("k", 0, 5)) y(i) += x(cast<std::int64_t>(place(i)) + k);
  }
  const Executable run = compile(p.build(), GetParam().options(Facts::CheckAccesses));
  std::vector<float> qs(n, 22.5f), xs(m, 1), ys(n);
  Arguments arguments = {{"q", view(qs.data(), {n})}, {"x", view(xs.data(), {m})}, {"y", view(ys.data(), {n})}};
  run.run(arguments);  // 45 to 49
  EXPECT_EQ(ys[n - 1], 6.0f);
  for (const auto& [bad, index] : {std::pair{23.0f, "50"}, {-0.5f, "-1"}, {-1e30f, "-9223372036854775806"}}) {
    qs[n - 1] = bad;
    expect_error<RuntimeError>(ErrorCode::BadIndex, {"'x'", std::string("index ") + index + " is outside of [0, 50)"},
                               [&] { run.run(arguments); });
    qs[n - 1] = 22.5f;
    run.run(arguments);
  }
  arguments["x"] = view(xs.data(), {0});  // every index is outside, also the one that the others are brought to
  std::fill(qs.begin(), qs.end(), 0.0f);
  expect_error<RuntimeError>(ErrorCode::BadIndex, {"'x'", "outside of [0, 0)"}, [&] { run.run(arguments); });
}

/// A fact is about the elements of an array: what is read beside it may be anything.
TEST_P(OutOfRange, OfWhatIsReadBesideAnArrayWithFacts) {
  for (const int way : {0, 1, 2, 3}) {  // as an index, by name, and as bounds of a loop
    ProgramBuilder p("beside");
    auto count = p.size("n"), extent = p.size("m"), rows = p.size("rows");
    auto q = p.input<float>("q", {count});
    auto first = p.input<int>("first", {rows});
    auto y = p.inout<float>("y", {extent});
    p.in_range(first, 0, extent);
    for (auto i : p.loop("i", 0, count)) {
      auto row = p.scalar<std::int64_t>("row"), at = p.scalar<std::int64_t>("at");
      row = cast<std::int64_t>(2.0f * q(i));
      const LoopOptions options{way == 3 ? std::vector<Value>{Value(1)} : std::vector<Value>()};
      if (way == 0) y(first(row)) += 1.0f;
      if (way == 1) at = first(row);
      if (way == 1) y(at) += 1.0f;
      if (way > 1)
        for (auto k : p.loop("k", first(row), first(row) + 1, options)) y(k) += 1.0f;
    }
    const Executable run = compile(p.build(), GetParam().options());
    std::vector<int> firsts(20, 3);  // of which the program is given ten
    std::vector<float> qs(n, 2), ys(m, 0);
    const Arguments arguments = {
        {"q", view(qs.data(), {n})}, {"first", view(firsts.data(), {10})}, {"y", view(ys.data(), {m})}};
    run.run(arguments);
    EXPECT_EQ(ys[3], static_cast<float>(n));
    firsts[12] = static_cast<int>(m);
    qs[7] = 6;
    SCOPED_TRACE(way);
    expect_error<RuntimeError>(ErrorCode::BadIndex, {"index"}, [&] { run.run(arguments); });
  }
}

/// The primal program only reads in the windows, its gradient adds there.
TEST_P(OutOfRange, OfSumsInWindowsThatAreReadBesideAnArray) {
  ProgramBuilder p("windows_beside");
  auto count = p.size("n"), extent = p.size("m"), rows = p.size("rows");
  auto q = p.input<float>("q", {count}), x = p.input<float>("x", {extent});
  auto first = p.input<int>("first", {rows});
  auto y = p.output<float>("y", {count});
  p.in_range(first, 0, extent);
  for (auto i : p.loop("i", 0, count)) {
    auto row = p.scalar<int>("row");
    row = cast<int>(2.0f * q(i));
    p.when(row == 20, [&] { row -= 1; });  // so that nobody knows it before the run
    y(i) = 0.0f;
    for (auto k : p.loop("k", first(row), first(row) + 1, {.at_most = {Value(2)}})) y(i) += x(k) * x(k);
  }
  const GradientExecutable g =
      compile_gradient(p.build(), {.wrt = {"x"}, .variant = GetParam().variant}, GetParam().options());
  std::vector<int> firsts(20, 3);  // of which the program is given ten
  std::vector<float> qs(n, 2), ys(n), d_ys(n, 1);
  Guarded xs(m, 2), d_x(m, 0);
  const Arguments primal = {
      {"q", view(qs.data(), {n})}, {"first", view(firsts.data(), {10})}, {"x", xs.view()}, {"y", view(ys.data(), {n})}};
  Arguments arguments = primal;
  arguments["d_y"] = view(d_ys.data(), {n});
  arguments["d_x"] = d_x.view();
  g.forward(primal);
  g.backward(arguments);
  EXPECT_EQ(d_x[3], 4.0f * n);
  firsts[12] = static_cast<int>(m);
  qs[7] = 6;
  expect_error<RuntimeError>(ErrorCode::BadIndex, {"index"}, [&] {
    g.forward(primal);
    g.backward(arguments);
  });
  EXPECT_TRUE(d_x.is_whole());
}

TEST_P(OutOfRange, OfTripsThatAreComputed) {
  ProgramBuilder p("trips");
  auto count = p.size("n");
  auto k = p.input<int>("k", {count});
  auto x = p.inout<double>("x", {count});
  auto b = p.scalar<std::int64_t>("b");
  b = 0;
  for (auto i : p.loop("i", 0, count)) b.max_with(cast<std::int64_t>(k(i)));
  const std::uint32_t line = std::source_location::current().line() + 1;
  for ([[maybe_unused]] auto t : p.loop("t", 0, b, {.at_most = {Value(4)}}))
    for (auto i : p.loop("j", 0, count)) x(i) = sin(x(i)) * x(i);
  const Program program = p.build();
  const GradientExecutable g =
      compile_gradient(program, {.wrt = {"x"}, .variant = GetParam().variant}, GetParam().options());
  std::vector<int> ks(100, 1);
  std::vector<double> xs(100, 0.5);
  const Arguments arguments = {{"k", view(ks.data(), {100})}, {"x", view(xs.data(), {100})}};
  ks[5] = 4;
  EXPECT_NO_THROW(g.forward(arguments));
  for (const int trips : {5, 400}) {
    ks[5] = trips;
    const ErrorInfo info =
        expect_error<RuntimeError>(ErrorCode::BadIndex, {"the 4 that at_most promises"}, [&] { g.forward(arguments); });
    EXPECT_EQ(info.loop, "t");
    EXPECT_EQ(info.location.line, line);
    EXPECT_EQ(g.tape_bytes() > 100000, false) << "no more is saved than was promised";
  }
}

TEST_P(OutOfRange, OfAConstantIndex) {
  if (GetParam().target == Target::Interpreter) return;  // which says so when it is there
  ProgramBuilder p("constant");
  auto count = p.size("n");
  auto x = p.input<float>("x", {count});
  auto y = p.output<float>("y", {count});
  for (auto i : p.loop("i", 0, count)) y(i) = x(i) * x(7) + x(count - 3);
  const Program program = p.build();
  const GradientExecutable g = compile_gradient(program, {.variant = GetParam().variant}, GetParam().options());
  std::vector<float> xs(10, 1), ys(10, -1);
  const auto run = [&](std::int64_t size) {
    g.forward({{"x", view(xs.data(), {size})}, {"y", view(ys.data(), {size})}});
  };
  expect_error<UsageError>(ErrorCode::BadIndex, {"'x'", "index 7 is outside of [0, 5)"}, [&] { run(5); });
  EXPECT_EQ(ys, std::vector<float>(10, -1));
  EXPECT_NO_THROW(run(0)) << "no iteration, no access";
  EXPECT_NO_THROW(run(10));
}

TEST_P(OutOfRange, OfAnArrayWithoutElements) {
  std::uint32_t line = 0;
  const Executable run = compile(particles(line), GetParam().options());
  std::vector<float> velocity(n, 1), x(n, 7), none(1);
  const Arguments arguments = {{"velocity", view(velocity.data(), {n})},
                               {"x", view(x.data(), {n})},
                               {"field", view(none.data(), {0})},
                               {"density", view(none.data(), {0, 3})}};
  if (GetParam().target == Target::Interpreter) return;  // which stops at the read
  expect_error<RuntimeError>(ErrorCode::BadIndex, {"'density'", "[0, 0)"}, [&] { run.run(arguments); });
}

/// y[v] = sum over a row of x[src[e]]^2, where nothing is stated about `src`.
Program rows_of_squares(bool states_rows) {
  ProgramBuilder p("rows");
  auto rows = p.size("rows"), count = p.size("count"), extent = p.size("m");
  auto ptr = p.input<std::int32_t>("ptr", {rows + 1});
  if (states_rows) p.csr(ptr, count);
  auto src = p.input<std::int32_t>("src", {count});
  auto x = p.input<float>("x", {extent});
  auto y = p.output<float>("y", {rows});
  for (auto v : p.loop("v", 0, rows)) {
    auto first = p.scalar<std::int32_t>("first"), last = p.scalar<std::int32_t>("last");
    first = ptr(v);
    last = ptr(v + 1);
    y(v) = 0.0f;
    for (auto e : p.loop("e", first, last)) y(v) += x(src(e)) * x(src(e));
  }
  return p.build();
}

TEST_P(OutOfRange, OfRowsWhoseEndsAreScalars) {
  for (const bool states_rows : {false, true}) {
    const GradientExecutable g = compile_gradient(rows_of_squares(states_rows),
                                                  {.wrt = {"x"}, .variant = GetParam().variant}, GetParam().options());
    std::vector<std::int32_t> ptr = {0, 2, 2, 5}, src = {1, 0, 3, 3, 1};
    std::vector<float> x = {1, 2, 3, 4}, y(3), d_x(4), d_y(3, 1);
    Arguments arguments = {{"ptr", view(ptr.data(), {4})},
                           {"src", view(src.data(), {5})},
                           {"x", view(x.data(), {4})},
                           {"y", view(y.data(), {3})}};
    const Arguments primal = arguments;
    arguments["d_x"] = view(d_x.data(), {4});
    arguments["d_y"] = view(d_y.data(), {3});
    g.forward(primal);
    g.backward(arguments);
    EXPECT_EQ(y, (std::vector<float>{5, 0, 36}));
    EXPECT_EQ(d_x, (std::vector<float>{2, 8, 0, 16}));
    src[3] = 4;
    expect_error<RuntimeError>(ErrorCode::BadIndex, {"'x'", "index 4 is outside of [0, 4)"},
                               [&] { g.forward(primal); });
    src[3] = 3;
    ptr[3] = 20'000'000;  // far behind the end of `src`, which must not be read there
    expect_error<RuntimeError>(states_rows ? ErrorCode::BadFact : ErrorCode::BadIndex,
                               {states_rows ? "'ptr'" : "'src'", "rows"}, [&] { g.forward(primal); });
  }
}

TEST_P(OutOfRange, OfAProductOfSizes) {
  ProgramBuilder p("inrange_product");
  auto rows = p.size("rows"), columns = p.size("columns"), count = p.size("k");
  auto u0 = p.input<float>("u0", {rows * columns});
  auto idx = p.input<std::int32_t>("idx", {count});
  p.in_range(idx, 0, rows * columns);
  auto y = p.output<float>("y", {count});
  auto u = p.local<float>("u", {rows * columns});
  for (auto i : p.loop("i", 0, rows * columns)) u(i) = u0(i) * u0(i);
  for (auto e : p.loop("e", 0, count)) y(e) = u(idx(e)) * u(idx(e));
  const GradientExecutable g =
      compile_gradient(p.build(), {.wrt = {"u0"}, .variant = GetParam().variant}, GetParam().options());
  std::vector<std::int32_t> indices = {5, 0, 3, 3, 1};
  std::vector<float> x = {1, 2, 3, 4, 5, 6}, ys(5), d_x(6), d_y(5, 1);
  const Sizes sizes = {{"rows", 3}, {"columns", 2}};
  Arguments arguments = {{"u0", view(x.data(), {6})}, {"idx", view(indices.data(), {5})}, {"y", view(ys.data(), {5})}};
  const Arguments primal = arguments;
  arguments["d_u0"] = view(d_x.data(), {6});
  arguments["d_y"] = view(d_y.data(), {5});
  g.forward(primal, sizes);
  g.backward(arguments, sizes);
  EXPECT_EQ(ys, (std::vector<float>{1296, 1, 256, 256, 16}));
  EXPECT_EQ(d_x, (std::vector<float>{4, 32, 0, 512, 0, 864}));
  indices[2] = 6;
  expect_error<RuntimeError>(ErrorCode::BadFact, {"idx[2] = 6 is not in the stated range [0, 6)"},
                             [&] { g.forward(primal, sizes); });
}

INSTANTIATE_TEST_SUITE_P(Targets, OutOfRange,
                         testing::Values(Case{Target::OpenMP, Variant::Restructured},
                                         Case{Target::OpenMP, Variant::Atomic},
                                         Case{Target::OpenMP, Variant::NaiveTape},
                                         Case{Target::Interpreter, Variant::Restructured, true}),
                         case_name);

}  // namespace
}  // namespace loopgrad::test

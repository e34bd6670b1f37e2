// Indices of sizes and iterators: programs that nobody has designed for are refused before anything is written, with
// the sizes for which an iteration leaves an array and no others; right programs that look suspicious run.
#include "tests/error/compiled_case.h"
#include "tests/error/expect_error.h"
#include "tests/error/guarded.h"
#include "tests/support/test_cache.h"

#include <loopgrad/compile.h>

#include <cstdlib>
#include <functional>

namespace loopgrad::test {
namespace {

/// Reads x, which has m elements, writes y, which has k, in loops to n. `line`: of the access in question.
using Body =
    std::function<void(ProgramBuilder& p, const Value& n, ArrayHandle& x, ArrayHandle& y, std::uint32_t& line)>;

std::uint32_t here(const std::source_location& at = std::source_location::current()) { return at.line(); }

struct Named {
  const char* name;
  Body body;
  Sizes right;
  Sizes wrong = {};                    // empty: there are none
  std::vector<std::string> said = {};  // of the wrong ones
  Sizes wrong_too = {};                // one more
};

struct Made {
  Program program;
  std::uint32_t line;
};

Made make(const Named& named) {
  ProgramBuilder p(named.name);
  auto n = p.size("n"), m = p.size("m"), k = p.size("k");
  auto x = p.input<float>("x", {m});
  auto y = p.output<float>("y", {k});
  std::uint32_t line = 0;
  for (auto i : p.loop("zero", 0, k)) y(i) = 0.0f;
  named.body(p, n, x, y, line);
  return {p.build(), line};
}

const Named programs[] = {
    {"one_more",
     [](auto& p, auto& n, auto& x, auto& y, auto& line) {
       for (auto i : p.loop("i", 0, n + 1)) line = here(), y(i) = x(i) * x(i);
     },
     {{"n", 8}, {"m", 9}, {"k", 9}},
     {{"n", 8}, {"m", 8}, {"k", 9}},
     {"'x'", "loop 'i'", "index 8 is outside of [0, 8)", "i = 8", "n = 8"},
     {{"n", 8}, {"m", 9}, {"k", 8}}},
    {"shifted",
     [](auto& p, auto& n, auto& x, auto& y, auto& line) {
       for (auto i : p.loop("i", 0, n)) line = here(), y(i) = x(i + 3) * x(i + 3);
     },
     {{"n", 8}, {"m", 11}, {"k", 8}},
     {{"n", 8}, {"m", 10}, {"k", 8}},
     {"'x'", "index 10 is outside of [0, 10)", "i = 7"},
     {{"n", 1}, {"m", 3}, {"k", 1}}},
    {"strided",
     [](auto& p, auto& n, auto& x, auto& y, auto& line) {
       for (auto i : p.loop("i", 0, n)) line = here(), y(i) = x(2 * i) * x(2 * i);
     },
     {{"n", 8}, {"m", 15}, {"k", 8}},
     {{"n", 8}, {"m", 14}, {"k", 8}},
     {"'x'", "index 14 is outside of [0, 14)", "i = 7"},
     {{"n", 8}, {"m", 8}, {"k", 8}}},
    {"below_zero",
     [](auto& p, auto& n, auto& x, auto& y, auto& line) {
       for (auto i : p.loop("i", 0, n)) line = here(), y(n - 2 - i) += x(i) * x(i);
     },
     {{"n", 0}, {"m", 8}, {"k", 8}},
     {{"n", 8}, {"m", 8}, {"k", 8}},
     {"'y'", "index -1 is outside of [0, 8)", "i = 7"}},
    {"triangle",
     [](auto& p, auto& n, auto& x, auto& y, auto& line) {
       for (auto i : p.loop("i", 0, n))
         for (auto j : p.loop("j", i, n)) line = here(), y(i) += x(i + j) * x(j);
     },
     {{"n", 8}, {"m", 15}, {"k", 8}},
     {{"n", 8}, {"m", 14}, {"k", 8}},
     {"'x'", "loop 'j'", "index 14 is outside of [0, 14)", "i = 7, j = 7"}},
    {"guard_off_by_one",
     [](auto& p, auto& n, auto& x, auto& y, auto& line) {
       for (auto i : p.loop("i", 0, n)) p.when(i + 1 <= n, [&] { line = here(), y(i) = x(i + 1) * x(i); });
     },
     {{"n", 8}, {"m", 9}, {"k", 8}},
     {{"n", 8}, {"m", 8}, {"k", 8}},
     {"'x'", "index 8 is outside of [0, 8)", "i = 7"}},
    {"selected",
     [](auto& p, auto& n, auto& x, auto& y, auto& line) {
       for (auto i : p.loop("i", 0, n)) line = here(), y(i) = select(i < 5, 1.0f, x(i / 2 + 2) * x(i / 2 + 2));
     },
     {{"n", 8}, {"m", 6}, {"k", 8}},
     {{"n", 8}, {"m", 5}, {"k", 8}},
     {"'x'", "index 5 is outside of [0, 5)", "i = 6"}},
    {"short_local",
     [](auto& p, auto& n, auto& x, auto& y, auto& line) {
       auto t = p.template local<float>("t", {n / 2});
       for (auto i : p.loop("i", 0, n / 2)) t(i) = x(i) * x(i);
       for (auto i : p.loop("j", 0, n - 4)) line = here(), y(i) = t(i) * t(i);
     },
     {{"n", 8}, {"m", 8}, {"k", 8}},
     {{"n", 9}, {"m", 9}, {"k", 9}},
     {"'t", "index 4 is outside of [0, 4)", "j = 4"}},
    {"flattened",
     [](auto& p, auto& n, auto& x, auto& y, auto& line) {
       for (auto i : p.loop("i", 0, n))
         for (auto j : p.loop("j", 0, n)) line = here(), y(i) += x(i * n + j) * x(i * n + j);
     },
     {{"n", 4}, {"m", 16}, {"k", 4}},
     {{"n", 4}, {"m", 15}, {"k", 4}},
     {"'x'", "index 15 is outside of [0, 15)"}},
    // Right for all of these sizes.
    {"guarded",
     [](auto& p, auto& n, auto& x, auto& y, auto&) {
       for (auto i : p.loop("i", 0, n)) {
         p.when(i + 1 < n, [&] { y(i) += x(i + 1) * x(i); });
         p.when(i > 0, [&] { y(i) += x(i - 1) * x(i); });
         y(i) += select(i >= 2 && i + 2 < n, x(i - 2) * x(i), x(i));
       }
     },
     {{"n", 8}, {"m", 8}, {"k", 8}}},
    {"clamped",
     [](auto& p, auto& n, auto& x, auto& y, auto&) {
       for (auto i : p.loop("i", 0, n))
         y(i) = x(min(i + 1, n - 1)) * x(max(i - 2, 0)) * x(min(max(2 * i - 3, 0), n - 1));
     },
     {{"n", 8}, {"m", 8}, {"k", 8}}},
    {"periodic",
     [](auto& p, auto& n, auto& x, auto& y, auto&) {
       for (auto i : p.loop("i", 0, n)) y(i) = x((i + 1) % n) * x((i + n - 1) % n) * x((i + 5) % 8);
     },
     {{"n", 8}, {"m", 8}, {"k", 8}}},
    {"blocks",
     [](auto& p, auto& n, auto& x, auto& y, auto&) {
       for (auto b : p.loop("b", 0, (n + 3) / 4))
         for (auto i : p.loop("i", 0, 4)) p.when(4 * b + i < n, [&] { y(4 * b + i) = x(4 * b + i) * x(4 * b + i); });
     },
     {{"n", 7}, {"m", 7}, {"k", 7}}},
    {"nothing_to_do",
     [](auto& p, auto& n, auto& x, auto& y, auto&) {
       for (auto i : p.loop("i", 3, n - 4)) y(i + 100) = x(i + 100) * x(i - 50);
     },
     {{"n", 6}, {"m", 1}, {"k", 2}}},
    {"rows_of_a_triangle",
     [](auto& p, auto& n, auto& x, auto& y, auto&) {
       for (auto i : p.loop("i", 0, n)) {
         auto row = p.template local<float>("row", {n});
         for (auto j : p.loop("j", 0, i + 1)) row(j) = x(i - j) * x(j);
         for (auto j : p.loop("l", 0, i + 1)) y(i) += row(i - j) * row(j);
       }
     },
     {{"n", 8}, {"m", 8}, {"k", 8}}},
};

/// The arrays of a run, of which none but what is meant to be may change.
struct Arrays {
  explicit Arrays(const Sizes& given)
      : sizes(given), x(given.at("m"), 1.5f), y(given.at("k"), -7), d_x(given.at("m"), 0), d_y(given.at("k"), 1) {}
  Arguments primal() { return {{"x", x.view()}, {"y", y.view()}}; }
  Arguments all() {
    Arguments arguments = primal();
    arguments["d_x"] = d_x.view();
    arguments["d_y"] = d_y.view();
    return arguments;
  }
  bool is_whole() const { return x.is_whole() && y.is_whole() && d_x.is_whole() && d_y.is_whole(); }
  Sizes sizes;
  Guarded x, y, d_x, d_y;
};

class SizeBounds : public testing::TestWithParam<CompiledCase> {};

TEST_P(SizeBounds, RefuseSizesForWhichAnIterationLeavesAnArray) {
  for (const Named& named : programs) {
    SCOPED_TRACE(named.name);
    const Made made = make(named);
    const GradientExecutable gradient =
        compile_gradient(made.program, {.wrt = {"x"}, .variant = GetParam().variant}, GetParam().options());
    const Executable plain = compile(made.program, GetParam().options());
    for (const Sizes& wrong : {named.wrong, named.wrong_too}) {
      if (wrong.empty()) continue;
      Arrays run(wrong);
      const std::vector<float> before = run.y.memory;
      const bool first = wrong == named.wrong;
      for (const auto& action : {std::function([&] { gradient.forward(run.primal(), run.sizes); }),
                                 std::function([&] { plain.run(run.primal(), run.sizes); })}) {
        const bool of_products = std::string(named.name) == "flattened";  // each index is looked at
        const ErrorInfo info = of_products
                                   ? expect_error<RuntimeError>(ErrorCode::BadIndex, {"nothing has been"}, action)
                                   : expect_error<UsageError>(ErrorCode::BadIndex, {"nothing has been"}, action);
        EXPECT_EQ(info.location.line, made.line);
        const std::string text = info.message + " loop '" + info.loop + "' '" + info.array + "'";
        for (const std::string& part : first ? named.said : std::vector<std::string>())
          EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
      }
      EXPECT_EQ(run.y.memory, before) << "refused before anything is written";
    }
    Arrays run(named.right);
    EXPECT_NO_THROW(gradient.forward(run.primal(), run.sizes));
    EXPECT_NO_THROW(gradient.backward(run.all(), run.sizes));
    EXPECT_NO_THROW(plain.run(run.primal(), run.sizes));
    EXPECT_TRUE(run.is_whole());
  }
}

/// Counters are indices of sizes and iterators as well, in loops to a size that a scalar names, too, and where the
/// gradient is the user's.
TEST_P(SizeBounds, RefuseCountersThatLeaveAnArray) {
  for (const bool has_rule : {false, true}) {
    std::uint32_t line = 0;
    ProgramBuilder p("counted");
    auto n = p.size("n"), k = p.size("k");
    auto x = p.input<float>("x", {n});
    auto y = p.output<float>("y", {k});
    auto end = p.scalar<std::int64_t>("end", n);
    const auto count = [&] {
      auto at = p.scalar<std::int64_t>("at", 1);
      for (auto i : p.loop("i", 0, end)) {
        line = here(), y(at) = x(i) * x(i);
        at += 2;
      }
    };
    for (auto i : p.loop("zero", k)) y(i) = 0.0f;
    if (has_rule) p.custom_gradient({y}, {x}, {.forward = count, .adjoint = [](const Derivatives&) {}});
    else count();
    const Executable run = compile(p.build(), GetParam().options());
    Guarded xs(8, 2), ys(16, 0), short_ys(15, 0);
    EXPECT_NO_THROW(run.run({{"x", xs.view()}, {"y", ys.view()}}));
    EXPECT_EQ(ys[15], 4.0f);
    const ErrorInfo info = expect_error<UsageError>(
        ErrorCode::BadIndex, {"'y'", "loop 'i'", "index 15 is outside of [0, 15)", "i = 7"}, [&] {
          run.run({{"x", xs.view()}, {"y", short_ys.view()}});
        });
    EXPECT_EQ(info.location.line, line);
    EXPECT_TRUE(short_ys.is_whole());
  }
}

/// `computes`: the program makes what decides; otherwise inputs do.
Program decided_by_data(bool computes, std::uint32_t& line) {
  ProgramBuilder p(computes ? "computed_condition" : "input_condition");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n});
  auto y = p.output<float>("y", {n});
  auto t = p.local<float>("t", {n});
  for (auto i : p.loop("zero", 0, n)) {
    y(i) = 0.0f;
    t(i) = x(i) * 2;
  }
  line = here() + 1;
  for (auto i : p.loop("i", 0, n)) p.when(computes ? t(i) > 0.0f : x(i) > 0.0f, [&] { y(i + 1) += x(i) * x(i); });
  return p.build();
}

TEST_P(SizeBounds, RefuseNoProgramInWhichDataDecide) {
  for (const bool computes : {false, true}) {
    std::uint32_t line = 0;
    const Program program = decided_by_data(computes, line);
    const GradientExecutable g =
        compile_gradient(program, {.wrt = {"x"}, .variant = GetParam().variant}, GetParam().options());
    const std::int64_t n = 3000;
    Guarded x(n, 2), y(n, 0), d_x(n, 0), d_y(n, 1);
    const Arguments primal = {{"x", x.view()}, {"y", y.view()}};
    Arguments all = primal;
    all["d_x"] = d_x.view();
    all["d_y"] = d_y.view();
    x[n - 1] = -1;
    g.forward(primal);
    g.backward(all);
    EXPECT_EQ(y[n - 1], 4.0f);
    EXPECT_EQ(d_x[n - 2], 4.0f);
    EXPECT_EQ(d_x[n - 1], 0.0f);
    x[n - 1] = 2;
    const ErrorInfo info = expect_error<RuntimeError>(
        ErrorCode::BadIndex, {"'y'", "index 3000 is outside of [0, 3000)"}, [&] { g.forward(primal); });
    EXPECT_EQ(info.location.line, line);
    EXPECT_TRUE(y.is_whole());
    x[n - 1] = -1;
    EXPECT_NO_THROW(g.forward(primal));
  }
}

TEST_P(SizeBounds, OfReadsThatTheProgramDecidesAreComparedOnRequest) {
  ProgramBuilder p("computed_reads");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n});
  auto y = p.output<float>("y", {n});
  auto t = p.local<float>("t", {n});
  for (auto i : p.loop("zero", 0, n)) t(i) = x(i) * 2;
  for (auto i : p.loop("i", 0, n)) {
    y(i) = select(t(i) > 0.0f, x(i + 1), 1.0f);
    auto steps = p.scalar<float>("s");
    steps = t(i);
    for (auto l : p.loop_while("l", n, [&](const Value&) { return steps < 1.0f; })) {
      steps += 4.0f;
      y(i) += x(l + 2);
    }
  }
  const Executable run = compile(p.build(), GetParam().options(Facts::CheckAccesses));
  const std::int64_t n_value = 100;
  Guarded xs(n_value, 2), ys(n_value, 0);
  const Arguments arguments = {{"x", xs.view()}, {"y", ys.view()}};
  xs[n_value - 1] = -1;
  EXPECT_NO_THROW(run.run(arguments));
  EXPECT_EQ(ys[n_value - 1], 3.0f);
  xs[n_value - 1] = 2;
  expect_error<RuntimeError>(ErrorCode::BadIndex, {"'x'", "index 100 is outside of [0, 100)"},
                             [&] { run.run(arguments); });
  xs[n_value - 1] = -1000;
  expect_error<RuntimeError>(ErrorCode::BadIndex, {"'x'", "is outside of [0, 100)"}, [&] { run.run(arguments); });
  EXPECT_TRUE(ys.is_whole());
}

INSTANTIATE_TEST_SUITE_P(Targets, SizeBounds,
                         testing::Values(CompiledCase{Target::OpenMP, Variant::Restructured},
                                         CompiledCase{Target::OpenMP, Variant::Atomic},
                                         CompiledCase{Target::OpenMP, Variant::NaiveTape},
                                         CompiledCase{Target::Interpreter, Variant::Restructured, true}),
                         case_name);

}  // namespace
}  // namespace loopgrad::test

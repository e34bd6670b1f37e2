// Wrong arguments of a run: the right error, and nothing of the user's memory is touched.
#include "tests/error/expect_error.h"
#include "tests/support/print.h"
#include "tests/support/test_cache.h"

#include <loopgrad/compile.h>

#include <cstdlib>
#include <limits>

namespace loopgrad::test {
namespace {

/// y[i, j] = x[i, j] * w[j], with sizes n and m, on both targets.
class Arguments_ : public testing::TestWithParam<Target> {
 protected:
  static Program program() {
    ProgramBuilder p("scale_columns");
    auto n = p.size("n"), m = p.size("m");
    auto x = p.input<float>("x", {n, m});
    auto w = p.input<double>("w", {m});
    auto y = p.output<float>("y", {n, m});
    for (auto i : p.loop("i", 0, n))
      for (auto j : p.loop("j", 0, m)) y(i, j) = x(i, j) * cast<float>(w(j));
    return p.build();
  }

  /// Runs with `change` applied to good arguments; expects an error that names program and array, and untouched
  /// buffers.
  template <class Change>
  void expect(ErrorCode code, const std::string& array, const std::string& part, Change&& change) {
    CompileOptions options;
    options.target = GetParam();
    const Executable executable = compile(program(), options);
    Arguments arguments = {{"x", view(x.data(), {3, 5})}, {"w", view(w.data(), {5})}, {"y", view(y.data(), {3, 5})}};
    Sizes sizes;
    change(arguments, sizes);
    const ErrorInfo info =
        expect_error<UsageError>(code, {"scale_columns", array, part}, [&] { executable.run(arguments, sizes); });
    EXPECT_EQ(info.program, "scale_columns");
    EXPECT_EQ(x, std::vector<float>(64, 1.5f));
    EXPECT_EQ(w, std::vector<double>(64, 2.5));
    EXPECT_EQ(y, std::vector<float>(64, -7.0f));
  }

  std::vector<float> x = std::vector<float>(64, 1.5f), y = std::vector<float>(64, -7.0f);
  std::vector<double> w = std::vector<double>(64, 2.5);
};

TEST_P(Arguments_, GoodOnesRun) {
  CompileOptions options;
  options.target = GetParam();
  compile(program(), options)
      .run({{"x", view(x.data(), {3, 5})}, {"w", view(w.data(), {5})}, {"y", view(y.data(), {3, 5})}});
  for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(y[i], i < 15 ? 3.75f : -7.0f);
}

TEST_P(Arguments_, WrongExtent) {
  expect(ErrorCode::BadShape, "'w'", "expected m = 5", [&](Arguments& a, Sizes&) { a["w"] = view(w.data(), {4}); });
}
TEST_P(Arguments_, WrongExtentOfTheOutput) {
  expect(ErrorCode::BadShape, "'y'", "expected n = 3.", [&](Arguments& a, Sizes&) { a["y"] = view(y.data(), {2, 5}); });
}
TEST_P(Arguments_, ExtentsThatContradictAGivenSize) {
  expect(ErrorCode::BadShape, "'x'", "expected n = 4", [&](Arguments&, Sizes& s) { s["n"] = 4; });
}
TEST_P(Arguments_, WrongType) {
  expect(ErrorCode::BadType, "'w'", "type f32, expected f64",
         [&](Arguments& a, Sizes&) { a["w"] = view(x.data(), {5}); });
}
TEST_P(Arguments_, WrongRank) {
  expect(ErrorCode::BadShape, "'x'", "1 dimensions, expected 2",
         [&](Arguments& a, Sizes&) { a["x"] = view(x.data(), {15}); });
}
TEST_P(Arguments_, MissingArgument) {
  expect(ErrorCode::BadArgument, "'y'", "missing", [](Arguments& a, Sizes&) { a.erase("y"); });
}
TEST_P(Arguments_, ExtraArgument) {
  expect(ErrorCode::BadArgument, "'z'", "the arrays are: x, w, y",
         [&](Arguments& a, Sizes&) { a["z"] = view(x.data(), {1}); });
}
TEST_P(Arguments_, ExtraSize) {
  expect(ErrorCode::BadSize, "'k'", "the sizes are: n, m", [](Arguments&, Sizes& s) { s["k"] = 1; });
}
TEST_P(Arguments_, NonContiguousView) {
  expect(ErrorCode::BadLayout, "'x'", "strides [1, 3]", [&](Arguments& a, Sizes&) { a["x"].strides = {1, 3}; });
}
TEST_P(Arguments_, NegativeExtent) {
  expect(ErrorCode::BadSize, "'w'", "negative", [&](Arguments& a, Sizes&) { a["w"] = view(w.data(), {-5}); });
}
TEST_P(Arguments_, NegativeSize) {
  expect(ErrorCode::BadSize, "'m'", "negative", [](Arguments&, Sizes& s) { s["m"] = -5; });
}
TEST_P(Arguments_, OverflowingExtents) {
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max() / 4;
  expect(ErrorCode::BadSize, "'x'", "64 bits", [&](Arguments& a, Sizes&) { a["x"] = view(x.data(), {huge, 5}); });
}
TEST_P(Arguments_, NullData) {
  expect(ErrorCode::BadArgument, "'w'", "null", [](Arguments& a, Sizes&) { a["w"].data = nullptr; });
}
TEST_P(Arguments_, OverlapWithAnOutput) {
  expect(ErrorCode::Aliasing, "'y'", "'x'", [&](Arguments& a, Sizes&) { a["y"] = view(x.data() + 1, {3, 5}); });
}

INSTANTIATE_TEST_SUITE_P(Targets, Arguments_, testing::Values(Target::OpenMP, Target::Interpreter),
                         [](const auto& which) { return std::string(name_of(which.param)); });

TEST(CompileOptions_, MustFitTheTarget) {
  ProgramBuilder p("options");
  auto x = p.inout<float>("x", {1});
  x(0) = 1.0f;
  const Program program = p.build();
  auto with = [&](auto set) {
    CompileOptions options;
    set(options);
    compile(program, options);
  };
  expect_error<UsageError>(ErrorCode::BadArgument, {"options", "checked"},
                           [&] { with([](auto& o) { o.checked = true; }); });
  expect_error<UsageError>(ErrorCode::BadArgument, {"options", "f64"}, [&] { with([](auto& o) { o.f64 = true; }); });
  expect_error<UsageError>(ErrorCode::BadArgument, {"options", "trap_nan"},
                           [&] { with([](auto& o) { o.trap_nan = true; }); });
  expect_error<UsageError>(ErrorCode::BadArgument, {"options", "'trap_nan' is a part of 'checked'"},
                           [&] { with([](auto& o) { o.target = Target::Interpreter, o.trap_nan = true; }); });
  expect_error<UsageError>(ErrorCode::BadArgument, {"options", "threads"},
                           [&] { with([](auto& o) { o.threads = -1; }); });
}

TEST(CompileOptions_, TrapNanNamesTheOperationThatMakesOne) {
  ProgramBuilder p("roots");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", n)) y(i) = sqrt(x(i));
  const Program program = p.build();
  std::vector<float> x_values = {1, -4}, y_values(2);
  const Arguments arguments = {{"x", view(x_values.data(), {2})}, {"y", view(y_values.data(), {2})}};
  compile(program, {.target = Target::Interpreter, .checked = true}).run(arguments);
  const Executable traps = compile(program, {.target = Target::Interpreter, .checked = true, .trap_nan = true});
  expect_error<RuntimeError>(ErrorCode::NotANumber, {"roots", "sqrt(-4) is not a number at i = 1"},
                             [&] { traps.run(arguments); });
}

}  // namespace
}  // namespace loopgrad::test

// What functions of emitted sources refuse, and that they write nothing then; and what cannot be emitted.
#include "backends/emit_files.h"
#include "tests/emit/emitted_library.h"
#include "tests/error/expect_error.h"

#include <loopgrad/program.h>
#include <loopgrad/signature.h>

#include <gtest/gtest.h>

#include <limits>
#include <numeric>

namespace loopgrad::test {
namespace {

constexpr int bad_argument = 1, overlap = 2, bad_size = 3, small_memory = 4, bad_fact = 6, bad_index = 7;

/// y[i] = x[idx[i]]^2 + x[i + 1]; idx is stated to be in range.
Program gather(const std::function<void(ProgramBuilder&, const ArrayHandle&, const Value&)>& state) {
  ProgramBuilder p("gather");
  auto n = p.size("n"), m = p.size("m");
  auto idx = p.input<int>("idx", {n});
  auto x = p.input<float>("x", {m});
  auto y = p.output<float>("y", {n});
  state(p, idx, m);
  for (auto i : p.loop("i", 0, n)) y(i) = x(idx(i)) * x(idx(i)) + x(i + 1);
  return p.build();
}

class EmittedGather : public testing::Test {
 protected:
  static EmittedLibrary& library() {
    static EmittedLibrary one(
        differentiate(gather([](ProgramBuilder& p, const ArrayHandle& idx, const Value& m) { p.in_range(idx, 0, m); }),
                      {.wrt = {"x"}}),
        "gather");
    return one;
  }
  void SetUp() override { ASSERT_EQ(library().memory(sizes, 1), 0); }
  Arguments arrays() {
    return {{"idx", view(idx.data(), {n})},
            {"x", view(x.data(), {m})},
            {"y", view(y.data(), {n})},
            {"d_y", view(d_y.data(), {n})},
            {"d_x", view(d_x.data(), {m})}};
  }
  void expect_refused(int status, int kind, const std::string& part) {
    EXPECT_EQ(status & 255, kind);
    const std::string text = library().error_text(status);
    EXPECT_NE(text.find(part), std::string::npos) << text;
    EXPECT_EQ(y, std::vector<float>(n, -7)) << "nothing is written";
    EXPECT_EQ(d_x, std::vector<float>(m, -7)) << "nothing is written";
  }

  static constexpr std::int64_t n = 100, m = 101;
  Sizes sizes = {{"n", n}, {"m", m}};
  std::vector<int> idx = std::vector<int>(n, 3);
  std::vector<float> x = std::vector<float>(m, 2), y = std::vector<float>(n, -7), d_y = std::vector<float>(n, 1),
                     d_x = std::vector<float>(m, -7);
};

TEST_F(EmittedGather, ComputesWhatItShould) {
  EXPECT_EQ(library().check(sizes, arrays(), 1), 0);
  ASSERT_EQ(library().forward(sizes, arrays(), 1), 0);
  ASSERT_EQ(library().backward(sizes, arrays(), 1), 0);
  EXPECT_EQ(y, std::vector<float>(n, 6));
  EXPECT_EQ(d_x[3], 2 * 2 * n + 1);
  EXPECT_EQ(d_x[0], 0);
  EXPECT_EQ(d_x[m - 1], 1);
}

TEST_F(EmittedGather, LooksAtFacts) {
  idx[50] = m;
  expect_refused(library().check(sizes, arrays(), 1), bad_fact, "does not hold");
  expect_refused(library().forward(sizes, arrays(), 1), bad_fact, "does not hold");
  expect_refused(library().backward(sizes, arrays(), 1), bad_fact, "does not hold");
  idx[50] = -1;
  expect_refused(library().forward(sizes, arrays(), 1), bad_fact, "in_range of 'idx' (");
}

TEST_F(EmittedGather, LooksAtSizes) {
  sizes["n"] = -1;
  expect_refused(library().forward(sizes, arrays(), 1), bad_size, "'n' is negative");
  sizes["n"] = std::numeric_limits<std::int64_t>::max() / 2;
  expect_refused(library().memory(sizes, 1), bad_size, "do not fit in 64 bits");
  sizes = {{"n", n}, {"m", m - 1}};  // x[i + 1] would leave x
  expect_refused(library().forward(sizes, arrays(), 1), bad_index, "array 'x', dimension 0 (");
}

TEST_F(EmittedGather, LooksAtArrays) {
  Arguments all = arrays();
  all["x"].data = nullptr;
  expect_refused(library().forward(sizes, all, 1), bad_argument, "'x' is null");
  all = arrays();
  all["x"].data = reinterpret_cast<char*>(x.data()) + 1;
  expect_refused(library().forward(sizes, all, 1), bad_argument, "'x' is null or not aligned");
  all = arrays();
  all["y"].data = x.data() + 50;
  expect_refused(library().forward(sizes, all, 1), overlap, "'y' shares memory");
  all = arrays();
  all["d_x"].data = d_y.data();
  expect_refused(library().backward(sizes, all, 1), overlap, "'d_");
}

TEST_F(EmittedGather, LooksAtMemory) {
  ASSERT_GT(library().workspace_bytes, 0u);
  library().workspace_bytes -= 64;
  expect_refused(library().backward(sizes, arrays(), 1), small_memory, "fewer bytes");
}

TEST_F(EmittedGather, WithoutElementsNeedsNoArrays) {
  sizes = {{"n", 0}, {"m", 0}};
  ASSERT_EQ(library().memory(sizes, 1), 0);
  EXPECT_EQ(library().forward(sizes, {}, 1), 0);
  EXPECT_EQ(library().backward(sizes, {}, 1), 0);
}

/// y[0] += x[0], m*m times.
TEST(EmittedBounds, ThatWrapAreRefused) {
  ProgramBuilder p("squared");
  auto m = p.size("m");
  auto x = p.input<double>("x", {1});
  auto y = p.inout<double>("y", {1});
  for (auto i : p.loop("i", 0, m * m)) y(0) += x(0) + cast<double>(i) * 0.0;
  EmittedLibrary library(differentiate(p.build(), {.wrt = {"x"}}), "squared");
  double at = 1, sum = 0;
  const Arguments arrays = {{"x", view(&at, {1})}, {"y", view(&sum, {1})}};
  ASSERT_EQ(library.memory({{"m", 3}}, 1), 0);
  ASSERT_EQ(library.forward({{"m", 3}}, arrays, 1), 0);
  EXPECT_EQ(sum, 9);
  const int wraps = library.forward({{"m", std::int64_t{1} << 32}}, arrays, 1);
  EXPECT_EQ(wraps & 255, bad_size);
  EXPECT_NE(library.error_text(wraps).find("the bound m*m of loop 'i' does not fit"), std::string::npos);
  const int far = library.forward({{"m", std::int64_t{1} << 31}}, arrays, 1);
  EXPECT_EQ(far & 255, bad_size);
  EXPECT_NE(library.error_text(far).find("further from zero"), std::string::npos) << library.error_text(far);
  EXPECT_EQ(sum, 9);
}

/// h[i64(t[i])] += w[i] with a t that the program computes: nobody knows the index before it runs.
TEST(EmittedRecords, TellWhatWasLeftOut) {
  ProgramBuilder p("scatter");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<float>("x", {n}), w = p.input<float>("w", {n});
  auto h = p.output<float>("h", {m});
  auto t = p.local<float>("t", {n});
  for (auto i : p.loop("i", 0, n)) t(i) = select(x(i) < 2.0f, x(i), x(i) * 2.0f);
  for (auto k : p.loop("k", 0, m)) h(k) = 0.0f;
  for (auto i : p.loop("i", 0, n)) {
    auto bin = p.scalar<std::int64_t>("bin");
    bin = cast<std::int64_t>(t(i));
    h(bin) += w(i);
  }
  EmittedLibrary library(differentiate(p.build(), {.wrt = {"w"}}), "scatter");
  std::vector<float> values = {0, 1, 1, 1}, weights = {1, 2, 3, 4}, sums(3);
  const Sizes sizes = {{"n", 4}, {"m", 3}};
  const Arguments arrays = {
      {"x", view(values.data(), {4})}, {"w", view(weights.data(), {4})}, {"h", view(sums.data(), {3})}};
  ASSERT_EQ(library.memory(sizes, 1), 0);
  ASSERT_EQ(library.forward(sizes, arrays, 1), 0);
  EXPECT_EQ(sums, (std::vector<float>{1, 9, 0}));
  values[2] = 2;  // 4
  const int status = library.forward(sizes, arrays, 1);
  EXPECT_EQ(status & 255, bad_index);
  EXPECT_NE(library.error_text(status).find("outside of 'h', dimension 0; it was left out"), std::string::npos);
  values[2] = 1;
  EXPECT_EQ(library.forward(sizes, arrays, 1), 0) << "an error is over once it is told";
  const Sizes none = {{"n", 4}, {"m", 0}};  // every index is out of range, and 0 of an array without elements
  ASSERT_EQ(library.memory(none, 1), 0);
  EXPECT_EQ(library.forward(none, arrays, 1) & 255, bad_index);
}

/// s is taped in each trip, and only data tell how many there are.
Program newton(const std::string& name_of_steps = "steps") {
  ProgramBuilder p("newton");
  auto n = p.size("n");
  auto steps = p.input<int>(name_of_steps, {n});
  auto a = p.input<float>("a", {n});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto s = p.scalar<float>("s");
    s = a(i);
    for ([[maybe_unused]] auto t : p.loop("t", 0, steps(i))) s = 0.5f * (s + a(i) / s);
    y(i) = s;
  }
  return p.build();
}

/// What is emitted has variables of its own for computed sizes.
TEST(EmittedSizes, AreNoNamesOfTheUser) {
  const Gradient counted = differentiate(newton());
  const auto others = size_names(counted.forward);
  ASSERT_EQ(others.size(), 2u);
  const Gradient gradient = differentiate(newton("computed_" + others.back()));
  ASSERT_EQ(size_names(gradient.forward).back(), others.back());
  EmittedLibrary library(gradient, "newton_names");
  std::vector<int> count = {3, 0};
  std::vector<float> x = {2, 3}, z(2);
  Sizes sizes = {{"n", 2}};
  const Arguments arrays = {
      {"computed_" + others.back(), view(count.data(), {2})}, {"a", view(x.data(), {2})}, {"y", view(z.data(), {2})}};
  ASSERT_EQ(library.sizes(sizes, arrays, 1), 0);
  ASSERT_EQ(library.memory(sizes, 1), 0);
  EXPECT_EQ(library.forward(sizes, arrays, 1), 0);
  EXPECT_EQ(z[1], 3);
}

TEST(EmittedSizes, OneMayBeZeroHoweverLargeAnotherIs) {
  ProgramBuilder p("steps");
  auto n = p.size("n"), steps = p.size("T");
  auto u = p.inout<double>("u", {n});
  for ([[maybe_unused]] auto t : p.loop("t", 0, steps))
    for (auto i : p.loop("i", 0, n)) u(i) = sin(u(i)) * u(i);
  EmittedLibrary library(differentiate(p.build()), "steps");
  EXPECT_EQ(library.memory({{"n", 0}, {"T", std::int64_t{1} << 61}}, 1), 0);
  EXPECT_EQ(library.tape_bytes, 0u);
}

TEST(EmittedNames, AreNoHeadersOfTheSystem) {
  for (const char* name : {"string", "omp", "Math"})
    expect_error<UsageError>(ErrorCode::BadArgument, {name, "header of the system", "--name"},
                             [&] { backend::emit_files(differentiate(newton()), {}, name); });
}

TEST(EmittedSizes, AreComputedFromData) {
  const Gradient gradient = differentiate(newton());
  EmittedLibrary library(gradient, "newton");
  std::vector<int> steps = {3, 0, 5, 2};
  std::vector<float> a = {2, 3, 4, 5}, y(4), d_y(4, 1), d_a(4), expected_y(4), expected_d_a(4);
  Sizes sizes = {{"n", 4}};
  Arguments arrays = {{"steps", view(steps.data(), {4})}, {"a", view(a.data(), {4})}, {"y", view(y.data(), {4})}};
  const Arguments backward = {{"d_y", view(d_y.data(), {4})}, {"d_a", view(d_a.data(), {4})}};
  ASSERT_EQ(library.sizes(sizes, arrays, 1), 0);
  ASSERT_GT(sizes.size(), 1u);
  ASSERT_EQ(library.memory(sizes, 1), 0);
  EXPECT_GT(library.tape_bytes, 0u);
  ASSERT_EQ(library.forward(sizes, arrays, 1), 0);
  Arguments all = arrays;
  all.insert(backward.begin(), backward.end());
  ASSERT_EQ(library.backward(sizes, all, 1), 0);

  const GradientExecutable jit = compile(gradient);
  arrays["y"] = view(expected_y.data(), {4});
  jit.forward(arrays);
  all = arrays;
  all["d_y"] = view(d_y.data(), {4});
  all["d_a"] = view(expected_d_a.data(), {4});
  jit.backward(all);
  EXPECT_EQ(y, expected_y);
  EXPECT_EQ(d_a, expected_d_a);

  steps[1] = 40;  // more trips than the caller asked memory for
  const int status = library.forward(sizes, arrays, 1);
  EXPECT_EQ(status & 255, bad_size);
  EXPECT_NE(library.error_text(status).find("other sizes than those that newton_sizes computes"), std::string::npos);
}

// A work list: how long it gets is found beforehand, where what leads out of it is noticed.
TEST(EmittedSizes, AreRefusedWhereListsLeadOutOfArrays) {
  ProgramBuilder p("queue");
  auto n = p.size("n");
  auto next = p.input<std::int64_t>("next", {n});
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n});
  auto list = p.local<std::int64_t>("list", {n + 1});
  auto end = p.scalar<std::int64_t>("end", 1);
  for (auto i : p.loop("i", n)) y(i) = 0.5;
  list(0) = 0;
  for (auto k : p.loop_while("k", n, [&](const Value& at) { return at < end; })) {
    auto here = p.scalar<std::int64_t>("here");
    here = list(k);
    p.when(next(here) >= 0, [&] {
      list(end) = next(here);
      end += 1;
      y(next(here)) = y(here) * x(here);
    });
  }
  const Gradient gradient = differentiate(p.build(), {.wrt = {"x"}});
  EmittedLibrary library(gradient, "queue");
  constexpr std::int64_t n_of = 5;
  std::vector<std::int64_t> next_of = {2, -1, 4, -1, 1};
  std::vector<double> x_of(n_of, 2), y_of(n_of), d_y(n_of, 1), d_x(n_of);
  const Arguments arrays = {{"next", view(next_of.data(), {n_of})},
                            {"x", view(x_of.data(), {n_of})},
                            {"y", view(y_of.data(), {n_of})},
                            {"d_y", view(d_y.data(), {n_of})},
                            {"d_x", view(d_x.data(), {n_of})}};
  Sizes sizes = {{"n", n_of}};
  ASSERT_EQ(library.sizes(sizes, arrays, 1), 0);
  ASSERT_EQ(library.memory(sizes, 1), 0);
  EXPECT_EQ(library.forward(sizes, arrays, 1), 0);
  EXPECT_EQ(y_of, (std::vector<double>{0.5, 4, 1, 0.5, 2}));
  next_of[2] = n_of;  // is no element
  Sizes others = {{"n", n_of}};
  EXPECT_EQ(library.sizes(others, arrays, 1) & 255, bad_index);
  const GradientExecutable jit = compile(gradient);
  expect_error<RuntimeError>(ErrorCode::BadIndex, {"'next'"}, [&] { jit.forward(arrays); });
}

// Facts alone need no memory.
TEST(EmittedFacts, NeedNoWorkspace) {
  ProgramBuilder p("chosen");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto chosen = p.input<std::int64_t>("chosen", {n});
  auto y = p.output<double>("y", {n});
  p.in_range(chosen, 0, n);
  for (auto i : p.loop("i", n)) y(i) = x(i) * x(chosen(i));
  EmittedLibrary library(differentiate(p.build(), {.wrt = {"x"}}), "chosen");
  Sizes sizes = {{"n", 7}};
  EXPECT_EQ(library.memory(sizes, 1), 0);
}

/// Locals of i + 1 elements: they are no part of the workspace.
TEST(EmittedLocals, OfExtentsThatIteratorsDecide) {
  ProgramBuilder p("ragged");
  auto n = p.size("n");
  auto count = p.input<int>("count", {n});
  p.in_range(count, 1, 4);
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto t = p.local<double>("t", {i + 1});
    auto u = p.local<double>("u", {2 * i + 3});
    for (auto j : p.loop("j", 0, i + 1)) t(j) = x(j) * x(i);
    for (auto k : p.loop("k", 0, count(i))) u(k) = sin(x(i));
    y(i) = 0.0;
    for (auto j : p.loop("j", 0, i + 1)) y(i) += t(j) * t(i - j);
    for (auto k : p.loop("k", 0, count(i))) y(i) += u(k) * u(k);
  }
  const Gradient gradient = differentiate(p.build(), {.wrt = {"x"}});
  constexpr std::int64_t size = 150;
  std::vector<int> counts(size);
  std::vector<double> values(size), ys[2], d_xs[2], d_y(size, 0.5);
  for (std::int64_t i = 0; i < size; ++i) {
    counts[static_cast<std::size_t>(i)] = static_cast<int>(1 + i % 3);
    values[static_cast<std::size_t>(i)] = 0.01 * static_cast<double>(i % 31);
  }
  EmittedLibrary library(gradient, "ragged");
  const GradientExecutable jit = compile(gradient);
  for (const int k : {0, 1}) {
    ys[k].resize(size);
    d_xs[k].resize(size);
    Arguments arrays = {
        {"count", view(counts.data(), {size})}, {"x", view(values.data(), {size})}, {"y", view(ys[k].data(), {size})}};
    Arguments all = arrays;
    all["d_y"] = view(d_y.data(), {size});
    all["d_x"] = view(d_xs[k].data(), {size});
    if (k == 0) {
      jit.forward(arrays);
      jit.backward(all);
      continue;
    }
    const Sizes sizes = {{"n", size}};
    ASSERT_EQ(library.memory(sizes, 2), 0);
    ASSERT_EQ(library.forward(sizes, all, 2), 0);
    ASSERT_EQ(library.backward(sizes, all, 2), 0);
  }
  EXPECT_EQ(ys[0], ys[1]);
  EXPECT_EQ(d_xs[0], d_xs[1]);
}

TEST(EmitRefusals, NameTheReason) {
  const Program program = gather([](ProgramBuilder& p, const ArrayHandle& idx, const Value&) { p.injective(idx); });
  expect_error<UsageError>(ErrorCode::BadArgument, {"'injective' is stated about 'idx'", "--facts trust"},
                           [&] { backend::emit_files(differentiate(program), {}, "gather"); });
  EXPECT_NO_THROW(backend::emit_files(differentiate(program), {.facts = Facts::Trust}, "gather"));
  expect_error<UsageError>(ErrorCode::BadArgument, {"naive tape", "emit the variant restructured"}, [&] {
    backend::emit_files(differentiate(program, {.variant = Variant::NaiveTape}), {}, "gather");
  });
  expect_error<UsageError>(ErrorCode::BadInput, {"the interpreter has no generated code"}, [&] {
    backend::emit_files(differentiate(program), {.target = Target::Interpreter}, "gather");
  });
}

}  // namespace
}  // namespace loopgrad::test

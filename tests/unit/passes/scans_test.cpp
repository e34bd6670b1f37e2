// Recurrences: what is one, and what its pieces compute where numbers end.
#include "dsl/ir/printer.h"
#include "dsl/ir/visit.h"
#include "tests/unit/passes/recurrences.h"
#include "tests/unit/transforms/same_bits.h"
#include "transforms/pipeline.h"
#include "transforms/sums/scans/recurrence.h"

#include <gtest/gtest.h>

#include <limits>

namespace loopgrad::transforms {
namespace {

using Values = std::vector<double>;

/// The recurrence of `for i in 1..n: y[i] = <value>`.
std::optional<Update> update_in(const std::string& value) {
  const ir::Program program = program_of(recurrence_arrays, "    for i in 1..n:\n      y[i] = " + value + "\n");
  const auto r = recurrence_of(program.body);
  return r ? std::optional(r->update) : std::nullopt;
}

std::string parts_of(const std::string& value) {
  const auto u = update_in(value);
  if (!u) return "none";
  const auto text = [](const ir::Expr& e) { return e ? ir::print(e) : "-"; };
  if (u->kind != Update::Kind::Linear)
    return std::string(u->kind == Update::Kind::Min ? "min" : "max") + (u->previous_first ? " after " : " before ") +
           text(u->term);
  return text(u->factor) + " | " + text(u->term);
}

TEST(Recurrence, PartsOfAStep) {
  EXPECT_EQ(parts_of("a[i]*y[i - 1] + x[i]"), "a[i] | x[i]");
  EXPECT_EQ(parts_of("x[i] - y[i - 1]*2"), "-2 | x[i]");
  EXPECT_EQ(parts_of("y[i - 1] + x[i]"), "- | x[i]");
  EXPECT_EQ(parts_of("y[i - 1]*a[i]"), "a[i] | -");
  EXPECT_EQ(parts_of("(y[i - 1] + x[i])/a[i]"), "1/a[i] | x[i]/a[i]");
  EXPECT_EQ(parts_of("fma(a[i], y[i - 1], x[i])"), "a[i] | x[i]");
  EXPECT_EQ(parts_of("select(a[i] > 0, y[i - 1], x[i])"), "select(a[i] > 0, 1, 0) | select(a[i] > 0, 0, x[i])");
  EXPECT_EQ(parts_of("max(y[i - 1], x[i])"), "max after x[i]");
  EXPECT_EQ(parts_of("min(x[i], y[i - 1])"), "min before x[i]");
}

TEST(Recurrence, WhatIsNone) {
  for (const char* value : {"y[i - 1]*y[i - 1]", "sin(y[i - 1])", "x[i]/y[i - 1]", "max(y[i - 1]*2, x[i])",
                            "select(y[i - 1] > 0, x[i], a[i])", "y[i - 1] + y[0]", "y[i] + x[i]", "x[i]*2", "y[i - 1]"})
    EXPECT_EQ(parts_of(value), "none") << value;
}

// What the pieces compute.

struct Way {
  const char* what;
  Machine machine;
  int threads_per_block;
};
std::vector<Way> ways() {
  Machine pieces = small_gpu();
  pieces.enough_threads = 1 << 20;  // rows are never enough
  return {{"CPU", small_cpu(), 0}, {"rows", small_gpu(), 32}, {"tiles", pieces, 32}, {"GPU", gpu_machine(), 0}};
}

Buffers with_inputs(const ir::Program& program, const Sizes& sizes, const std::map<std::string, Values>& inputs) {
  backend::SizeValues values;
  for (const ir::Symbol& s : program.sizes) values[s] = sizes.at(s.name);
  Buffers buffers;
  Arguments arguments;
  for (const ir::Array& a : program.arrays) {
    HostArray& b = buffers[a->name] = HostArray(a->type, backend::shape_of(a, values));
    const auto given = inputs.find(a->name);
    for (std::int64_t k = 0; k < b.size(); ++k)
      b.set(k, given == inputs.end() ? 0 : given->second[static_cast<std::size_t>(k) % given->second.size()]);
    arguments[a->name] = b.view();
  }
  backend::interpret(program, backend::bind(program, arguments, sizes), {.f64 = false, .checked = true, .seed = 3});
  return buffers;
}

/// All ways to run it find what the loop in order finds: the same where that is not finite or not rounded, else up to
/// `error` of the largest value.
void expect_as_in_order(const std::string& declarations, const std::string& body, std::int64_t n, std::int64_t m,
                        const std::map<std::string, Values>& inputs, double error = 1e-5) {
  const ir::Program program = program_of(declarations, body);
  const Sizes sizes = {{"n", n}, {"m", m}};
  const Buffers expected = with_inputs(program, sizes, inputs);
  for (const Way& way : ways()) {
    Report report;
    LowerOptions options;
    options.machine = way.machine;
    options.threads_per_block = way.threads_per_block;
    const ir::Program lowered = lower_for(program, options, report).program;
    const Buffers actual = with_inputs(lowered, sizes, inputs);
    for (const ir::Array& array : program.arrays) {
      const HostArray &e = expected.at(array->name), &a = actual.at(array->name);
      double largest = 0;
      for (std::int64_t k = 0; k < e.size(); ++k)
        if (std::isfinite(e.get(k))) largest = std::max(largest, std::abs(e.get(k)));
      for (std::int64_t k = 0; k < e.size(); ++k) {
        const double was = e.get(k), is = a.get(k);
        const bool fine = std::isfinite(was) ? std::abs(is - was) <= error * largest
                                             : error > 0 || is == was || (std::isnan(is) && std::isnan(was));
        ASSERT_TRUE(fine) << way.what << ", n = " << n << ": " << array->name << "[" << k << "] = " << is << ", not "
                          << was << "\n"
                          << reasons_in(report);
      }
    }
  }
}

const char* const linear = R"(
    for i in 1..n:
      y[i] = a[i]*y[i - 1] + x[i]
  )";
const char* const reversed = R"(
    for r in 0..m:
      local f32 s
      s = decay
      for i in 0..n reversed:
        s = s*a[i] + x[i]
        z[r, i] = s
      y[0] = s
  )";
const char* const columns = R"(
    program p(n, m)
      input  f32 x[n]
      input  f32 a[n]
      inout  f32 z[n, m]
  )";

Values wave(double scale, double shift) {
  Values result;
  for (int k = 0; k < 997; ++k) result.push_back(scale * std::sin(0.7 * k * k + k) + shift);
  return result;
}

TEST(ScanRecurrences, AllLengths) {
  const std::map<std::string, Values> inputs = {{"x", wave(1, 0.2)}, {"a", wave(0.9, 0)}, {"decay", {0.5}}, {"y", {1}}};
  for (const std::int64_t n : {1, 2, 31, 32, 33, 64, 129, 1000, 2049, 4500}) {
    expect_as_in_order(recurrence_arrays, linear, n, 1, inputs);
    expect_as_in_order(recurrence_arrays, R"(
    for r in 0..m:
      for i in 1..n:
        z[r, i] = z[r, i - 1] + a[i]
  )",
                       n, 5, inputs);
  }
  for (const std::int64_t n : {2, 33, 1000})
    expect_as_in_order(columns, R"(
    for r in 0..m:
      for i in 1..n:
        z[i, r] = z[i - 1, r]*a[i] + x[i]
  )",
                       n, 5, inputs);
}

TEST(ScanRecurrences, ReversedFromAScalarInRows) {
  const char* const rows = R"(
    program p(n, m)
      input  f32 x[n]
      input  f32 a[n]
      inout  f32 y[m]
      inout  f32 z[m, n]
      input  f32 decay
  )";
  const std::map<std::string, Values> inputs = {{"x", wave(1, 0.2)}, {"a", wave(0.9, 0)}, {"decay", {0.5}}};
  for (const std::int64_t m : {1, 3, 9})
    for (const std::int64_t n : {1, 40, 700}) {
      std::string body = reversed;
      body.replace(body.find("y[0]"), 4, "y[r]");
      expect_as_in_order(rows, body, n, m, inputs);
    }
}

TEST(ScanRecurrences, GrowthFromNothingStaysNothing) {
  // 4^1000 is beyond any number, and times 0 it would be NaN.
  expect_as_in_order(recurrence_arrays, linear, 1000, 1, {{"a", {4}}});
  expect_as_in_order(recurrence_arrays, linear, 3000, 1, {{"a", {1e30}}});
  Values late(997, 0.0);
  late[990] = 1e-30;
  expect_as_in_order(recurrence_arrays, linear, 996, 1, {{"a", {4}}, {"x", late}});
  expect_as_in_order(recurrence_arrays, linear, 1000, 1, {{"a", {-4}}});
}

TEST(ScanRecurrences, GrowthAndDecayMeet) {
  Values up_and_down;
  for (int k = 0; k < 400; ++k) up_and_down.push_back(k % 400 < 200 ? 4 : 0.25);
  expect_as_in_order(recurrence_arrays, linear, 400, 1, {{"a", up_and_down}, {"y", {1e-38}}});
  Values down_and_up;
  for (int k = 0; k < 160; ++k) down_and_up.push_back(k < 80 ? 0.25 : 4);
  expect_as_in_order(recurrence_arrays, linear, 160, 1, {{"a", down_and_up}, {"y", {1e35}}});
}

TEST(ScanRecurrences, DoublesLoseNothingToUnderflow) {
  const char* const doubles = R"(
    program p(n, m)
      input  f64 x[n]
      input  f64 a[n]
      inout  f64 y[n]
  )";
  Values down_and_up;
  for (int k = 0; k < 600; ++k) down_and_up.push_back(k < 300 ? 0x1p-6 : 0x1p6);
  expect_as_in_order(doubles, linear, 600, 1, {{"a", down_and_up}, {"y", {0x1p1000}}}, 1e-12);
  expect_as_in_order(doubles, linear, 3000, 1, {{"a", {0x1p600}}}, 1e-12);
  expect_as_in_order(doubles, linear, 700, 1, {{"a", wave(0.9, 0)}, {"x", wave(1, 0)}}, 1e-12);
}

TEST(ScanRecurrences, ZerosForgetWhatWasInfinite) {
  const double inf = std::numeric_limits<double>::infinity();
  Values resets(997, 0.5), spikes(997, 1.0);
  for (std::size_t k = 0; k < resets.size(); k += 50) resets[k] = 0;
  expect_as_in_order(recurrence_arrays, linear, 900, 1, {{"a", resets}, {"x", spikes}});
  Values branch(997, 1.0);
  for (std::size_t k = 100; k < branch.size(); k += 100) branch[k] = 0;
  spikes[50] = spikes[370] = inf;
  // The step is not taken where a is 0, so the infinite value ends there.
  expect_as_in_order(recurrence_arrays, R"(
    for i in 1..n:
      y[i] = select(a[i] > 0, y[i - 1], 0) + x[i]
  )",
                     900, 1, {{"a", branch}, {"x", spikes}});
}

TEST(ScanRecurrences, TermsCancelBeforeTheyAreMultiplied) {
  // (y + x)*a is 0 where y*a + x*a is infinite less infinite.
  expect_as_in_order(recurrence_arrays, R"(
    for i in 1..n:
      y[i] = (y[i - 1] + x[i])*a[i] - x[i]
  )",
                     500, 1, {{"a", {0, 1e10}}, {"x", {0, 1e-30}}, {"y", {1}}});
  expect_as_in_order(recurrence_arrays, R"(
    for i in 1..n:
      y[i] = (y[i - 1] - y[i])/a[i]
  )",
                     500, 1, {{"a", {1e-40, 2}}});
}

TEST(ScanRecurrences, ExtremaHaveTheSameBits) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  Values numbers = wave(5, 0);
  for (const bool with_nan : {false, true}) {
    if (with_nan) numbers[40] = numbers[41] = numbers[700] = nan;
    numbers[300] = -inf;
    for (const char* value : {"max(y[i - 1], x[i])", "min(x[i], y[i - 1])", "max(x[i], y[i - 1])"})
      for (const std::int64_t n : {2, 45, 990})
        expect_as_in_order(recurrence_arrays, "    for i in 1..n:\n      y[i] = " + std::string(value) + "\n", n, 1,
                           {{"x", numbers}, {"y", {-7}}}, 0);
  }
}

/// The first iteration does not ask for the element before it, which the array does not have.
TEST(ScanRecurrences, WhatTheFirstIterationDoesNotAskForIsNotRead) {
  const std::map<std::string, Values> inputs = {{"x", wave(1, 0.2)}, {"a", wave(0.9, 0)}};
  for (const std::int64_t n : {1, 2, 3, 40, 700}) {
    expect_as_in_order(recurrence_arrays, R"(
    for i in 0..n:
      y[i] = select(i > 0, y[i - 1], 0.317)*a[i] + x[i]
  )",
                       n, 1, inputs, 1e-5);
    expect_as_in_order(recurrence_arrays, R"(
    for i in 0..n reversed:
      y[i] = a[i]*select(i < n - 1, y[i + 1], x[i])
  )",
                       n, 1, inputs, 1e-5);
    // A scalar that nothing sets, as nobody looks at it.
    expect_as_in_order(recurrence_arrays, R"(
    local f32 start
    for i in 0..n reversed:
      y[i] = select(i + 1 < n, select(i == n - 1, start, y[i + 1])*a[i], x[i])
  )",
                       n, 1, inputs, 1e-5);
  }
}

/// An output that only a branch sets: a scan would start from what is in it. What sets it later does not help.
TEST(ScanRecurrences, WhatHasNoValueBeforeTheLoopIsNotTakenOut) {
  for (const char* const after : {"", "    last = 0.5\n"}) {
    const ir::Program program = program_of(R"(
    program p(n)
      input  f32 x[n]
      output f32 last
  )",
                                           R"(
    for i in 0..n:
      if x[i] > 0.5:
        last = 0.25
)" + std::string(after));
    LowerOptions options;
    options.machine = gpu_machine();
    Report report;
    lower_for(program, options, report);
    EXPECT_NE(reasons_in(report).find("nothing gives it a value before the loop"), std::string::npos)
        << reasons_in(report);
  }
}

TEST(ScanRecurrences, SaysSo) {
  for (const Way& way : ways()) {
    const ir::Program program = program_of(recurrence_arrays, linear);
    Report report;
    LowerOptions options;
    options.machine = way.machine;
    lower_for(program, options, report);
    EXPECT_NE(reasons_in(report).find("i: a scan: y[i] = a linear step of the one before"), std::string::npos)
        << reasons_in(report);
  }
}

TEST(ScanRecurrences, StaysWhereTheUserHasSteps) {
  const ir::Program program = program_of(recurrence_arrays, linear);
  Report report;
  LowerOptions options;
  options.machine = small_gpu();
  options.by_hand = true;
  lower_for(program, options, report);
  EXPECT_EQ(reasons_in(report).find("a scan"), std::string::npos) << reasons_in(report);
}

}  // namespace
}  // namespace loopgrad::transforms

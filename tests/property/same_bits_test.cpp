// Of which results docs/numerics.md promises the same bits, and that compiled programs are held to it.
#include "tests/support/test_cache.h"
#include "tools/fuzz/compiled.h"
#include "tools/fuzz/exactness.h"
#include "tools/support/random.h"

#include <loopgrad/loopgrad.h>

#include <gtest/gtest.h>

#include <cstdlib>

namespace loopgrad::fuzz {
namespace {

using Names = std::set<std::string>;

Names written_and(SumOrder order, const Program& program) {
  Names names = exact_arrays({program}, order, {});
  for (const ir::Array& array : program.ir().arrays)
    if (array->role == ir::ArrayRole::Input) names.erase(array->name);
  return names;
}

TEST(ExactArrays, DependOnNoSumWhoseOrderIsFree) {
  ProgramBuilder p("sums");
  const Value n = p.size("n");
  const ArrayHandle x = p.input<float>("x", {n}), product = p.output<float>("product", {n}),
                    total = p.output<float>("total", {}), later = p.output<float>("later", {n}),
                    largest = p.output<float>("largest", {}), count = p.output<int>("count", {}),
                    branch = p.output<float>("branch", {n}), chosen = p.output<float>("chosen", {});
  total() = 0.0;
  count() = 0;
  largest() = -1.0;
  chosen() = 0.0;
  for (const Value i : p.loop("i", 0, n)) {
    product(i) = x(i) * x(i) + sqrt(x(i));
    total() += x(i);
    count() += 1;
    largest().max_with(x(i));
  }
  for (const Value i : p.loop("i", 0, n)) later(i) = total() * x(i);
  for (const Value i : p.loop("i", 0, n)) branch(i) = select(later(i) > 0.0, x(i), 1.0);
  p.when(total() > 0.0, [&] { chosen() = 1.0; });
  const Program program = p.build();
  EXPECT_EQ(written_and(SumOrder::Free, program), (Names{"product", "largest", "count"}));
  EXPECT_EQ(written_and(SumOrder::AsWritten, program),
            (Names{"product", "largest", "count", "total", "later", "branch", "chosen"}));
}

TEST(ExactArrays, DependOnNoApproximatedFunction) {
  ProgramBuilder p("functions");
  const Value n = p.size("n");
  const ArrayHandle x = p.input<float>("x", {n}), a = p.output<float>("a", {n}), b = p.output<float>("b", {n}),
                    c = p.output<float>("c", {n}), d = p.output<float>("d", {n});
  for (const Value i : p.loop("i", 0, n)) {
    a(i) = exp(x(i));
    b(i) = cast<float>(cast<half>(x(i))) + floor(x(i)) - abs(x(i));
  }
  for (const Value i : p.loop("i", 0, n)) {
    c(i) = 0.0;
    d(i) = 0.0;
  }
  // What goes around in a loop: c from the d of the iteration before, d from a.
  for (const Value i : p.loop("i", 1, n)) {
    c(i) = d(i - 1);
    d(i) = a(i);
  }
  EXPECT_EQ(written_and(SumOrder::AsWritten, p.build()), (Names{"b"}));
}

TEST(ExactArrays, AreNoScans) {
  ProgramBuilder p("scans");
  const Value n = p.size("n");
  const ArrayHandle x = p.input<float>("x", {n}), total = p.output<float>("total", {}), y = p.output<float>("y", {n}),
                    twice = p.output<float>("twice", {n}), steps = p.output<int>("steps", {});
  total() = 0.0;
  auto state = p.scalar<float>("state", 0);
  steps() = 0;
  for (const Value i : p.loop("i", 0, n)) {
    total() = 0.5 * total() + x(i);
    y(i) = 0.5 * state + x(i);  // carried in a roundabout way
    state = y(i);
    twice(i) = 2.0 * x(i);
    steps() = steps() + 1;
  }
  const Program program = p.build();
  EXPECT_EQ(written_and(SumOrder::Free, program), (Names{"twice", "steps"}));
  EXPECT_EQ(written_and(SumOrder::AsWritten, program), (Names{"total", "y", "twice", "steps"}));
}

TEST(ExactArrays, ShareMemory) {
  ProgramBuilder p("shared");
  const Value n = p.size("n");
  const ArrayHandle x = p.input<float>("x", {n}), a = p.inout<float>("a", {n}), b = p.inout<float>("b", {n});
  p.may_alias(a, b);
  for (const Value i : p.loop("i", 0, n)) a(i) = exp(x(i));
  const Program program = p.build();
  EXPECT_EQ(exact_arrays({program}, SumOrder::AsWritten, {}), (Names{"x", "b"}));
  EXPECT_EQ(exact_arrays({program}, SumOrder::AsWritten, {{"b", "a"}}), (Names{"x"}));
}

/// total = sum of x, energy = sum of x*x, y = 3*x, in sizes that fill lanes.
Case sum_case(ScalarType type, std::int64_t size) {
  ProgramBuilder p("sum");
  const Value n = p.size("n");
  const ArrayHandle x = p.input(type, "x", {n, n}), total = p.output(type, "total", {}),
                    energy = p.output(type, "energy", {}), y = p.output(type, "y", {n});
  total() = 0.0;
  energy() = 0.0;
  for (const Value i : p.loop("i", 0, n)) y(i) = 3.0 * x(i, i);
  for (const Value i : p.loop("i", 0, n))
    for (const Value j : p.loop("j", 0, n)) total() += x(i, j);
  for (const Value i : p.loop("i", 0, n))
    for (const Value j : p.loop("j", 0, n)) energy() += x(i, j) * x(i, j);
  return {4, p.build(), {{"n", 4}}, {{"n", size}}, {}, {}, {}, {}};
}

// A sum in lanes is found in the generated code, so that its bits are not demanded, but those of all others are.
TEST(SameBits, OfACompiledProgramWithASumInLanes) {
  bool sums_in_order = false, naive = false, lanes = false;
  std::vector<Case> cases = {sum_case(ScalarType::F32, 60), sum_case(ScalarType::F64, 60)};
  for (std::uint64_t seed = 4; seed < 8; ++seed) {
    ProgramBuilder p("copy");
    const Value n = p.size("n");
    const ArrayHandle x = p.input<float>("x", {n}), y = p.output<float>("y", {n});
    for (const Value i : p.loop("i", 0, n)) y(i) = 0.3 * x(i) * x(n - 1 - i);
    cases.push_back({seed, p.build(), {{"n", 4}}, {{"n", 3000}}, {}, {}, {}, {}});
  }
  for (Case& c : cases)
    while (tools::Random(c.seed * 11 + 3).below(100) >= 40) ++c.seed;  // the naive tape's gradient is among its ways
  for (const Outcome& outcome : check_compiled(cases, {})) {
    EXPECT_FALSE(outcome.failure) << outcome.failure->stage << ": " << outcome.failure->message;
    sums_in_order |= outcome.tried.contains("compiled: openmp, sums in the order of the program");
    naive |= outcome.tried.contains("compiled: openmp, naive-tape, the interpreter's bits");
    lanes |= outcome.tried.contains("code: lanes");
  }
  EXPECT_TRUE(sums_in_order);
  EXPECT_TRUE(naive);
  EXPECT_TRUE(lanes) << "the generated code is not looked at";
}

// Thousands of terms of 16 bits: the sum stands still in one order and goes on in another.
TEST(SameBits, ASumInSixteenBitsIsNoMismatch) {
  for (const ScalarType type : {ScalarType::BF16, ScalarType::F16}) {
    const Outcome outcome = check_compiled({sum_case(type, 300)}, {}).front();
    EXPECT_FALSE(outcome.failure) << outcome.failure->stage << ": " << outcome.failure->message;
  }
}

}  // namespace
}  // namespace loopgrad::fuzz

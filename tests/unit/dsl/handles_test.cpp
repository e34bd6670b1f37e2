// Handles that hold nothing (moved from, made from null) or outlive what they belong to: each use is a UsageError with
// a hint, never a crash. The asan preset shows reads of freed memory that a plain build survives.
#include "tests/unit/dsl/expect_error.h"

#include <loopgrad/program.h>

#include <gtest/gtest.h>

#include <memory>

namespace lg = loopgrad;
using lg::test::expect_usage_error;

namespace {

struct Handles : testing::Test {
  lg::ProgramBuilder p{"handles"};
  lg::Value n = p.size("n");
  lg::ArrayHandle x = p.input<float>("x", {n});
  lg::ArrayHandle idx = p.input<int>("idx", {n});
  lg::ArrayHandle y = p.output<float>("y", {n});
};

constexpr const char* kNothing = "holds nothing";
constexpr const char* kFinished = "is finished";

TEST_F(Handles, EmptyValues) {
  lg::Value moved = x(0) + 1;
  const lg::Value taken = std::move(moved);
  for (const lg::Value& v : {lg::Value(nullptr, true), moved}) {
    expect_usage_error([&] { v.type(); }, kNothing);
    expect_usage_error([&] { v.node(); }, kNothing);
    const lg::ErrorInfo info = expect_usage_error([&] { y(0) = v; }, kNothing);
    EXPECT_NE(std::string(info.location.file).find("handles_test.cpp"), std::string::npos);
    expect_usage_error([&] { y(v) = 1; }, kNothing);
    expect_usage_error([&] { v + 1; }, kNothing);
    expect_usage_error([&] { 1 - v; }, kNothing);
    expect_usage_error([&] { -v; }, kNothing);
    expect_usage_error([&] { select(true, v, v); }, kNothing);
    expect_usage_error([&] { lg::cast<float>(v); }, kNothing);
    expect_usage_error([&] { p.when(v, [] {}); }, kNothing);
    expect_usage_error([&] { p.input<float>(v.weak() ? "q" : "r", {v}); }, kNothing);
    expect_usage_error([&] { p.local<float>("q", {v}); }, kNothing);
    expect_usage_error([&] { p.in_range(idx, 0, v); }, kNothing);
    expect_usage_error([&] { p.csr(idx, v); }, kNothing);
    for (int which = 0; which < 4; ++which) {
      expect_usage_error(
          [&] {
            const lg::Value zero = 0;
            if (which == 3) {
              for (auto i : p.loop_while("i", v, [](const lg::Value& t) { return t < 3; })) y(i) = 0;
            } else {
              const lg::LoopOptions options{.at_most =
                                                which == 2 ? std::vector<lg::Value>{v} : std::vector<lg::Value>{}};
              for (auto i : p.loop("i", which == 0 ? v : zero, which == 1 ? v : n, options)) y(i) = 0;
            }
          },
          kNothing);
    }
  }
  expect_usage_error(
      [&] {
        for (auto i : p.loop_while("i", 3, [](const lg::Value&) { return lg::Value(nullptr); })) y(i) = 0;
      },
      kNothing);
}

TEST_F(Handles, EmptyElements) {
  auto e = y(0);
  auto taken = std::move(e);
  expect_usage_error([&] { e = 1; }, kNothing);
  expect_usage_error([&] { e += 1; }, kNothing);
  expect_usage_error([&] { e -= 1; }, kNothing);
  expect_usage_error([&] { e *= 1; }, kNothing);
  expect_usage_error([&] { e /= 1; }, kNothing);
  expect_usage_error([&] { e.min_with(1); }, kNothing);
  expect_usage_error([&] { e.max_with(1); }, kNothing);
  expect_usage_error([&] { taken = e; }, kNothing);
  expect_usage_error([&] { y(0) = static_cast<const lg::Element&>(e); }, kNothing);
  expect_usage_error([&] { std::move(e) = y(0); }, kNothing);
  expect_usage_error([&] { lg::Value v = e; }, kNothing);
  auto copy = e;  // a copy of nothing
  expect_usage_error([&] { copy = 1; }, kNothing);
}

TEST_F(Handles, EmptyArrays) {
  lg::ArrayHandle taken = std::move(idx);
  expect_usage_error([&] { y(0) = idx(0); }, kNothing);
  expect_usage_error([&] { idx(); }, kNothing);
  expect_usage_error([&] { idx.at({0}); }, kNothing);
  expect_usage_error([&] { idx.extent(0); }, kNothing);
  expect_usage_error([&] { p.in_range(idx, 0, n); }, kNothing);
  expect_usage_error([&] { p.sorted(idx); }, kNothing);
  expect_usage_error([&] { p.injective(idx); }, kNothing);
  expect_usage_error([&] { p.csr(idx, n); }, kNothing);
  expect_usage_error([&] { p.may_alias(idx, x); }, kNothing);
  expect_usage_error([&] { p.may_alias(x, idx); }, kNothing);
}

TEST_F(Handles, EmptyBuilders) {
  lg::ProgramBuilder taken = std::move(p);
  expect_usage_error([&] { p.size("m"); }, kNothing);
  expect_usage_error([&] { p.input<float>("u", {3}); }, kNothing);
  expect_usage_error([&] { p.output<float>("u", {3}); }, kNothing);
  expect_usage_error([&] { p.inout<float>("u", {3}); }, kNothing);
  expect_usage_error([&] { p.local<float>("u", {3}); }, kNothing);
  expect_usage_error([&] { p.scalar<float>("u"); }, kNothing);
  expect_usage_error([&] { (void)p.loop("i", 0, n); }, kNothing);
  expect_usage_error([&] { (void)p.loop_while("i", 3, [](auto& t) { return t < 3; }); }, kNothing);
  expect_usage_error([&] { p.when(n > 3, [] {}); }, kNothing);
  expect_usage_error([&] { p.in_range(idx, 0, n); }, kNothing);
  expect_usage_error([&] { p.sorted(idx); }, kNothing);
  expect_usage_error([&] { p.injective(idx); }, kNothing);
  expect_usage_error([&] { p.csr(idx, n); }, kNothing);
  expect_usage_error([&] { p.may_alias(x, y); }, kNothing);
  expect_usage_error([&] { p.build(); }, kNothing);
  for (auto i : taken.loop("i", 0, n)) y(i) = x(i);  // the recording went with the builder
  EXPECT_NO_THROW(taken.build());
}

TEST_F(Handles, EmptyPrograms) {
  y(0) = 1;
  lg::Program program = p.build();
  const lg::Program taken = std::move(program);
  for (const lg::Program& empty : {lg::Program(nullptr), program}) {
    expect_usage_error([&] { empty.name(); }, kNothing);
    expect_usage_error([&] { empty.str(); }, kNothing);
    expect_usage_error([&] { empty.ir(); }, kNothing);
  }
}

TEST_F(Handles, EmptyBranches) {
  lg::Branch branch = p.when(n > 3, [&] { y(0) = 1; });
  lg::Branch taken = std::move(branch);
  expect_usage_error([&] { branch.otherwise([] {}); }, kFinished);
  taken.otherwise([&] { y(0) = 2; });
}

TEST_F(Handles, EmptyFunctions) {
  expect_usage_error([&] { p.when(n > 3, {}); }, "a branch has no body");
  expect_usage_error([&] { p.when(n > 3, [] {}).otherwise({}); }, "a branch has no body");
  expect_usage_error(
      [&] {
        for (auto i : p.loop_while("t", 5, {})) y(i) = 0;
      },
      "loop 't' has no condition");
}

TEST_F(Handles, TypesThatAreNone) {
  const auto none = static_cast<lg::ScalarType>(33);
  expect_usage_error([&] { p.input(none, "u", {n}); }, "an array of no known type");
  expect_usage_error([&] { p.local(none, "u", {n}); }, "an array of no known type");
  expect_usage_error([&] { y(0) = lg::cast(none, x(0)); }, "a cast to no known type");
}

lg::LoopRange loop_of_a_builder_that_is_gone() {
  lg::ProgramBuilder p("gone");
  return p.loop("i", 0, p.size("n"));
}

TEST(HandlesThatOutlive, LoopsTheirBuilder) {
  expect_usage_error(
      [] {
        for (auto i : loop_of_a_builder_that_is_gone()) i.type();
      },
      kFinished);
  auto p = std::make_unique<lg::ProgramBuilder>("gone");
  auto y = p->output<float>("y", {4});
  auto&& range = p->loop("i", 0, 4);
  auto&& while_range = p->loop_while("i", 5, [&](auto& t) { return y(t) > 0; });
  p.reset();
  expect_usage_error(
      [&] {
        for (auto i : range) y(i) = 0;
      },
      kFinished);
  expect_usage_error(
      [&] {
        for (auto i : while_range) y(i) = 0;
      },
      kFinished);
}

TEST(HandlesThatOutlive, AnOpenLoopItsBuilder) {
  auto p = std::make_unique<lg::ProgramBuilder>("gone");
  auto&& range = p->loop("i", 0, 4);
  auto at = range.begin();
  p.reset();
  expect_usage_error([&] { ++at; }, kFinished);
}

TEST(HandlesThatOutlive, IteratorsTheirLoop) {
  lg::ProgramBuilder p("q");
  auto y = p.output<float>("y", {4});
  auto at = p.loop("i", 0, 4).begin();  // the range is gone at the end of the statement
  expect_usage_error([&] { *at; }, kNothing);
  expect_usage_error([&] { ++at; }, kNothing);
  auto&& range = p.loop("i", 0, 4);
  expect_usage_error([&] { *range.end(); }, kNothing);
  expect_usage_error([&] { ++range.end(); }, kNothing);
  expect_usage_error([&] { *lg::LoopRange::Iterator(); }, kNothing);
  auto first = range.begin();
  auto copy = first;
  ++first;
  expect_usage_error([&] { ++first; }, kNothing);
  expect_usage_error([&] { ++copy; }, kNothing);
  expect_usage_error([&] { p.build(); }, "left before its end");
}

TEST(HandlesThatOutlive, ElementsAndValuesTheirBuilder) {
  auto p = std::make_unique<lg::ProgramBuilder>("gone");
  auto n = p->size("n");
  auto y = p->output<float>("y", {n});
  auto e = y(0);
  const lg::Value v = n + 1;
  p.reset();
  const auto copy = e;
  expect_usage_error([&] { copy = 1; }, kFinished);
  expect_usage_error([&] { e += 1; }, kFinished);
  expect_usage_error([&] { lg::Value read = e; }, kFinished);
  expect_usage_error([&] { y(0) = 1; }, kFinished);
  lg::ProgramBuilder other("other");
  auto z = other.output<float>("z", {4});
  expect_usage_error([&] { z(0) = v; }, "'n' is used outside");
}

}  // namespace

// Mistakes of the user: each is refused on its own line, with a code, a reason and a remedy.
#include "tests/unit/dsl/expect_error.h"

#include <loopgrad/program.h>

#include <gtest/gtest.h>

#include <optional>

namespace lg = loopgrad;
using lg::test::expect_usage_error;

namespace {

struct UsageErrors : testing::Test {
  lg::ProgramBuilder p{"demo"};
  lg::Value n = p.size("n");
  lg::ArrayHandle x = p.input<float>("x", {n});
  lg::ArrayHandle idx = p.input<int>("idx", {n});
  lg::ArrayHandle y = p.output<float>("y", {n});
  lg::ArrayHandle count = p.inout<int>("count", {n});
  lg::ArrayHandle flag = p.inout<bool>("flag", {n});
};

TEST_F(UsageErrors, NamesProgramLoopArrayAndLine) {
  lg::ErrorInfo info;
  int line = 0;
  for (auto i : p.loop("i", 0, n)) {
    line = __LINE__ + 1;
    info = expect_usage_error([&] { x(i) = 1; }, "an input is written");
  }
  EXPECT_EQ(info.program, "demo");
  EXPECT_EQ(info.loop, "i");
  EXPECT_EQ(info.array, "x");
  EXPECT_EQ(static_cast<int>(info.location.line), line);
  EXPECT_NE(std::string(info.location.file).find("usage_error_test.cpp"), std::string::npos);
}

TEST_F(UsageErrors, Indices) {
  expect_usage_error([&] { y(0, 1) = 1; }, "2 indices for an array of rank 1");
  expect_usage_error([&] { y() = 1; }, "0 indices for an array of rank 1");
  auto table = p.local<float>("table", {n, n});
  expect_usage_error([&] { table(0) = 1; }, "1 index for an array of rank 2");
  expect_usage_error([&] { y(x(0)) = 1; }, "an index is f32");
  expect_usage_error([&] { y(flag(0)) = 1; }, "an index is bool");
  expect_usage_error([&] { y(0.5) = 1; }, "an index is f64");
  expect_usage_error([&] { y.extent(1); }, "dimension 1 of an array of rank 1");
}

TEST_F(UsageErrors, Writes) {
  expect_usage_error([&] { x(0) += 1; }, "an input is written");
  expect_usage_error([&] { count(0) = x(0); }, "a value of type f32 is stored into i32 elements");
  expect_usage_error([&] { count(0) = 0.5; }, "is stored into i32 elements");
  expect_usage_error([&] { flag(0) = count(0); }, "a value of type i32 is stored into bool elements");
  expect_usage_error([&] { flag(0) += true; }, "on bool elements");
}

TEST_F(UsageErrors, Operands) {
  expect_usage_error([&] { x(0) % 2; }, "'%' needs integer operands");
  expect_usage_error([&] { count(0) && flag(0); }, "'&&' needs bool operands, this one is i32");
  expect_usage_error([&] { flag(0) || x(0); }, "'||' needs bool operands, this one is f32");
  expect_usage_error([&] { !x(0); }, "'!' needs a bool operand");
  const auto info = expect_usage_error([&] { select(count(0), x(0), 1); }, "the condition of select is i32");
  EXPECT_TRUE(info.location.known());
}

TEST_F(UsageErrors, Conditions) {
  expect_usage_error([&] { p.when(x(0), [] {}); }, "the condition is f32, not bool");
  expect_usage_error(
      [&] {
        for ([[maybe_unused]] auto t : p.loop_while("t", 5, [&](auto&) { return x(0); })) {
        }
      },
      "the condition of loop 't' is f32, not bool");
  expect_usage_error(
      [&] {
        for ([[maybe_unused]] auto t : p.loop_while("t", 5, [&](auto& trip) {
               y(trip) = 1;
               return y(trip) > 0;
             })) {
        }
      },
      "records statements");
}

TEST_F(UsageErrors, Bounds) {
  expect_usage_error(
      [&] {
        for (auto i : p.loop("i", 0, x(0))) y(i) = 0;
      },
      "the upper bound of loop 'i' is f32");
  expect_usage_error(
      [&] {
        for (auto i : p.loop("i", 0.5, n)) y(i) = 0;
      },
      "the lower bound of loop 'i' is f64");
  expect_usage_error(
      [&] {
        for (auto i : p.loop("i", 0, n, {.at_most = {idx(0)}})) y(i) = 0;
      },
      "at_most of loop 'i' depends on more than sizes");
  expect_usage_error(
      [&] {
        for (auto t : p.loop_while("t", idx(0), [&](auto&) { return flag(0); })) y(t) = 0;
      },
      "max_trips of loop 't' depends on data");
}

TEST_F(UsageErrors, Scopes) {
  std::optional<lg::Value> iterator;
  std::optional<lg::ArrayHandle> local;
  for (auto i : p.loop("i", 0, n)) {
    iterator = i;
    local = p.local<float>("t", {4});
    (*local)(0) = x(i);
  }
  expect_usage_error([&] { y(*iterator) = 1; }, "'i' is used outside its loop");
  expect_usage_error([&] { y(0) = *iterator; }, "'i' is used outside its loop");
  expect_usage_error([&] { (*local)(0) = 1; }, "the array is not in scope here");
  expect_usage_error([&] { y(0) = (*local)(0); }, "the array is not in scope here");
  expect_usage_error([&] { p.local<float>("u", {*iterator}); }, "which is not in scope here");
  lg::ProgramBuilder other("other");
  auto z = other.output<float>("z", {4});
  expect_usage_error([&] { z(0) = x(0); }, "the array is not in scope here");
  expect_usage_error([&] { z(0) = n; }, "'n' is used outside");
}

TEST_F(UsageErrors, Names) {
  expect_usage_error([&] { p.size("x"); }, "the name 'x' is taken");
  expect_usage_error([&] { p.output<float>("y", {n}); }, "the name 'y' is taken");
  expect_usage_error([&] { p.input<float>("n", {n}); }, "the name 'n' is taken");
  expect_usage_error([&] { p.input<float>("2d", {n}); }, "'2d' is not a name");
  expect_usage_error([&] { p.local<float>("", {n}); }, "'' is not a name");
  expect_usage_error([&] { lg::ProgramBuilder("a b"); }, "'a b' is not a name");
}

TEST_F(UsageErrors, Shapes) {
  expect_usage_error([&] { p.input<float>("a", {idx(0)}); }, "the shape depends on data");
  expect_usage_error([&] { p.input<float>("b", {x(0)}); }, "an extent is f32");
  expect_usage_error([&] { p.input<float>("c", {-1}); }, "an extent is negative");
  for (auto i : p.loop("i", 0, n)) {
    expect_usage_error([&] { p.output<float>("d", {i}); }, "the shape depends on the iterator 'i'");
    expect_usage_error([&] { p.local<float>("e", {count(i)}); }, "the shape depends on data");
  }
}

TEST_F(UsageErrors, Otherwise) {
  lg::Branch branch = p.when(x(0) > 0, [&] { y(0) = 1; });
  branch.otherwise([&] { y(0) = 2; });
  expect_usage_error([&] { branch.otherwise([&] { y(0) = 3; }); }, "already has an otherwise()");
  lg::Branch late = p.when(x(0) > 0, [&] { y(0) = 1; });
  y(1) = 2;
  expect_usage_error([&] { late.otherwise([&] { y(0) = 3; }); }, "does not follow its when()");
}

TEST_F(UsageErrors, Facts) {
  expect_usage_error([&] { p.sorted(x); }, "no integer input: it is an input of type f32");
  expect_usage_error([&] { p.in_range(count, 0, n); }, "no integer input");
  expect_usage_error([&] { p.in_range(idx, 0, x(0)); }, "the upper bound is f32");
  expect_usage_error([&] { p.csr(idx, idx(0)); }, "the total depends on more than sizes");
  expect_usage_error([&] { p.may_alias(x, x); }, "two arrays of one type");
  expect_usage_error([&] { p.may_alias(x, idx); }, "two arrays of one type");
  auto table = p.input<int>("table", {n, 2});
  expect_usage_error([&] { p.csr(table, n); }, "an array of rank 2");
  auto local = p.local<int>("local", {n});
  expect_usage_error([&] { p.sorted(local); }, "no argument of this program");
}

// Facts hold from start to end.
TEST_F(UsageErrors, FactsOfWhatChangesUnderAnotherName) {
  auto written = p.inout<int>("written", {n});
  auto same = p.input<int>("same", {n}), read = p.input<int>("read", {n});
  p.in_range(same, 0, n);
  p.in_range(read, 0, n);
  p.may_alias(same, read);
  p.may_alias(written, same);
  expect_usage_error([&] { p.build(); }, "may be in the memory of 'written', which the program writes");
}

TEST_F(UsageErrors, AfterBuild) {
  y(0) = 1;
  const auto element = y(1);
  for (auto i : p.loop("i", 0, n)) expect_usage_error([&] { p.build(); }, "build() inside a loop"), y(i) = 0;
  p.build();
  expect_usage_error([&] { p.build(); }, "build() was called before");
  expect_usage_error([&] { y(0) = 1; }, "the program is finished");
  expect_usage_error([&] { element += 1; }, "the program is finished");
  expect_usage_error([&] { p.size("m"); }, "the program is finished");
  expect_usage_error(
      [&] {
        for (auto i : p.loop("i", 0, n)) y(i) = 0;
      },
      "the program is finished");
  expect_usage_error([&] { p.when(true, [] {}); }, "the program is finished");
}

TEST(UsageErrorsOfHandles, OutlivingTheBuilder) {
  std::optional<lg::ArrayHandle> handle;
  {
    lg::ProgramBuilder p("gone");
    handle = p.output<float>("y", {4});
  }
  expect_usage_error([&] { (*handle)(0) = 1; }, "the program of this array is finished");
}

TEST_F(UsageErrors, ALoopRangeIsUsedOnce) {
  auto&& range = p.loop("i", 0, n);
  for (auto i : range) y(i) = 0;
  expect_usage_error(
      [&] {
        for (auto i : range) y(i) = 1;
      },
      "iterated twice");
}

// A Value is an expression: using it after its array was written would read the new contents, which nobody means.
TEST_F(UsageErrors, StaleValues) {
  auto s = p.scalar<float>("s");
  s = 0;
  const lg::Value before = s;
  s = 1;
  expect_usage_error([&] { y(0) = before; }, "is used after the array was written");
  expect_usage_error([&] { p.when(before > 0, [] {}); }, "is used after the array was written");
  const lg::Value current = s;
  y(0) = current;  // still the same
  for (auto i : p.loop("i", 0, n)) {
    y(i) = current;
    expect_usage_error([&] { s = x(i); }, "before the loop 'i', is used inside it and its array written here");
    const lg::Value inside = y(i);
    y(i) = inside + 1;
  }
  EXPECT_NO_THROW(p.build());
}

TEST_F(UsageErrors, ConstantsThatTheElementsCannotHold) {
  auto k = p.output<std::int32_t>("k", {4});
  expect_usage_error([&] { k(0) = 5000000000; }, "5000000000 is stored into i32 elements");
  expect_usage_error([&] { k(0) += -3000000000; }, "i32 elements");
  EXPECT_NO_THROW(k(0) = 2147483647);
  EXPECT_NO_THROW(k(0) = -2147483647 - 1);
}

TEST(Literals, ThatNoTypeHoldsAreRefusedOnTheirLine) {
  lg::ProgramBuilder p("literals");
  auto x = p.output<std::int64_t>("x", {});
  x() = std::uint64_t{9223372036854775807u};
  const std::uint32_t line = std::source_location::current().line() + 1;
  const auto assign = [&] { x() = std::uint64_t{9223372036854775808u}; };
  try {
    assign();
    ADD_FAILURE() << "not refused";
  } catch (const lg::UsageError& error) {
    EXPECT_EQ(error.code(), lg::ErrorCode::BadType);
    EXPECT_EQ(error.location().line, line);
    EXPECT_NE(std::string(error.what()).find("9223372036854775808"), std::string::npos) << error.what();
    EXPECT_FALSE(error.hint().empty());
  }
}

TEST(OpenBodies, AreBranches) {
  const auto record = [](bool functions) {
    lg::ProgramBuilder p("p");
    auto x = p.input<float>("x", {4});
    auto y = p.output<float>("y", {4});
    for (auto i : p.loop("i", 0, 4)) {
      if (functions) {
        p.when(x(i) > 0, [&] { y(i) = x(i); }).otherwise([&] { y(i) = 0; });
      } else {
        lg::OpenBody then = p.open_when(x(i) > 0);
        y(i) = x(i);
        lg::OpenBody other = then.close().open_otherwise();
        y(i) = 0;
        other.close();
      }
    }
    return p.build().str();
  };
  EXPECT_EQ(record(true), record(false));
}

TEST(OpenBodies, AreClosedOnceFromTheInsideOut) {
  lg::ProgramBuilder p("p");
  auto y = p.output<float>("y", {4});
  lg::OpenBody outer = p.open_when(lg::Value(1) < 2);
  lg::OpenBody inner = p.open_when(lg::Value(1) < 3);
  expect_usage_error([&] { outer.close(); }, "in another order than opened");
  y(0) = 1;
  inner.close();
  expect_usage_error([&] { inner.close(); }, "closed twice");
  outer.close();
  EXPECT_EQ(p.build().name(), "p");
}

TEST(OpenBodies, AreDroppedWhenLeft) {
  lg::ProgramBuilder p("p");
  auto y = p.output<float>("y", {4});
  {
    lg::OpenBody left = p.open_when(lg::Value(1) < 2);
    y(0) = 1;
  }
  expect_usage_error([&] { p.build(); }, "was left before its end");
}

}  // namespace

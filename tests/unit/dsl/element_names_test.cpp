// Elements kept in C++ variables: names for a place of memory, never copies of its contents. A program that reads
// otherwise with numbers than with names is refused.
#include "dsl/ir/printer.h"
#include "tests/unit/dsl/expect_error.h"

#include <loopgrad/program.h>

#include <gtest/gtest.h>

#include <optional>

namespace lg = loopgrad;
using lg::test::expect_usage_error;

namespace {

struct ElementNames : testing::Test {
  lg::ProgramBuilder p{"names"};
  lg::Value n = p.size("n");
  lg::ArrayHandle a = p.inout<float>("a", {n});
  lg::ArrayHandle y = p.output<float>("y", {n});
  lg::ArrayHandle col = p.inout<int>("col", {n});

  std::string text() { return lg::ir::print(p.build().ir().body); }
};

constexpr const char* kWithout = "was written without it";
constexpr const char* kHidden = "is in use that wrote it last";
constexpr const char* kLoop = "is used inside it and its array written here";

TEST_F(ElementNames, AnExchangeByAutoIsRefusedAtTheReadWithTheLinesOfNameAndWrite) {
  int line = 0;
  for (auto i : p.loop("i", 0, n)) {
    for (auto j : p.loop("j", 0, i)) {
      line = __LINE__ + 1;
      auto t = a(i);
      a(i) = a(j);
      const lg::ErrorInfo info = expect_usage_error([&] { a(j) = t; }, kWithout);
      EXPECT_EQ(info.array, "a");
      EXPECT_EQ(info.loop, "j");
      EXPECT_EQ(static_cast<int>(info.location.line), line + 2);
      EXPECT_NE(info.message.find("named at element_names_test.cpp:" + std::to_string(line)), std::string::npos);
      EXPECT_NE(info.message.find("at element_names_test.cpp:" + std::to_string(line + 1)), std::string::npos);
      EXPECT_NE(info.hint.find("p.scalar<T>()"), std::string::npos);
    }
  }
}

TEST_F(ElementNames, EveryKindOfWriteMakesOtherNamesStale) {
  const auto read_after = [&](auto&& write) {
    auto t = a(0);
    write();
    expect_usage_error([&] { y(0) = t; }, kWithout);
    expect_usage_error([&] { y(0) += t; }, kWithout);
    expect_usage_error([&] { t /= 2; }, kWithout);
    expect_usage_error([&] { p.when(t > 0, [] {}); }, kWithout);
    expect_usage_error([&] { y(0) = sqrt(t); }, kWithout);
  };
  read_after([&] { a(0) = 1; });
  read_after([&] { a(0) += 1; });
  read_after([&] { a(0) *= 2; });
  read_after([&] { a(0) /= 2; });
  read_after([&] { a(0).max_with(0); });
  read_after([&] { a(n - 1) = 1; });  // may be the same element
  read_after([&] { p.when(n > 3, [&] { a(0) = 1; }); });
  read_after([&] {
    for (auto i : p.loop("i", 0, n)) a(i) = 1;
  });
}

TEST_F(ElementNames, ANameIsReadAfterItsOwnWrites) {
  for (auto i : p.loop("i", 0, n)) {
    auto y_i = y(i);
    y_i = 0;
    for (auto j : p.loop("j", 0, n)) y_i += a(j) * y_i;
    y_i /= 3;
    a(i) = y_i;
  }
  EXPECT_EQ(text(),
            "for i in 0..n:\n  y[i] = 0\n  for j in 0..n:\n    y[i] += a[j]*y[i]\n  y[i] = y[i]/3\n  a[i] = y[i]\n");
}

TEST_F(ElementNames, OtherElementsMayBeWritten) {
  for (auto i : p.loop("i", 1, n)) {
    auto first = a(i), second = a(i + 1), third = a(i - 1);
    first += 1;
    second += 2;
    third += 3;
    y(i) = first * second + third;
  }
  auto zero = y(0), one = y(1);
  zero = 1;
  one = zero;
  zero = one;
  EXPECT_NO_THROW(p.build());
}

TEST_F(ElementNames, IndicesFromDataMayBecomeTheSame) {
  auto t = a(col(0));
  a(col(1)) = 0;
  expect_usage_error([&] { y(0) = t; }, kWithout);
  auto u = a(col(0) + 1);
  a(col(0)) = 0;  // col(0) may have been another number then
  expect_usage_error([&] { y(0) = u; }, kWithout);
}

TEST_F(ElementNames, AWriteByANameHidesTheElementWhileTheNameLives) {
  for (auto i : p.loop("i", 0, n)) {
    {
      auto t = a(i);
      t *= 2;  // with numbers, a(i) would stay as it was
      const lg::ErrorInfo info = expect_usage_error([&] { y(i) = t + a(i); }, kHidden);
      EXPECT_EQ(info.array, "a");
      y(i) = t + a(i + 1);
      a(i) = t;  // now numbers and names agree
      y(i) += a(i);
    }
    {
      auto t = a(i);
      t = 3;
    }
    y(i) += a(i);
  }
  EXPECT_NO_THROW(p.build());
}

TEST_F(ElementNames, CopiesOfAScalarAreNamesOfIt) {
  auto s = p.scalar<float>("s");
  s = 0;
  {
    auto old = s;
    s += 1;
    expect_usage_error([&] { y(0) = old; }, kWithout);
    auto laundered = old;
    expect_usage_error([&] { y(0) = laundered; }, kWithout);
  }
  {
    auto trial = s;
    trial = 2 * s;
    expect_usage_error([&] { y(0) = s; }, kHidden);
    y(0) = trial;
  }
  auto later = s;
  y(0) = later + s;
  EXPECT_NO_THROW(p.build());
}

TEST_F(ElementNames, WritesInALoopAreSeenByReadsBeforeThem) {
  auto t = a(0);
  for (auto i : p.loop("i", 0, n)) {
    y(i) = t;  // in the second trip this would read what the first one wrote
    const lg::ErrorInfo info = expect_usage_error([&] { a(i) = 1; }, kLoop);
    EXPECT_NE(info.message.find("before the loop 'i'"), std::string::npos);
    t += 1;
  }
  auto s = p.scalar<float>("s");
  s = 0;
  auto trial = s;
  for (auto i : p.loop("i", 0, n)) {
    for (auto j : p.loop("j", 0, n)) y(i) += s * j;
    expect_usage_error([&] { trial += 1; }, kLoop);
    s += 1;
  }
  EXPECT_NO_THROW(p.build());
}

TEST_F(ElementNames, FunctionsTakeElementsByValueOrReference) {
  const auto add_to = [](lg::Element sum, const lg::Value& v) { sum += v; };
  const auto add_through = [](const lg::Element& sum, const lg::Value& v) { sum += v; };
  const auto read_twice = [](lg::Element e) { return e + e; };
  const auto made = [&] {
    auto s = p.scalar<float>("made");
    s = 1;
    return s;
  };
  auto s = p.scalar<float>("s");
  s = 0;
  for (auto i : p.loop("i", 0, n)) {
    add_to(s, a(i));
    add_through(s, a(i));
    add_to(y(i), s);
    y(i) = read_twice(s) + made();
  }
  const auto by_value = [](lg::Value v) { return v * v; };
  y(0) = by_value(s);
  std::vector<lg::Element> many = {p.scalar<float>("u"), p.scalar<float>("v")};
  for (auto e : many) e = 0;
  many.push_back(s);
  for (const auto& e : many) y(1) += e;
  EXPECT_NO_THROW(p.build());
}

TEST_F(ElementNames, LambdasThatCopyANameAndWriteItHideItWhileTheyLive) {
  auto s = p.scalar<float>("s");
  s = 0;
  p.when(n > 0, [=] { s = 1; });  // the copy is gone when the statement ends
  y(0) = s;
  const auto by_reference = [&] { s += 1; };
  by_reference();
  y(0) = s;
  {
    const auto by_copy = [=] { s += 1; };
    by_copy();
    expect_usage_error([&] { y(0) = s; }, kHidden);
  }
  y(0) = s;
  EXPECT_NO_THROW(p.build());
}

TEST_F(ElementNames, MovingHandsTheNameOn) {
  auto t = a(0);
  auto u = std::move(t);
  u = 1;
  y(0) = u;
  std::vector<lg::Element> grown;
  for (int i = 0; i < 20; ++i) grown.push_back(y(i));
  for (auto& e : grown) e = 1;
  y(30) = grown[0] + grown[19];
  EXPECT_NO_THROW(p.build());
}

TEST_F(ElementNames, ALongProgramIsRecordedQuickly) {
  auto s = p.scalar<float>("s");
  s = 0;
  for (int i = 0; i < 5000; ++i) {
    s = s + 1;
    y(i) = s;
  }
  EXPECT_NO_THROW(p.build());
}

}  // namespace

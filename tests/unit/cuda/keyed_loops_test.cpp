// Loops whose iterations are tied to each other by keys from data, on a GPU: iterations of one key stay in order,
// others run side by side.
#include "transforms/sums/keyed_loops.h"
#include "tests/unit/cuda/sorted.h"

#include <loopgrad/loopgrad.h>

namespace loopgrad::transforms {
namespace {

TEST(KeyedLoops, IterationsOfOneKeyStayInOrder) {
  ProgramBuilder p("last_ones");
  auto n = p.size("n"), rows = p.size("rows");
  auto idx = p.input<std::int32_t>("idx", {n});
  p.in_range(idx, 0, rows);
  auto a = p.input<double>("a", {n});
  auto product = p.inout<double>("product", {rows}), last = p.inout<double>("last", {rows});
  auto before = p.output<double>("before", {n});
  for (auto i : p.loop("i", 0, n)) {
    before(i) = product(idx(i));
    product(idx(i)) = product(idx(i)) * a(i) + 0.25;
    last((idx(i) * 3 + 1) % rows) = a(i);  // under another key, in a loop of its own
  }
  expect_sorted(p.build(), {{{"n", 0}, {"rows", 3}},
                            {{"n", 1}, {"rows", 1}},
                            {{"n", 100}, {"rows", 1}},
                            {{"n", 61}, {"rows", 7}},
                            {{"n", 50}, {"rows", 700}}});
}

TEST(KeyedLoops, PartsOfALoopAreLoopsOfTheirOwn) {
  ProgramBuilder p("recurrences_beside_keys");
  auto n = p.size("n"), rows = p.size("rows");
  auto idx = p.input<std::int32_t>("idx", {n});
  p.in_range(idx, 0, rows);
  auto a = p.input<double>("a", {n});
  auto product = p.inout<double>("product", {rows});
  auto first = p.inout<double>("first", {}), second = p.inout<double>("second", {});
  for (auto i : p.loop("i", 0, n)) {
    product(idx(i)) = product(idx(i)) * a(i) + 0.25;
    first() = tanh(0.9 * first() * a(i));
    second() = 0.7 * sin(second()) + a(i);
  }
  expect_sorted(p.build(), {{{"n", 1}, {"rows", 1}}, {{"n", 61}, {"rows", 7}}, {{"n", 50}, {"rows", 700}}});
}

TEST(KeyedLoops, RowsAndTwoIndices) {
  ProgramBuilder p("extremes");
  auto n = p.size("n"), rows = p.size("rows"), m = p.size("m");
  auto r = p.input<std::int32_t>("r", {n}), c = p.input<std::int32_t>("c", {n});
  p.in_range(r, 0, rows);
  p.in_range(c, 0, 3);
  auto a = p.input<double>("a", {n, m});
  auto top = p.inout<double>("top", {rows, 3, m});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m)) {
      p.when(a(i, j) > 0.1, [&] { top(r(i), c(i), j).max_with(a(i, j)); });
      top(r(i), c(i), j) *= 1.0 + 0.1 * a(i, j);
    }
  expect_sorted(p.build(), {{{"n", 1}, {"rows", 1}, {"m", 1}},
                            {{"n", 61}, {"rows", 7}, {"m", 3}},
                            {{"n", 90}, {"rows", 40}, {"m", 1}},
                            {{"n", 50}, {"rows", 2}, {"m", 0}}});
}

TEST(KeyedLoops, BackwardLoopsTakeTheIterationsBackwards) {
  ProgramBuilder p("steps");
  auto n = p.size("n"), rows = p.size("rows");
  auto idx = p.input<std::int32_t>("idx", {n});
  p.in_range(idx, 0, rows);
  auto a = p.input<double>("a", {n});
  auto y = p.inout<double>("y", {rows});
  for (auto i : p.loop("i", 0, n)) y(idx(i)) *= a(i);
  const Gradient gradient = differentiate(p.build(), {});
  for (const Program& program : {gradient.forward, gradient.backward})
    expect_sorted(program, {{{"n", 61}, {"rows", 7}}, {{"n", 50}, {"rows", 70}}, {{"n", 0}, {"rows", 1}}});
}

TEST(KeyedLoops, PlacesOfTheIterationDoNotTieKeysToEachOther) {
  ProgramBuilder p("two_keys");
  auto n = p.size("n"), rows = p.size("rows");
  auto idx = p.input<std::int32_t>("idx", {n});
  p.in_range(idx, 0, rows);
  auto a = p.input<double>("a", {n});
  auto y = p.inout<double>("y", {rows}), z = p.inout<double>("z", {rows}), sum = p.output<double>("sum", {n});
  for (auto i : p.loop("i", 0, n)) {
    sum(i) = y(idx(i));
    y(idx(i)) = 0.5 * y(idx(i)) + a(i);
    sum(i) += z((idx(i) + 1) % rows);
    z((idx(i) + 1) % rows) = z((idx(i) + 1) % rows) * a(i) + sum(i);
    sum(i) *= y(idx(i));  // y again, after z: all in one loop in order
  }
  const LoweredProgram tied = passed_for_gpu(p.build(), sorted);
  EXPECT_EQ(tied.text.find("local i64 words["), std::string::npos) << tied.text;

  ProgramBuilder q("two_loops");
  n = q.size("n"), rows = q.size("rows");
  idx = q.input<std::int32_t>("idx", {n});
  q.in_range(idx, 0, rows);
  a = q.input<double>("a", {n});
  y = q.inout<double>("y", {rows}), z = q.inout<double>("z", {rows}), sum = q.output<double>("sum", {n});
  for (auto i : q.loop("i", 0, n)) {
    sum(i) = y(idx(i));
    y(idx(i)) = 0.5 * y(idx(i)) + a(i);
    sum(i) += z((idx(i) + 1) % rows);
    z((idx(i) + 1) % rows) = z((idx(i) + 1) % rows) * a(i) + sum(i);
  }
  expect_sorted(q.build(), {{{"n", 61}, {"rows", 7}}, {{"n", 50}, {"rows", 70}}, {{"n", 0}, {"rows", 1}}});
}

TEST(KeyedLoops, WhatReadsAPartThatIsTiedToAKeyComesAfterIt) {
  ProgramBuilder p("kept");
  auto n = p.size("n"), rows = p.size("rows");
  auto idx = p.input<std::int32_t>("idx", {n});
  p.in_range(idx, 0, rows);
  auto y = p.inout<double>("y", {rows});
  auto seen = p.output<double>("seen", {n}), mixed = p.inout<double>("mixed", {n}),
       kept = p.output<double>("kept", {n});
  for (auto i : p.loop("i", 0, n)) {
    seen(i) = y(idx(i));
    mixed(i) = 0.25 * mixed(i) + y(idx(i));
    kept(i) = mixed(i);  // has nothing to do with y, but with what has to stay in the loop over its keys
    y(idx(i)) = 0.5 * y(idx(i)) + mixed(i);
  }
  expect_sorted(p.build(), {{{"n", 61}, {"rows", 7}}, {{"n", 50}, {"rows", 70}}, {{"n", 0}, {"rows", 1}}});
}

// Lists in which -1 is nobody, and places beyond a capacity.
TEST(KeyedLoops, IterationsMayHaveNoKey) {
  ProgramBuilder p("dispatch");
  auto n = p.size("n"), rows = p.size("rows"), capacity = p.size("capacity");
  auto row = p.input<std::int32_t>("row", {n}), place = p.input<std::int32_t>("place", {n});
  p.in_range(row, -2, rows);
  p.in_range(place, 0, 3 * capacity);
  auto a = p.input<double>("a", {n});
  auto y = p.inout<double>("y", {rows, capacity}), dropped = p.inout<double>("dropped", {n});
  for (auto i : p.loop("i", 0, n))
    p.when(row(i) >= 0 && place(i) < capacity, [&] {
       y(row(i), place(i)) = 0.5 * y(row(i), place(i)) + a(i);
     }).otherwise([&] { dropped(i) += a(i); });
  const Program program = p.build();
  EXPECT_NE(passed_for_gpu(program, sorted).text.find("local i64 words["), std::string::npos);
  expect_sorted(program, {{{"n", 61}, {"rows", 7}, {"capacity", 2}},
                          {{"n", 90}, {"rows", 3}, {"capacity", 11}},
                          {{"n", 50}, {"rows", 1}, {"capacity", 1}}});
}

// The key of an iteration that the body leaves out may not exist.
TEST(KeyedLoops, KeysThatMayNotBeAskedForKeepTheOrder) {
  ProgramBuilder p("shorter_list");
  auto n = p.size("n"), m = p.size("m"), rows = p.size("rows");
  auto idx = p.input<std::int32_t>("idx", {m});
  p.in_range(idx, 0, rows);
  auto a = p.input<double>("a", {n});
  auto y = p.inout<double>("y", {rows});
  for (auto i : p.loop("i", 0, n)) p.when(i < m, [&] { y(idx(i)) = 0.5 * y(idx(i)) + a(i); });
  const LoweredProgram result = passed_for_gpu(p.build(), sorted);
  EXPECT_EQ(result.text.find("local i64 words["), std::string::npos) << result.text;
}

// With the iteration's number from the sort, its extent would be data.
TEST(KeyedLoops, LocalsAsLargeAsTheIterationSaysKeepTheOrder) {
  ProgramBuilder p("triangle");
  auto n = p.size("n"), rows = p.size("rows");
  auto idx = p.input<std::int32_t>("idx", {n});
  p.in_range(idx, 0, rows);
  auto a = p.input<double>("a", {n});
  auto y = p.inout<double>("y", {rows});
  for (auto i : p.loop("i", 0, n)) {
    auto t = p.local<double>("t", {i + 1});
    for (auto j : p.loop("j", 0, i + 1)) t(j) = a(j) * a(i);
    y(idx(i)) = 0.5 * y(idx(i)) * t(i) + t(0);
  }
  const LoweredProgram result = passed_for_gpu(p.build(), sorted);
  EXPECT_EQ(result.text.find("local i64 words["), std::string::npos) << result.text;
}

TEST(KeyedLoops, OtherDependencesKeepTheOrder) {
  const auto text_of = [](const std::function<void(ProgramBuilder&, Value, ArrayHandle, ArrayHandle)>& body) {
    ProgramBuilder p("chains");
    auto n = p.size("n"), rows = p.size("rows");
    auto idx = p.inout<std::int32_t>("idx", {n});
    auto y = p.inout<double>("y", {rows});
    for (auto i : p.loop("i", 1, n)) body(p, i, idx, y);
    return passed_for_gpu(p.build(), sorted).text;
  };
  const auto is_sorted = [](const std::string& text) { return text.find("local i64 words[") != std::string::npos; };
  EXPECT_TRUE(is_sorted(text_of([](auto&, auto i, auto idx, auto y) { y(idx(i)) = 0.5 * y(idx(i)) + 1.0; })));
  // Another element of the array, and a key that the loop changes.
  EXPECT_FALSE(is_sorted(text_of([](auto&, auto i, auto idx, auto y) { y(idx(i)) = 0.5 * y(idx(i - 1)) + 1.0; })));
  EXPECT_FALSE(is_sorted(text_of([](auto&, auto i, auto idx, auto y) { y(idx(i)) = 0.5 * y(0) + 1.0; })));
  EXPECT_FALSE(is_sorted(text_of([](auto&, auto i, auto idx, auto y) {
    y(idx(i)) = 0.5 * y(idx(i)) + 1.0;
    idx(i) = select(y(idx(i)) > 1.0, cast<std::int32_t>(0), idx(i));
  })));
}

}  // namespace
}  // namespace loopgrad::transforms

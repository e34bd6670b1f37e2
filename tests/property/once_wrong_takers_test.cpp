// First takers of elements that data choose: see transforms/loops/find_takers.h.
#include "tests/property/once_wrong.h"

namespace loopgrad::fuzz {
namespace {

/// Two statements of an inner loop take, and one after it: iterations of the inner loop interleave.
Program takers_that_interleave() {
  ProgramBuilder p("takers_that_interleave");
  auto n = p.size("n"), m = p.size("m"), k = p.size("k");
  auto a = p.input<int>("a", {n, k}), b = p.input<int>("b", {n, k}), c = p.input<int>("c", {n});
  p.in_range(a, 0, m);
  p.in_range(b, 0, m);
  p.in_range(c, 0, m);
  auto d = p.inout<double>("d", {m});
  auto x = p.input<double>("x", {n, k}), y = p.input<double>("y", {n, k}), z = p.input<double>("z", {n});
  for (auto i : p.loop("i", n)) {
    d(c(i)) = 5.0 * z(i);
    for (auto j : p.loop("j", k)) {
      d(b(i, j)) = 3.0 * y(i, j);
      d(a(i, j)) = 2.0 * x(i, j);
    }
  }
  return p.build();
}

TEST(OnceWrong, WhatShareAnInnerLoopInterleave) {
  expect_right(takers_that_interleave, {{{"n", 3}, {"m", 4}, {"k", 3}}, {{"n", 1}, {"m", 5}, {"k", 4}}});
}

/// A local of each iteration, whose elements are stored to where data say: turns are the iteration's own.
Program stores_to_a_local() {
  ProgramBuilder p("stores_to_a_local");
  auto nb = p.size("nb"), n = p.size("n"), m = p.size("m");
  auto a = p.input<int>("a", {nb, n});
  p.in_range(a, 0, m);
  auto x = p.input<double>("x", {nb, n});
  auto y = p.output<double>("y", {nb, m});
  for (auto b : p.loop("b", nb)) {
    auto d = p.local<double>("d", {m});
    for (auto j : p.loop("j", m)) d(j) = 0.0;
    for (auto i : p.loop("i", n)) d(a(b, i)) = x(b, i) * x(b, i);
    for (auto j : p.loop("j", m)) y(b, j) = d(j) * d(j);
  }
  return p.build();
}

TEST(OnceWrong, OfAnIterationsOwnLocal) {
  expect_right(stores_to_a_local, {{{"nb", 3}, {"n", 3}, {"m", 4}}, {{"nb", 40}, {"n", 5}, {"m", 3}}});
}

/// A local of each iteration of a loop, from which iterations of another one take.
Program taken_from_a_local() {
  ProgramBuilder p("taken_from_a_local");
  auto n = p.size("n"), m = p.size("m");
  auto to = p.input<int>("to", {n});
  p.in_range(to, 0, m);
  auto x = p.inout<double>("x", {4, n});
  auto y = p.output<double>("y", {4, m});
  auto w = p.input<double>("w", {4, m});
  for (auto i : p.loop("i", 4)) {
    auto b = p.local<double>("b", {m});
    for (auto j : p.loop("j", m)) b(j) = w(i, j);
    for (auto k : p.loop("k", n)) {
      x(i, k) += b(to(k)) * x(i, k);
      b(to(k)) = 0.0;
    }
    for (auto j : p.loop("j", m)) y(i, j) = b(j);
  }
  return p.build();
}
/// Rows of their own, in which elements are taken.
Program rows_of_their_own() {
  ProgramBuilder p("rows_of_their_own");
  auto nb = p.size("nb"), n = p.size("n"), m = p.size("m");
  auto a = p.input<int>("a", {nb, n});
  p.in_range(a, 0, m);
  auto d = p.inout<float>("d", {nb, m});
  auto x = p.input<float>("x", {nb, n});
  for (auto b : p.loop("b", nb))
    for (auto i : p.loop("i", n)) d(b, a(b, i)) = 2.0f * x(b, i);
  return p.build();
}
/// Few are taken in each iteration of a loop that runs in order.
Program few_in_order() {
  ProgramBuilder p("few_in_order");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.input<int>("a", {n, 3});
  p.in_range(a, 0, m);
  auto d = p.inout<float>("d", {m});
  auto x = p.input<float>("x", {n, 3});
  auto s = p.inout<float>("s", {});
  for (auto i : p.loop("i", n)) {
    s() = 0.5f * s() * s() + x(i, 0);
    for (auto k : p.loop("k", 3)) d(a(i, k)) = 2.0f * x(i, k) * s();
  }
  return p.build();
}
Program largest_in_rows() {
  ProgramBuilder p("largest_in_rows");
  auto nb = p.size("nb"), n = p.size("n"), m = p.size("m");
  auto a = p.input<int>("a", {nb, n});
  p.in_range(a, 0, m);
  auto d = p.output<float>("d", {nb, m});
  auto x = p.input<float>("x", {nb, n});
  for (auto b : p.loop("b", nb)) {
    for (auto i : p.loop("i", m)) d(b, i) = 0.0f;
    for (auto i : p.loop("i", n)) d(b, a(b, i)) = max(d(b, a(b, i)), x(b, i));
  }
  return p.build();
}

TEST(OnceWrong, TakenInRows) {
  expect_right(taken_from_a_local, {{{"n", 6}, {"m", 3}}, {{"n", 2}, {"m", 1}}});
  expect_right(rows_of_their_own, {{{"nb", 3}, {"n", 3}, {"m", 4}}});
  expect_right(few_in_order, {{{"n", 3}, {"m", 4}}});
  expect_right(largest_in_rows, {{{"nb", 3}, {"n", 3}, {"m", 4}}});
}

/// The gradient of what the array held at first: a sum into another plane than the first taker's, which others clear.
Program filled_again() {
  ProgramBuilder p("filled_again");
  auto n = p.size("n"), m = p.size("m");
  auto b = p.inout<double>("b", {m});
  auto x = p.input<double>("x", {n}), y = p.input<double>("y", {n});
  auto w = p.output<double>("w", {n});
  for (auto i : p.loop("i", n)) {
    w(i) = b(1) * x(i);
    for (auto j : p.loop("j", m)) b(j) = 1.0;
    b(0) = y(i) * y(i);
  }
  return p.build();
}
/// A reader that reads another plane too, which nobody clears.
Program reads_other_plane() {
  ProgramBuilder p("reads_other_plane");
  auto n = p.size("n");
  auto a = p.inout<double>("a", {2});
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", n)) {
    y(i) = a(0) * x(i) + a(1);
    a(0) = 0.0;
  }
  return p.build();
}
/// A reader of one element reads another one, which others than its own taker clear.
Program reads_what_others_clear() {
  ProgramBuilder p("reads_what_others_clear");
  auto n = p.size("n"), m = p.size("m");
  auto b = p.inout<double>("b", {m + 3});
  auto x = p.input<double>("x", {n});
  auto z = p.inout<double>("z", {n});
  for (auto i : p.loop("i", n)) {
    for (auto j : p.loop("j", m)) b(j) = 0.0;
    z(i) += b(2) * x(i);
    z(i) += b(0) * x(i);
    b(0) = 0.0;
  }
  return p.build();
}
/// The same, where data choose.
Program reads_what_data_clear() {
  ProgramBuilder p("reads_what_data_clear");
  auto n = p.size("n"), m = p.size("m");
  auto k = p.input<int>("k", {n});
  p.in_range(k, 0, m + 2);
  auto a = p.inout<double>("a", {m + 2});
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n}), w = p.output<double>("w", {n}), z = p.output<double>("z", {n});
  for (auto i : p.loop("i", n)) {
    y(i) = a(0) * x(i);
    a(0) = 0.0;
    z(i) = a(k(i)) * x(i);
    a(k(i)) = 0.0;
    w(i) = a(1) * x(i);
  }
  return p.build();
}

TEST(OnceWrongTakers, OtherPlanesThanATakersAreThoseOfNoTaker) {
  expect_right(filled_again, {{{"n", 4}, {"m", 3}}, {{"n", 1}, {"m", 2}}});
  expect_right(reads_other_plane, {{{"n", 4}}});
  expect_right(reads_what_others_clear, {{{"n", 4}, {"m", 3}}, {{"n", 1}, {"m", 2}}, {{"n", 2}, {"m", 1}}});
  expect_right(reads_what_data_clear, {{{"n", 4}, {"m", 3}}});
}

}  // namespace
}  // namespace loopgrad::fuzz

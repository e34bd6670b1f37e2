// Elements that need not exist: where conditions or loops without a trip leave them out.
#include "tests/property/once_wrong.h"

namespace loopgrad::fuzz {
namespace {

/// A column that not all sizes have: partial results and whole numbers have none to add to then.
Program column_that_may_be_missing() {
  ProgramBuilder p("column_that_may_be_missing");
  auto n = p.size("n"), m = p.size("m"), k = p.size("k");
  auto idx = p.input<int>("idx", {n});
  p.in_range(idx, 0, m);
  auto x = p.input<double>("x", {n});
  auto q = p.inout<double>("q", {m, k});
  for (auto i : p.loop("i", n)) p.when(k > 2, [&] { q(idx(i), 2) += x(i) * x(i); });
  return p.build();
}

/// Likewise in a gradient.
Program weights_of_a_column_that_may_be_missing() {
  ProgramBuilder p("weights_of_a_column_that_may_be_missing");
  auto n = p.size("n"), m = p.size("m"), k = p.size("k");
  auto idx = p.input<int>("idx", {n});
  p.in_range(idx, 0, m);
  auto x = p.input<double>("x", {n});
  auto w = p.input<double>("w", {m, k});
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", n)) {
    y(i) = x(i);
    p.when(k > 2, [&] { y(i) += w(idx(i), 2) * x(i); });
  }
  return p.build();
}

/// Likewise in whole numbers on a GPU.
Program column_in_whole_numbers() {
  ProgramBuilder p("column_in_whole_numbers");
  auto n = p.size("n"), m = p.size("m"), k = p.size("k"), e = p.size("e");
  auto ptr = p.input<int>("ptr", {n + 1});
  p.csr(ptr, e);
  auto a = p.input<int>("a", {n, n});
  p.in_range(a, 0, m);
  auto x = p.input<double>("x", {n}), w = p.input<double>("w", {n, e, n}), v = p.input<double>("v", {n, e});
  auto q = p.inout<double>("q", {m, k});
  auto o = p.inout<double>("o", {m});
  for (auto i : p.loop("i", n))
    for (auto j : p.loop("j", ptr(i), ptr(i + 1)))
      for (auto l : p.loop("l", n)) {
        p.when(k > 0, [&] { q(a(i, l), 0) += select(a(i, l) < 1, 0.0, x(i) * w(i, j, l)); });
        o((i * 2 + l) % m) += v(i, j);
      }
  return p.build();
}

TEST(OnceWrong, ColumnsThatMayBeMissing) {
  expect_right(column_that_may_be_missing, {{{"n", 5}, {"m", 3}, {"k", 0}}, {{"n", 5}, {"m", 3}, {"k", 3}}});
  expect_right(weights_of_a_column_that_may_be_missing,
               {{{"n", 5}, {"m", 3}, {"k", 0}}, {{"n", 5}, {"m", 3}, {"k", 2}}, {{"n", 5}, {"m", 3}, {"k", 3}}});
  expect_right(column_in_whole_numbers, {{{"n", 4}, {"m", 3}, {"k", 0}, {"e", 6}}});
}

/// Sums into the next level, under a condition that there is one, beside a recurrence over the levels.
Program levels(bool by_data, bool constant) {
  ProgramBuilder p("levels");
  auto n = p.size("n");
  auto to = p.input<int>("to", {n});
  p.in_range(to, 0, n);
  auto x = p.input<double>("x", {n + 1});
  auto z = p.output<double>("z", {4, n});
  auto y = p.output<double>("y", {n + 1});
  auto v = p.local<double>("v", {5, n + 1});
  for (auto t : p.loop("t", 4))
    for (auto j : p.loop("j", n)) z(t, j) = 0.5;
  for (auto j : p.loop("j", n + 1)) v(0, j) = x(j);
  for (auto t : p.loop("t", 4)) v(t + 1, 0) = 0.5;
  for (auto t : p.loop("t", 4)) {
    for (auto j : p.loop("j", 1, n + 1)) v(t + 1, j) = 0.5 * v(t, j) + 0.1 * v(t, j - 1) * v(t, j);
    for (auto j : p.loop("j", n)) {
      const auto add = [&] {
        if (constant) z(t + 1, to(j)) += 0.5;
        else z(t + 1, to(j)) += x(j) * sin(v(t + 1, j));
      };
      if (by_data) p.when(x(j) > 0.1173 && t + 1 < 4, add);
      else p.when(t + 1 < 4, add);
    }
  }
  for (auto j : p.loop("j", n + 1)) y(j) = v(4, j);
  return p.build();
}
Program next_levels() { return levels(false, true); }
Program next_levels_by_data() { return levels(true, true); }
Program next_levels_of_a_recurrence() { return levels(false, false); }
Program next_levels_of_a_recurrence_by_data() { return levels(true, false); }

TEST(OnceWrong, NextLevelsThatMayBeMissing) {
  for (const auto& program :
       {next_levels, next_levels_by_data, next_levels_of_a_recurrence, next_levels_of_a_recurrence_by_data})
    expect_right(program, {{{"n", 5}}, {{"n", 40}}});
}

/// An element 0 of an array that has none, in a loop without a trip.
Program first_read_of_none() {
  ProgramBuilder p("first_read_of_none");
  auto n = p.size("n");
  auto a = p.inout<double>("a", {n});
  auto y = p.output<double>("y", {n});
  auto x = p.local<double>("x", {n});
  for (auto i : p.loop("i", n)) x(i) = a(0);
  for (auto i : p.loop("i", n)) {
    y(i) = x(0);
    a(0) = y(i);
  }
  return p.build();
}
/// The same in a primal program.
Program first_sum_of_none() {
  ProgramBuilder p("first_sum_of_none");
  auto n = p.size("n");
  auto a = p.inout<double>("a", {n});
  auto x = p.input<double>("x", {n});
  for (auto i : p.loop("i", n)) a(0) += x(i) * x(i);
  return p.build();
}
/// The array has another size than the loop.
Program first_of_another_size() {
  ProgramBuilder p("first_of_another_size");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.inout<double>("a", {m});
  auto x = p.input<double>("x", {n});
  for (auto i : p.loop("i", n)) a(0) += x(i) * x(i);
  return p.build();
}

/// Whether it exists takes a division by what may be zero.
Program remainder_of_none() {
  ProgramBuilder p("remainder_of_none");
  auto n = p.size("n");
  auto k = p.input<int>("k", {});
  auto v = p.input<double>("v", {n}), w = p.input<double>("w", {n});
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", n)) y(i) = v(abs(k()) % n) * w(i);
  return p.build();
}

TEST(OnceWrong, FirstElementsOfEmptyArrays) {
  expect_right(remainder_of_none, {{{"n", 0}}, {{"n", 3}}});
  expect_right(first_read_of_none, {{{"n", 0}}, {{"n", 3}}});
  expect_right(first_sum_of_none, {{{"n", 0}}, {{"n", 3}}});
  expect_right(first_of_another_size, {{{"n", 0}, {"m", 0}}, {{"n", 3}, {"m", 1}}});
}

}  // namespace
}  // namespace loopgrad::fuzz

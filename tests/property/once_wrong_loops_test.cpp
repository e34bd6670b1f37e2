// Loops side by side and in order: see transforms/loops, transforms/map/cpu and transforms/sums/scans.
#include "tests/property/once_wrong.h"

namespace loopgrad::fuzz {
namespace {

/// Of a parallel loop one iteration adds to a scalar, and reads it.
Program one_iteration_adds() {
  ProgramBuilder p("one_iteration_adds");
  auto n = p.size("n"), m = p.size("m"), c = p.size("c");
  auto x = p.input<double>("x", {m, n});
  auto w = p.input<int>("w", {m});
  p.in_range(w, 1, 7);
  auto y = p.output<double>("y", {n});
  auto acc = p.output<double>("acc", {});
  auto z = p.output<double>("z", {});
  acc() = 0.5;
  z() = 0.0;
  for (auto i : p.loop("i", n)) {
    auto s = p.scalar<double>("s", 0);
    for (auto k : p.loop("k", m)) s += x(k, i) * cast<double>(w(k));
    y(i) = s * 0.25;
    p.when(i == c, [&] {
      acc() += s;
      z() = acc() * acc();
    });
  }
  return p.build();
}

/// Likewise in the adjoint.
Program one_iteration_sets() {
  ProgramBuilder p("one_iteration_sets");
  auto n = p.size("n"), m = p.size("m"), c = p.size("c");
  auto x = p.input<double>("x", {m, n});
  auto w = p.input<int>("w", {m});
  p.in_range(w, 1, 7);
  auto y = p.output<double>("y", {n});
  auto acc = p.output<double>("acc", {});
  auto z = p.output<double>("z", {});
  acc() = 0.5;
  z() = 0.0;
  for (auto i : p.loop("i", n)) {
    auto s = p.scalar<double>("s", 0);
    for (auto k : p.loop("k", m)) s += x(k, i) * cast<double>(w(k));
    y(i) = s * 0.25;
    p.when(i == c, [&] {
      acc() = s * s;
      z() = sin(acc());
    });
  }
  return p.build();
}

/// A scalar that all lanes have is read before it is assigned.
Program scalar_of_the_trip_before() {
  ProgramBuilder p("scalar_of_the_trip_before");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<double>("x", {m, n});
  auto a = p.input<int>("a", {m + 1});
  p.in_range(a, 1, 7);
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", n)) {
    auto s = p.scalar<double>("s", 0);
    auto u = p.scalar<double>("u");
    for (auto k : p.loop("k", m + 1)) {
      p.when(k != 0, [&] { s += u * x(k - 1, i); });
      u = cast<double>(a(k));
    }
    y(i) = s * s + u;
  }
  return p.build();
}

/// Likewise an integer.
Program key_of_the_trip_before() {
  ProgramBuilder p("key_of_the_trip_before");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<double>("x", {m, n});
  auto key = p.input<int>("key", {m});
  p.in_range(key, 0, 3);
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", n)) {
    auto s = p.scalar<double>("s", 0);
    auto last = p.scalar<int>("last");
    for (auto k : p.loop("k", m)) {
      p.when(k > 0 && key(k) == 1, [&] { s += cast<double>(last) * x(k, i); });
      last = key(k);
    }
    y(i) = s + cast<double>(last);
  }
  return p.build();
}

/// Iterations change what the bound is read from.
Program bound_that_changes() {
  ProgramBuilder p("bound_that_changes");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<double>("x", {m, n});
  auto w = p.input<int>("w", {m});
  auto cnt = p.inout<int>("cnt", {n});
  auto y = p.output<double>("y", {n});
  p.in_range(w, 1, 7);
  for (auto i : p.loop("i", n)) {
    y(i) = 0.0;
    cnt(i) = cast<int>(n) - cast<int>(i);
  }
  for (auto i : p.loop("i", 0, min(n, cast<std::int64_t>(cnt(0))), {.at_most = {n}})) {
    auto s = p.scalar<double>("s", 0);
    for (auto k : p.loop("k", m)) s += x(k, i) * cast<double>(w(k));
    y(i) = s;
    cnt(i) = 0;
  }
  return p.build();
}

/// Likewise that of a row.
Program bound_of_a_row_that_changes() {
  ProgramBuilder p("bound_of_a_row_that_changes");
  auto n = p.size("n"), m = p.size("m");
  auto cnt = p.inout<int>("cnt", {n});
  for (auto i : p.loop("i", n)) cnt(i) = cast<int>(n) - cast<int>(i) / 2;
  auto q = p.input<double>("q", {n, m});
  auto k = p.input<double>("k", {m, n});
  auto y = p.output<double>("y", {n, n});
  for (auto l : p.loop("l", n))
    for (auto o : p.loop("o", n)) y(l, o) = 0.0;
  for (auto l : p.loop("l", n)) {
    for (auto o : p.loop("o", 0, min(n, cast<std::int64_t>(cnt(l))), {.at_most = {n}})) {
      auto s = p.scalar<double>("s", 0);
      for (auto d : p.loop("d", m)) s += q(l, d) * k(d, o);
      y(l, o) = s * s;
      p.when(o == 0, [&] { cnt(l) = 1; });
    }
  }

  return p.build();
}

/// A branch by a scalar of the iteration has an array of its own.
Program array_in_a_branch() {
  ProgramBuilder p("array_in_a_branch");
  auto n = p.size("n"), m = p.size("m");
  auto idx = p.input<int>("idx", {n});
  p.in_range(idx, 0, 3);
  auto x = p.input<double>("x", {m, n});
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", n)) {
    auto s = p.scalar<double>("s", 0);
    for (auto k : p.loop("k", m)) s += x(k, i);
    y(i) = s;
    p.when(s > 0.0, [&] {
      auto h = p.local<double>("h", {3});
      h(0) = s;
      h(1) = s * s;
      h(2) = 1.0 + s;
      y(i) = h(idx(i)) * s;
    });
  }

  return p.build();
}

/// Likewise one that changes what its condition reads.
Program branch_that_changes_its_condition() {
  ProgramBuilder p("branch_that_changes_its_condition");
  auto n = p.size("n"), m = p.size("m");
  auto idx = p.input<int>("idx", {n});
  p.in_range(idx, 0, 3);
  auto x = p.input<double>("x", {m, n});
  auto u = p.inout<double>("u", {n});
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", n)) {
    auto s = p.scalar<double>("s", 0);
    for (auto k : p.loop("k", m)) s += x(k, i);
    y(i) = s;
    p.when(u(i) > 0.0, [&] {
       auto h = p.local<double>("h", {3});
       h(0) = s;
       h(1) = s * s;
       h(2) = 1.0 + s;
       y(i) = h(idx(i)) * s;
       u(i) = -1.0;
     }).otherwise([&] { y(i) *= 3.0; });
  }

  return p.build();
}

/// A recurrence reads an array that may be in the memory that it writes.
Program recurrence_in_shared_memory() {
  ProgramBuilder p("recurrence_in_shared_memory");
  auto n = p.size("n");
  auto x = p.inout<double>("x", {n});
  auto b = p.input<double>("b", {n});
  p.may_alias(x, b);
  for (auto i : p.loop("i", 1, n)) x(i) = 0.5 * x(i - 1) + b(i - 1);

  return p.build();
}

/// Two sums into neighbouring elements, in a band that moves along with the iteration.
Program sums_at_neighbours() {
  ProgramBuilder p("sums_at_neighbours");
  auto b = p.size("b"), n = p.size("n"), m = p.size("m");
  auto x = p.input<double>("x", {b, n});
  auto q = p.input<double>("q", {2 * n + 2 * m + 1});
  auto r = p.input<double>("r", {2 * n + 2 * m + 1});
  auto y = p.output<double>("y", {b, n + m + 1});
  for (auto l : p.loop("l", b)) {
    for (auto j : p.loop("j", n + m + 1)) y(l, j) = 0.0;
    for (auto i : p.loop("i", n)) {
      auto g = p.let("g", sin(x(l, i)));
      for (auto j : p.loop("j", i, i + m)) {
        y(l, j) += g * q(i - 2 * j + 2 * n + 2 * m) * r(i - 2 * j + 2 * n + 2 * m);
        y(l, j + 1) += g * r(i - 2 * j + 2 * n + 2 * m);
      }
    }
  }
  return p.build();
}

/// A condition within a branch may only be asked where that is taken.
Program condition_that_need_not_exist() {
  ProgramBuilder p("condition_that_need_not_exist");
  auto n = p.size("n"), m = p.size("m"), c = p.size("c");
  auto x = p.input<double>("x", {m, n});
  auto flag = p.input<int>("flag", {n});
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", n)) {
    auto s = p.scalar<double>("s", 0);
    for (auto k : p.loop("k", m)) s += x(k, i);
    p.when(i < c, [&] {
      p.when(flag(c - 1) > 0, [&] {
        for (auto k : p.loop("k", m)) s += x(k, i) * x(k, i);
      });
    });
    y(i) = s;
  }
  return p.build();
}

TEST(OnceWrong, OneIterationAdds) {
  expect_right(one_iteration_adds, {{{"n", 70}, {"m", 3}, {"c", 5}}, {{"n", 70}, {"m", 3}, {"c", 69}}});
}
TEST(OnceWrong, OneIterationSets) {
  expect_right(one_iteration_sets, {{{"n", 70}, {"m", 3}, {"c", 5}}, {{"n", 70}, {"m", 3}, {"c", 69}}});
}
TEST(OnceWrong, ScalarOfTheTripBefore) {
  expect_right(scalar_of_the_trip_before, {{{"n", 70}, {"m", 3}}, {{"n", 5}, {"m", 4}}});
}
TEST(OnceWrong, KeyOfTheTripBefore) {
  expect_right(key_of_the_trip_before, {{{"n", 70}, {"m", 9}}, {{"n", 5}, {"m", 4}}});
}
TEST(OnceWrong, BoundThatChanges) { expect_right(bound_that_changes, {{{"n", 70}, {"m", 3}}, {{"n", 5}, {"m", 4}}}); }
TEST(OnceWrong, BoundOfARowThatChanges) {
  expect_right(bound_of_a_row_that_changes, {{{"n", 70}, {"m", 5}}, {{"n", 7}, {"m", 20}}});
}
TEST(OnceWrong, ArrayInABranch) { expect_right(array_in_a_branch, {{{"n", 70}, {"m", 5}}, {{"n", 5}, {"m", 40}}}); }
TEST(OnceWrong, BranchThatChangesItsCondition) {
  expect_right(branch_that_changes_its_condition, {{{"n", 70}, {"m", 5}}, {{"n", 5}, {"m", 40}}});
}
TEST(OnceWrong, RecurrenceInSharedMemory) { expect_right(recurrence_in_shared_memory, {{{"n", 70}}, {{"n", 9}}}); }
TEST(OnceWrong, SumsAtNeighbours) {
  expect_right(sums_at_neighbours, {{{"b", 2}, {"n", 70}, {"m", 3}}, {{"b", 2}, {"n", 70}, {"m", 8}}});
}
TEST(OnceWrong, ConditionThatNeedNotExist) {
  expect_right(condition_that_need_not_exist, {{{"n", 70}, {"m", 3}, {"c", 0}}, {{"n", 70}, {"m", 3}, {"c", 50}}});
}

}  // namespace
}  // namespace loopgrad::fuzz

// What the backward sweep has from the tape or computes again: see tape/slices.h, tape/tape_supply.cpp and
// tape/loop_extents.h.
#include "tests/property/once_wrong.h"

#include <loopgrad/loopgrad.h>

namespace loopgrad::fuzz {
namespace {

/// A condition in a loop is by a local of that loop, and the scalar that the branch sets is computed again.
Program conditions_by_inner_locals() {
  ProgramBuilder p("conditions_by_inner_locals");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n, 4});
  auto w = p.input<double>("w", {4});
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", n)) {
    auto s = p.scalar<double>("s", 0);
    y(i) = 0;
    for (auto l : p.loop("l", 4)) {
      auto c = p.let("c", x(i, l) * x(i, l) * 0.5 + x(i, l) * w(l) - 0.3);
      p.when(c > 0.0, [&] { s += w(l); });
      y(i) += c * c * x(i, l);
    }
    y(i) += sin(s) * x(i, 0);
  }
  return p.build();
}

/// The local is what the condition asks, and what the scalar takes.
Program extremum_under_inner_condition() {
  ProgramBuilder p("extremum_under_inner_condition");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n, 4});
  auto w = p.input<double>("w", {4});
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", n)) {
    auto m = p.scalar<double>("m", -1e30), z = p.scalar<double>("z", 0);
    for (auto l : p.loop("l", 4)) {
      auto c = p.let("c", x(i, l) * w(l) + 0.5 * x(i, l) * x(i, l));
      auto d = p.let("d", c * c - 0.2 * x(i, l));
      p.when(d > 0.0, [&] { m.max_with(d); });
      z += d * c;
    }
    y(i) = m * z;
  }
  return p.build();
}

/// Likewise in a branch, with an array.
Program branches_in_branches() {
  ProgramBuilder p("branches_in_branches");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n, 3});
  auto w = p.input<double>("w", {3});
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", n)) {
    auto s = p.scalar<double>("s", 0.1);
    auto g = p.let("g", x(i, 0) * w(0) - x(i, 1) * w(1) + 0.1);
    p.when(g > 0.0, [&] {
      auto d = p.let("d", g * g + x(i, 2) * w(2));
      auto h = p.local<double>("h", {3});
      for (auto l : p.loop("l", 3)) h(l) = d * x(i, l) + 0.2;
      for (auto l : p.loop("l", 3)) {
        auto c = p.let("c", h(l) * h(2 - l) - 0.3 * w(l));
        p.when(c > 0.0, [&] { s += c * d; }).otherwise([&] { s = s * 0.5 + c * h(l); });
      }
    });
    y(i) = sin(s) * s;
  }
  return p.build();
}

/// One of two loops that read a value has no trip: what is saved for it is not there for the other.
Program loops_side_by_side() {
  ProgramBuilder p("loops_side_by_side");
  auto t_ = p.size("t"), r_ = p.size("r"), n = p.size("n"), m = p.size("m");
  auto flag = p.input<int>("flag", {t_});
  auto u = p.inout<double>("u", {2});
  auto x = p.input<double>("x", {n});
  auto z = p.input<double>("z", {m});
  auto a = p.output<double>("a", {r_});
  p.in_range(flag, 0, 2);
  for (auto r : p.loop("r", r_)) a(r) = 0;
  for (auto t : p.loop("t", t_)) {
    for (auto r : p.loop("r", r_)) {
      for (auto i : p.loop("i", n)) a(r) += u(0) * x(i);
      for (auto j : p.loop("j", m)) a(r) += u(0) * z(j);
    }
    p.when(flag(t) > 0, [&] { u(0) = u(0) * 0.5 + 0.25; }).otherwise([&] { u(1) = u(1) * 2.0; });
  }
  return p.build();
}

/// A loop's bound is read where its body saves nothing as it has no trip.
Program bound_that_is_counted_down() {
  ProgramBuilder p("bound_that_is_counted_down");
  auto t_ = p.size("t"), n = p.size("n");
  auto flag = p.input<int>("flag", {t_});
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n});
  p.in_range(flag, 0, 2);
  for (auto i : p.loop("i", n)) y(i) = 0;
  auto k = p.scalar<int>("k", 2);
  for (auto t : p.loop("t", t_)) {
    for (auto i : p.loop("i", min(k, n))) y(i) += x(i) * cast<double>(k);
    p.when(flag(t) > 0, [&] { k = k - 1; }).otherwise([&] { k = 0; });
  }
  return p.build();
}

/// Likewise the first iteration.
Program first_of_a_loop_that_changes() {
  ProgramBuilder p("first_of_a_loop_that_changes");
  auto t_ = p.size("t"), n = p.size("n");
  auto flag = p.input<int>("flag", {t_});
  p.in_range(flag, 0, 3);
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", n)) y(i) = 0;
  auto k = p.scalar<int>("k", 0);
  for (auto t : p.loop("t", t_)) {
    p.when(flag(t) > 0, [&] { k = k + flag(t); }).otherwise([&] { k = 0; });
    for (auto i : p.loop("i", k, n)) y(i) += x(i) * x(n - 1 - i) * cast<double>(k);
    p.when(k > 1, [&] {
      for (auto i : p.loop("i", min(k, n))) y(i) += x(i) * x(i) * cast<double>(k);
    });
  }
  return p.build();
}

/// What is computed again goes over rows whose tape counts from where they start.
Program rows_of_a_grid_again() {
  ProgramBuilder p("rows_of_a_grid_again");
  auto t_ = p.size("t"), a_ = p.size("a"), b_ = p.size("b"), e_ = p.size("e"), n = p.size("n");
  auto ptr = p.input<int>("ptr", {a_ * b_ + 1});
  auto col = p.input<int>("col", {e_});
  auto u = p.inout<double>("u", {n});
  auto w = p.input<double>("w", {n});
  auto y = p.output<double>("y", {a_, b_});
  p.csr(ptr, e_);
  p.in_range(col, 0, n);
  for (auto a : p.loop("a", a_))
    for (auto b : p.loop("b", b_)) y(a, b) = 0;
  for (auto t : p.loop("t", t_)) {
    for (auto a : p.loop("a", a_))
      for (auto b : p.loop("b", b_)) {
        auto s = p.scalar<double>("s", 0);
        p.recompute(s);
        for (auto e : p.loop("e", ptr(a * b_ + b), ptr(a * b_ + b + 1))) s += u(col(e));
        y(a, b) += sin(s);
      }
    for (auto i : p.loop("i", n)) u(i) = u(i) * w(i);
  }
  return p.build();
}

/// Likewise rows that data begin and end.
Program rows_of_data_again() {
  ProgramBuilder p("rows_of_data_again");
  auto t_ = p.size("t"), n = p.size("n"), k_ = p.size("k");
  auto lo = p.input<int>("lo", {n}), len = p.input<int>("len", {n}), col = p.input<int>("col", {n});
  p.in_range(col, 0, n);
  p.in_range(lo, 0, n);
  p.in_range(len, 0, k_ + 1);
  auto u = p.inout<double>("u", {n});
  auto w = p.input<double>("w", {n});
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", n)) y(i) = 0;
  for (auto t : p.loop("t", t_)) {
    for (auto i : p.loop("i", n)) {
      auto s = p.scalar<double>("s", 0);
      p.recompute(s);
      for (auto j : p.loop("j", lo(i), min(lo(i) + len(i), n), {.at_most = {k_}})) s += u(col(j)) * w(j);
      y(i) += sin(s);
    }
    for (auto i : p.loop("i", n)) u(i) = u(i) * w(i);
  }
  return p.build();
}

/// What all iterations of a loop compute alike is asked for before it, and there is none.
Program invariant_of_no_trip() {
  ProgramBuilder p("invariant_of_no_trip");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n});
  auto z = p.output<double>("z", {m});
  auto s = p.scalar<double>("s");
  for (auto i : p.loop("i", n)) s = x(i);
  for (auto i : p.loop("i", n)) y(i) = x(i) * exp(s * s) * x(i);
  for (auto i : p.loop("i", m)) z(i) = 1;
  return p.build();
}

TEST(OnceWrong, ConditionsByInnerLocals) { expect_right(conditions_by_inner_locals, {{{"n", 3}}, {{"n", 5}}}); }
TEST(OnceWrong, ExtremumUnderInnerCondition) { expect_right(extremum_under_inner_condition, {{{"n", 3}}, {{"n", 5}}}); }
TEST(OnceWrong, BranchesInBranches) { expect_right(branches_in_branches, {{{"n", 3}}, {{"n", 7}}}); }
TEST(OnceWrong, LoopsSideBySide) {
  expect_right(loops_side_by_side,
               {{{"t", 4}, {"r", 2}, {"n", 3}, {"m", 0}}, {{"t", 4}, {"r", 2}, {"n", 0}, {"m", 3}}});
}
TEST(OnceWrong, BoundThatIsCountedDown) {
  expect_right(bound_that_is_counted_down, {{{"t", 5}, {"n", 3}}, {{"t", 4}, {"n", 2}}});
}
TEST(OnceWrong, FirstOfALoopThatChanges) {
  expect_right(first_of_a_loop_that_changes, {{{"t", 6}, {"n", 3}}, {{"t", 5}, {"n", 4}}});
}
TEST(OnceWrong, RowsOfAGridAgain) {
  expect_right(rows_of_a_grid_again, {{{"t", 3}, {"a", 2}, {"b", 2}, {"e", 7}, {"n", 3}}});
}
TEST(OnceWrong, RowsOfDataAgain) { expect_right(rows_of_data_again, {{{"t", 3}, {"n", 4}, {"k", 3}}}); }
TEST(OnceWrong, InvariantOfNoTrip) { expect_right(invariant_of_no_trip, {{{"n", 3}, {"m", 2}}, {{"n", 0}, {"m", 2}}}); }

/// Both scalars are the same, bit for bit, in order; the one that the sweep is told to compute again decides nothing in
/// its copy of the loop, which may then be done in pieces (a scan), while the forward loop is in order as it decides
/// there.
Program recurrence_again() {
  ProgramBuilder p("recurrence_again");
  auto m = p.size("m"), n = p.size("n");
  auto a = p.input<double>("a", {m}), b = p.input<double>("b", {m});
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n});
  auto c = p.output<int>("c", {});
  c() = 0;
  auto s = p.scalar<double>("s", 0.5), r = p.scalar<double>("r", 0.5);
  p.recompute(s);
  for (auto k : p.loop("k", m)) {
    s = (1 + 1e-4 * a(k)) * s + b(k);
    p.when(s > 3.0, [&] { c() += 1; });
  }
  for (auto k : p.loop("k", m)) {
    r = (1 + 1e-4 * a(k)) * r + b(k);
    p.when(r > 3.0, [&] { c() += 1; });
  }
  for (auto i : p.loop("i", n)) {
    y(i) = x(i);
    p.when(s >= r && r >= s, [&] { y(i) = x(i) * x(i) * 3.0; });
  }
  return p.build();
}
TEST(OnceWrong, RecurrenceComputedAgainThatDecides) { expect_right(recurrence_again, {{{"m", 2000}, {"n", 3}}}); }

/// A local has the name of the measured trips of a `while`; its own min= is no bound of these.
Program local_called_most() {
  ProgramBuilder p("local_called_most");
  auto n = p.size("n"), m = p.size("m");
  auto c = p.input<std::int64_t>("c", {n}), c2 = p.input<std::int64_t>("c2", {n});
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n});
  for (auto v : p.loop("v", n)) {
    auto s = p.scalar<double>("s", 1.0);
    auto most = p.scalar<std::int64_t>("most_e");
    most = c(v);
    most.min_with(2);
    for (auto e : p.loop_while("e", m, [&](auto i) { return i < c2(v) + 3; }))
      s = sin(s * x(v)) + 0.2 * cast<double>(e);
    for (auto f : p.loop_while("f", m, [&](auto i) { return i < most; })) s = sin(s * x(v)) + 0.2 * cast<double>(f);
    y(v) = s;
  }
  return p.build();
}
TEST(OnceWrong, LocalNamedLikeMeasuredTrips) {
  const Program program = joined(differentiate(local_called_most()));
  EXPECT_EQ(program.str().find(", 2]"), std::string::npos) << program.str();  // the tape of e has m entries
}

/// Two parts beside a loop in segments count the trips of loops of one name.
Program counted_in_two_parts() {
  ProgramBuilder p("counted_in_two_parts");
  auto t_ = p.size("t"), n = p.size("n");
  auto c1 = p.input<int>("c1", {n}), c2 = p.input<int>("c2", {n});
  auto x = p.input<double>("x", {n});
  auto u = p.inout<double>("u", {n});
  auto y = p.output<double>("y", {n});
  for (auto v : p.loop("v", n)) {
    auto s = p.scalar<double>("s", 1.0);
    for (auto e : p.loop("e", 0, cast<std::int64_t>(c1(v)) + 5)) s = sin(s * x(v)) + cast<double>(e);
    u(v) = u(v) * s;
  }
  for (auto t : p.loop("t", t_))
    for (auto i : p.loop("i", n)) u(i) = sin(u(i)) * x(i);
  for (auto v : p.loop("v", n)) {
    auto s = p.scalar<double>("s", 1.0);
    for (auto e : p.loop("e", 0, cast<std::int64_t>(c2(v)) + 1)) s = sin(s * x(v)) + cast<double>(e);
    y(v) = u(v) * s;
  }
  return p.build();
}
TEST(OnceWrong, CountedInTwoPartsOfABudget) {
  const Gradient gradient = differentiate(counted_in_two_parts(), {.max_tape_bytes = 2000});
  std::set<std::string> names;
  for (const ir::Array& array : gradient.sizing.ir().arrays)
    EXPECT_TRUE(names.insert(array->name).second) << array->name;
}

/// Two parts beside a loop in segments measure rows of one structure that data choose.
Program rows_in_two_parts() {
  ProgramBuilder p("rows_in_two_parts");
  auto t_ = p.size("t"), n = p.size("n"), e = p.size("e");
  auto ptr = p.input<int>("ptr", {n + 1}), to = p.input<int>("to", {n});
  p.csr(ptr, e);
  p.in_range(to, 0, n);
  auto x = p.input<double>("x", {e});
  auto u = p.inout<double>("u", {n});
  auto y = p.output<double>("y", {n});
  const auto chain = [&](const Value& v) {
    auto s = p.scalar<double>("s", 1.0);
    for (auto k : p.loop("k", ptr(to(v)), ptr(to(v) + 1))) s = sin(s * x(k)) + 0.5;
    return s;
  };
  for (auto v : p.loop("v", n)) u(v) = u(v) * chain(v);
  for (auto t : p.loop("t", t_))
    for (auto i : p.loop("i", n)) u(i) = sin(u(i)) * 1.1;
  for (auto v : p.loop("v", n)) y(v) = u(v) * chain(v);
  return p.build();
}
TEST(OnceWrong, RowsInTwoPartsOfABudget) {
  const Gradient gradient = differentiate(rows_in_two_parts(), {.max_tape_bytes = 2000});
  EXPECT_NE(gradient.sizing.str().find("longest_of_ptr"), std::string::npos) << gradient.sizing.str();
}

/// What a loop without a trip would read of a local is named in front of it, where nothing has set it.
Program invariant_of_unset() {
  ProgramBuilder p("invariant_of_unset");
  auto k = p.size("k"), m = p.size("m");
  auto x = p.input<double>("x", {m}), w = p.input<double>("w", {4});
  auto y = p.output<double>("y", {m});
  auto h = p.local<double>("h", {4});
  for (auto i : p.loop("i", min(k, 4))) h(i) = w(i) * w(i);
  for (auto j : p.loop("j", m)) y(j) = x(j) * x(j) * sin(h(2) * h(2));
  return p.build();
}
TEST(OnceWrong, InvariantOfUnsetLocal) {
  expect_right(invariant_of_unset, {{{"k", 3}, {"m", 2}}, {{"k", 1}, {"m", 0}}});
}

Program invariant_by_iterator() {
  ProgramBuilder p("invariant_by_iterator");
  auto n = p.size("n"), k = p.size("k"), m = p.size("m");
  auto x = p.input<double>("x", {m}), w = p.input<double>("w", {n});
  auto y = p.output<double>("y", {n, m});
  auto h = p.local<double>("h", {n});
  for (auto i : p.loop("i", min(k, n))) h(i) = w(i) * w(i);
  for (auto v : p.loop("v", n))
    for (auto j : p.loop("j", m)) y(v, j) = x(j) * x(j) * sin(h(v) * h(v));
  return p.build();
}
TEST(OnceWrong, InvariantByIteratorOfUnsetLocal) {
  expect_right(invariant_by_iterator, {{{"n", 2}, {"k", 2}, {"m", 2}}, {{"n", 2}, {"k", 0}, {"m", 0}}});
}

}  // namespace
}  // namespace loopgrad::fuzz

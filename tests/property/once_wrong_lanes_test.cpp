// Programs that were wrong, or no programs at all, once loops ran in lanes and what they repeat had names.
#include "tests/property/once_wrong.h"

namespace loopgrad::fuzz {
namespace {

/// What all lanes would ask is an element that exists only where one of them gets there.
Program asked_where_no_lane_is() {
  ProgramBuilder p("asked_where_no_lane_is");
  auto n = p.size("n"), k = p.size("k"), m = p.size("m");
  auto c = p.input<float>("c", {k, m}), x = p.input<float>("x", {k, n});
  auto y = p.inout<float>("y", {n});
  for (auto i : p.loop("i", n))
    p.when(i % 3 < m, [&] {
      auto s = p.scalar<float>("s", 0);
      for (auto a : p.loop("a", k)) p.when(c(a, m - 1) > 0.5f, [&] { s += x(a, i) * c(a, m - 1); });
      y(i) = s;
    });
  return p.build();
}
Program asked_beyond_rows() {
  ProgramBuilder p("asked_beyond_rows");
  auto n = p.size("n"), t = p.size("T"), k = p.size("k"), m = p.size("m");
  auto r = p.input<int>("r", {t});
  p.in_range(r, 0, m + 2);
  auto c = p.input<float>("c", {k, m}), x = p.input<float>("x", {k, n});
  auto y = p.inout<float>("y", {t, n});
  for (auto [step, i] : p.loop({"step", t}, {"i", n}))
    p.when(i + r(step) < m, [&] {
      auto s = p.scalar<float>("s", 0);
      for (auto a : p.loop("a", k)) p.when(c(a, r(step)) > 0.5f, [&] { s += x(a, i) * c(a, r(step)); });
      y(step, i) = s;
    });
  return p.build();
}

TEST(OnceWrongLanes, NoLaneAsksWhereNoneGets) {
  expect_right(asked_where_no_lane_is, {{{"n", 70}, {"k", 3}, {"m", 0}}});
  expect_right(asked_beyond_rows, {{{"n", 70}, {"T", 5}, {"k", 3}, {"m", 2}}});
}

/// Where the row is has a quotient of a size that is zero where there is no column.
Program choice_with_quotient() {
  ProgramBuilder p("choice_with_quotient");
  auto n = p.size("n"), w = p.size("w");
  auto x = p.input<double>("x", {2 * n + 2, w});
  auto y = p.inout<double>("y", {n, w});
  for (auto i : p.loop("i", n))
    for (auto j : p.loop("j", w))
      y(i, j) += x(select(i < 1, 5 + n, i + 7) / (w + n), j) * x(select(i < 1, n, i + 1) / w, j);
  return p.build();
}

TEST(OnceWrongLanes, RowsOfNoColumnAreNotChosen) { expect_right(choice_with_quotient, {{{"n", 4}, {"w", 0}}}); }

/// A product of two values that the nest changes is kept as one value, and is no product then.
Program kept_product() {
  ProgramBuilder p("kept_product");
  auto n = p.size("n"), m = p.size("m");
  auto k = p.input<int>("k", {n, m});
  p.in_range(k, 0, m);
  auto x = p.input<double>("x", {n, m});
  auto c = p.inout<double>("c", {3, m}), b = p.inout<double>("b", {m + 3});
  for (auto i : p.loop("i", 0, n, {.descending = true}))
    for (auto j : p.loop("j", m))
      for (auto l : p.loop("l", 1, n)) {
        (void)l;
        c(0, j) = x(i, k(i, j)) * x(i, j);
        b(j) = 0.0;
      }
  for (auto [i, j, l] : p.loop({"i3", n}, {"j4", m}, {"l5", 1, m})) {
    b(0).min_with(x(i, j) * x(i, k(i, l)));
    b(k(i, l)).min_with(x(i, j) * x(i, l));
    c(0, l).max_with(x(i, 0));
  }
  return p.build();
}

TEST(OnceWrongLanes, AKeptProductIsNone) { expect_right(kept_product, {{{"n", 5}, {"m", 2}}}); }

}  // namespace
}  // namespace loopgrad::fuzz

// Extrema with what belongs to them: see dsl/ir/kept_extremum.h.
#include "tests/property/once_wrong.h"

namespace loopgrad::fuzz {
namespace {

/// What an iteration stores for itself in front of the branch.
Program stores_in_front() {
  ProgramBuilder p("stores_in_front");
  auto n = p.size("n");
  auto a = p.input<double>("a", {n});
  auto y = p.output<double>("y", {n}), out = p.output<double>("out", {});
  auto top = p.scalar<double>("top", -100.0), o = p.scalar<double>("o", 0.0);
  for (auto i : p.loop("i", n)) {
    y(i) = a(i) * 2.0;
    p.when(a(i) > top, [&] {
      top = a(i);
      o = a(i) * 3.0;
    });
  }
  out() = top * o;
  return p.build();
}

/// The same in a branch, with a loop, and in a scalar that the branch sets, too.
Program stores_of_other_kinds() {
  ProgramBuilder p("stores_of_other_kinds");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.input<double>("a", {n, m});
  auto y = p.output<double>("y", {n}), z = p.output<double>("z", {n, m}), out = p.output<double>("out", {});
  auto top = p.scalar<double>("top", -100.0), o = p.scalar<double>("o", 0.0), last = p.scalar<double>("last", 0.0);
  for (auto i : p.loop("i", n)) y(i) = 0.5;
  for (auto i : p.loop("i", n)) {
    p.when(a(i, 1) > 0.0, [&] { y(i) = a(i, 0); });
    for (auto j : p.loop("j", m)) z(i, j) = a(i, j) * a(i, 0);
    o = a(i, 1);
    last = a(i, 0) * 0.3;
    p.when(a(i, 0) > top, [&] {
      top = a(i, 0);
      o = a(i, 0) * 3.0;
    });
  }
  out() = top * o + last;
  return p.build();
}

/// The segment with the largest sum: the sum goes on from one inner iteration to the next.
Program largest_segment() {
  ProgramBuilder p("largest_segment");
  auto n = p.size("n");
  auto a = p.input<double>("a", {n}), w = p.input<double>("w", {n + 1});
  auto out = p.output<double>("out", {});
  auto top = p.scalar<double>("top", -100.0);
  auto first = p.scalar<std::int64_t>("first", 0), end = p.scalar<std::int64_t>("end", 0);
  for (auto i : p.loop("i", n)) {
    auto s = p.scalar<double>("s", 0.0);
    for (auto j : p.loop("j", i, n)) {
      s += a(j);
      p.when(s > top, [&] {
        top = s;
        first = i;
        end = j + 1;
      });
    }
  }
  out() = top * w(first) * w(end);
  return p.build();
}

/// The largest step from an element of a row to the next one, and an array that goes on likewise.
Program largest_step() {
  ProgramBuilder p("largest_step");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.input<double>("a", {n, m}), w = p.input<double>("w", {n, m});
  auto out = p.output<double>("out", {2});
  auto top = p.scalar<double>("top", -100.0), best = p.scalar<double>("best", 0.0), sum = p.scalar<double>("sum", 0.0);
  for (auto i : p.loop("i", n)) {
    auto before = p.scalar<double>("before", 0.0);
    auto both = p.local<double>("both", {2});
    both(0) = 0.0;
    both(1) = 0.0;
    for (auto j : p.loop("j", m)) {
      auto d = p.let("d", a(i, j) - before);
      before = a(i, j);
      both(j % 2) += w(i, j);
      p.when(d > top, [&] {
        top = d;
        best = w(i, j);
        sum = both(0) * both(1);
      });
    }
  }
  out(0) = top * best;
  out(1) = top * sum;
  return p.build();
}

TEST(OnceWrongExtrema, IterationsStoreForThemselves) {
  expect_right(stores_in_front, {{{"n", 6}}, {{"n", 41}}, {{"n", 0}}});
  expect_right(stores_of_other_kinds, {{{"n", 6}, {"m", 3}}, {{"n", 11}, {"m", 2}}});
}
TEST(OnceWrongExtrema, InnerIterationsGoOn) {
  expect_right(largest_segment, {{{"n", 6}}, {{"n", 11}}, {{"n", 1}}});
  expect_right(largest_step, {{{"n", 6}, {"m", 5}}, {{"n", 11}, {"m", 3}}, {{"n", 1}, {"m", 1}}});
}

}  // namespace
}  // namespace loopgrad::fuzz

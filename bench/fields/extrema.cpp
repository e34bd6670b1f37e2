// Extrema that are kept with their place and what belongs to it, as users write them.
#include "bench/fields/fields.h"

namespace loopgrad::fields {
namespace {

/// Elimination with the largest pivot of each column: rows are exchanged where data say.
Program pivoted_elimination() {
  ProgramBuilder p("pivoted_elimination");
  auto n = p.size("n");
  auto a = p.inout<double>("a", {n, n}), b = p.inout<double>("b", {n});
  auto old = p.local<double>("old", {n});
  for (auto k : p.loop("k", n)) {
    auto pivot = p.scalar<std::int64_t>("pivot", k);
    for (auto i : p.loop("i", k + 1, n)) p.when(abs(a(i, k)) > abs(a(pivot, k)), [&] { pivot = i; });
    for (auto j : p.loop("j", k, n)) {
      old(j) = a(k, j);
      a(k, j) = a(pivot, j);
      a(pivot, j) = old(j);
    }
    auto first = p.scalar<double>("first");
    first = b(k);
    b(k) = b(pivot);
    b(pivot) = first;
    for (auto i : p.loop("i", k + 1, n)) {
      auto factor = p.let("factor", a(i, k) / a(k, k));
      for (auto j : p.loop("j", k, n)) a(i, j) -= factor * a(k, j);
      b(i) -= factor * b(k);
    }
  }
  return p.build();
}

/// The likeliest states of a chain, and from which state each came.
Program likeliest_path() {
  ProgramBuilder p("likeliest_path");
  auto T = p.size("T"), n = p.size("n");
  auto step = p.input<float>("step", {n, n}), seen = p.input<float>("seen", {T, n});
  auto score = p.local<float>("score", {T, n});
  auto from = p.local<std::int64_t>("from", {T, n});
  auto total = p.output<float>("total", {}), path = p.output<float>("path", {T});
  for (auto s : p.loop("s", n)) score(0, s) = seen(0, s);
  for (auto t : p.loop("t", 1, T))
    for (auto s : p.loop("s", n)) {
      auto best = p.scalar<float>("best", score(t - 1, 0) + step(0, s));
      auto before = p.scalar<std::int64_t>("before", 0);
      for (auto k : p.loop("k", 1, n)) {
        auto through = p.let("through", score(t - 1, k) + step(k, s));
        p.when(through >= best, [&] {
          best = through;
          before = k;
        });
      }
      score(t, s) = best + seen(t, s);
      from(t, s) = before;
    }
  auto last = p.scalar<std::int64_t>("last", 0);
  for (auto s : p.loop("s", 1, n)) p.when(score(T - 1, s) > score(T - 1, last), [&] { last = s; });
  total() = score(T - 1, last);
  path(T - 1) = cast<float>(last);
  for (auto t : p.loop("t", 1, T, {.descending = true})) {
    last = from(t, last);
    path(t - 1) = cast<float>(last);
  }
  return p.build();
}

/// The point of one cloud that is farthest from the nearest of another one, of those that count, and that one.
Program farthest_of_nearest() {
  ProgramBuilder p("farthest_of_nearest");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.input<float>("a", {n, 2}), b = p.input<float>("b", {m, 2}), weight = p.input<float>("weight", {m});
  auto distance = p.output<float>("distance", {}), pair = p.output<float>("pair", {2});
  auto far = p.scalar<float>("far", -1.0f);
  auto i_far = p.scalar<std::int64_t>("i_far", -1), j_far = p.scalar<std::int64_t>("j_far", -1);
  auto near = p.local<float>("near", {n});
  auto j_near = p.local<std::int64_t>("j_near", {n});
  for (auto i : p.loop("i", n)) {
    auto least = p.scalar<float>("least", 1e30f);
    auto at = p.scalar<std::int64_t>("at", -1);
    for (auto j : p.loop("j", m))
      p.when(weight(j) > 0.5f, [&] {
        auto dx = p.let("dx", a(i, 0) - b(j, 0)), dy = p.let("dy", a(i, 1) - b(j, 1));
        auto d = p.let("d", sqrt(dx * dx + dy * dy) * weight(j));
        p.when(d < least, [&] {
          least = d;
          at = j;
        });
      });
    near(i) = least;
    j_near(i) = at;
  }
  for (auto i : p.loop("i", n))
    p.when(near(i) < 1e29f && near(i) > far, [&] {
      far = near(i);
      i_far = i;
      j_far = j_near(i);
    });
  distance() = far * far;
  pair(0) = cast<float>(i_far);
  pair(1) = cast<float>(j_far);
  return p.build();
}

}  // namespace

std::vector<Field> extrema() {
  return {{{"pivoted_elimination", "", pivoted_elimination, {{"n", 301}}}, {{{"n", 5}}, {{"n", 1}}, {{"n", 3}}}},
          {{"likeliest_path", "", likeliest_path, {{"T", 301}, {"n", 203}}},
           {{{"T", 4}, {"n", 3}}, {{"T", 1}, {"n", 1}}, {{"T", 2}, {"n", 71}}}},
          {{"farthest_of_nearest", "", farthest_of_nearest, {{"n", 2003}, {"m", 3001}}},
           {{{"n", 5}, {"m", 4}}, {{"n", 1}, {"m", 1}}, {{"n", 3}, {"m", 71}}}}};
}

}  // namespace loopgrad::fields

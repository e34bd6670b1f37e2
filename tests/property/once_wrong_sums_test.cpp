// How sums are done: see transforms/sums.
#include "tests/property/once_wrong.h"

namespace loopgrad::fuzz {
namespace {

/// Integers go from step to step: they do not follow from the inputs once for all.
Program random_numbers_of_steps() {
  ProgramBuilder p("random_numbers_of_steps");
  auto n = p.size("n"), steps = p.size("steps");
  auto first = p.input<int>("first", {n});
  auto v = p.input<double>("v", {n});
  auto s = p.inout<double>("s", {n});
  auto seed = p.local<std::int64_t>("seed", {n});
  p.in_range(first, 0, 1000);
  for (auto i : p.loop("i", n)) seed(i) = cast<std::int64_t>(first(i));
  for (auto t : p.loop("t", steps)) {
    for (auto i : p.loop("i", n)) seed(i) = (seed(i) * 1103515245 + 12345) % 2147483648;
    for (auto i : p.loop("i", n)) s(i) = s(i) * v(i) * s((i + 1) % n) + cast<double>(seed(i) % 1000) * 0.001;
  }
  return p.build();
}

/// Likewise by way of another array.
Program permutations_of_steps() {
  ProgramBuilder p("permutations_of_steps");
  auto n = p.size("n"), steps = p.size("steps");
  auto who = p.input<int>("who", {n});
  p.in_range(who, 0, n);
  auto w = p.input<double>("w", {n});
  auto s = p.inout<double>("s", {n});
  auto now = p.local<int>("now", {n}), next = p.local<int>("next", {n});
  for (auto i : p.loop("i", n)) now(i) = who(i);
  for (auto t : p.loop("t", steps)) {
    for (auto i : p.loop("i", n)) next(i) = now((i + 1) % n);
    for (auto i : p.loop("i", n)) s(i) = s(i) + 0.1 * w(i) * sin(s(next(i)));
    for (auto i : p.loop("i", n)) now(i) = next(i);
  }
  return p.build();
}

/// Likewise the places of sums.
Program places_that_move() {
  ProgramBuilder p("places_that_move");
  auto n = p.size("n"), steps = p.size("steps");
  auto idx = p.input<int>("idx", {n});
  auto x = p.input<double>("x", {steps, n});
  auto y = p.output<double>("y", {n});
  p.in_range(idx, 0, n);
  auto a = p.local<int>("a", {n});
  for (auto i : p.loop("i", n)) {
    a(i) = idx(i);
    y(i) = 0;
  }
  for (auto t : p.loop("t", steps)) {
    for (auto i : p.loop("i", n)) a(i) = (a(i) + 1) % n;
    for (auto i : p.loop("i", n)) y(a(i)) += x(t, i) * x(t, i);
  }
  return p.build();
}

/// The first of two updates of one element changes which the second one is of.
Program index_by_the_array_itself() {
  ProgramBuilder p("index_by_the_array_itself");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n});
  auto k = p.local<int>("k", {10});
  for (auto i : p.loop("i", 10)) k(i) = 0;
  k(k(0) % 10) = 5;
  k(k(0) % 10) += 3;
  for (auto i : p.loop("i", n)) y(i) = x(i) * x(i) * cast<double>(k(0));
  return p.build();
}

/// Sums into an element and its neighbour in the row, where there is one, from one order.
Program neighbours_of_rows() {
  ProgramBuilder p("neighbours_of_rows");
  auto n = p.size("n"), h = p.size("h"), w = p.size("w");
  auto u = p.input<double>("u", {n});
  auto v = p.input<double>("v", {n});
  auto x = p.input<double>("x", {n});
  auto mass = p.output<double>("mass", {h, w});
  for (auto i : p.loop("i", h))
    for (auto j : p.loop("j", w)) mass(i, j) = 0;
  for (auto i : p.loop("i", n)) {
    auto a = p.let("a", abs(sin(3 * u(i))) * cast<double>(h - 1)), b = p.let("b", abs(sin(5 * v(i))) * cast<double>(w));
    auto r = p.let("r", min(max(cast<std::int64_t>(a), 0), h - 1)),
         c = p.let("c", min(max(cast<std::int64_t>(b), 0), w - 1));
    auto f = p.let("f", b - cast<double>(c));
    mass(r, c) += x(i) * (1 - f);
    p.when(c + 1 < w, [&] { mass(r, c + 1) += x(i) * f; });
  }
  return p.build();
}

/// Likewise the gradient of a look-up between elements.
Program bilinear_reads() {
  ProgramBuilder p("bilinear_reads");
  auto n = p.size("n"), h = p.size("h"), w = p.size("w");
  auto r = p.input<std::int64_t>("r", {n});
  auto c = p.input<std::int64_t>("c", {n});
  auto f = p.input<double>("f", {n});
  auto img = p.input<double>("img", {h, w});
  auto y = p.output<double>("y", {n});
  p.in_range(r, 0, h);
  p.in_range(c, 0, w);
  for (auto i : p.loop("i", n)) {
    y(i) = 0;
    p.when(c(i) + 1 < w, [&] { y(i) += img(r(i), c(i) + 1) * f(i); });
    y(i) += img(r(i), c(i)) * (1 - f(i));
  }
  return p.build();
}

/// A sum that waits for the next step is of what an inner loop has left.
Program last_of_an_inner_loop() {
  ProgramBuilder p("last_of_an_inner_loop");
  auto n = p.size("n"), m = p.size("m"), steps = p.size("steps");
  auto b = p.input<double>("b", {m});
  auto x = p.input<double>("x", {n});
  auto v = p.inout<double>("v", {steps + 3, n});
  for (auto t : p.loop("t", 1, steps + 1)) {
    for (auto i : p.loop("i", n)) {
      v(t, i) += v(t - 1, i) * x(i);
    }
    for (auto i : p.loop("i", n)) {
      auto s = p.scalar<double>("s");
      for (auto j : p.loop("j", m)) s = b(j);
      v(t + 1, i) += s * 0.5;
    }
  }
  return p.build();
}

/// A row changes its own bound.
Program rows_that_shorten_themselves() {
  ProgramBuilder p("rows_that_shorten_themselves");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<double>("x", {n, m});
  auto y = p.output<double>("y", {});
  auto count = p.inout<int>("count", {n, m});
  y() = 0;
  for (auto i : p.loop("i", n))
    for (auto j : p.loop("j", 0, count(i, 0), {.at_most = {m}})) {
      y() += x(i, j) * x(i, j);
      count(i, j) = count(i, j) * 2;
    }
  return p.build();
}

/// At the last step a condition leaves out all sums into the next level, which does not exist.
Program level_that_need_not_exist() {
  ProgramBuilder p("level_that_need_not_exist");
  auto n = p.size("n"), q = p.size("q"), steps = p.size("steps");
  auto first = p.input<float>("first", {n});
  auto x = p.input<float>("x", {n});
  auto z = p.output<float>("z", {steps, q});
  auto pos = p.local<float>("pos", {n});
  for (auto t : p.loop("t", steps))
    for (auto k : p.loop("k", q)) z(t, k) = 0;
  for (auto i : p.loop("i", n)) pos(i) = first(i);
  for (auto t : p.loop("t", steps)) {
    for (auto i : p.loop("i", n)) pos(i) = pos(i) * 0.9f + sin(3.0f * pos((i + 1) % n)) + z(t, i % q);
    for (auto i : p.loop("i", n)) {
      auto k = p.let("k", cast<std::int64_t>(abs(sin(pos(i))) * cast<float>(q)) % q);
      p.when((x(i) > 0.5f) && (t + 1 < steps), [&] { z(t + 1, k) += x(i) * pos(i); });
    }
  }
  return p.build();
}

/// There is no step, and what its sums would be ordered by need not exist.
Program order_of_no_step() {
  ProgramBuilder p("order_of_no_step");
  auto n = p.size("n"), q = p.size("q"), m = p.size("m"), steps = p.size("steps");
  auto idx = p.input<int>("idx", {n});
  auto x = p.input<double>("x", {steps, m});
  auto y = p.output<double>("y", {q});
  p.in_range(idx, 0, q);
  for (auto k : p.loop("k", q)) y(k) = 0;
  auto s = p.scalar<double>("s", 1);
  for (auto t : p.loop("t", steps)) {
    s = s * 0.5 + sin(y(0));
    for (auto i : p.loop("i", m)) y(idx(i)) += s * x(t, i);
  }
  return p.build();
}

/// The body changes where its loop began.
Program start_that_moves() {
  ProgramBuilder p("start_that_moves");
  auto n = p.size("n"), q = p.size("q");
  auto start = p.input<int>("start", {n});
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {3 * q + 100});
  p.in_range(start, 0, q);
  for (auto k : p.loop("k", 3 * q + 100)) y(k) = 0;
  auto pos = p.scalar<std::int64_t>("pos", 0);
  for (auto i : p.loop("i", n)) {
    p.when(x(i) > 0.5, [&] { pos = cast<std::int64_t>(start(i)); });
    for (auto t : p.loop("t", pos, pos + 3)) {
      y(t) += x(i) * x(i);
      pos += 1;
    }
  }
  return p.build();
}

/// The trips of the loop over i vary with t, and those of the loop over k with j, which is inside.
Program triangle_in_triangle() {
  ProgramBuilder p("triangle_in_triangle");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<double>("x", {n, n}), c = p.input<double>("c", {m, m});
  auto y = p.output<double>("y", {n});
  auto h = p.scalar<double>("h"), s = p.scalar<double>("s");
  h = 0.3;
  for (auto t : p.loop("t", n)) {
    s = 0.0;
    for (auto i : p.loop("i", 0, t))
      for (auto j : p.loop("j", m))
        for (auto k : p.loop("k", 0, j + 1)) s += sin(x(t, i) * h) * c(j, k);
    h = 0.5 * tanh(s);
    y(t) = h;
  }
  return p.build();
}

/// Without an element of y nothing divides by their number.
Program key_of_no_element() {
  ProgramBuilder p("key_of_no_element");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {m});
  for (auto k : p.loop("k", m)) y(k) = 0.0;
  for (auto i : p.loop("i", n)) {
    auto key = p.let("key", cast<std::int64_t>(abs(x(i)) * 7.0));
    for (auto j : p.loop("j", m)) y(key % m) += x(i) * cast<double>(j);
  }
  return p.build();
}

/// Likewise with a key for each iteration of rows that there are none of.
Program key_of_no_row() {
  ProgramBuilder p("key_of_no_row");
  auto n = p.size("n"), m = p.size("m");
  auto idx = p.input<int>("idx", {n});
  p.in_range(idx, 0, 1000);
  auto x = p.input<double>("x", {n, m});
  auto y = p.inout<double>("y", {m, m});
  for (auto i : p.loop("i", n))
    for (auto j : p.loop("j", m)) y(idx(i) % m, j) += x(i, j) * x(i, j);
  return p.build();
}

/// Nothing reads the indices of rows without elements, of which there are none.
Program indices_of_no_row() {
  ProgramBuilder p("indices_of_no_row");
  auto n = p.size("n"), m = p.size("m"), k = p.size("k");
  auto idx = p.input<int>("idx", {n * m});
  p.in_range(idx, 0, k);
  auto x = p.input<double>("x", {n, m});
  auto y = p.inout<double>("y", {k, m});
  for (auto i : p.loop("i", n))
    for (auto j : p.loop("j", m)) y(idx(i * m), j) += x(i, j) * x(i, j);
  return p.build();
}

/// The order of all steps, of which there are none.
Program key_of_no_step() {
  ProgramBuilder p("key_of_no_step");
  auto n = p.size("n"), m = p.size("m");
  auto idx = p.input<int>("idx", {n});
  p.in_range(idx, 0, 1000);
  auto x = p.input<double>("x", {m, n});
  auto y = p.inout<double>("y", {7});
  for (auto t : p.loop("t", m))
    for (auto i : p.loop("i", n)) y(idx(i) % m % 7) += sin(x(t, i) * y(3));
  return p.build();
}

/// Bounds of trips far above them: their product is no number of 64 bits.
Program far_bounds() {
  ProgramBuilder p("far_bounds");
  auto n = p.size("n"), k = p.size("k"), m = p.size("m");
  auto x = p.input<double>("x", {n});
  auto key = p.input<std::int64_t>("key", {n}), len = p.input<std::int64_t>("len", {n});
  p.in_range(key, 0, 1);
  p.in_range(len, 1, 4);
  auto t = p.inout<double>("t", {m + 1});
  for (auto i : p.loop("i", n))
    for (auto e : p.loop("e", 0, len(i), {.at_most = {k * k * k}}))
      for (auto f : p.loop("f", 0, len(e), {.at_most = {k * k * k}}))
        t(key((i + e) % n)) += x(i) * x(i) + cast<double>(f);
  return p.build();
}

/// An instance beyond the end of its row has no row of its own to begin.
Program rows_of_no_entry() {
  ProgramBuilder p("rows_of_no_entry");
  auto n = p.size("n"), m = p.size("m"), l = p.size("l");
  auto len = p.input<int>("len", {n}), at = p.input<int>("at", {n}), idx = p.input<int>("idx", {2 * l});
  p.in_range(len, 0, 3);
  p.in_range(at, 0, l);
  p.in_range(idx, 0, m);
  auto x = p.input<double>("x", {2 * l});
  auto y = p.inout<double>("y", {m});
  for (auto v : p.loop("v", n - 3))
    for (auto e : p.loop("e", v, v + len(v), {.at_most = {l}}))
      for (auto f : p.loop("f", at(e), at(e) + len(e), {.at_most = {l}})) y(idx(f)) += sin(x(f)) * x(f);
  return p.build();
}

/// Data say which rows there are, in a loop around that makes no trip.
Program rows_from_data() {
  ProgramBuilder p("rows_from_data");
  auto n = p.size("n"), r = p.size("r"), ne = p.size("ne"), m = p.size("m"), d = p.size("d"), c = p.size("c");
  auto ptr = p.input<int>("ptr", {r + 1}), from = p.input<int>("from", {c}), idx = p.input<int>("idx", {ne});
  p.csr(ptr, ne);
  p.in_range(from, 0, r);
  p.in_range(idx, 0, m);
  auto x = p.input<double>("x", {ne, d});
  auto y = p.inout<double>("y", {m, d});
  for (auto k : p.loop("k", d))
    for (auto v : p.loop("v", from(0), n))
      for (auto e : p.loop("e", ptr(v), ptr(v + 1))) y(idx(e), k) += sin(x(e, k)) * x(e, k);
  return p.build();
}

/// More rows than there are, of no iteration. On a GPU they are found by their entries, on a CPU in front of the sums.
Program entries_of_no_row() {
  ProgramBuilder p("entries_of_no_row");
  auto n = p.size("n"), r = p.size("r"), ne = p.size("ne"), m = p.size("m"), d = p.size("d"), w = p.size("w");
  auto ptr = p.input<int>("ptr", {r + 1}), idx = p.input<int>("idx", {ne});
  p.csr(ptr, ne);
  p.in_range(idx, 0, m);
  auto x = p.input<double>("x", {ne, d});
  auto y = p.inout<double>("y", {m, d, w});
  for (auto k : p.loop("k", d))
    for (auto v : p.loop("v", n))
      for (auto e : p.loop("e", ptr(v), ptr(v + 1)))
        for (auto j : p.loop("j", w)) y(idx(e), k, j) += sin(x(e, k)) * x(e, k);
  return p.build();
}

/// Likewise where nothing says that they are rows.
Program bounds_of_no_row() {
  ProgramBuilder p("bounds_of_no_row");
  auto n = p.size("n"), r = p.size("r"), ne = p.size("ne"), m = p.size("m"), d = p.size("d");
  auto first = p.input<int>("first", {r}), end = p.input<int>("end", {r}), idx = p.input<int>("idx", {ne});
  p.in_range(first, 0, ne);
  p.in_range(end, 0, ne);
  p.in_range(idx, 0, m);
  auto x = p.input<double>("x", {ne, d});
  auto y = p.inout<double>("y", {m, d});
  for (auto k : p.loop("k", d))
    for (auto v : p.loop("v", n))
      for (auto e : p.loop("e", first(v), end(v))) y(idx(e), k) += sin(x(e, k)) * x(e, k);
  return p.build();
}

TEST(OnceWrong, RandomNumbersOfSteps) {
  expect_right(random_numbers_of_steps, {{{"n", 5}, {"steps", 3}}, {{"n", 40}, {"steps", 4}}});
}
TEST(OnceWrong, PermutationsOfSteps) {
  expect_right(permutations_of_steps, {{{"n", 5}, {"steps", 3}}, {{"n", 40}, {"steps", 4}}});
}
TEST(OnceWrong, PlacesThatMove) {
  expect_right(places_that_move, {{{"n", 5}, {"steps", 3}}, {{"n", 40}, {"steps", 4}}});
}
TEST(OnceWrong, IndexByTheArrayItself) { expect_right(index_by_the_array_itself, {{{"n", 7}}, {{"n", 12}}}); }
TEST(OnceWrong, NeighboursOfRows) { expect_right(neighbours_of_rows, {{{"n", 50}, {"h", 5}, {"w", 4}}}); }
TEST(OnceWrong, BilinearReads) { expect_right(bilinear_reads, {{{"n", 50}, {"h", 5}, {"w", 4}}}); }
TEST(OnceWrong, LastOfAnInnerLoop) { expect_right(last_of_an_inner_loop, {{{"n", 7}, {"m", 3}, {"steps", 4}}}); }
TEST(OnceWrong, RowsThatShortenThemselves) { expect_right(rows_that_shorten_themselves, {{{"n", 3}, {"m", 40}}}); }
TEST(OnceWrong, LevelThatNeedNotExist) {
  expect_right(level_that_need_not_exist, {{{"n", 50}, {"q", 5}, {"steps", 3}}});
}
TEST(OnceWrong, OrderOfNoStep) {
  expect_right(order_of_no_step,
               {{{"n", 3}, {"q", 400}, {"m", 50}, {"steps", 0}}, {{"n", 50}, {"q", 4}, {"m", 50}, {"steps", 2}}});
}
TEST(OnceWrong, StartThatMoves) { expect_right(start_that_moves, {{{"n", 50}, {"q", 9}}}); }
TEST(OnceWrong, KeyOfNoElement) {
  expect_right(key_of_no_element, {{{"n", 3}, {"m", 0}}, {{"n", 50}, {"m", 3}}, {{"n", 0}, {"m", 2}}});
}
TEST(OnceWrong, KeyOfNoRow) { expect_right(key_of_no_row, {{{"n", 30}, {"m", 0}}, {{"n", 40}, {"m", 3}}}); }
TEST(OnceWrong, IndicesOfNoRow) {
  expect_right(indices_of_no_row, {{{"n", 30}, {"m", 0}, {"k", 4}}, {{"n", 40}, {"m", 3}, {"k", 5}}});
}
TEST(OnceWrong, KeyOfNoStep) { expect_right(key_of_no_step, {{{"n", 30}, {"m", 0}}, {{"n", 40}, {"m", 3}}}); }
TEST(OnceWrong, FarBounds) {
  expect_right(far_bounds, {{{"n", 16}, {"k", 1 << 20}, {"m", 301}}, {{"n", 16}, {"k", 1000}, {"m", 300}}});
}
TEST(OnceWrong, RowsOfNoEntry) {
  expect_right(rows_of_no_entry, {{{"n", 9}, {"m", 6}, {"l", 12}}, {{"n", 4}, {"m", 6}, {"l", 9}}});
}
TEST(OnceWrong, RowsFromData) {
  expect_right(rows_from_data, {{{"n", 3}, {"r", 4}, {"ne", 9}, {"m", 6}, {"d", 0}, {"c", 0}},
                                {{"n", 3}, {"r", 4}, {"ne", 9}, {"m", 6}, {"d", 2}, {"c", 3}}});
}
TEST(OnceWrong, EntriesOfNoRow) {
  expect_right(entries_of_no_row, {{{"n", 13}, {"r", 4}, {"ne", 9}, {"m", 6}, {"d", 0}, {"w", 2}},
                                   {{"n", 13}, {"r", 4}, {"ne", 2100}, {"m", 6}, {"d", 0}, {"w", 8}},
                                   {{"n", 4}, {"r", 4}, {"ne", 9}, {"m", 6}, {"d", 2}, {"w", 3}}});
}
TEST(OnceWrong, BoundsOfNoRow) {
  expect_right(bounds_of_no_row, {{{"n", 9}, {"r", 4}, {"ne", 9}, {"m", 6}, {"d", 0}}});
}
TEST(OnceWrong, TriangleInTriangle) {
  expect_right(triangle_in_triangle, {{{"n", 3}, {"m", 3}}, {{"n", 2}, {"m", 1}}});
}

}  // namespace
}  // namespace loopgrad::fuzz

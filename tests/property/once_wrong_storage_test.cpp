// What elements become of arrays: see transforms/storage.
#include "tests/property/once_wrong.h"

namespace loopgrad::fuzz {
namespace {

/// Of the local that is copied to y data choose elements that an earlier step has written, too.
Program read_by_index() {
  ProgramBuilder p("read_by_index");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n, n});
  auto idx = p.input<int>("idx", {n, n});
  auto y = p.output<double>("y", {n, n});
  auto z = p.output<double>("z", {n, n});
  p.in_range(idx, 0, n);
  auto v = p.local<double>("v", {n});
  for (auto t : p.loop("t", n)) {
    for (auto i : p.loop("i", t, n)) v(i) = sin(x(t, i));
    for (auto i : p.loop("i", t, n)) y(t, i) = v(i);
    for (auto i : p.loop("i", n)) z(t, i) = v(idx(t, i)) * v(idx(t, i));
  }
  return p.build();
}

/// Likewise computed places.
Program read_by_remainder() {
  ProgramBuilder p("read_by_remainder");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n, n});
  auto y = p.output<double>("y", {n, n});
  auto z = p.output<double>("z", {n, n});
  auto v = p.local<double>("v", {n});
  for (auto t : p.loop("t", n)) {
    for (auto i : p.loop("i", t, n)) v(i) = sin(x(t, i));
    for (auto i : p.loop("i", t, n)) y(t, i) = v(i);
    for (auto i : p.loop("i", n)) z(t, i) = v((i * i + t * 7) % n) * v((i * i) % n);
  }
  return p.build();
}

/// The border is filled from the last level to the first.
Program border_from_the_end() {
  ProgramBuilder p("border_from_the_end");
  auto T = p.size("T"), n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto c = p.input<double>("c", {T});
  auto y = p.output<double>("y", {n});
  auto v = p.local<double>("v", {T + 1, n});
  for (auto i : p.loop("i", n)) v(0, i) = x(i);
  for (auto t : p.loop("t", T, {.descending = true})) v(t + 1, 0) = c(t);
  for (auto t : p.loop("t", T))
    for (auto i : p.loop("i", 1, n)) v(t + 1, i) = sin(v(t, i)) + v(t, i - 1) * v(t, i);
  for (auto i : p.loop("i", n)) y(i) = v(T, i);
  return p.build();
}

/// A condition keeps entries of rows inside of the array, of which rows are cleared.
Program rows_beyond_the_array() {
  ProgramBuilder p("rows_beyond_the_array");
  auto n = p.size("n"), e = p.size("e"), m = p.size("m");
  auto ptr = p.input<int>("ptr", {n + 1});
  auto x = p.input<double>("x", {e});
  auto y = p.output<double>("y", {n});
  p.csr(ptr, e);
  for (auto v : p.loop("v", n)) {
    auto s = p.local<double>("s", {m});
    for (auto k : p.loop("k", m)) s(k) = 0;
    for (auto a : p.loop("a", ptr(v), ptr(v + 1))) p.when(a < m, [&] { s(a) += x(a) * x(a); });
    y(v) = 0;
    for (auto a : p.loop("a", ptr(v), ptr(v + 1))) p.when(a < m, [&] { y(v) += s(a) * s(a); });
  }
  return p.build();
}

/// Likewise what only the adjoint clears.
Program rows_beyond_the_adjoint() {
  ProgramBuilder p("rows_beyond_the_adjoint");
  auto n = p.size("n"), e = p.size("e"), m = p.size("m");
  auto ptr = p.input<int>("ptr", {n + 1});
  auto x = p.input<double>("x", {e});
  auto y = p.output<double>("y", {n});
  p.csr(ptr, e);
  for (auto v : p.loop("v", n)) {
    auto s = p.local<double>("s", {m});
    for (auto a : p.loop("a", ptr(v), ptr(v + 1))) p.when(a < m, [&] { s(a) = x(a) * x(a); });
    y(v) = 0;
    for (auto a : p.loop("a", ptr(v), ptr(v + 1)))
      for (auto b : p.loop("b", ptr(v), ptr(v + 1))) p.when(a < m && b < m, [&] { y(v) += sin(s(a) - s(b) * x(a)); });
  }
  return p.build();
}

/// Which elements are filled the steps change afterwards.
Program fill_under_a_mask() {
  ProgramBuilder p("fill_under_a_mask");
  auto T = p.size("T"), n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto kind = p.input<int>("kind", {T + 1, n});
  p.in_range(kind, 0, 6);
  auto y = p.output<double>("y", {n});
  auto v = p.local<double>("v", {T + 1, n});
  auto mask = p.local<int>("mask", {T + 1, n});
  for (auto l : p.loop("l", T + 1))
    for (auto i : p.loop("i", n)) mask(l, i) = kind(l, i);
  for (auto l : p.loop("l", T + 1))
    for (auto i : p.loop("i", n)) p.when(mask(l, i) % 2 == 0, [&] { v(l, i) = 0.5; });
  for (auto i : p.loop("i", n)) p.when(kind(0, i) % 2 != 0, [&] { v(0, i) = x(i); });
  for (auto t : p.loop("t", T)) {
    for (auto l : p.loop("l", T + 1))
      for (auto i : p.loop("i", n)) mask(l, i) = 1;
    for (auto i : p.loop("i", n))
      p.when(kind(t + 1, i) % 2 != 0, [&] { v(t + 1, i) = 0.5 * v(t, i) + 0.25 * v(t, (i + 1) % n); });
  }
  for (auto i : p.loop("i", n)) y(i) = v(T, i) * v(T, i) * cast<double>(mask(T, i));
  return p.build();
}

/// Likewise how many.
Program fill_up_to_a_count() {
  ProgramBuilder p("fill_up_to_a_count");
  auto T = p.size("T"), n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto cut = p.input<int>("cut", {T + 1});
  auto y = p.output<double>("y", {n});
  p.in_range(cut, 0, n);
  auto v = p.local<double>("v", {T + 1, n});
  auto c = p.local<int>("c", {T + 1});
  for (auto l : p.loop("l", T + 1)) c(l) = cut(l);
  for (auto l : p.loop("l", T + 1))
    for (auto i : p.loop("i", 0, c(l))) v(l, i) = 0.5;
  for (auto i : p.loop("i", n)) p.when(i >= cut(0), [&] { v(0, i) = x(i); });
  for (auto t : p.loop("t", T)) {
    for (auto l : p.loop("l", T + 1)) c(l) = c(l) / 2;
    for (auto i : p.loop("i", n))
      p.when(i >= cut(t + 1), [&] { v(t + 1, i) = 0.5 * v(t, i) * x(i) + 0.25 * v(t, (i + 1) % n); });
  }
  for (auto i : p.loop("i", n)) y(i) = v(T, i) * v(T, i) + c(T);
  return p.build();
}

/// The loop stores to the element that its bound is read from.
Program bound_of_its_own_array() {
  ProgramBuilder p("bound_of_its_own_array");
  auto n = p.size("n"), m = p.size("m");
  auto cnt = p.inout<int>("cnt", {n});
  for (auto i : p.loop("i", n)) cnt(i) = cast<int>(n) - cast<int>(i) / 2;
  auto q = p.input<double>("q", {n, m});
  auto y = p.output<double>("y", {n, n});
  for (auto l : p.loop("l", n))
    for (auto o : p.loop("o", n)) y(l, o) = 0.0;
  for (auto l : p.loop("l", n)) {
    for (auto o : p.loop("o", 0, min(n, cast<std::int64_t>(cnt(l))), {.at_most = {n}})) {
      y(l, o) = select(o > 1, sin(q(l, 0)), 1.0);
      cnt(l) = 1;
    }
  }

  return p.build();
}

TEST(OnceWrong, ReadByIndex) { expect_right(read_by_index, {{{"n", 4}}, {{"n", 5}}}); }
TEST(OnceWrong, ReadByRemainder) { expect_right(read_by_remainder, {{{"n", 4}}, {{"n", 5}}}); }
TEST(OnceWrong, BorderFromTheEnd) { expect_right(border_from_the_end, {{{"T", 4}, {"n", 5}}, {{"T", 7}, {"n", 4}}}); }
TEST(OnceWrong, RowsBeyondTheArray) { expect_right(rows_beyond_the_array, {{{"n", 4}, {"e", 12}, {"m", 5}}}); }
TEST(OnceWrong, RowsBeyondTheAdjoint) { expect_right(rows_beyond_the_adjoint, {{{"n", 4}, {"e", 12}, {"m", 5}}}); }
TEST(OnceWrong, FillUnderAMask) { expect_right(fill_under_a_mask, {{{"T", 4}, {"n", 5}}, {{"T", 7}, {"n", 4}}}); }
TEST(OnceWrong, FillUpToACount) { expect_right(fill_up_to_a_count, {{{"T", 4}, {"n", 5}}, {{"T", 7}, {"n", 4}}}); }
TEST(OnceWrong, BoundOfItsOwnArray) {
  expect_right(bound_of_its_own_array, {{{"n", 70}, {"m", 5}}, {{"n", 7}, {"m", 20}}});
}

}  // namespace
}  // namespace loopgrad::fuzz

// Copies, other names and whole numbers that wrap around.
#include "tests/property/once_wrong.h"

namespace loopgrad::fuzz {
namespace {

/// Iterations of a register tile that are copied have the locals of a branch in common.
Program local_of_a_branch() {
  ProgramBuilder p("local_of_a_branch");
  auto n = p.size("n"), m = p.size("m"), k = p.size("k");
  auto a = p.input<float>("a", {n, k}), b = p.input<float>("b", {k, m}), w = p.input<float>("w", {m});
  auto y = p.output<float>("y", {n, m});
  for (auto [i, j] : p.loop({"i", n}, {"j", m})) {
    auto s = p.scalar<float>("s", 0);
    for (auto l : p.loop("l", k)) s += a(i, l) * b(l, j);
    p.when(w(j) > 0.0f, [&] {
      auto t = p.scalar<float>("t", 0);
      t += sin(s);
      t *= w(j);
      t += cos(t);
      s += t * t;
    });
    y(i, j) = s;
  }
  return p.build();
}

/// The same with adjoints at once.
Program clipped_neighbours() {
  ProgramBuilder p("clipped_neighbours");
  auto n = p.size("n");
  auto x = p.input<half>("x", {n + 1, n});
  auto y = p.output<half>("y", {n, n});
  for (auto i : p.loop("i", n))
    for (auto j : p.loop("j", n)) y(i, j) = erf(x(max(i - 1, 0), min(i + 1, n - 1)));
  return p.build();
}

/// What bounds are read from changes under another name between the fill and the loops.
Program bounds_under_another_name() {
  ProgramBuilder p("bounds_under_another_name");
  auto n = p.size("n"), m = p.size("m");
  auto cnt = p.inout<int>("cnt", {n});
  auto other = p.inout<int>("other", {n});
  p.may_alias(cnt, other);
  auto x = p.input<double>("x", {n, m});
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", n)) {
    y(i) = 0;
    auto t = p.local<double>("t", {m});
    for (auto k : p.loop("k", m)) t(k) = 0;
    other(i) = 4;
    for (auto k : p.loop("k", 0, min(cnt(i), cast<int>(m)))) t(k) += x(i, k) * x(i, k);
    for (auto k : p.loop("k", 0, min(cnt(i), cast<int>(m)))) y(i) += t(k) * t(k);
  }
  return p.build();
}

/// One fill decides under another name about a fill of a later iteration.
Program fills_under_another_name() {
  ProgramBuilder p("fills_under_another_name");
  auto n = p.size("n");
  auto c = p.inout<int>("c", {n}), o = p.inout<int>("o", {n});
  auto b = p.inout<int>("b", {n});
  p.may_alias(c, o);
  for (auto i : p.loop("i", n)) c(i) = cast<int>(i) * 5 - 7;
  for (auto i : p.loop("i", n)) b(i) = 9;
  for (auto i : p.loop("i", n)) {
    o(i) = 0;
    p.when(c((i + 1) % n) != 0, [&] { b(i) = 0; });
  }
  return p.build();
}

/// A row's key changes under another name.
Program key_under_another_name() {
  ProgramBuilder p("key_under_another_name");
  auto n = p.size("n"), m = p.size("m");
  auto q = p.inout<int>("q", {n + 1}), r = p.inout<int>("r", {n + 1});
  p.may_alias(q, r);
  auto x = p.input<double>("x", {n, m});
  auto y = p.inout<double>("y", {n, m});
  for (auto i : p.loop("i", n + 1)) q(i) = cast<int>((i * 5 + 1) % n);
  for (auto i : p.loop("i", n))
    for (auto j : p.loop("j", m)) {
      y(i, q(0) % m) += x(i, j) * cast<double>(q(1));
      r(j % 2) = cast<int>(i + j);
    }
  return p.build();
}

/// All nests end before they begin: a window of a negative number of strips.
Program rows_that_end_early() {
  ProgramBuilder p("rows_that_end_early");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<float>("x", {n, m});
  auto y = p.inout<float>("y", {n, m});
  auto a = p.local<float>("a", {n, m});
  for (auto [i, j] : p.loop({"i", 4, n - 4}, {"j", m})) a(i, j) = x(i - 1, j) * x(i, j);
  for (auto [i, j] : p.loop({"i", 4, n - 4}, {"j", m})) y(i, j) += a(i, j) * a(i, m - 1 - j);
  return p.build();
}

/// Products that leave 64 bits have negative remainders in C++, and are indices no more.
Program hashed_counter() {
  ProgramBuilder p("hashed_counter");
  auto n = p.size("n");
  auto table = p.input<double>("table", {1024});
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", 0, n)) y(i) = table((i * i * 1103515245 + 12345) % 1024) * 2.0;
  return p.build();
}

/// The same with few iterations.
Value hash7(const Value& i) { return i * i * i * i * i * i * i * 2654435761; }
Program hash_scatter() {
  ProgramBuilder p("hash_scatter");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {64});
  for (auto k : p.loop("k", 0, 64)) y(k) = 0.0;
  for (auto i : p.loop("i", 0, n)) y(hash7(i) % 64) += x(i) * x(i);
  return p.build();
}

/// Of 64-bit ids that a true fact says are not negative.
Program hashed_ids() {
  ProgramBuilder p("hashed_ids");
  auto n = p.size("n");
  auto id = p.input<std::int64_t>("id", {n});
  auto table = p.input<double>("table", {1024});
  auto y = p.output<double>("y", {n});
  p.in_range(id, 0, std::int64_t(1) << 40);
  for (auto i : p.loop("i", 0, n)) y(i) = table((id(i) * 2654435761) % 1024) * 2.0;
  return p.build();
}
Program hashed_pairs() {
  ProgramBuilder p("hashed_pairs");
  auto n = p.size("n");
  auto a = p.input<std::int64_t>("a", {n}), b = p.input<std::int64_t>("b", {n});
  auto table = p.input<double>("table", {8});
  auto y = p.output<double>("y", {n});
  p.in_range(a, 0, std::int64_t(1) << 40);
  p.in_range(b, 0, std::int64_t(1) << 40);
  for (auto i : p.loop("i", 0, n)) y(i) = table((a(i) * b(i)) % 8) * 2.0;
  return p.build();
}

/// What iterations that do not fit have is above those that do, and there is no such iteration.
Program search_default() {
  ProgramBuilder p("search_default");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<double>("x", {n, m});
  auto y = p.output<double>("y", {n});
  auto q = p.output<std::int64_t>("q", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto on = p.local<bool>("on", {m});
    auto last = p.scalar<std::int64_t>("last");
    for (auto j : p.loop("j", 0, m)) on(j) = x(i, j) > -2.0;
    last = -1;
    for (auto j : p.loop("j", 0, m)) last.max_with(select(on(j), j, 1000));
    q(i) = last;
    y(i) = x(i, last % m) * 2.0;
  }
  return p.build();
}

/// The naive tape of a column goes through a stack: its iterations are no lanes.
Program stack_of_columns() {
  ProgramBuilder p("stack_of_columns");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<float>("x", {m, n});
  auto y = p.output<float>("y", {}), total = p.output<float>("total", {}), acc = p.output<float>("acc", {});
  acc() = 0.5f;
  y() = 0;
  for (auto j : p.loop("j", n)) {
    auto s = p.scalar<float>("s");
    for (auto k : p.loop("k", m)) s = x(k, j);
    p.when(j == m, [&] {
      acc() = tanh(s);
      y() += 0.5f;
    });
  }
  total() = acc();
  return p.build();
}

TEST(OnceWrong, Copies) {
  expect_right(stack_of_columns, {{{"n", 5}, {"m", 3}}, {{"n", 0}, {"m", 0}}});
  expect_right(local_of_a_branch, {{{"n", 5}, {"m", 6}, {"k", 4}}});
  expect_right(clipped_neighbours, {{{"n", 3}}});
  expect_right(rows_that_end_early, {{{"n", 0}, {"m", 2}}, {{"n", 2}, {"m", 2}}});
}

TEST(OnceWrong, OtherNames) {
  expect_right(bounds_under_another_name, {{{"n", 5}, {"m", 7}}});
  expect_right(fills_under_another_name, {{{"n", 5}}});
  expect_right(key_under_another_name, {{{"n", 6}, {"m", 5}}});
}

TEST(OnceWrong, WholeNumbersThatWrap) {
  expect_right_compiled({{hashed_counter, {{"n", 100000}}},
                         {hash_scatter, {{"n", 400}}},
                         {hashed_ids, {{"n", 400}}},
                         {hashed_pairs, {{"n", 400}}},
                         {search_default, {{"n", 9}, {"m", 50}}}});
}

}  // namespace
}  // namespace loopgrad::fuzz

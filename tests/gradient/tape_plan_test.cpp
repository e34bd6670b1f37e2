// Programs in which values are saved, computed again and follow from each other in every mixture.
#include "tests/gradient/jacobian.h"

namespace loopgrad::test {
namespace {

/// Stiff reactions between steps of transport, with rates that are bounded, in place.
TEST(TapePlan, ReactionsInPlace) {
  ProgramBuilder p("reactions");
  auto n = p.size("n"), steps = p.size("steps");
  auto c = p.inout<double>("c", {n, 2});
  auto rate = p.input<double>("rate", {2});
  for (auto s : p.loop("s", 0, steps)) {
    (void)s;
    for (auto i : p.loop("i", 0, n)) {
      auto a = p.scalar<double>("a"), b = p.scalar<double>("b"), k = p.scalar<double>("k");
      a = c(i, 0);
      b = c(i, 1);
      k = rate(0) * a * b;
      p.when(k > 0.4, [&] { k = 0.4 + 0.1 * (k - 0.4); });
      a -= 0.1 * k;
      p.when(a > 0.9, [&] { a = a * a; }).otherwise([&] {
        k = k * rate(1);
        b = b + k * a;
      });
      b += 0.1 * k * b;
      c(i, 0) = a * b;
      c(i, 1) = b - 0.2 * a;
    }
    for (auto i : p.loop("i", 1, n)) c(i, 0) = 0.5 * (c(i, 0) + c(i - 1, 0) * c(i, 1));
  }
  EXPECT_TRUE(gradient_is_right(p.build(), {.sizes = {{"n", 3}, {"steps", 3}}, .values = {}, .options = {}}));
}

/// De Casteljau's scheme overwrites its points, and which piece a parameter is in is found by going through knots.
TEST(TapePlan, PointsOnACurve) {
  ProgramBuilder p("curve");
  auto n = p.size("n"), pieces = p.size("pieces");
  auto at = p.input<double>("at", {n}), control = p.input<double>("control", {pieces, 4, 2});
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto t = p.scalar<double>("t");
    auto piece = p.scalar<int>("piece");
    t = at(i);
    piece = 0;
    for (auto k : p.loop("k", 1, pieces)) {
      (void)k;
      p.when(t > 0.5, [&] {
        t = t - 0.5;
        piece += 1;
      });
    }
    t = 2.0 * t;
    p.when(t > 1.0, [&] { t = 1.0 + 0.01 * (t - 1.0); });
    auto b = p.local<double>("b", {4, 2});
    for (auto k : p.loop("k", 0, 4))
      for (auto c : p.loop("c", 0, 2)) b(k, c) = control(piece, k, c);
    for (auto level : p.loop("level", 1, 4))
      for (auto k : p.loop("k", 0, 4 - level))
        for (auto c : p.loop("c", 0, 2)) b(k, c) = (1.0 - t) * b(k, c) + t * b(k + 1, c);
    auto length = p.scalar<double>("length");
    length = 0.0;
    for (auto c : p.loop("c", 0, 2)) length += b(0, c) * b(0, c);
    y(i) = sqrt(length) * t;
  }
  const Inputs inputs{.sizes = {{"n", 4}, {"pieces", 3}}, .values = {{"at", {0.2, 0.61, 0.9, 1.43}}}, .options = {}};
  EXPECT_TRUE(gradient_is_right(p.build(), inputs));
}

/// Scalars that are swapped, that start in one branch only, and that a loop carries on after they were read.
TEST(TapePlan, ScalarsThatChangeHands) {
  ProgramBuilder p("hands");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n}), z = p.output<double>("z", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto u = p.scalar<double>("u"), v = p.scalar<double>("v"), swapped = p.scalar<double>("swapped");
    auto late = p.scalar<double>("late");
    u = x(i) * x(i);
    v = sin(x(i));
    p.when(u > v, [&] {
       swapped = u;
       u = v;
       v = swapped;
       late = v * u;
       p.when(late > 0.3, [&] {
         late = late * late;
         v *= late;
       });
       z(i) = late * v;
     }).otherwise([&] { z(i) = u * v * v; });
    y(i) = u * u * v;
    for (auto k : p.loop("k", 0, i + 1)) {
      y(i) += sin(u) * v;
      u = 0.5 * sin(u) * x(k) + 0.1 * v;
      p.when(u > 0.3, [&] { u = u * u; });
      v = 0.5 * v + u * u;
    }
    y(i) += u * v;
    u = cos(u);
    y(i) = y(i) * u;
  }
  EXPECT_TRUE(gradient_is_right(p.build(), {.sizes = {{"n", 5}}, .values = {}, .options = {}}));
}

/// The entries of small matrices by rows that are picked by data, their determinants, and a choice by a sum of them.
TEST(TapePlan, DeterminantsOfPickedRows) {
  ProgramBuilder p("determinants");
  auto n = p.size("n"), rows = p.size("rows");
  auto a = p.inout<double>("a", {rows, 3});
  auto pick = p.input<int>("pick", {n, 3});
  p.in_range(pick, 0, rows);
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto m = p.local<double>("m", {3, 3});
    auto trace = p.scalar<double>("trace"), d = p.scalar<double>("d");
    trace = 0.0;
    for (auto r : p.loop("r", 0, 3)) {
      for (auto c : p.loop("c", 0, 3)) m(r, c) = a(pick(i, r), c) * (1.0 + 0.1 * a(pick(i, r), 0));
      trace += m(r, r);
    }
    d = m(0, 0) * (m(1, 1) * m(2, 2) - m(1, 2) * m(2, 1)) - m(0, 1) * (m(1, 0) * m(2, 2) - m(1, 2) * m(2, 0));
    p.when(trace > 2.1, [&] { d = d * trace; }).otherwise([&] { d = d / trace + m(2, 0); });
    y(i) = d * d;
    for (auto c : p.loop("c", 0, 3)) a(pick(i, 0), c) = 0.5 * a(pick(i, 0), c) + 0.1 * d * m(1, c);
  }
  const Inputs inputs{
      .sizes = {{"n", 4}, {"rows", 4}}, .values = {{"pick", {0, 1, 2, 1, 1, 3, 3, 0, 2, 0, 2, 1}}}, .options = {}};
  EXPECT_TRUE(gradient_is_right(p.build(), inputs));
}

/// What the program asks for changes where values come from, and no gradient.
TEST(TapePlan, ValuesThatAreSavedOrComputedAgainOnRequest) {
  for (const int wish : {0, 1, 2}) {
    ProgramBuilder p("wishes");
    auto n = p.size("n"), m = p.size("m");
    auto x = p.inout<double>("x", {n, m});
    auto w = p.input<double>("w", {m});
    for (auto i : p.loop("i", 0, n)) {
      auto sum = p.scalar<double>("sum", 0.0);
      for (auto j : p.loop("j", 0, m)) sum += x(i, j) * w(j);
      auto size = p.let("size", sum * sum + 1.0);
      auto half = p.scalar<double>("half");
      p.when(x(i, 0) > 0.5, [&] { half = sin(size); }).otherwise([&] { half = size * w(0); });
      if (wish == 1) {
        p.save(sum);
        p.save(size);
        p.save(half);
      } else if (wish == 2) {
        p.recompute(sum);
        p.recompute(size);
        p.recompute(half);
      }
      for (auto j : p.loop("j", 0, m)) x(i, j) = x(i, j) * half / size;
    }
    EXPECT_TRUE(gradient_is_right(p.build(), {.sizes = {{"n", 3}, {"m", 4}}, .values = {}, .options = {}})) << wish;
  }
}

/// States of sequences whose length data decide, each of which is read for all elements of the next one; where a loop
/// around the reads changes what they read, each has its own.
Program recurrent(bool also_changes, bool conditional) {
  ProgramBuilder p("recurrent");
  auto n = p.size("n"), most = p.size("most"), k = p.size("k");
  auto x = p.input<double>("x", {n, most}), w = p.input<double>("w", {k, k});
  auto length = p.input<int>("length", {n});
  auto y = p.output<double>("y", {n, k});
  for (auto i : p.loop("i", n)) {
    auto h = p.local<double>("h", {k}), next = p.local<double>("next", {k});
    for (auto j : p.loop("j", k)) h(j) = 0.3;
    for (auto t : p.loop("t", 0, length(i), {.at_most = {most}})) {
      for (auto j : p.loop("j", k)) {
        auto sum = p.scalar<double>("sum", x(i, t));
        const auto add = [&] {
          for (auto l : p.loop("l", k)) sum += w(j, l) * h(l) * h(l);
        };
        if (conditional) p.when(w(j, 0) > 0.2, add);
        else add();
        next(j) = sin(sum);
        if (also_changes) h(j) = 0.5 * h(j);
      }
      for (auto j : p.loop("j", k)) h(j) = next(j);
    }
    for (auto j : p.loop("j", k)) y(i, j) = h(j);
  }
  return p.build();
}

TEST(TapePlan, StatesThatAllElementsRead) {
  for (const bool also_changes : {false, true}) {
    for (const bool conditional : {false, true}) {
      const Program program = recurrent(also_changes, conditional);
      const std::string forward = differentiate(program, {}).forward.str();
      EXPECT_EQ(forward.find("h_tape[n, most, k, k]") != std::string::npos, also_changes) << forward;
      EXPECT_EQ(forward.find("h_tape[n, most, k]\n") != std::string::npos, !also_changes) << forward;
      for (const std::int64_t k : {0, 1, 3})
        EXPECT_TRUE(gradient_is_right(
            program, {.sizes = {{"n", 2}, {"most", 4}, {"k", k}}, .values = {{"length", {3, 0}}}, .options = {}}))
            << also_changes << conditional << k;
    }
  }
}

/// Sums in arrays that are used again in each step: their terms are not saved. `rows`: that are as long as all, as long
/// as there are elements before, or used while they grow.
enum class Rows { Whole, Triangle, Growing };
Program summed_in_arrays(Rows rows) {
  ProgramBuilder p("summed_in_arrays");
  auto n = p.size("n"), m = p.size("m"), steps = p.size("steps");
  auto a = p.input<double>("a", {n, m});
  auto x = p.inout<double>("x", {m});
  auto y = p.output<double>("y", {n});
  auto r = p.output<double>("r", {n});
  for (auto i : p.loop("i0", n)) {
    y(i) = 0.0;
    r(i) = 0.0;
  }
  for (auto t : p.loop("t", steps)) {
    for (auto i : p.loop("i", n)) {
      r(i) = 0.1;
      for (auto j : p.loop("j", 0, rows == Rows::Triangle ? i + 1 : Value(m))) {
        r(i) += a(i, j) * x(j);
        if (rows == Rows::Growing) y(i) += sin(r(i));
      }
    }
    for (auto [j, i] : p.loop({"j2", m}, {"i2", n})) {
      x(j) += 0.1 * r(i) * a(i, j);
      y(i) += r(i) * r(i) * cast<double>(t + 1);
    }
  }
  return p.build();
}

TEST(TapePlan, TermsOfSumsThatNobodyReadsAreNotSaved) {
  for (const Rows rows : {Rows::Whole, Rows::Triangle, Rows::Growing}) {
    const Program program = summed_in_arrays(rows);
    const Gradient gradient = differentiate(program, {});
    const std::string forward = gradient.forward.str();
    const bool all = rows == Rows::Growing;
    EXPECT_EQ(forward.find("r_tape[steps, n]\n") != std::string::npos, !all) << forward;
    EXPECT_EQ(forward.find("r_tape[steps, n, m]\n") != std::string::npos, all) << forward;
    EXPECT_EQ(forward.find("r_tape[t, i] = r[i]\n") != std::string::npos, !all) << forward;
    for (const std::int64_t n : {1, 3})
      EXPECT_TRUE(
          gradient_is_right(program, {.sizes = {{"n", n}, {"m", 3}, {"steps", 3}}, .values = {}, .options = {}}))
          << static_cast<int>(rows) << n;
  }
  const Gradient whole = differentiate(summed_in_arrays(Rows::Whole), {});
  const auto read = std::find_if(whole.report.tape.begin(), whole.report.tape.end(),
                                 [](const TapeDecision& value) { return value.value == "r[i2]"; });
  ASSERT_NE(read, whole.report.tape.end());
  EXPECT_EQ(read->storage + " " + read->elements, "r_tape[t, i2] steps*n");
}

/// Flows along edges, which read their nodes three times, by what data or sizes choose.
Program flows(bool all_are_set, bool changes_between) {
  ProgramBuilder p("flows");
  auto n = p.size("n"), edges = p.size("edges"), steps = p.size("steps");
  auto from = p.input<int>("from", {edges}), to = p.input<int>("to", {edges});
  p.in_range(from, 0, n);
  p.in_range(to, 0, n);
  auto x = p.inout<double>("x", {n}), y = p.output<double>("y", {n, 2});
  auto h = p.local<double>("h", {n + 1, 2}), flow = p.local<double>("flow", {edges});
  for (auto i : p.loop("i", n + (all_are_set ? 1 : 0)))
    for (auto c : p.loop("c", 2)) h(i, c) = x(min(i, n - 1)) * cast<double>(c + 1);
  for (auto t : p.loop("t", steps)) {
    (void)t;
    for (auto e : p.loop("e", edges)) {
      flow(e) = h(from(e), 0) * h(to(e), 1) - h(from(e), 1) * h(to(e), 0) * h(e % n, 0);
      if (changes_between) h(to(e), 0) = h(to(e), 0) * 0.5;
    }
    for (auto e : p.loop("e2", edges)) h(to(e), 0) += 0.1 * flow(e);
    for (auto i : p.loop("i2", n)) h(i, 1) = h(i, 1) * h(i, 0) * 0.3;
  }
  for (auto [i, c] : p.loop({"i3", n}, {"c3", 2})) y(i, c) = h(i, c);
  return p.build();
}

TEST(TapePlan, OneCopyForAllThatReadAnArrayAtATime) {
  for (const bool all_are_set : {true, false}) {
    for (const bool changes_between : {false, true}) {
      const Program program = flows(all_are_set, changes_between);
      const std::string forward = differentiate(program, {}).forward.str();
      const bool copied = all_are_set && !changes_between;
      EXPECT_EQ(forward.find("[steps, n + 1, 2]\n") != std::string::npos, copied) << forward;
      EXPECT_EQ(forward.find("[steps, edges]\n") == std::string::npos, copied) << forward;
      for (const std::int64_t n : {1, 3}) {
        const double last = static_cast<double>(n - 1), middle = n == 1 ? 0 : 1;
        EXPECT_TRUE(gradient_is_right(
            program, {.sizes = {{"n", n}, {"edges", 5}, {"steps", 3}},
                      .values = {{"from", {0, last, 0, middle, last}}, {"to", {last, 0, middle, last, 0}}},
                      .options = {}}))
            << all_are_set << changes_between << n;
      }
    }
  }
}

/// Crossings of a level: the index of one end is named in the loop over both, and read again with them.
TEST(TapePlan, IndicesThatLoopsOfWhatIsComputedAgainName) {
  ProgramBuilder p("crossings");
  auto n = p.size("n");
  auto f = p.input<double>("f", {n + 1});
  auto y = p.output<double>("y", {n});
  for (auto j : p.loop("j", n)) {
    auto x = p.local<double>("x", {2});
    for (auto side : p.loop("side", 2)) {
      auto at = p.let("at", j + select(f(j) > 0.5, 1, 0));
      x(side) = f(at) * f(at) + cast<double>(at + side) * f(j);
    }
    y(j) = x(1) * x(0);
  }
  EXPECT_TRUE(gradient_is_right(p.build(), {.sizes = {{"n", 4}}, .values = {}, .options = {}}));
}

/// The matrix of each problem is made and eliminated in a workspace that all of them have in common.
TEST(TapePlan, WorkspacesOutsideOfAllLoopsAreKeptForEachIteration) {
  ProgramBuilder p("workspaces");
  auto n = p.size("n"), problems = p.size("problems");
  auto a = p.input<double>("a", {problems, n, n}), b = p.input<double>("b", {problems, n});
  auto x = p.output<double>("x", {problems, n});
  auto m = p.local<double>("m", {n, n}), r = p.local<double>("r", {n});
  for (auto q : p.loop("q", problems)) {
    for (auto i : p.loop("i", n)) {
      for (auto j : p.loop("j", n)) m(i, j) = a(q, i, j) + select(i == j, 5.0, 0.0);
      r(i) = b(q, i);
    }
    for (auto k : p.loop("k", n))
      for (auto i : p.loop("i2", k + 1, n)) {
        m(i, k) = m(i, k) / m(k, k);
        for (auto j : p.loop("j2", k + 1, n)) m(i, j) -= m(i, k) * m(k, j);
        r(i) -= m(i, k) * r(k);
      }
    for (auto i : p.loop("i3", n)) x(q, i) = r(i) / m(i, i);
  }
  const Program program = p.build();
  const std::string forward = differentiate(program, {}).forward.str();
  EXPECT_NE(forward.find("m_kept[problems, n, n]"), std::string::npos) << forward;
  EXPECT_TRUE(gradient_is_right(program, {.sizes = {{"n", 4}, {"problems", 3}}, .values = {}, .options = {}}));
}

}  // namespace
}  // namespace loopgrad::test

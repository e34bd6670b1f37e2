// Statistics: chains that accept or reject, smoothers, trees of words, points where a series changes, sigma points.
#include "bench/fields/fields.h"

#include "tools/support/random.h"

#include <algorithm>
#include <cmath>

namespace loopgrad::fields {
namespace {

/// Hamiltonian Monte Carlo for a logistic regression: leapfrog by the gradient, accepted where a given number says so.
Program hamiltonian_chains() {
  ProgramBuilder p("hamiltonian_chains");
  auto chains = p.size("chains"), rows = p.size("rows"), d = p.size("d"), draws = p.size("draws"),
       hops = p.size("hops");
  auto x = p.input<double>("x", {rows, d}), prior = p.input<double>("prior", {d}), step = p.input<double>("step", {});
  auto label = p.input<int>("label", {rows});
  auto noise = p.input<double>("noise", {draws, chains, d}), coin = p.input<double>("coin", {draws, chains});
  auto theta = p.inout<double>("theta", {chains, d});
  auto mean = p.output<double>("mean", {d});
  p.in_range(label, 0, 2);
  for (auto a : p.loop("a", d)) mean(a) = 0.0;
  for (auto c : p.loop("c", chains)) {
    auto at = p.local<double>("at", {d}), v = p.local<double>("v", {d}), slope = p.local<double>("slope", {d});
    auto energy = p.scalar<double>("energy");
    auto look = [&] {
      energy = 0.0;
      for (auto a : p.loop("a", d)) {
        auto scale = p.let("scale", exp(-prior(a)));
        energy += 0.5 * scale * at(a) * at(a);
        slope(a) = scale * at(a);
      }
      for (auto r : p.loop("r", rows)) {
        auto z = p.scalar<double>("z", 0);
        for (auto a : p.loop("a", d)) z += x(r, a) * at(a);
        energy += log1p(exp(z)) - select(label(r) == 1, z, 0.0);
        auto miss = p.let("miss", sigmoid(z) - select(label(r) == 1, 1.0, 0.0));
        for (auto a : p.loop("a", d)) slope(a) += miss * x(r, a);
      }
    };
    for (auto t : p.loop("t", draws)) {
      auto before = p.scalar<double>("before", 0);
      auto eps = p.let("eps", 0.05 * exp(0.3 * step()));
      for (auto a : p.loop("a", d)) {
        at(a) = theta(c, a);
        v(a) = noise(t, c, a);
        before += 0.5 * v(a) * v(a);
      }
      look();
      before += energy;
      for (auto h : p.loop("h", hops)) {
        (void)h;
        for (auto a : p.loop("a", d)) {
          v(a) -= 0.5 * eps * slope(a);
          at(a) += eps * v(a);
        }
        look();
        for (auto a : p.loop("a", d)) v(a) -= 0.5 * eps * slope(a);
      }
      auto after = p.scalar<double>("after", energy);
      for (auto a : p.loop("a", d)) after += 0.5 * v(a) * v(a);
      p.when(log(0.5 * abs(coin(t, c)) + 0.45) < before - after, [&] {
        for (auto a : p.loop("a", d)) theta(c, a) = at(a);
      });
      for (auto a : p.loop("a", d)) mean(a) += theta(c, a) / cast<double>(draws * chains);
    }
  }
  return p.build();
}

/// A smoother after Rauch, Tung and Striebel: a filter with missing measurements, then back with gains by small
/// inverses.
Program smoother() {
  ProgramBuilder p("smoother");
  auto series = p.size("series"), t = p.size("t");
  auto y = p.input<double>("y", {series, t});
  auto there = p.input<bool>("there", {series, t});
  auto drift = p.input<double>("drift", {2, 2}), process = p.input<double>("process", {2}),
       noise = p.input<double>("noise", {});
  auto likelihood = p.output<double>("likelihood", {series}), smooth = p.output<double>("smooth", {series, t, 2});
  auto f = p.local<double>("f", {2, 2});
  for (auto [i, j] : p.loop({"i", 2}, {"j", 2})) f(i, j) = select(i == j, 0.9, 0.1) + 0.1 * drift(i, j);
  for (auto n : p.loop("n", series)) {
    auto m = p.local<double>("m", {t, 2}), mp = p.local<double>("mp", {t, 2});
    auto c = p.local<double>("c", {t, 2, 2}), cp = p.local<double>("cp", {t, 2, 2});
    auto put = [&](auto&& rows, const Mat<2>& v) {
      store(rows.row(0), v.rows[0]);
      store(rows.row(1), v.rows[1]);
    };
    likelihood(n) = 0.0;
    for (auto s : p.loop("s", t)) {
      p.when(s == 0, [&] {
         store(mp.row(s), Vec<2>(0.0, 0.0));
         put(cp.row(s), Mat<2>::identity());
       }).otherwise([&] {
        const Mat<2> step = load_matrix<2, 2>(f);
        store(mp.row(s), p.let("ahead", step * load<2>(m.row(s - 1))));
        Mat<2> grown = step * load_matrix<2, 2>(c.row(s - 1)) * transpose(step);
        for (std::size_t k = 0; k < 2; ++k)
          grown.rows[k][k] = grown(k, k) + 0.1 + process(static_cast<int>(k)) * process(static_cast<int>(k));
        put(cp.row(s), p.let("grown", grown));
      });
      p.when(there(n, s), [&] {
         const Mat<2> known = p.let("known", load_matrix<2, 2>(cp.row(s)));
         auto spread = p.let("spread", known(0, 0) + 0.2 + noise() * noise()), off = p.let("off", y(n, s) - mp(s, 0));
         const Vec<2> gain = p.let("gain", Vec<2>(known(0, 0) / spread, known(1, 0) / spread));
         likelihood(n) -= 0.5 * (log(spread) + off * off / spread);
         store(m.row(s), p.let("now", load<2>(mp.row(s)) + off * gain));
         put(c.row(s), p.let("left", known - outer(gain, known.rows[0])));
       }).otherwise([&] {
        for (auto i : p.loop("i", 2)) {
          m(s, i) = mp(s, i);
          for (auto j : p.loop("j", 2)) c(s, i, j) = cp(s, i, j);
        }
      });
    }
    for (auto i : p.loop("i", 2)) smooth(n, t - 1, i) = m(t - 1, i);
    for (auto s : p.loop("s", 0, t - 1, {.descending = true})) {
      const Mat<2> gain = p.let("back", load_matrix<2, 2>(c.row(s)) * transpose(load_matrix<2, 2>(f)) *
                                            inverse(load_matrix<2, 2>(cp.row(s + 1))));
      const Vec<2> off = load<2>(smooth.row(n).row(s + 1)) - load<2>(mp.row(s + 1));
      store(smooth.row(n).row(s), p.let("better", load<2>(m.row(s)) + gain * off));
    }
  }
  return p.build();
}

/// Trees of words: the inside sums of projective dependencies by spans, complete and incomplete, to the left and right.
Program word_trees() {
  ProgramBuilder p("word_trees");
  auto b = p.size("b"), n = p.size("n");
  auto score = p.input<double>("score", {b, n, n});
  auto len = p.input<int>("len", {b});
  auto z = p.output<double>("z", {b});
  p.in_range(len, 1, n + 1);
  for (auto s : p.loop("s", b)) {
    auto open = p.local<double>("open", {2, n, n}), done = p.local<double>("done", {2, n, n});
    for (auto i : p.loop("i", n)) done(0, i, i) = 0.0, done(1, i, i) = 0.0;
    auto add = [](const Value& a, const Value& c) { return max(a, c) + log1p(exp(-abs(a - c))); };
    for (auto width : p.loop("width", 1, len(s)))
      for (auto i : p.loop("i", len(s) - width)) {
        auto j = p.let("j", i + width);
        auto all = p.scalar<double>("all", -1e30);
        for (auto k : p.loop("k", i, j)) all = add(all, done(1, i, k) + done(0, k + 1, j));
        open(0, i, j) = all + score(s, j, i);
        open(1, i, j) = all + score(s, i, j);
        auto left = p.scalar<double>("left", -1e30), right = p.scalar<double>("right", -1e30);
        for (auto k : p.loop("k", i, j)) left = add(left, done(0, i, k) + open(0, k, j));
        for (auto k : p.loop("k", i + 1, j + 1)) right = add(right, open(1, i, k) + done(1, k, j));
        done(0, i, j) = left;
        done(1, i, j) = right;
      }
    z(s) = done(1, 0, len(s) - 1);
  }
  return p.build();
}

/// Points where series change: how long the current run is, a probability for each length, statistics that shift along.
Program change_points() {
  ProgramBuilder p("change_points");
  auto series = p.size("series"), t = p.size("t");
  auto y = p.input<double>("y", {series, t}), prior = p.input<double>("prior", {3}),
       hazard = p.input<double>("hazard", {});
  auto evidence = p.output<double>("evidence", {series}), expected = p.output<double>("expected", {series, t});
  for (auto n : p.loop("n", series)) {
    auto run = p.ring<double>("run", 2, {t + 1}), mu = p.ring<double>("mu", 2, {t + 1}),
         sq = p.ring<double>("sq", 2, {t + 1});
    auto h = p.let("h", 0.05 + 0.2 * sigmoid(hazard()));
    run(0, 0) = 1.0;
    mu(0, 0) = 0.3 * prior(0);
    sq(0, 0) = exp(prior(1));
    evidence(n) = 0.0;
    for (auto s : p.loop("s", t)) {
      auto fresh = p.scalar<double>("fresh", 0), total = p.scalar<double>("total", 0),
           mean = p.scalar<double>("mean", 0);
      for (auto r : p.loop("r", s + 1)) {
        auto seen = p.let("seen", cast<double>(r) + 1.0);
        auto off = p.let("off", y(n, s) - mu(s, r)), var = p.let("var", sq(s, r) / seen + 0.2 * exp(prior(2)));
        auto likely = p.let("likely", exp(-0.5 * off * off / var) / sqrt(6.2831853 * var));
        auto stay = p.let("stay", run(s, r) * likely * (1.0 - h));
        run(s + 1, r + 1) = stay;
        fresh += run(s, r) * likely * h;
        total += stay;
        mu(s + 1, r + 1) = mu(s, r) + off / (seen + 1.0);
        sq(s + 1, r + 1) = sq(s, r) + off * off * seen / (seen + 1.0);
      }
      run(s + 1, 0) = fresh;
      mu(s + 1, 0) = 0.3 * prior(0);
      sq(s + 1, 0) = exp(prior(1));
      total += fresh;
      for (auto r : p.loop("r", s + 2)) {
        run(s + 1, r) /= total;
        mean += cast<double>(r) * run(s + 1, r);
      }
      expected(n, s) = mean;
      evidence(n) += log(total);
    }
  }
  return p.build();
}

/// Sigma points: a target turns at an unknown rate, seen by range and angle; covariances by a factor made in each step.
Program sigma_points() {
  ProgramBuilder p("sigma_points");
  auto tracks = p.size("tracks"), t = p.size("t");
  constexpr int d = 5;
  auto seen = p.input<double>("seen", {tracks, t, 2}), noise = p.input<double>("noise", {2}),
       process = p.input<double>("process", {d});
  auto loss = p.output<double>("loss", {tracks}), last = p.output<double>("last", {tracks, d});
  for (auto n : p.loop("n", tracks)) {
    auto m = p.local<double>("m", {d}), c = p.local<double>("c", {d, d}), l = p.local<double>("l", {d, d});
    auto points = p.local<double>("points", {2 * d + 1, d}), sights = p.local<double>("sights", {2 * d + 1, 2});
    auto cross = p.local<double>("cross", {d, 2}), mean = p.local<double>("mean", {2}),
         s = p.local<double>("s", {2, 2});
    auto start = p.table<double>("start", {2.0, 2.0, 0.1, 0.5, 0.05});
    for (auto i : p.loop("i", d)) {
      m(i) = start(i);
      for (auto j : p.loop("j", d)) c(i, j) = select(i == j, 0.1, 0.0);
    }
    loss(n) = 0.0;
    for (auto step : p.loop("step", t)) {
      for (auto i : p.loop("i", d))
        for (auto j : p.loop("j", i + 1)) {
          auto sum = p.scalar<double>("sum", c(i, j));
          for (auto k : p.loop("k", j)) sum -= l(i, k) * l(j, k);
          p.when(i == j, [&] { l(i, i) = sqrt(max(sum, 1e-9)); }).otherwise([&] { l(i, j) = sum / l(j, j); });
        }
      for (auto q : p.loop("q", 2 * d + 1)) {
        auto at = p.local<double>("at", {d});
        for (auto i : p.loop("i", d)) {
          at(i) = m(i);
          p.when(q > 0, [&] {
            auto k = p.let("k", (q - 1) % d);
            p.when(k <= i, [&] { at(i) += select(q <= d, 2.2, -2.2) * l(i, k); });
          });
        }
        auto turn = p.let("turn", at(2) + 0.1 * at(4));
        points(q, 0) = at(0) + 0.1 * at(3) * cos(turn);
        points(q, 1) = at(1) + 0.1 * at(3) * sin(turn);
        points(q, 2) = turn;
        points(q, 3) = at(3);
        points(q, 4) = at(4);
        sights(q, 0) = sqrt(points(q, 0) * points(q, 0) + points(q, 1) * points(q, 1));
        sights(q, 1) = atan2(points(q, 1), points(q, 0));
      }
      auto weight = [&](const Value& q) { return select(q == 0, -0.03, 0.103); };
      for (auto i : p.loop("i", d)) {
        m(i) = 0.0;
        for (auto q : p.loop("q", 2 * d + 1)) m(i) += weight(q) * points(q, i);
      }
      for (auto k : p.loop("k", 2)) {
        mean(k) = 0.0;
        for (auto q : p.loop("q", 2 * d + 1)) mean(k) += weight(q) * sights(q, k);
      }
      for (auto [i, j] : p.loop({"i", d}, {"j", d})) {
        c(i, j) = select(i == j, 0.002 + 0.01 * process(i) * process(i), 0.0);
        for (auto q : p.loop("q", 2 * d + 1)) c(i, j) += weight(q) * (points(q, i) - m(i)) * (points(q, j) - m(j));
      }
      for (auto [i, k] : p.loop({"i", d}, {"k", 2})) {
        cross(i, k) = 0.0;
        for (auto q : p.loop("q", 2 * d + 1))
          cross(i, k) += weight(q) * (points(q, i) - m(i)) * (sights(q, k) - mean(k));
      }
      for (auto [k, o] : p.loop({"k", 2}, {"o", 2})) {
        s(k, o) = select(k == o, 0.2 + noise(k) * noise(k), 0.0);
        for (auto q : p.loop("q", 2 * d + 1))
          s(k, o) += weight(q) * (sights(q, k) - mean(k)) * (sights(q, o) - mean(o));
      }
      const Mat<2> inv = p.let("inv", inverse(load_matrix<2, 2>(s)));
      const Vec<2> off =
          p.let("off", Vec<2>(2.8 + 0.2 * seen(n, step, 0) - mean(0), 0.8 + 0.1 * seen(n, step, 1) - mean(1)));
      loss(n) += dot(off, inv * off) + log(determinant(load_matrix<2, 2>(s)));
      auto gain = p.local<double>("gain", {d, 2});
      for (auto i : p.loop("i", d)) {
        store(gain.row(i), transpose(inv) * load<2>(cross.row(i)));
        m(i) += gain(i, 0) * off[0] + gain(i, 1) * off[1];
      }
      for (auto [i, j] : p.loop({"i", d}, {"j", d}))
        for (auto k : p.loop("k", 2)) c(i, j) -= gain(i, k) * cross(j, k);
    }
    for (auto i : p.loop("i", d)) last(n, i) = m(i);
  }
  return p.build();
}

}  // namespace

std::vector<Field> inference() {
  return {
      {{"hamiltonian_chains",
        "",
        hamiltonian_chains,
        {{"chains", 5}, {"rows", 403}, {"d", 11}, {"draws", 7}, {"hops", 6}}},
       {{{"chains", 2}, {"rows", 5}, {"d", 2}, {"draws", 3}, {"hops", 2}},
        {{"chains", 1}, {"rows", 1}, {"d", 1}, {"draws", 1}, {"hops", 1}},
        {{"chains", 1}, {"rows", 3}, {"d", 3}, {"draws", 2}, {"hops", 3}}}},
      {{"smoother", "", smoother, {{"series", 203}, {"t", 307}}},
       {{{"series", 2}, {"t", 6}}, {{"series", 1}, {"t", 1}}, {{"series", 3}, {"t", 4}}}},
      {{"word_trees", "", word_trees, {{"b", 7}, {"n", 41}}},
       {{{"b", 2}, {"n", 6}}, {{"b", 1}, {"n", 1}}, {{"b", 3}, {"n", 4}}}},
      {{"change_points", "", change_points, {{"series", 9}, {"t", 203}}},
       {{{"series", 2}, {"t", 6}}, {{"series", 1}, {"t", 1}}, {{"series", 1}, {"t", 9}}}},
      {{"sigma_points", "", sigma_points, {{"tracks", 47}, {"t", 61}}},
       {{{"tracks", 2}, {"t", 4}}, {{"tracks", 1}, {"t", 1}}, {{"tracks", 3}, {"t", 2}}}},
  };
}

}  // namespace loopgrad::fields

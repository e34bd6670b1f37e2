#include "bench/fields/fields.h"

#include "tools/support/random.h"

namespace loopgrad::fields {
namespace {

Value log_add(const Value& a, const Value& b) {
  auto top = max(a, b);
  return top + log(exp(a - top) + exp(b - top));
}

/// CTC: the likelihood of a labelling, over a lattice of time and blanks between labels.
Program ctc() {
  ProgramBuilder p("ctc");
  auto batch = p.size("batch"), t = p.size("t"), k = p.size("k"), l = p.size("l");
  auto logit = p.input<float>("logit", {batch, t, k});
  auto label = p.input<int>("label", {batch, l});
  auto loss = p.output<float>("loss", {batch});
  p.in_range(label, 1, k);
  for (auto b : p.loop("b", 0, batch)) {
    auto alpha = p.local<float>("alpha", {2 * l + 1}), next = p.local<float>("next", {2 * l + 1});
    for (auto s : p.loop("s", 0, 2 * l + 1)) alpha(s) = -50.0f;
    alpha(0) = logit(b, 0, 0);
    alpha(1) = logit(b, 0, label(b, 0));
    for (auto i : p.loop("i", 1, t)) {
      for (auto s : p.loop("s", 0, 2 * l + 1)) {
        auto best = p.scalar<float>("best");
        best = alpha(s);
        p.when(s >= 1, [&] { best = log_add(best, alpha(s - 1)); });
        p.when(s % 2 == 1, [&] {
           p.when(s >= 3,
                  [&] { p.when(label(b, s / 2) != label(b, s / 2 - 1), [&] { best = log_add(best, alpha(s - 2)); }); });
           next(s) = best + logit(b, i, label(b, s / 2));
         }).otherwise([&] { next(s) = best + logit(b, i, 0); });
      }
      for (auto s : p.loop("s", 0, 2 * l + 1)) alpha(s) = next(s);
    }
    loss(b) = -log_add(alpha(2 * l), alpha(2 * l - 1));
  }
  return p.build();
}

/// Smooth Smith-Waterman: a local alignment of two sequences with a learned substitution table and gap.
Program smith_waterman() {
  ProgramBuilder p("smith_waterman");
  auto n = p.size("n"), m = p.size("m"), k = p.size("k");
  auto table = p.input<float>("table", {k, k}), gap = p.input<float>("gap", {});
  auto a = p.input<int>("a", {n}), b = p.input<int>("b", {m});
  auto score = p.output<float>("score", {});
  p.in_range(a, 0, k);
  p.in_range(b, 0, k);
  auto h = p.local<float>("h", {n + 1, m + 1});
  for (auto i : p.loop("i", 0, n + 1)) h(i, 0) = 0.0f;
  for (auto j : p.loop("j", 1, m + 1)) h(0, j) = 0.0f;
  score() = 0.0f;
  for (auto i : p.loop("i", 1, n + 1))
    for (auto j : p.loop("j", 1, m + 1)) {
      auto fit = h(i - 1, j - 1) + table(a(i - 1), b(j - 1));
      h(i, j) = log(1.0f + exp(fit) + exp(h(i - 1, j) - gap()) + exp(h(i, j - 1) - gap())) * 0.5f;
      score() += 0.01f * h(i, j) * h(i, j);
    }
  return p.build();
}

/// Soft DTW within a band.
Program soft_dtw() {
  ProgramBuilder p("soft_dtw");
  auto batch = p.size("batch"), n = p.size("n"), w = p.size("w");
  auto x = p.input<float>("x", {batch, n}), y = p.input<float>("y", {batch, n});
  auto loss = p.output<float>("loss", {batch});
  for (auto b : p.loop("b", 0, batch)) {
    auto d = p.local<float>("d", {n + 1, n + 1});
    for (auto i : p.loop("i", 0, n + 1))
      for (auto j : p.loop("j", 0, n + 1)) d(i, j) = 1000.0f;
    d(0, 0) = 0.0f;
    for (auto i : p.loop("i", 1, n + 1))
      for (auto j : p.loop("j", max(1, i - w), min(n, i + w) + 1)) {
        auto least = p.scalar<float>("least"), sum = p.scalar<float>("sum");
        least = min(min(d(i - 1, j), d(i, j - 1)), d(i - 1, j - 1));
        sum = exp(least - d(i - 1, j)) + exp(least - d(i, j - 1)) + exp(least - d(i - 1, j - 1));
        d(i, j) = (x(b, i - 1) - y(b, j - 1)) * (x(b, i - 1) - y(b, j - 1)) + least - log(sum);
      }
    loss(b) = d(n, n);
  }
  return p.build();
}

/// A Kalman filter with a state of four numbers and scalar measurements.
Program kalman() {
  ProgramBuilder p("kalman");
  auto tracks = p.size("tracks"), t = p.size("t");
  auto z = p.input<float>("z", {tracks, t}), f = p.input<float>("f", {4, 4}), noise = p.input<float>("noise", {4});
  auto r = p.input<float>("r", {});
  auto cost = p.output<float>("cost", {tracks});
  for (auto q : p.loop("q", 0, tracks)) {
    auto x = p.local<float>("x", {4}), cov = p.local<float>("cov", {4, 4});
    for (auto i : p.loop("i", 0, 4)) {
      x(i) = 0.0f;
      for (auto j : p.loop("j", 0, 4)) cov(i, j) = select(i == j, 1.0f, 0.0f);
    }
    cost(q) = 0.0f;
    for (auto s : p.loop("s", 0, t)) {
      auto ahead = p.local<float>("ahead", {4}), fp = p.local<float>("fp", {4, 4}),
           pred = p.local<float>("pred", {4, 4});
      for (auto i : p.loop("i", 0, 4)) {
        ahead(i) = 0.0f;
        for (auto j : p.loop("j", 0, 4)) ahead(i) += f(i, j) * x(j);
        for (auto j : p.loop("j", 0, 4)) {
          fp(i, j) = 0.0f;
          for (auto k : p.loop("k", 0, 4)) fp(i, j) += f(i, k) * cov(k, j);
        }
      }
      for (auto i : p.loop("i", 0, 4))
        for (auto j : p.loop("j", 0, 4)) {
          pred(i, j) = select(i == j, noise(i) * noise(i), 0.0f);
          for (auto k : p.loop("k", 0, 4)) pred(i, j) += fp(i, k) * f(j, k);
        }
      auto innovation = p.scalar<float>("innovation"), variance = p.scalar<float>("variance");
      innovation = z(q, s) - ahead(0);
      variance = pred(0, 0) + r() * r() + 0.1f;
      cost(q) += innovation * innovation / variance + log(variance);
      for (auto i : p.loop("i", 0, 4)) {
        x(i) = ahead(i) + pred(i, 0) / variance * innovation;
        for (auto j : p.loop("j", 0, 4)) cov(i, j) = pred(i, j) - pred(i, 0) * pred(0, j) / variance;
      }
    }
  }
  return p.build();
}

/// RK4 through a table of forces, interpolated linearly.
Program rk4_table() {
  ProgramBuilder p("rk4_table");
  auto n = p.size("n"), t = p.size("t"), k = p.size("k");
  auto table = p.input<float>("table", {k}), x0 = p.input<float>("x0", {n}), v0 = p.input<float>("v0", {n});
  auto end = p.output<float>("end", {n, 2});
  auto force = [&](const Value& x) {
    auto at = p.scalar<float>("at"), weight = p.scalar<float>("weight"), result = p.scalar<float>("result");
    auto cell = p.scalar<std::int64_t>("cell");
    at = (x + 2.0f) * 0.25f * cast<float>(k - 1);
    cell = max(0, min(cast<std::int64_t>(floor(at)), k - 2));
    weight = at - cast<float>(cell);
    result = (1.0f - weight) * table(cell) + weight * table(cell + 1);
    return result;
  };
  for (auto i : p.loop("i", 0, n)) {
    auto x = p.scalar<float>("x"), v = p.scalar<float>("v");
    x = x0(i);
    v = v0(i);
    for (auto s : p.loop("s", 0, t)) {
      (void)s;
      const float h = 0.05f;
      auto k1 = force(x);
      auto k2 = force(x + 0.5f * h * v);
      auto k3 = force(x + 0.5f * h * v + 0.25f * h * h * k1);
      auto k4 = force(x + h * v + 0.5f * h * h * k2);
      x += h * v + h * h / 6.0f * (k1 + k2 + k3);
      v += h / 6.0f * (k1 + 2.0f * k2 + 2.0f * k3 + k4);
    }
    end(i, 0) = x;
    end(i, 1) = v;
  }
  return p.build();
}

/// A lookback option: paths with their largest and smallest value so far.
Program lookback() {
  ProgramBuilder p("lookback");
  auto paths = p.size("paths"), steps = p.size("steps");
  auto z = p.input<float>("z", {paths, steps}), vol = p.input<float>("vol", {steps}), spot = p.input<float>("spot", {});
  auto price = p.output<float>("price", {});
  price() = 0.0f;
  for (auto i : p.loop("i", 0, paths)) {
    auto s = p.scalar<float>("s"), high = p.scalar<float>("high"), low = p.scalar<float>("low");
    s = spot();
    high = s;
    low = s;
    for (auto t : p.loop("t", 0, steps)) {
      s = s * exp(vol(t) * z(i, t) - 0.5f * vol(t) * vol(t));
      high.max_with(s);
      low = min(low, s);
    }
    price() += (max(s - low, 0.0f) + max(high - s - 0.1f, 0.0f)) / cast<float>(paths);
  }
  return p.build();
}

/// A median filter: windows of five sorted by a network.
Program median_filter() {
  ProgramBuilder p("median_filter");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n}), y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto w = p.local<float>("w", {5});
    for (auto k : p.loop("k", 0, 5)) w(k) = x(max(0, min(n - 1, i + k - 2)));
    for (auto pass : p.loop("pass", 0, 5))
      for (auto k : p.loop("k", 0, 4))
        p.when((k + pass) % 2 == 0, [&] {
          auto low = p.scalar<float>("low");
          low = min(w(k), w(k + 1));
          w(k + 1) = max(w(k), w(k + 1));
          w(k) = low;
        });
    y(i) = w(2);
  }
  return p.build();
}

/// A hidden Markov model in logs, with emissions by symbol.
Program hmm() {
  ProgramBuilder p("hmm");
  auto batch = p.size("batch"), t = p.size("t"), s = p.size("s"), k = p.size("k");
  auto move = p.input<float>("move", {s, s}), emit = p.input<float>("emit", {s, k});
  auto seen = p.input<int>("seen", {batch, t});
  auto result = p.output<float>("result", {batch});
  p.in_range(seen, 0, k);
  for (auto b : p.loop("b", 0, batch)) {
    auto alpha = p.local<float>("alpha", {t, s});
    for (auto j : p.loop("j", 0, s)) alpha(0, j) = emit(j, seen(b, 0));
    for (auto i : p.loop("i", 1, t))
      for (auto j : p.loop("j", 0, s)) {
        auto top = p.scalar<float>("top"), sum = p.scalar<float>("sum");
        top = -1e30f;
        for (auto q : p.loop("q", 0, s)) top.max_with(alpha(i - 1, q) + move(q, j));
        sum = 0.0f;
        for (auto q : p.loop("q", 0, s)) sum += exp(alpha(i - 1, q) + move(q, j) - top);
        alpha(i, j) = top + log(sum) + emit(j, seen(b, i));
      }
    auto total = p.scalar<float>("total");
    total = 0.0f;
    for (auto j : p.loop("j", 0, s)) total += exp(alpha(t - 1, j) - alpha(t - 1, 0));
    result(b) = log(total) + alpha(t - 1, 0);
  }
  return p.build();
}

/// Prefix sums in place, rows reversed by swaps, and differences of them.
Program prefix_sums() {
  ProgramBuilder p("prefix_sums");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.inout<float>("a", {n, m});
  auto y = p.output<float>("y", {n, m});
  for (auto i : p.loop("i", 0, n)) {
    for (auto j : p.loop("j", 1, m)) a(i, j) += 0.5f * sin(a(i, j - 1));
    for (auto j : p.loop("j", 0, m / 2)) {
      auto old = p.scalar<float>("old");
      old = a(i, j);
      a(i, j) = a(i, m - 1 - j);
      a(i, m - 1 - j) = old;
    }
    for (auto j : p.loop("j", 0, m)) y(i, j) = sin(a(i, j)) * a(i, max(j - 1, 0));
  }
  return p.build();
}

/// Volume rendering: colours along a ray, weighted by what light is left, ended when hardly any is.
Program volume_render() {
  ProgramBuilder p("volume_render");
  auto rays = p.size("rays"), samples = p.size("samples"), grid = p.size("grid");
  auto density = p.input<float>("density", {grid}), colour = p.input<float>("colour", {grid, 3});
  auto start = p.input<float>("start", {rays}), slope = p.input<float>("slope", {rays});
  auto image = p.output<float>("image", {rays, 3});
  for (auto r : p.loop("r", 0, rays)) {
    auto light = p.scalar<float>("light");
    light = 1.0f;
    for (auto c : p.loop("c", 0, 3)) image(r, c) = 0.0f;
    for (auto s : p.loop_while("s", samples, [&](const Value&) { return light > 0.05f; })) {
      auto at = p.scalar<float>("at"), weight = p.scalar<float>("weight"), alpha = p.scalar<float>("alpha");
      auto cell = p.scalar<std::int64_t>("cell");
      at = (0.5f + 0.2f * start(r) + 0.02f * cast<float>(s) * slope(r)) * cast<float>(grid - 1);
      cell = max(0, min(cast<std::int64_t>(at), grid - 2));
      weight = at - cast<float>(cell);
      alpha = 1.0f - exp(-0.2f * exp(density(cell) * (1.0f - weight) + density(cell + 1) * weight));
      for (auto c : p.loop("c", 0, 3))
        image(r, c) += light * alpha * sigmoid(colour(cell, c) * (1.0f - weight) + colour(cell + 1, c) * weight);
      light *= 1.0f - alpha;
    }
  }
  return p.build();
}

/// Sums along rows that are kept all the way.
Program cumulative_sums() {
  ProgramBuilder p("cumulative_sums");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<float>("x", {n, m});
  auto y = p.output<float>("y", {n, m});
  for (auto i : p.loop("i", 0, n)) {
    auto s = p.scalar<float>("s");
    s = 0.0f;
    for (auto j : p.loop("j", 0, m)) {
      s += x(i, j);
      y(i, j) = s;
    }
  }
  return p.build();
}

/// A loss of deviations from an exponential average, whose decay is learned.
Program moving_average() {
  ProgramBuilder p("moving_average");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n}), decay = p.input<float>("decay", {});
  auto mean = p.output<float>("mean", {n}), loss = p.output<float>("loss", {});
  auto s = p.scalar<float>("s");
  s = x(0);
  loss() = 0.0f;
  for (auto i : p.loop("i", 0, n)) {
    s = decay() * s + (1.0f - decay()) * x(i);
    mean(i) = s;
    loss() += (x(i) - s) * (x(i) - s);
  }
  return p.build();
}

/// A velocity from forces, a position from velocities, both with friction: recurrences of which one feeds the other.
Program damped_motion() {
  ProgramBuilder p("damped_motion");
  auto bodies = p.size("bodies"), t = p.size("t");
  auto force = p.input<float>("force", {bodies, t}), friction = p.input<float>("friction", {bodies});
  auto path = p.output<float>("path", {bodies, t}), heat = p.output<float>("heat", {bodies});
  for (auto i : p.loop("i", 0, bodies)) {
    auto v = p.scalar<float>("v"), q = p.scalar<float>("q"), lost = p.scalar<float>("lost");
    v = 0.0f;
    q = 1.0f;
    heat(i) = 0.0f;
    for (auto j : p.loop("j", 0, t)) {
      lost = friction(i) * v;
      v = v + 0.1f * force(i, j) - 0.1f * lost;
      q += 0.1f * v;
      heat(i) += lost * v;
      path(i, j) = q;
    }
  }
  return p.build();
}

/// How far a series is below its highest value so far.
Program drawdown() {
  ProgramBuilder p("drawdown");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n});
  auto below = p.output<float>("below", {n});
  auto high = p.scalar<float>("high");
  high = x(0);
  for (auto i : p.loop("i", 0, n)) {
    high.max_with(x(i));
    below(i) = (high - x(i)) * (high - x(i));
  }
  return p.build();
}

}  // namespace

std::vector<Field> sequences() {
  auto positive_vol = [](const Sizes&, std::uint64_t seed, InputArrays& arrays) {
    tools::Random random(seed);
    HostArray& vol = arrays.at("vol");
    for (std::int64_t i = 0; i < vol.size(); ++i) vol.set(i, random.uniform(0.05, 0.2));
    arrays.at("spot").set(0, random.uniform(0.9, 1.1));
  };
  auto with_friction = [](const Sizes&, std::uint64_t seed, InputArrays& arrays) {
    tools::Random random(seed);
    HostArray& friction = arrays.at("friction");
    for (std::int64_t i = 0; i < friction.size(); ++i) friction.set(i, random.uniform(0.5, 2));
  };
  auto small_f = [](const Sizes&, std::uint64_t seed, InputArrays& arrays) {
    tools::Random random(seed);
    HostArray& f = arrays.at("f");
    for (std::int64_t i = 0; i < f.size(); ++i) f.set(i, random.uniform(-0.1, 0.1) + (i % 5 == 0 ? 0.8 : 0));
  };
  return {
      {{"ctc", "", ctc, {{"batch", 32}, {"t", 200}, {"k", 40}, {"l", 40}}},
       {{{"batch", 2}, {"t", 7}, {"k", 4}, {"l", 3}},
        {{"batch", 1}, {"t", 1}, {"k", 2}, {"l", 1}},
        {{"batch", 3}, {"t", 5}, {"k", 3}, {"l", 7}}}},
      {{"smith_waterman", "", smith_waterman, {{"n", 700}, {"m", 600}, {"k", 20}}},
       {{{"n", 7}, {"m", 3}, {"k", 4}}, {{"n", 1}, {"m", 1}, {"k", 1}}, {{"n", 2}, {"m", 33}, {"k", 3}}}},
      {{"soft_dtw", "", soft_dtw, {{"batch", 32}, {"n", 200}, {"w", 20}}},
       {{{"batch", 2}, {"n", 7}, {"w", 2}}, {{"batch", 1}, {"n", 1}, {"w", 1}}, {{"batch", 1}, {"n", 12}, {"w", 33}}}},
      {{"kalman", "", kalman, {{"tracks", 500}, {"t", 100}}, {}, {}, small_f},
       {{{"tracks", 2}, {"t", 7}}, {{"tracks", 1}, {"t", 1}}, {{"tracks", 3}, {"t", 2}}}},
      {{"rk4_table", "", rk4_table, {{"n", 20000}, {"t", 50}, {"k", 64}}},
       {{{"n", 3}, {"t", 7}, {"k", 5}}, {{"n", 7}, {"t", 1}, {"k", 33}}, {{"n", 1}, {"t", 2}, {"k", 2}}}},
      {{"lookback", "", lookback, {{"paths", 20000}, {"steps", 64}}, {}, {}, positive_vol},
       {{{"paths", 7}, {"steps", 5}}, {{"paths", 1}, {"steps", 1}}, {{"paths", 3}, {"steps", 33}}}},
      {{"median_filter", "", median_filter, {{"n", 400000}}}, {{{"n", 7}}, {{"n", 1}}, {{"n", 33}}}},
      {{"hmm", "", hmm, {{"batch", 64}, {"t", 100}, {"s", 16}, {"k", 30}}},
       {{{"batch", 2}, {"t", 7}, {"s", 3}, {"k", 4}},
        {{"batch", 1}, {"t", 1}, {"s", 1}, {"k", 1}},
        {{"batch", 3}, {"t", 2}, {"s", 7}, {"k", 2}}}},
      {{"prefix_sums", "", prefix_sums, {{"n", 4000}, {"m", 256}}},
       {{{"n", 3}, {"m", 7}}, {{"n", 1}, {"m", 1}}, {{"n", 2}, {"m", 33}}, {{"n", 2}, {"m", 2}}}},
      {{"cumulative_sums", "", cumulative_sums, {{"n", 8192}, {"m", 8192}}},
       {{{"n", 2}, {"m", 1000}}, {{"n", 1}, {"m", 2049}}, {{"n", 3}, {"m", 31}}}},
      {{"moving_average", "", moving_average, {{"n", 1 << 20}}},
       {{{"n", 12345}}, {{"n", 1000}}, {{"n", 1}}, {{"n", 33}}}},
      {{"damped_motion", "", damped_motion, {{"bodies", 64}, {"t", 100000}}, {}, {}, with_friction},
       {{{"bodies", 2}, {"t", 1000}}, {{"bodies", 1}, {"t", 4099}}, {{"bodies", 3}, {"t", 2}}}},
      {{"drawdown", "", drawdown, {{"n", 1 << 20}}}, {{{"n", 12345}}, {{"n", 257}}, {{"n", 2}}, {{"n", 32}}}},
      {{"volume_render", "", volume_render, {{"rays", 20000}, {"samples", 64}, {"grid", 256}}},
       {{{"rays", 3}, {"samples", 7}, {"grid", 5}},
        {{"rays", 7}, {"samples", 33}, {"grid", 3}},
        {{"rays", 1}, {"samples", 1}, {"grid", 2}}}},
  };
}

}  // namespace loopgrad::fields

// Estimates from data: interpolation, filters, trees of species and of rivers, and grids in two levels.
#include "bench/fields/fields.h"

#include <functional>

namespace loopgrad::fields {
namespace {

/// Interpolation by the k nearest of all samples, kept sorted by insertion, with weights of their distances.
Program nearest_samples() {
  ProgramBuilder p("nearest_samples");
  auto n = p.size("n"), m = p.size("m"), k = p.size("k"), c = p.size("c");
  auto query = p.input<float>("query", {n, 2}), sample = p.input<float>("sample", {m, 2});
  auto value = p.input<float>("value", {m, c}), power = p.input<float>("power", {});
  auto out = p.output<float>("out", {n, c});
  for (auto i : p.loop("i", n)) {
    auto best = p.local<float>("best", {k});
    auto which = p.local<int>("which", {k});
    for (auto q : p.loop("q0", k)) {
      best(q) = 1e30f;
      which(q) = -1;
    }
    for (auto j : p.loop("j", m)) {
      auto dx = query(i, 0) - sample(j, 0), dy = query(i, 1) - sample(j, 1);
      auto d = p.let("d", dx * dx + dy * dy);
      p.when(d < best(k - 1), [&] {
        auto at = p.scalar<std::int64_t>("at");
        at = k - 1;
        for (auto s : p.loop_while("s", k - 1, [&](auto) { return at > 0 && best(max(at - 1, 0)) > d; })) {
          (void)s;
          best(at) = best(at - 1);
          which(at) = which(at - 1);
          at -= 1;
        }
        best(at) = d;
        which(at) = cast<int>(j);
      });
    }
    auto total = p.scalar<float>("total", 0);
    for (auto f : p.loop("f0", c)) out(i, f) = 0;
    for (auto q : p.loop("q", k))
      p.when(which(q) >= 0, [&] {
        auto w = p.let("w", pow(best(q) + 1e-3f, -0.5f * (1 + abs(power()))));
        total += w;
        for (auto f : p.loop("f", c)) out(i, f) += w * value(which(q), f);
      });
    for (auto f : p.loop("f1", c)) out(i, f) /= total;
  }
  return p.build();
}

/// Kriging of sorted stations with a compact covariance: a banded Cholesky factor, the likelihood, and predictions.
Program banded_kriging() {
  ProgramBuilder p("banded_kriging");
  auto fields = p.size("fields"), n = p.size("n"), b = p.size("b"), targets = p.size("targets");
  auto at = p.input<double>("at", {fields, n}), z = p.input<double>("z", {fields, n});
  auto range = p.input<double>("range", {fields}), nugget = p.input<double>("nugget", {fields});
  auto ask = p.input<double>("ask", {fields, targets});
  auto likelihood = p.output<double>("likelihood", {fields}), guess = p.output<double>("guess", {fields, targets});
  auto wendland = [&](const Value& distance, const Value& reach) {
    auto r = p.let("r", min(distance / reach, 1.0));
    auto rest = p.let("rest", 1 - r);
    return rest * rest * rest * rest * (4 * r + 1);
  };
  for (auto f : p.loop("f", fields)) {
    auto l = p.local<double>("l", {n, b + 1}), x = p.local<double>("x", {n}), v = p.local<double>("v", {n});
    auto reach = p.let("reach", (0.6 + 0.3 * range(f)) * cast<double>(b));
    for (auto i : p.loop("i0", n)) x(i) = cast<double>(i) + 0.4 * at(f, i);
    for (auto i : p.loop("i1", n))
      for (auto d : p.loop("d1", min(i, b) + 1)) {
        l(i, d) = wendland(abs(x(i) - x(i - d)), reach);
        p.when(d == 0, [&] { l(i, d) += 0.1 + nugget(f) * nugget(f); });
      }
    likelihood(f) = 0;
    for (auto i : p.loop("i", n)) {
      for (auto j : p.loop("j", max(0, i - b), i)) {
        for (auto k : p.loop("k", max(0, i - b), j))
          p.when(j - k <= b, [&] { l(i, i - j) -= l(i, i - k) * l(j, j - k); });
        l(i, i - j) /= l(j, 0);
        l(i, 0) -= l(i, i - j) * l(i, i - j);
      }
      l(i, 0) = sqrt(l(i, 0));
      v(i) = z(f, i);
      for (auto j : p.loop("j2", max(0, i - b), i)) v(i) -= l(i, i - j) * v(j);
      v(i) /= l(i, 0);
      likelihood(f) -= 0.5 * v(i) * v(i) + log(l(i, 0));
    }
    for (auto i : p.loop("i3", n, {.descending = true})) {
      for (auto j : p.loop("j3", i + 1, min(n, i + b + 1))) v(i) -= l(j, j - i) * v(j);
      v(i) /= l(i, 0);
    }
    for (auto t : p.loop("t", targets)) {
      auto where = p.let("where", (0.5 + 0.5 * ask(f, t)) * cast<double>(n - 1));
      auto low = p.scalar<std::int64_t>("low");
      low = max(0, cast<std::int64_t>(floor(where)) - b);
      guess(f, t) = 0;
      for (auto i : p.loop("i4", low, min(n, low + 2 * b + 2)))
        guess(f, t) += wendland(abs(where - x(i)), reach) * v(i);
    }
  }
  return p.build();
}

/// Tomography: rays through pixels from side to side until they leave, and one row-action update of the image.
Program tomography() {
  ProgramBuilder p("tomography");
  auto rays = p.size("rays"), g = p.size("g");
  auto offset = p.input<float>("offset", {rays}), slope = p.input<float>("slope", {rays});
  auto data = p.input<float>("data", {rays}), image = p.input<float>("image", {g, g});
  auto residual = p.output<float>("residual", {rays}), update = p.output<float>("update", {g, g});
  for (auto [i, j] : p.loop({"i", g}, {"j", g})) update(i, j) = image(i, j);
  for (auto r : p.loop("r", rays)) {
    auto walk = [&](const char* name, const std::function<void(const Value&, const Value&, const Value&)>& visit) {
      auto ix = p.scalar<int>("ix", 0), iy = p.scalar<int>("iy");
      auto x = p.scalar<float>("x", 0), y = p.scalar<float>("y");
      auto dy = p.let("dy", 1.5f * slope(r) + select(slope(r) < 0, -0.01f, 0.01f));
      y = (0.5f + 0.5f * offset(r)) * cast<float>(g);
      iy = min(cast<int>(y), g - 1);
      for (auto s : p.loop_while(name, 3 * g, [&](auto) { return ix < g && iy >= 0 && iy < g; })) {
        (void)s;
        auto tx = p.let("tx", cast<float>(ix) + 1 - x);
        auto ty = p.let("ty", select(dy > 0, cast<float>(iy) + 1 - y, cast<float>(iy) - y) / dy);
        auto step = p.let("step", max(min(tx, ty), 0.0f));
        visit(iy, ix, step * sqrt(1 + dy * dy));
        x += step;
        y += step * dy;
        p.when(tx < ty, [&] { ix += 1; }).otherwise([&] { iy += select(dy > 0, 1, -1); });
      }
    };
    auto sum = p.scalar<float>("sum", 0), norm = p.scalar<float>("norm", 1e-3f);
    walk("forward", [&](const Value& i, const Value& j, const Value& length) {
      auto a = p.let("a", length);
      sum += a * image(i, j);
      norm += a * a;
    });
    residual(r) = data(r) - sum;
    walk("back", [&](const Value& i, const Value& j, const Value& length) {
      update(i, j) += 0.1f * residual(r) / norm * length;
    });
  }
  return p.build();
}

/// Ensemble Kalman update: members, their anomalies, covariances of what is observed, and gains by a Cholesky factor.
Program ensemble_update() {
  ProgramBuilder p("ensemble_update");
  auto members = p.size("members"), n = p.size("n"), obs = p.size("obs");
  auto e = p.input<double>("e", {members, n}), y = p.input<double>("y", {obs}),
       noise = p.input<double>("noise", {members, obs});
  auto sigma = p.input<double>("sigma", {obs}), taper = p.input<float>("taper", {n, obs});
  auto where = p.input<int>("where", {obs});
  p.in_range(where, 0, n);
  auto out = p.output<double>("out", {members, n}), spread = p.output<double>("spread", {n});
  auto mean = p.local<double>("mean", {n}), s = p.local<double>("s", {obs, obs});
  auto cross = p.local<double>("cross", {n, obs});
  for (auto i : p.loop("i0", n)) {
    mean(i) = 0;
    for (auto m : p.loop("m0", members)) mean(i) += e(m, i);
    mean(i) /= cast<double>(members);
  }
  auto anomaly = [&](const Value& m, const Value& i) { return e(m, i) - mean(i); };
  auto scale = 1 / (cast<double>(members) - 0.5);
  for (auto a : p.loop("a", obs))
    for (auto b : p.loop("b", a + 1)) {
      s(a, b) = select(a == b, 0.1 + sigma(a) * sigma(a), 0.0);
      for (auto m : p.loop("m1", members)) s(a, b) += scale * anomaly(m, where(a)) * anomaly(m, where(b));
    }
  for (auto [i, a] : p.loop({"i1", n}, {"a1", obs})) {
    cross(i, a) = 0;
    for (auto m : p.loop("m2", members)) cross(i, a) += scale * anomaly(m, i) * anomaly(m, where(a));
    cross(i, a) *= 1 + 0.2 * taper(i, a);
  }
  for (auto a : p.loop("a2", obs)) {
    for (auto b : p.loop("b2", a)) {
      for (auto c : p.loop("c2", b)) s(a, b) -= s(a, c) * s(b, c);
      s(a, b) /= s(b, b);
    }
    for (auto c : p.loop("c3", a)) s(a, a) -= s(a, c) * s(a, c);
    s(a, a) = sqrt(s(a, a));
  }
  for (auto m : p.loop("m", members)) {
    auto w = p.local<double>("w", {obs});
    for (auto a : p.loop("a4", obs)) {
      w(a) = y(a) + 0.1 * noise(m, a) - e(m, where(a));
      for (auto b : p.loop("b4", a)) w(a) -= s(a, b) * w(b);
      w(a) /= s(a, a);
    }
    for (auto a : p.loop("a5", obs, {.descending = true})) {
      for (auto b : p.loop("b5", a + 1, obs)) w(a) -= s(b, a) * w(b);
      w(a) /= s(a, a);
    }
    for (auto i : p.loop("i6", n)) {
      out(m, i) = e(m, i);
      for (auto a : p.loop("a6", obs)) out(m, i) += cross(i, a) * w(a);
    }
  }
  for (auto i : p.loop("i7", n)) {
    spread(i) = 0;
    for (auto m : p.loop("m7", members)) spread(i) += (out(m, i) - mean(i)) * (out(m, i) - mean(i));
  }
  return p.build();
}

/// Rivers: reaches in the order of their tree route storage downstream, with losses and a dam's threshold, day by day.
Program river_routing() {
  ProgramBuilder p("river_routing");
  auto n = p.size("n"), days = p.size("days"), gauges = p.size("gauges");
  auto down = p.input<int>("down", {n}), gauge = p.input<int>("gauge", {gauges});
  p.in_range(down, -1, n), p.in_range(gauge, 0, n);
  auto rain = p.input<float>("rain", {days, n}), k = p.input<float>("k", {n}), loss = p.input<float>("loss", {n});
  auto dam = p.input<float>("dam", {n});
  auto storage = p.inout<float>("storage", {n});
  auto flow = p.output<float>("flow", {days, gauges});
  auto inflow = p.local<float>("inflow", {n}), outflow = p.local<float>("outflow", {n});
  for (auto d : p.loop("d", days)) {
    for (auto i : p.loop("i0", n)) inflow(i) = abs(rain(d, i));
    for (auto i : p.loop("i", n)) {  // from the springs to the sea
      auto s = p.let("s", abs(storage(i)) + inflow(i));
      auto q = p.scalar<float>("q");
      q = s * sigmoid(k(i));
      p.when(s > 1 + dam(i), [&] { q += 0.5f * (s - 1 - dam(i)); });
      storage(i) = s - q;
      outflow(i) = q * (1 - 0.1f * sigmoid(loss(i)));
      p.when(down(i) > i, [&] { inflow(down(i)) += outflow(i); });
    }
    for (auto g : p.loop("g", gauges)) flow(d, g) = outflow(gauge(g));
  }
  return p.build();
}

/// Felsenstein's pruning: likelihoods of sites on a tree whose nodes are in postorder, scaled where they get small.
Program felsenstein() {
  ProgramBuilder p("felsenstein");
  auto sites = p.size("sites"), leaves = p.size("leaves"), rates = p.size("rates");
  auto child = p.input<int>("child", {leaves, 2}), letter = p.input<int>("letter", {leaves, sites});
  p.in_range(child, 0, 2 * leaves - 1), p.in_range(letter, 0, 5);
  auto length = p.input<double>("length", {2 * leaves}), kappa = p.input<double>("kappa", {});
  auto rate = p.input<double>("rate", {rates}), freq = p.input<double>("freq", {4});
  auto total = p.output<double>("total", {});
  auto prob = p.local<double>("prob", {rates, 2 * leaves, 4, 4}), pi = p.local<double>("pi", {4});
  auto sum = p.scalar<double>("sum", 0);
  for (auto a : p.loop("a0", 4)) sum += exp(freq(a));
  for (auto a : p.loop("a1", 4)) pi(a) = exp(freq(a)) / sum;
  for (auto [r, v] : p.loop({"r0", rates}, {"v0", 2 * leaves})) {
    auto t = p.let("t", (0.05 + abs(length(v))) * exp(rate(r)));
    for (auto [a, b] : p.loop({"a", 4}, {"b", 4})) {
      auto stay = exp(-t), change = exp(-t * (1 + 0.5 * kappa()));
      prob.at({r, v, a, b}) = select(a == b, stay, 0.0) + (1 - stay) * pi(b);
      p.when((a + b) % 2 == 0, [&] { prob.at({r, v, a, b}) += 0.1 * (stay - change) * select(a == b, -1.0, 1.0); });
    }
  }
  total() = 0;
  for (auto s : p.loop("s", sites)) {
    auto like = p.scalar<double>("like", 0);
    for (auto r : p.loop("r", rates)) {
      auto part = p.local<double>("part", {2 * leaves, 4});
      auto scale = p.scalar<double>("scale", 0);
      for (auto v : p.loop("leaf", leaves))
        for (auto a : p.loop("la", 4)) part(v, a) = select(letter(v, s) == a || letter(v, s) == 4, 1.0, 0.0);
      for (auto v : p.loop("v", leaves, 2 * leaves - 1)) {
        auto big = p.scalar<double>("big", 0);
        for (auto a : p.loop("na", 4)) {
          part(v, a) = 1;
          for (auto c : p.loop("c", 2)) {
            auto from = p.let("from", min(child(v - leaves, c), v - 1));  // children come first
            auto x = p.scalar<double>("x", 0);
            for (auto b : p.loop("nb", 4)) x += prob.at({r, from, a, b}) * part(from, b);
            part(v, a) *= x;
          }
          big.max_with(part(v, a));
        }
        p.when(big < 1e-3, [&] {
          for (auto a : p.loop("sa", 4)) part(v, a) /= big + 1e-30;
          scale += log(big + 1e-30);
        });
      }
      auto x = p.scalar<double>("x1", 1e-30);
      for (auto a : p.loop("ra", 4)) x += pi(a) * part(2 * leaves - 2, a);
      like += x * exp(max(scale, -50.0));
    }
    total() += log(like / cast<double>(rates));
  }
  return p.build();
}

/// Particle filters of many series: propagate, weigh, and resample by walking the cumulated weights.
Program particle_filter() {
  ProgramBuilder p("particle_filter");
  auto series = p.size("series"), t = p.size("t"), n = p.size("n");
  auto y = p.input<float>("y", {series, t}), noise = p.input<float>("noise", {series, t, n}),
       u = p.input<float>("u", {series, t});
  auto a = p.input<float>("a", {}), sd = p.input<float>("sd", {});
  auto evidence = p.output<float>("evidence", {series}), mean = p.output<float>("mean", {series, t});
  for (auto b : p.loop("b", series)) {
    auto x = p.local<float>("x", {n}), w = p.local<float>("w", {n}), next = p.local<float>("next", {n});
    for (auto i : p.loop("i0", n)) x(i) = 0;
    evidence(b) = 0;
    for (auto s : p.loop("s", t)) {
      auto total = p.scalar<float>("total", 0);
      for (auto i : p.loop("i1", n)) {
        x(i) = (0.9f + 0.05f * a()) * x(i) + (1 + 0.2f * sd()) * noise(b, s, i);
        auto d = p.let("d", y(b, s) - x(i));
        w(i) = exp(-0.5f * d * d);
        total += w(i);
      }
      evidence(b) += log(total / cast<float>(n));
      mean(b, s) = 0;
      for (auto i : p.loop("i2", n)) mean(b, s) += w(i) / total * x(i);
      auto at = p.scalar<int>("at", 0);
      auto sum = p.scalar<float>("sum");
      sum = w(0);
      for (auto i : p.loop("i3", n)) {
        auto goal = p.let("goal", (cast<float>(i) + 0.5f + 0.49f * u(b, s)) / cast<float>(n) * total);
        for (auto k : p.loop_while("k", n, [&](auto) { return sum < goal && at < n - 1; })) {
          (void)k;
          at += 1;
          sum += w(at);
        }
        next(i) = x(at);
      }
      for (auto i : p.loop("i4", n)) x(i) = next(i);
    }
  }
  return p.build();
}

/// Diffusion on a grid with refined blocks: ghosts from the coarse level, two fine steps, averages back, fluxes mended.
Program two_levels() {
  ProgramBuilder p("two_levels");
  auto n = p.size("n"), blocks = p.size("blocks"), b = p.size("b"), steps = p.size("steps");
  auto at = p.input<int>("at", {blocks});
  p.in_range(at, 0, n - b);
  auto kappa = p.input<double>("kappa", {n});
  auto coarse = p.inout<double>("coarse", {n});
  auto fine = p.inout<double>("fine", {blocks, 2 * b});
  auto flux = p.local<double>("flux", {n + 1});
  for (auto t : p.loop("t", steps)) {
    (void)t;
    flux(0) = 0;
    flux(n) = 0;
    for (auto i : p.loop("i", 1, n)) flux(i) = 0.2 * (1 + 0.5 * kappa(i)) * (coarse(i) - coarse(i - 1));
    for (auto q : p.loop("q", blocks)) {
      auto f = p.local<double>("f", {2 * b + 2}), g = p.local<double>("g", {2 * b + 1});
      auto left = p.scalar<double>("left", 0), right = p.scalar<double>("right", 0);
      for (auto half : p.loop("half", 2)) {
        auto w = p.let("w", 0.25 + 0.5 * cast<double>(half));
        f(0) = (1 - w) * coarse(max(at(q) - 1, 0)) + w * coarse(at(q));
        f(2 * b + 1) = (1 - w) * coarse(min(at(q) + b, n - 1)) + w * coarse(at(q) + b - 1);
        for (auto k : p.loop("k", 2 * b)) f(k + 1) = fine(q, k);
        for (auto k : p.loop("k1", 2 * b + 1)) {
          g(k) = 0.4 * (1 + 0.5 * kappa(at(q) + min(k / 2, b - 1))) * (f(k + 1) - f(k));
          g(k) *= select(g(k) > 0.3, 0.5, 1.0);
        }
        for (auto k : p.loop("k2", 2 * b)) fine(q, k) += 0.5 * (g(k + 1) - g(k));
        left += 0.25 * g(0);
        right += 0.25 * g(2 * b);
      }
      flux(at(q)) = left;
      flux(at(q) + b) = right;
    }
    for (auto i : p.loop("i1", n)) coarse(i) += flux(i + 1) - flux(i);
    for (auto q : p.loop("q1", blocks))
      for (auto k : p.loop("k3", b)) coarse(at(q) + k) = 0.5 * (fine(q, 2 * k) + fine(q, 2 * k + 1));
  }
  return p.build();
}

}  // namespace

std::vector<Field> estimates() {
  auto tree = [](const Sizes& sizes, std::uint64_t, InputArrays& arrays) {  // each pair of nodes has a parent
    const std::int64_t leaves = sizes.at("leaves");
    for (std::int64_t v = 0; v + 1 < leaves; ++v)
      for (std::int64_t c = 0; c < 2; ++c) arrays.at("child").set(2 * v + c, static_cast<double>(2 * v + c));
  };
  auto downstream = [](const Sizes& sizes, std::uint64_t, InputArrays& arrays) {  // within the next 40 reaches
    const std::int64_t n = sizes.at("n");
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t to = i + 1 + (i * 7919) % 40;
      arrays.at("down").set(i, static_cast<double>(to < n ? to : -1));
    }
  };
  return {
      {{"nearest_samples", "", nearest_samples, {{"n", 5003}, {"m", 1009}, {"k", 8}, {"c", 3}}},
       {{{"n", 4}, {"m", 9}, {"k", 3}, {"c", 2}},
        {{"n", 1}, {"m", 1}, {"k", 1}, {"c", 1}},
        {{"n", 3}, {"m", 2}, {"k", 4}, {"c", 1}}}},
      {{"banded_kriging", "", banded_kriging, {{"fields", 301}, {"n", 203}, {"b", 9}, {"targets", 101}}},
       {{{"fields", 2}, {"n", 6}, {"b", 2}, {"targets", 3}},
        {{"fields", 1}, {"n", 1}, {"b", 1}, {"targets", 1}},
        {{"fields", 2}, {"n", 3}, {"b", 5}, {"targets", 2}}}},
      {{"tomography", "", tomography, {{"rays", 20011}, {"g", 127}}},
       {{{"rays", 5}, {"g", 4}}, {{"rays", 1}, {"g", 1}}, {{"rays", 3}, {"g", 7}}}},
      {{"ensemble_update", "", ensemble_update, {{"members", 65}, {"n", 5003}, {"obs", 33}}},
       {{{"members", 4}, {"n", 5}, {"obs", 3}},
        {{"members", 1}, {"n", 1}, {"obs", 1}},
        {{"members", 3}, {"n", 2}, {"obs", 4}}}},
      {{"river_routing", "", river_routing, {{"n", 20011}, {"days", 60}, {"gauges", 31}}, {}, {}, downstream},
       {{{"n", 7}, {"days", 3}, {"gauges", 2}},
        {{"n", 1}, {"days", 1}, {"gauges", 1}},
        {{"n", 45}, {"days", 2}, {"gauges", 3}}}},
      {{"felsenstein", "", felsenstein, {{"sites", 1501}, {"leaves", 33}, {"rates", 4}}, {}, {}, tree},
       {{{"sites", 3}, {"leaves", 4}, {"rates", 2}},
        {{"sites", 1}, {"leaves", 1}, {"rates", 1}},
        {{"sites", 2}, {"leaves", 9}, {"rates", 1}}}},
      {{"particle_filter", "", particle_filter, {{"series", 101}, {"t", 51}, {"n", 257}}},
       {{{"series", 2}, {"t", 3}, {"n", 5}}, {{"series", 1}, {"t", 1}, {"n", 1}}, {{"series", 3}, {"t", 2}, {"n", 4}}}},
      {{"two_levels", "", two_levels, {{"n", 100003}, {"blocks", 2003}, {"b", 15}, {"steps", 20}}},
       {{{"n", 9}, {"blocks", 2}, {"b", 2}, {"steps", 2}},
        {{"n", 2}, {"blocks", 1}, {"b", 1}, {"steps", 1}},
        {{"n", 17}, {"blocks", 4}, {"b", 3}, {"steps", 3}}}},
  };
}

}  // namespace loopgrad::fields

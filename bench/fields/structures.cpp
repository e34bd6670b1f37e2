// Structures, beams of particles, orbits, populations: elements in lists, states that are carried.
#include "bench/fields/fields.h"

#include "tools/support/random.h"

#include <algorithm>
#include <cmath>

namespace loopgrad::fields {
namespace {

/// Explicit dynamics of a truss whose bars yield and harden: strain, return to the yield surface, nodal forces.
Program truss_yield() {
  ProgramBuilder p("truss_yield");
  auto nodes = p.size("nodes"), bars = p.size("bars"), steps = p.size("steps");
  auto node = p.input<int>("node", {bars, 2});
  p.in_range(node, 0, nodes);
  auto area = p.input<double>("area", {bars}), yield = p.input<double>("yield", {bars});
  auto start = p.input<double>("start", {nodes, 3}), load = p.input<double>("load", {nodes, 3});
  auto tip = p.output<double>("tip", {steps}), plastic = p.output<double>("plastic", {bars});
  auto x = p.local<double>("x", {nodes, 3}), v = p.local<double>("v", {nodes, 3}), f = p.local<double>("f", {nodes, 3});
  auto hard = p.local<double>("hard", {bars});
  for (auto [i, c] : p.loop({"i", nodes}, {"c", 3})) x(i, c) = start(i, c), v(i, c) = 0.0;
  for (auto b : p.loop("b", bars)) plastic(b) = 0.0, hard(b) = 0.0;
  for (auto t : p.loop("t", steps)) {
    for (auto [i, c] : p.loop({"i1", nodes}, {"c1", 3})) f(i, c) = load(i, c) - 0.1 * v(i, c);
    for (auto b : p.loop("b1", bars)) {
      const Vec<3> d = loopgrad::load<3>(x.row(node(b, 1))) - loopgrad::load<3>(x.row(node(b, 0)));
      const Vec<3> d0 = loopgrad::load<3>(start.row(node(b, 1))) - loopgrad::load<3>(start.row(node(b, 0)));
      auto l = p.let("l", sqrt(dot(d, d) + 0.01)), l0 = p.let("l0", sqrt(dot(d0, d0) + 0.01));
      auto trial = p.let("trial", 5.0 * ((l - l0) / l0 - plastic(b)));
      auto excess = p.let("excess", abs(trial) - (0.3 + 0.1 * yield(b) + 0.5 * hard(b)));
      auto stress = p.scalar<double>("stress");
      stress = trial;
      p.when(excess > 0.0, [&] {
        auto gamma = p.let("gamma", excess / 5.5), sign = p.let("sign", select(trial < 0.0, Value(-1.0), Value(1.0)));
        stress -= 5.0 * gamma * sign;
        plastic(b) += gamma * sign;
        hard(b) += gamma;
      });
      auto pull = p.let("pull", stress * (1.0 + 0.5 * area(b)) / l);
      for (int c = 0; c < 3; ++c) {
        f(node(b, 0), c) += pull * d[c];
        f(node(b, 1), c) -= pull * d[c];
      }
    }
    for (auto [i, c] : p.loop({"i2", nodes}, {"c2", 3})) {
      v(i, c) += 0.02 * f(i, c);
      x(i, c) += 0.02 * v(i, c);
    }
    tip(t) = x(nodes - 1, 2);
  }
  return p.build();
}

/// Topology: a density filter of radius 2 and powers of densities on a flattened grid, compliance of four-node
/// elements.
Program density_filter() {
  ProgramBuilder p("density_filter");
  auto h = p.size("h"), w = p.size("w");
  auto rho = p.input<float>("rho", {h * w}), u = p.input<float>("u", {(h + 1) * (w + 1) * 2}),
       ke = p.input<float>("ke", {8, 8});
  auto compliance = p.output<float>("compliance", {}), volume = p.output<float>("volume", {}),
       smooth = p.output<float>("smooth", {h * w});
  compliance() = 0.0f, volume() = 0.0f;
  for (auto i : p.loop("i", h))
    for (auto j : p.loop("j", w)) {
      auto sum = p.scalar<float>("sum", 0), mass = p.scalar<float>("mass", 0);
      for (auto a : p.loop("a", max(i - 2, 0), min(i + 3, h)))
        for (auto b : p.loop("b", max(j - 2, 0), min(j + 3, w))) {
          auto far = cast<float>((a - i) * (a - i) + (b - j) * (b - j));
          auto weight = p.let("weight", max(2.5f - sqrt(far), 0.0f));
          mass += weight;
          sum += weight * (0.6f + 0.4f * rho(a * w + b));
        }
      smooth(i * w + j) = sum / mass;
    }
  for (auto i : p.loop("i1", h))
    for (auto j : p.loop("j1", w)) {
      auto e = p.local<float>("e", {8});
      for (int k = 0; k < 4; ++k)
        for (int c = 0; c < 2; ++c) e(2 * k + c) = u(((i + k / 2) * (w + 1) + j + k % 2) * 2 + c);
      auto energy = p.scalar<float>("energy", 0);
      for (auto a : p.loop("a1", 8))
        for (auto b : p.loop("b1", 8)) energy += e(a) * ke(a, b) * e(b);
      auto r = p.let("r", smooth(i * w + j));
      compliance() += (0.01f + pow(r, 3.0f)) * energy;
      volume() += r;
    }
  return p.build();
}

/// The factors of a symmetric matrix in skyline storage, in place: column j begins at row first(j), its diagonal at
/// diag(j).
Program skyline_ldl() {
  ProgramBuilder p("skyline_ldl");
  auto n = p.size("n"), total = p.size("total");
  auto diag = p.input<int>("diag", {n + 1}), first = p.input<int>("first", {n});
  p.in_range(diag, 0, total), p.in_range(first, 0, n);
  auto a = p.inout<double>("a", {total}), b = p.inout<double>("b", {n});
  auto logdet = p.output<double>("logdet", {});
  logdet() = 0.0;
  for (auto j : p.loop("j", n)) {
    auto d = p.let("d", cast<std::int64_t>(diag(j))), f = p.let("f", cast<std::int64_t>(first(j)));
    for (auto i : p.loop("i", f + 1, j)) {
      auto di = p.let("di", cast<std::int64_t>(diag(i)));
      for (auto k : p.loop("k", max(f, cast<std::int64_t>(first(i))), i))
        a(d + j - i) -= 0.1 * a(di + i - k) * a(d + j - k);
    }
    for (auto i : p.loop("i1", f, j)) {
      auto old = p.let("old", a(d + j - i));
      auto l = p.let("l", old / (2.0 + a(diag(i)) * a(diag(i))));
      a(d + j - i) = l;
      a(d) -= 0.1 * l * old;
    }
    logdet() += log(2.0 + a(d) * a(d));
    for (auto i : p.loop("i2", f, j)) b(j) -= 0.1 * a(d + j - i) * b(i);
  }
  return p.build();
}

/// Particles through a lattice of magnets, six coordinates in place, with an aperture that some do not pass.
Program beam_line() {
  ProgramBuilder p("beam_line");
  auto n = p.size("n"), elements = p.size("elements");
  auto kind = p.input<int>("kind", {elements});
  p.in_range(kind, 0, 4);
  auto length = p.input<double>("length", {elements}), k = p.input<double>("k", {elements});
  auto z = p.inout<double>("z", {n, 6});
  auto width = p.output<double>("width", {elements, 2}), alive = p.output<double>("alive", {n});
  for (auto [e, c] : p.loop({"e0", elements}, {"c0", 2})) width(e, c) = 0.0;
  for (auto i : p.loop("i", n)) {
    alive(i) = 1.0;
    for (auto e : p.loop("e", elements)) {
      auto l = p.let("l", 0.3 + 0.1 * length(e));
      p.when(alive(i) > 0.5, [&] {
        p.when(kind(e) == 0, [&] {
          z(i, 0) += l * z(i, 1);
          z(i, 2) += l * z(i, 3);
          z(i, 4) += 0.5 * l * (z(i, 1) * z(i, 1) + z(i, 3) * z(i, 3));
        });
        p.when(kind(e) == 1, [&] {
          auto w = p.let("w", sqrt(0.5 + 0.2 * k(e))), x = p.let("x", z(i, 0)), px = p.let("px", z(i, 1));
          auto y = p.let("y", z(i, 2)), py = p.let("py", z(i, 3));
          z(i, 0) = cos(w * l) * x + sin(w * l) / w * px;
          z(i, 1) = cos(w * l) * px - w * sin(w * l) * x;
          z(i, 2) = cosh(w * l) * y + sinh(w * l) / w * py;
          z(i, 3) = cosh(w * l) * py + w * sinh(w * l) * y;
        });
        p.when(kind(e) == 2, [&] {
          z(i, 1) -= 0.2 * k(e) * (z(i, 0) * z(i, 0) - z(i, 2) * z(i, 2));
          z(i, 3) += 0.4 * k(e) * z(i, 0) * z(i, 2);
        });
        p.when(kind(e) == 3, [&] { z(i, 5) += 0.1 * k(e) * sin(z(i, 4)); });
        p.when(z(i, 0) * z(i, 0) + z(i, 2) * z(i, 2) > 4.0, [&] { alive(i) = 0.0; });
        width(e, 0) += z(i, 0) * z(i, 0);
        width(e, 1) += z(i, 2) * z(i, 2);
      });
    }
  }
  return p.build();
}

/// Satellites by Runge and Kutta in a field of zonal harmonics (Legendre's recursion), drag, and ranges to stations.
Program zonal_orbits() {
  ProgramBuilder p("zonal_orbits");
  auto n = p.size("n"), deg = p.size("deg"), steps = p.size("steps"), stations = p.size("stations");
  auto harmonic = p.input<double>("harmonic", {deg + 1}), drag = p.input<double>("drag", {n}),
       site = p.input<double>("site", {stations, 3});
  auto r0 = p.input<double>("r0", {n, 3}), v0 = p.input<double>("v0", {n, 3});
  auto range = p.output<double>("range", {n, steps});
  for (auto s : p.loop("s", n)) {
    auto y = p.local<double>("y", {6}), k = p.local<double>("k", {4, 6}), at = p.local<double>("at", {6});
    for (auto c : p.loop("c", 3)) {
      y(c) = r0(s, c) + select(c == 0, Value(3.0), Value(0.0));
      y(c + 3) = 0.2 * v0(s, c) + select(c == 1, Value(0.5), Value(0.0));
    }
    for (auto t : p.loop("t", steps)) {
      for (int stage = 0; stage < 4; ++stage) {
        for (auto c : p.loop("c1", 6)) {
          if (stage == 0) at(c) = y(c);
          else at(c) = y(c) + (stage == 3 ? 0.1 : 0.05) * k(stage - 1, c);
        }
        auto r = p.let("r", sqrt(at(0) * at(0) + at(1) * at(1) + at(2) * at(2) + 0.1)), sine = p.let("sine", at(2) / r);
        auto before = p.scalar<double>("before", 1.0), now = p.scalar<double>("now", 0),
             sum = p.scalar<double>("sum", 0), scale = p.scalar<double>("scale", 0);
        now = sine;
        scale = 1.0 / r;
        for (auto l : p.loop("l", 2, deg + 1)) {
          auto lf = p.let("lf", cast<double>(l));
          auto next = p.let("next", ((2.0 * lf - 1.0) * sine * now - (lf - 1.0) * before) / lf);
          before = now;
          now = next;
          scale /= r;
          sum += 0.1 * harmonic(l) * scale * (lf + 1.0) * next;
        }
        for (auto c : p.loop("c2", 3)) {
          k(stage, c) = at(c + 3);
          k(stage, c + 3) = -at(c) / (r * r * r) * (1.0 + sum) - 0.02 * (1.0 + drag(s)) * at(c + 3);
        }
      }
      for (auto c : p.loop("c3", 6)) y(c) += 0.1 / 6.0 * (k(0, c) + 2.0 * k(1, c) + 2.0 * k(2, c) + k(3, c));
      range(s, t) = 1e3;
      for (auto q : p.loop("q", stations)) {
        auto d = p.scalar<double>("d", 0.01);
        for (auto c : p.loop("c4", 3)) d += (y(c) - site(q, c)) * (y(c) - site(q, c));
        range(s, t).min_with(sqrt(d));
      }
    }
  }
  return p.build();
}

/// Fixes of a receiver: rows of satellites in sight, weights that outliers lose, four unknowns solved a few times.
Program gnss_fix() {
  ProgramBuilder p("gnss_fix");
  auto epochs = p.size("epochs"), obs = p.size("obs"), sats = p.size("sats");
  auto ptr = p.input<int>("ptr", {epochs + 1}), sat = p.input<int>("sat", {obs});
  p.csr(ptr, obs), p.in_range(sat, 0, sats);
  auto place = p.input<double>("place", {sats, 3}), range = p.input<double>("range", {obs}),
       sigma = p.input<double>("sigma", {sats});
  auto fix = p.output<double>("fix", {epochs, 4}), cost = p.output<double>("cost", {epochs});
  for (auto e : p.loop("e", epochs)) {
    for (auto c : p.loop("c", 4)) fix(e, c) = 0.0;
    for (auto it : p.loop("it", 3)) {
      (void)it;
      auto a = p.local<double>("a", {4, 5});
      for (auto [r, c] : p.loop({"r", 4}, {"c1", 5})) a(r, c) = select(r == c, Value(0.5), Value(0.0));
      cost(e) = 0.0;
      for (auto o : p.loop("o", ptr(e), ptr(e + 1))) {
        auto q = sat(o);
        auto row = p.local<double>("row", {5});
        auto d = p.scalar<double>("d", 0.5);
        for (auto c : p.loop("c2", 3)) {
          row(c) = fix(e, c) - 3.0 * place(q, c);
          d += row(c) * row(c);
        }
        for (auto c : p.loop("c3", 3)) row(c) = row(c) / sqrt(d);
        row(3) = 1.0;
        row(4) = 2.0 + range(o) - sqrt(d) - fix(e, 3);
        auto size = p.let("size", abs(row(4)) / (0.7 + 0.2 * sigma(q)));
        auto weight = p.let("weight", select(size > 1.0, 1.0 / size, Value(1.0)));
        cost(e) += select(size > 1.0, 2.0 * size - 1.0, size * size);
        for (auto [r, c] : p.loop({"r1", 4}, {"c4", 5})) a(r, c) += weight * row(r) * row(c);
      }
      for (auto k : p.loop("k", 4))
        for (auto r : p.loop("r2", k + 1, 4)) {
          auto factor = p.let("factor", a(r, k) / a(k, k));
          for (auto c : p.loop("c5", k, 5)) a(r, c) -= factor * a(k, c);
        }
      auto dx = p.local<double>("dx", {4});
      for (auto r : p.loop("r3", 4, {.descending = true})) {
        dx(r) = a(r, 4);
        for (auto c : p.loop("c6", r + 1, 4)) dx(r) -= a(r, c) * dx(c);
        dx(r) = dx(r) / a(r, r);
        fix(e, r) += dx(r);
      }
    }
  }
  return p.build();
}

}  // namespace

std::vector<Field> structures() {
  auto skyline = [](const Sizes& sizes, std::uint64_t seed, InputArrays& arrays) {
    tools::Random random(seed);
    const std::int64_t n = sizes.at("n"), most = sizes.at("total") / n;
    std::int64_t at = 0;
    for (std::int64_t j = 0; j < n; ++j) {
      const std::int64_t height = std::min(j, random.below(most));
      arrays.at("diag").set(j, static_cast<double>(at));
      arrays.at("first").set(j, static_cast<double>(j - height));
      at += height + 1;
    }
    arrays.at("diag").set(n, static_cast<double>(at - 1));
  };
  return {
      {{"truss_yield", "", truss_yield, {{"nodes", 700}, {"bars", 3000}, {"steps", 100}}},
       {{{"nodes", 5}, {"bars", 7}, {"steps", 4}}, {{"nodes", 1}, {"bars", 1}, {"steps", 2}}}},
      {{"density_filter", "", density_filter, {{"h", 301}, {"w", 503}}},
       {{{"h", 5}, {"w", 7}}, {{"h", 1}, {"w", 1}}, {{"h", 2}, {"w", 9}}}},
      {{"skyline_ldl", "", skyline_ldl, {{"n", 150}, {"total", 9000}}, {}, {}, skyline},
       {{{"n", 7}, {"total", 28}}, {{"n", 1}, {"total", 1}}, {{"n", 11}, {"total", 40}}}},
      {{"beam_line", "", beam_line, {{"n", 3000}, {"elements", 150}}},
       {{{"n", 5}, {"elements", 7}}, {{"n", 1}, {"elements", 1}}, {{"n", 3}, {"elements", 13}}}},
      {{"zonal_orbits", "", zonal_orbits, {{"n", 100}, {"deg", 8}, {"steps", 300}, {"stations", 5}}},
       {{{"n", 2}, {"deg", 4}, {"steps", 2}, {"stations", 3}}, {{"n", 1}, {"deg", 2}, {"steps", 1}, {"stations", 1}}}},
      {{"gnss_fix", "", gnss_fix, {{"epochs", 15000}, {"obs", 130000}, {"sats", 31}}},
       {{{"epochs", 3}, {"obs", 14}, {"sats", 7}}, {{"epochs", 1}, {"obs", 4}, {"sats", 3}}}},
  };
}

}  // namespace loopgrad::fields

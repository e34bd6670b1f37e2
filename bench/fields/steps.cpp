// Solvers and networks in steps, in each of which much is small: what is between the steps decides.
#include "bench/fields/fields.h"

namespace loopgrad::fields {
namespace {

/// Conjugate gradients on a five-point stencil with a varying coefficient, without a matrix.
Program stencil_gradients() {
  ProgramBuilder p("stencil_gradients");
  auto n = p.size("n"), m = p.size("m"), steps = p.size("steps");
  auto k = p.input<float>("k", {n, m}), b = p.input<float>("b", {n, m});
  auto x = p.output<float>("x", {n, m});
  auto r = p.local<float>("r", {n, m}), d = p.local<float>("d", {n, m}), q = p.local<float>("q", {n, m});
  for (auto [i, j] : p.loop({"i0", n}, {"j0", m})) {
    x(i, j) = 0;
    r(i, j) = b(i, j);
    d(i, j) = b(i, j);
  }
  for (auto t : p.loop("t", steps)) {
    auto rr = p.scalar<float>("rr", 1e-9f), dq = p.scalar<float>("dq", 1e-9f), next = p.scalar<float>("next", 0);
    for (auto [i, j] : p.loop({"i1", n}, {"j1", m})) rr += r(i, j) * r(i, j);
    for (auto [i, j] : p.loop({"i2", n}, {"j2", m})) {
      q(i, j) = (4 + k(i, j) * k(i, j)) * d(i, j);
      p.when(i > 0, [&] { q(i, j) -= d(i - 1, j); });
      p.when(i + 1 < n, [&] { q(i, j) -= d(i + 1, j); });
      p.when(j > 0, [&] { q(i, j) -= d(i, j - 1); });
      p.when(j + 1 < m, [&] { q(i, j) -= d(i, j + 1); });
      dq += d(i, j) * q(i, j);
    }
    for (auto [i, j] : p.loop({"i3", n}, {"j3", m})) {
      x(i, j) += rr / dq * d(i, j);
      r(i, j) -= rr / dq * q(i, j);
      next += r(i, j) * r(i, j);
    }
    for (auto [i, j] : p.loop({"i4", n}, {"j4", m})) d(i, j) = r(i, j) + next / rr * d(i, j);
  }
  return p.build();
}

/// Bodies that all attract each other, by leapfrog.
Program leapfrog() {
  ProgramBuilder p("leapfrog");
  auto n = p.size("n"), steps = p.size("steps");
  auto mass = p.input<float>("mass", {n});
  auto x = p.inout<float>("x", {n, 3}), v = p.inout<float>("v", {n, 3});
  for (auto t : p.loop("t", steps)) {
    for (auto i : p.loop("i", n)) {
      auto ax = p.scalar<float>("ax", 0), ay = p.scalar<float>("ay", 0), az = p.scalar<float>("az", 0);
      for (auto j : p.loop("j", n)) {
        auto dx = p.let("dx", x(j, 0) - x(i, 0)), dy = p.let("dy", x(j, 1) - x(i, 1)),
             dz = p.let("dz", x(j, 2) - x(i, 2));
        auto s = p.let("s", dx * dx + dy * dy + dz * dz + 0.1f);
        auto w = p.let("w", mass(j) / (s * sqrt(s)));
        ax += w * dx;
        ay += w * dy;
        az += w * dz;
      }
      v(i, 0) += 0.001f * ax;
      v(i, 1) += 0.001f * ay;
      v(i, 2) += 0.001f * az;
    }
    for (auto [i, c] : p.loop({"i2", n}, {"c", 3})) x(i, c) += 0.01f * v(i, c);
  }
  return p.build();
}

/// A recurrent network that attends to its own past in each step.
Program own_past() {
  ProgramBuilder p("own_past");
  auto b = p.size("b"), n = p.size("n"), d = p.size("d");
  auto x = p.input<float>("x", {b, n, d}), w = p.input<float>("w", {d, d});
  auto h = p.output<float>("h", {b, n, d});
  auto score = p.local<float>("score", {b, n});
  for (auto s : p.loop("s", b))
    for (auto t : p.loop("t", n)) {
      auto total = p.scalar<float>("total", 1);
      for (auto u : p.loop("u", 0, t)) {
        auto dot = p.scalar<float>("dot", 0);
        for (auto c : p.loop("c", d)) dot += h(s, u, c) * x(s, t, c);
        score(s, u) = exp(0.2f * dot);
        total += score(s, u);
      }
      for (auto c : p.loop("c2", d)) {
        auto sum = p.scalar<float>("sum", x(s, t, c));
        for (auto u : p.loop("u2", 0, t)) sum += score(s, u) / total * h(s, u, c);
        for (auto e : p.loop("e", d)) sum += 0.1f * w(c, e) * x(s, t, e);
        h(s, t, c) = tanh(sum);
      }
    }
  return p.build();
}

/// Filters on a graph by Chebyshev polynomials.
Program chebyshev() {
  ProgramBuilder p("chebyshev");
  auto v = p.size("v"), e = p.size("e"), f = p.size("f"), o = p.size("o"), order = p.size("order");
  auto ptr = p.input<std::int32_t>("ptr", {v + 1}), col = p.input<std::int32_t>("col", {e});
  p.csr(ptr, e);
  p.in_range(col, 0, v);
  auto a = p.input<float>("a", {e}), x = p.input<float>("x", {v, f}), w = p.input<float>("w", {order, f, o});
  auto y = p.output<float>("y", {v, o});
  auto z = p.local<float>("z", {order + 2, v, f});
  for (auto [i, c] : p.loop({"i0", v}, {"c0", f})) {
    z(0, i, c) = 0;
    z(1, i, c) = x(i, c);
  }
  for (auto [i, k] : p.loop({"i1", v}, {"k1", o})) y(i, k) = 0;
  for (auto l : p.loop("l", order)) {
    for (auto [i, k] : p.loop({"i2", v}, {"k", o}))
      for (auto c : p.loop("c", f)) y(i, k) += z(l + 1, i, c) * w(l, c, k);
    for (auto i : p.loop("i3", v)) {
      for (auto c : p.loop("c3", f)) z(l + 2, i, c) = -z(l, i, c);
      for (auto j : p.loop("j", ptr(i), ptr(i + 1)))
        for (auto c : p.loop("c4", f)) z(l + 2, i, c) += 0.3f * a(j) * z(l + 1, col(j), c);
    }
  }
  return p.build();
}

/// A convolution whose channels become pixels, twice as many in both directions.
Program subpixel() {
  ProgramBuilder p("subpixel");
  auto n = p.size("n"), m = p.size("m"), ci = p.size("ci"), co = p.size("co");
  auto x = p.input<float>("x", {ci, n, m}), w = p.input<float>("w", {4 * co, ci, 3, 3});
  auto y = p.output<float>("y", {co, 2 * n, 2 * m});
  for (auto [k, i, j] : p.loop({"k", co}, {"i", 2 * n}, {"j", 2 * m})) {
    auto s = p.scalar<float>("s", 0);
    for (auto c : p.loop("c", ci))
      for (auto [a, b] : p.loop({"a", 3}, {"b", 3})) {
        auto u = p.let("u", i / 2 + a - 1), v = p.let("v", j / 2 + b - 1);
        p.when(u >= 0 && u < n && v >= 0 && v < m, [&] { s += x(c, u, v) * w(4 * k + 2 * (i % 2) + j % 2, c, a, b); });
      }
    y(k, i, j) = max(s, 0.1f * s);
  }
  return p.build();
}

/// Curves drawn softly: the nearest of their samples decides how dark a pixel is.
Program curves() {
  ProgramBuilder p("curves");
  auto n = p.size("n"), k = p.size("k"), samples = p.size("samples");
  auto control = p.input<float>("control", {k, 3, 2}), ink = p.input<float>("ink", {k});
  auto image = p.output<float>("image", {n, n});
  for (auto [i, j] : p.loop({"i", n}, {"j", n})) {
    auto light = p.scalar<float>("light", 1);
    for (auto c : p.loop("c", k)) {
      auto nearest = p.scalar<float>("nearest", 1e9f);
      for (auto s : p.loop("s", samples)) {
        auto t = p.let("t", (cast<float>(s) + 0.5f) / cast<float>(samples));
        auto a = p.let("a", (1 - t) * (1 - t)), b = p.let("b", 2 * t * (1 - t)), e = p.let("e", t * t);
        auto dx = p.let("dx", a * control(c, 0, 0) + b * control(c, 1, 0) + e * control(c, 2, 0) -
                                  (2 * cast<float>(i) / cast<float>(n) - 1));
        auto dy = p.let("dy", a * control(c, 0, 1) + b * control(c, 1, 1) + e * control(c, 2, 1) -
                                  (2 * cast<float>(j) / cast<float>(n) - 1));
        nearest.min_with(dx * dx + dy * dy);
      }
      light *= 1 - 0.5f * abs(sin(ink(c))) * exp(-20 * nearest);
    }
    image(i, j) = light;
  }
  return p.build();
}

/// Chains of rotations as quaternions, one after the other along each arm.
Program arms() {
  ProgramBuilder p("arms");
  auto b = p.size("b"), n = p.size("n");
  auto turn = p.input<float>("turn", {b, n, 4}), length = p.input<float>("length", {n});
  auto tip = p.output<float>("tip", {b, 3});
  for (auto s : p.loop("s", b)) {
    auto w = p.scalar<float>("w", 1), x = p.scalar<float>("x", 0), y = p.scalar<float>("y", 0),
         z = p.scalar<float>("z", 0);
    for (auto c : p.loop("c", 3)) tip(s, c) = 0;
    for (auto k : p.loop("k", n)) {
      auto norm = p.let("norm", sqrt(turn(s, k, 0) * turn(s, k, 0) + turn(s, k, 1) * turn(s, k, 1) +
                                     turn(s, k, 2) * turn(s, k, 2) + turn(s, k, 3) * turn(s, k, 3) + 0.1f));
      auto a = p.let("a", turn(s, k, 0) / norm), e = p.let("e", turn(s, k, 1) / norm),
           f = p.let("f", turn(s, k, 2) / norm), g = p.let("g", turn(s, k, 3) / norm);
      auto w2 = p.let("w2", w * a - x * e - y * f - z * g), x2 = p.let("x2", w * e + x * a + y * g - z * f),
           y2 = p.let("y2", w * f - x * g + y * a + z * e), z2 = p.let("z2", w * g + x * f - y * e + z * a);
      w = w2;
      x = x2;
      y = y2;
      z = z2;
      tip(s, 0) += length(k) * (1 - 2 * (y * y + z * z));
      tip(s, 1) += length(k) * 2 * (x * y + w * z);
      tip(s, 2) += length(k) * 2 * (x * z - w * y);
    }
  }
  return p.build();
}

/// Gas in a tube, with steps as long as the fastest wave allows.
Program fastest_wave() {
  ProgramBuilder p("fastest_wave");
  auto n = p.size("n"), steps = p.size("steps");
  auto rho = p.inout<float>("rho", {n}), mom = p.inout<float>("mom", {n});
  auto fr = p.local<float>("fr", {n + 1}), fm = p.local<float>("fm", {n + 1});
  for (auto i : p.loop("i0", n)) rho(i) = 1 + 0.2f * sin(rho(i));
  for (auto t : p.loop("t", steps)) {
    auto speed = p.scalar<float>("speed", 0.1f);
    for (auto i : p.loop("i", n)) speed.max_with(abs(mom(i) / rho(i)) + sqrt(rho(i)));
    for (auto i : p.loop("i1", 1, n)) {
      auto ul = p.let("ul", mom(i - 1) / rho(i - 1)), ur = p.let("ur", mom(i) / rho(i));
      fr(i) = 0.5f * (mom(i - 1) + mom(i)) - 0.5f * speed * (rho(i) - rho(i - 1));
      fm(i) = 0.5f * (ul * mom(i - 1) + 0.5f * rho(i - 1) * rho(i - 1) + ur * mom(i) + 0.5f * rho(i) * rho(i)) -
              0.5f * speed * (mom(i) - mom(i - 1));
    }
    for (auto i : p.loop("i2", 1, n - 1)) {
      rho(i) -= 0.3f / speed * (fr(i + 1) - fr(i));
      mom(i) -= 0.3f / speed * (fm(i + 1) - fm(i));
    }
  }
  return p.build();
}

/// Mixtures fitted by expectation and maximisation, a few rounds.
Program mixture_rounds() {
  ProgramBuilder p("mixture_rounds");
  auto n = p.size("n"), k = p.size("k"), d = p.size("d"), rounds = p.size("rounds");
  auto x = p.input<float>("x", {n, d});
  auto mu = p.inout<float>("mu", {k, d});
  auto r = p.local<float>("r", {n, k}), weight = p.local<float>("weight", {k}), sum = p.local<float>("sum", {k, d});
  for (auto t : p.loop("t", rounds)) {
    for (auto i : p.loop("i", n)) {
      auto total = p.scalar<float>("total", 1e-6f);
      for (auto c : p.loop("c", k)) {
        auto s = p.scalar<float>("s", 0);
        for (auto j : p.loop("j", d)) s += (x(i, j) - mu(c, j)) * (x(i, j) - mu(c, j));
        r(i, c) = exp(-0.5f * s);
        total += r(i, c);
      }
      for (auto c : p.loop("c2", k)) r(i, c) = r(i, c) / total;
    }
    for (auto c : p.loop("c3", k)) {
      weight(c) = 1e-3f;
      for (auto j : p.loop("j3", d)) sum(c, j) = 0;
    }
    for (auto i : p.loop("i4", n))
      for (auto c : p.loop("c4", k)) {
        weight(c) += r(i, c);
        for (auto j : p.loop("j4", d)) sum(c, j) += r(i, c) * x(i, j);
      }
    for (auto [c, j] : p.loop({"c5", k}, {"j5", d})) mu(c, j) = sum(c, j) / weight(c);
  }
  return p.build();
}

/// The sum of the largest entries of rows, found one after the other, smaller ones weighing less.
Program repeated_largest() {
  ProgramBuilder p("repeated_largest");
  auto n = p.size("n"), m = p.size("m"), k = p.size("k");
  auto x = p.input<float>("x", {n, m});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", n)) {
    y(i) = 0;
    auto below = p.scalar<float>("below", 1e30f);
    for (auto r : p.loop("r", k)) {
      auto largest = p.scalar<float>("largest", -1e30f);
      for (auto j : p.loop("j", m)) p.when(x(i, j) < below, [&] { largest.max_with(x(i, j)); });
      p.when(largest > -1e29f, [&] { y(i) += largest * largest / cast<float>(r + 1); });
      below = largest;
    }
  }
  return p.build();
}

/// The exponential of matrices, by the terms of its series and by squaring.
Program matrix_exponential() {
  ProgramBuilder p("matrix_exponential");
  auto b = p.size("b"), n = p.size("n"), terms = p.size("terms"), squarings = p.size("squarings");
  auto a = p.input<float>("a", {b, n, n});
  auto e = p.output<float>("e", {b, n, n});
  auto power = p.local<float>("power", {b, n, n}), next = p.local<float>("next", {b, n, n});
  for (auto [s, i, j] : p.loop({"s0", b}, {"i0", n}, {"j0", n})) {
    power(s, i, j) = select(i == j, 1.0f, 0.0f);
    e(s, i, j) = select(i == j, 1.0f, 0.0f);
  }
  for (auto t : p.loop("t", terms)) {
    for (auto [s, i, j] : p.loop({"s", b}, {"i", n}, {"j", n})) {
      next(s, i, j) = 0;
      for (auto l : p.loop("l", n)) next(s, i, j) += power(s, i, l) * a(s, l, j) * 0.1f / cast<float>(t + 1);
    }
    for (auto [s, i, j] : p.loop({"s1", b}, {"i1", n}, {"j1", n})) {
      power(s, i, j) = next(s, i, j);
      e(s, i, j) += next(s, i, j);
    }
  }
  for (auto t : p.loop("t2", squarings)) {
    for (auto [s, i, j] : p.loop({"s2", b}, {"i2", n}, {"j2", n})) {
      next(s, i, j) = 0;
      for (auto l : p.loop("l2", n)) next(s, i, j) += e(s, i, l) * e(s, l, j);
    }
    for (auto [s, i, j] : p.loop({"s3", b}, {"i3", n}, {"j3", n})) e(s, i, j) = 0.5f * next(s, i, j);
  }
  return p.build();
}

/// Small systems, each factorised by Cholesky's method and solved.
Program small_systems() {
  ProgramBuilder p("small_systems");
  auto b = p.size("b"), n = p.size("n");
  auto g = p.input<float>("g", {b, n, n}), y = p.input<float>("y", {b, n});
  auto x = p.output<float>("x", {b, n});
  auto l = p.local<float>("l", {b, n, n}), z = p.local<float>("z", {b, n});
  for (auto s : p.loop("s", b)) {
    for (auto [i, j] : p.loop({"i0", n}, {"j0", n})) {
      l(s, i, j) = select(i == j, 2.0f, 0.0f);
      for (auto k : p.loop("k0", n)) l(s, i, j) += 0.1f * g(s, i, k) * g(s, j, k);
    }
    for (auto k : p.loop("k", n)) {
      l(s, k, k) = sqrt(l(s, k, k));
      for (auto i : p.loop("i", k + 1, n)) l(s, i, k) = l(s, i, k) / l(s, k, k);
      for (auto j : p.loop("j", k + 1, n))
        for (auto i : p.loop("i2", j, n)) l(s, i, j) -= l(s, i, k) * l(s, j, k);
    }
    for (auto i : p.loop("i3", n)) {
      z(s, i) = y(s, i);
      for (auto k : p.loop("k3", 0, i)) z(s, i) -= l(s, i, k) * z(s, k);
      z(s, i) = z(s, i) / l(s, i, i);
    }
    for (auto r : p.loop("r", n)) {
      auto i = p.let("at", n - 1 - r);
      x(s, i) = z(s, i);
      for (auto k : p.loop("k4", n - r, n)) x(s, i) -= l(s, k, i) * x(s, k);
      x(s, i) = x(s, i) / l(s, i, i);
    }
  }
  return p.build();
}

/// Features of vertices normalised over the graph that each vertex belongs to.
Program graph_norm() {
  ProgramBuilder p("graph_norm");
  auto v = p.size("v"), g = p.size("g"), d = p.size("d");
  auto graph = p.input<std::int32_t>("graph", {v});
  p.in_range(graph, 0, g);
  auto x = p.input<float>("x", {v, d}), scale = p.input<float>("scale", {d});
  auto y = p.output<float>("y", {v, d});
  auto count = p.local<float>("count", {g}), mean = p.local<float>("mean", {g, d}), var = p.local<float>("var", {g, d});
  for (auto k : p.loop("k0", g)) {
    count(k) = 1e-3f;
    for (auto c : p.loop("c0", d)) {
      mean(k, c) = 0;
      var(k, c) = 1e-3f;
    }
  }
  for (auto i : p.loop("i", v)) {
    count(graph(i)) += 1;
    for (auto c : p.loop("c", d)) mean(graph(i), c) += x(i, c);
  }
  for (auto [k, c] : p.loop({"k1", g}, {"c1", d})) mean(k, c) = mean(k, c) / count(k);
  for (auto i : p.loop("i2", v))
    for (auto c : p.loop("c2", d)) {
      auto u = p.let("u", x(i, c) - mean(graph(i), c));
      var(graph(i), c) += u * u;
    }
  for (auto i : p.loop("i3", v))
    for (auto c : p.loop("c3", d))
      y(i, c) = scale(c) * (x(i, c) - mean(graph(i), c)) / sqrt(var(graph(i), c) / count(graph(i)));
  return p.build();
}

/// A network as the right side of a differential equation, by Euler's steps.
Program neural_flow() {
  ProgramBuilder p("neural_flow");
  auto b = p.size("b"), d = p.size("d"), h = p.size("h"), steps = p.size("steps");
  auto w1 = p.input<float>("w1", {d, h}), w2 = p.input<float>("w2", {h, d});
  auto x = p.inout<float>("x", {b, d});
  auto z = p.local<float>("z", {b, h});
  for (auto t : p.loop("t", steps)) {
    for (auto [s, k] : p.loop({"s", b}, {"k", h})) {
      z(s, k) = 0.01f * cast<float>(t);
      for (auto j : p.loop("j", d)) z(s, k) += 0.2f * x(s, j) * w1(j, k);
      z(s, k) = tanh(z(s, k));
    }
    for (auto [s, j] : p.loop({"s2", b}, {"j2", d}))
      for (auto k : p.loop("k2", h)) x(s, j) += 0.05f * z(s, k) * w2(k, j);
  }
  return p.build();
}

/// Filters of second order, several one after the other, over many channels.
Program biquads() {
  ProgramBuilder p("biquads");
  auto c = p.size("c"), n = p.size("n"), k = p.size("k");
  auto x = p.input<float>("x", {c, n}), a = p.input<float>("a", {k, 2}), b = p.input<float>("b", {k, 3});
  auto y = p.output<float>("y", {c, n});
  for (auto s : p.loop("s", c)) {
    for (auto i : p.loop("i0", n)) y(s, i) = x(s, i);
    for (auto f : p.loop("f", k)) {
      auto u = p.scalar<float>("u", 0), v = p.scalar<float>("v", 0);
      for (auto i : p.loop("i", n)) {
        auto in = p.let("in", y(s, i));
        auto out = p.let("out", b(f, 0) * in + u);
        u = b(f, 1) * in - 0.3f * a(f, 0) * out + v;
        v = b(f, 2) * in - 0.3f * a(f, 1) * out;
        y(s, i) = out;
      }
    }
  }
  return p.build();
}

/// The largest eigenvalue of a symmetric matrix, by powers of it that are normalised.
Program power_iteration() {
  ProgramBuilder p("power_iteration");
  auto n = p.size("n"), steps = p.size("steps");
  auto a = p.input<float>("a", {n, n});
  auto value = p.output<float>("value", {});
  auto x = p.local<float>("x", {n}), y = p.local<float>("y", {n});
  auto norm = p.local<float>("norm", {});
  for (auto i : p.loop("i0", n)) x(i) = 1 / sqrt(cast<float>(n));
  for (auto t : p.loop("t", steps)) {
    for (auto i : p.loop("i", n)) {
      y(i) = 2 * x(i);
      for (auto j : p.loop("j", n)) y(i) += (a(i, j) + a(j, i)) * x(j);
    }
    norm() = 1e-6f;
    for (auto i : p.loop("i2", n)) norm() += y(i) * y(i);
    for (auto i : p.loop("i3", n)) x(i) = y(i) / sqrt(norm());
  }
  value() = sqrt(norm());
  return p.build();
}

}  // namespace

std::vector<Field> steps() {
  return {
      {{"stencil_gradients", "", stencil_gradients, {{"n", 301}, {"m", 257}, {"steps", 25}}},
       {{{"n", 4}, {"m", 5}, {"steps", 2}}, {{"n", 1}, {"m", 1}, {"steps", 1}}}},
      {{"leapfrog", "", leapfrog, {{"n", 1501}, {"steps", 10}}}, {{{"n", 4}, {"steps", 2}}, {{"n", 1}, {"steps", 1}}}},
      {{"own_past", "", own_past, {{"b", 33}, {"n", 129}, {"d", 31}}},
       {{{"b", 2}, {"n", 3}, {"d", 3}}, {{"b", 1}, {"n", 1}, {"d", 1}}}},
      {{"chebyshev", "", chebyshev, {{"v", 10007}, {"e", 70001}, {"f", 19}, {"o", 17}, {"order", 4}}},
       {{{"v", 4}, {"e", 7}, {"f", 2}, {"o", 3}, {"order", 3}},
        {{"v", 1}, {"e", 1}, {"f", 1}, {"o", 1}, {"order", 1}}}},
      {{"subpixel", "", subpixel, {{"n", 65}, {"m", 67}, {"ci", 17}, {"co", 9}}},
       {{{"n", 2}, {"m", 3}, {"ci", 2}, {"co", 2}}, {{"n", 1}, {"m", 1}, {"ci", 1}, {"co", 1}}}},
      {{"curves", "", curves, {{"n", 257}, {"k", 13}, {"samples", 17}}},
       {{{"n", 3}, {"k", 2}, {"samples", 3}}, {{"n", 1}, {"k", 1}, {"samples", 1}}}},
      {{"arms", "", arms, {{"b", 4099}, {"n", 23}}}, {{{"b", 2}, {"n", 3}}, {{"b", 1}, {"n", 1}}}},
      {{"fastest_wave", "", fastest_wave, {{"n", 100003}, {"steps", 30}}},
       {{{"n", 6}, {"steps", 3}}, {{"n", 2}, {"steps", 1}}}},
      {{"mixture_rounds", "", mixture_rounds, {{"n", 20011}, {"k", 13}, {"d", 7}, {"rounds", 5}}},
       {{{"n", 5}, {"k", 3}, {"d", 2}, {"rounds", 2}}, {{"n", 1}, {"k", 1}, {"d", 1}, {"rounds", 1}}}},
      {{"repeated_largest", "", repeated_largest, {{"n", 3001}, {"m", 301}, {"k", 8}}},
       {{{"n", 3}, {"m", 5}, {"k", 3}}, {{"n", 1}, {"m", 1}, {"k", 2}}}},
      {{"matrix_exponential", "", matrix_exponential, {{"b", 129}, {"n", 17}, {"terms", 8}, {"squarings", 3}}},
       {{{"b", 2}, {"n", 3}, {"terms", 3}, {"squarings", 2}}, {{"b", 1}, {"n", 1}, {"terms", 1}, {"squarings", 1}}}},
      {{"small_systems", "", small_systems, {{"b", 2003}, {"n", 13}}}, {{{"b", 2}, {"n", 4}}, {{"b", 1}, {"n", 1}}}},
      {{"graph_norm", "", graph_norm, {{"v", 50021}, {"g", 301}, {"d", 31}}},
       {{{"v", 7}, {"g", 3}, {"d", 2}}, {{"v", 1}, {"g", 1}, {"d", 1}}}},
      {{"neural_flow", "", neural_flow, {{"b", 257}, {"d", 33}, {"h", 65}, {"steps", 20}}},
       {{{"b", 2}, {"d", 3}, {"h", 4}, {"steps", 3}}, {{"b", 1}, {"d", 1}, {"h", 1}, {"steps", 1}}}},
      {{"biquads", "", biquads, {{"c", 257}, {"n", 2001}, {"k", 3}}},
       {{{"c", 2}, {"n", 5}, {"k", 2}}, {{"c", 1}, {"n", 1}, {"k", 1}}}},
      {{"power_iteration", "", power_iteration, {{"n", 701}, {"steps", 20}}},
       {{{"n", 4}, {"steps", 3}}, {{"n", 1}, {"steps", 1}}}},
  };
}

}  // namespace loopgrad::fields

#include "bench/fields/fields.h"

#include "tools/support/random.h"

namespace loopgrad::fields {
namespace {

/// Red-black Gauss-Seidel for a Poisson equation with a variable coefficient.
Program gauss_seidel() {
  ProgramBuilder p("gauss_seidel");
  auto t = p.size("t"), n = p.size("n"), m = p.size("m");
  auto f = p.input<float>("f", {n, m}), k = p.input<float>("k", {n, m});
  auto u = p.inout<float>("u", {n, m});
  for (auto s : p.loop("s", 0, t)) {
    (void)s;
    for (auto colour : p.loop("colour", 0, 2))
      for (auto i : p.loop("i", 1, n - 1))
        for (auto j : p.loop("j", 1, m - 1))
          p.when((i + j + colour) % 2 == 0, [&] {
            u(i, j) = (u(i - 1, j) + u(i + 1, j) + u(i, j - 1) + u(i, j + 1) + f(i, j)) / (4.0f + k(i, j) * k(i, j));
          });
  }
  return p.build();
}

/// ADI: implicit steps along rows and then along columns, each a tridiagonal solve by Thomas.
Program adi() {
  ProgramBuilder p("adi");
  auto t = p.size("t"), n = p.size("n");
  auto d = p.input<float>("d", {n, n});
  auto u = p.inout<float>("u", {n, n});
  auto sweep = [&](bool rows) {
    for (auto i : p.loop("i", 0, n)) {
      auto c = p.local<float>("c", {n}), r = p.local<float>("r", {n});
      auto at = [&](const ArrayHandle& a, const Value& j) { return rows ? a(i, j) : a(j, i); };
      for (auto j : p.loop("j", 0, n)) {
        auto side = p.scalar<float>("side"), pivot = p.scalar<float>("pivot");
        side = 0.2f + 0.1f * at(d, j) * at(d, j);
        pivot = 1.0f + 2.0f * side;
        r(j) = at(u, j);
        p.when(j > 0, [&] {
          pivot -= side * c(j - 1);
          r(j) += side * r(j - 1);
        });
        c(j) = side / pivot;
        r(j) = r(j) / pivot;
      }
      for (auto b : p.loop("b", 0, n)) {
        auto j = n - 1 - b;
        p.when(b == 0, [&] { at(u, j) = Value(r(j)); }).otherwise([&] { at(u, j) = r(j) + c(j) * at(u, j + 1); });
      }
    }
  };
  for (auto s : p.loop("s", 0, t)) {
    (void)s;
    sweep(true);
    sweep(false);
  }
  return p.build();
}

Program lu() {
  ProgramBuilder p("lu");
  auto n = p.size("n");
  auto a = p.inout<float>("a", {n, n});
  for (auto k : p.loop("k", 0, n))
    for (auto i : p.loop("i", k + 1, n)) {
      a(i, k) /= a(k, k);
      for (auto j : p.loop("j", k + 1, n)) a(i, j) -= a(i, k) * a(k, j);
    }
  return p.build();
}

/// QR by Givens rotations, in place, for a batch of small matrices.
Program givens() {
  ProgramBuilder p("givens");
  auto batch = p.size("batch"), n = p.size("n");
  auto x = p.input<float>("x", {batch, n, n});
  auto r = p.output<float>("r", {batch, n, n});
  for (auto b : p.loop("b", 0, batch)) {
    for (auto i : p.loop("i", 0, n))
      for (auto j : p.loop("j", 0, n)) r(b, i, j) = x(b, i, j);
    for (auto k : p.loop("k", 0, n - 1))
      for (auto i : p.loop("i", k + 1, n)) {
        auto length = p.scalar<float>("length"), c = p.scalar<float>("c"), s = p.scalar<float>("s");
        length = sqrt(r(b, k, k) * r(b, k, k) + r(b, i, k) * r(b, i, k) + 1e-12f);
        c = r(b, k, k) / length;
        s = r(b, i, k) / length;
        for (auto j : p.loop("j", 0, n)) {
          auto top = p.scalar<float>("top");
          top = c * r(b, k, j) + s * r(b, i, j);
          r(b, i, j) = c * r(b, i, j) - s * r(b, k, j);
          r(b, k, j) = top;
        }
      }
  }
  return p.build();
}

/// Energy of a lattice of soft spins with four neighbours on a torus.
Program potts() {
  ProgramBuilder p("potts");
  auto n = p.size("n"), m = p.size("m"), q = p.size("q");
  auto spin = p.input<float>("spin", {n, m, q}), coupling = p.input<float>("coupling", {n, m, 2});
  auto energy = p.output<float>("energy", {});
  energy() = 0.0f;
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m))
      for (auto s : p.loop("s", 0, q)) {
        energy() -= coupling(i, j, 0) * spin(i, j, s) * spin((i + 1) % n, j, s);
        energy() -= coupling(i, j, 1) * spin(i, j, s) * tanh(spin(i, (j + 1) % m, s));
      }
  return p.build();
}

/// A stencil whose region shrinks with time: what is still known of the middle.
Program shrinking() {
  ProgramBuilder p("shrinking");
  auto t = p.size("t"), n = p.size("n");
  auto a = p.input<float>("a", {n + 2 * t}), w = p.input<float>("w", {3});
  auto y = p.output<float>("y", {n});
  auto u = p.local<float>("u", {t + 1, n + 2 * t});
  for (auto i : p.loop("i", 0, n + 2 * t)) u(0, i) = a(i);
  for (auto s : p.loop("s", 1, t + 1))
    for (auto i : p.loop("i", s, n + 2 * t - s))
      u(s, i) = tanh(w(0) * u(s - 1, i - 1) + w(1) * u(s - 1, i) + w(2) * u(s - 1, i + 1));
  for (auto i : p.loop("i", 0, n)) y(i) = u(t, i + t);
  return p.build();
}

/// A wave step with a nonlinear speed, flat indices, periodic.
Program periodic_wave() {
  ProgramBuilder p("periodic_wave");
  auto t = p.size("t"), n = p.size("n");
  auto u0 = p.input<double>("u0", {n}), speed = p.input<double>("speed", {n});
  auto y = p.output<double>("y", {n});
  auto u = p.local<double>("u", {n}), before = p.local<double>("before", {n}), next = p.local<double>("next", {n});
  for (auto i : p.loop("i", 0, n)) {
    u(i) = u0(i);
    before(i) = u0(i);
  }
  for (auto s : p.loop("s", 0, t)) {
    (void)s;
    for (auto i : p.loop("i", 0, n)) {
      auto left = u((i - 1 + n) % n), right = u((i + 1) % n);
      next(i) = 2.0 * u(i) - before(i) + 0.1 * sin(speed(i) * u(i)) * (left - 2.0 * u(i) + right);
    }
    for (auto i : p.loop("i", 0, n)) {
      before(i) = u(i);
      u(i) = next(i);
    }
  }
  for (auto i : p.loop("i", 0, n)) y(i) = u(i);
  return p.build();
}

/// Two grids: smooth, restrict what is left, smooth there, and interpolate back.
Program two_grids() {
  ProgramBuilder p("two_grids");
  auto n = p.size("n"), t = p.size("t");
  auto f = p.input<double>("f", {2 * n + 1}), w = p.input<double>("w", {});
  auto u = p.inout<double>("u", {2 * n + 1});
  for (auto s : p.loop("s", 0, t)) {
    (void)s;
    auto rest = p.local<double>("rest", {2 * n + 1}), coarse = p.local<double>("coarse", {n + 1});
    for (auto i : p.loop("i", 1, 2 * n)) u(i) += w() * 0.5 * (f(i) + u(i - 1) + u(i + 1) - 2.0 * u(i));
    rest(0) = 0.0;
    rest(2 * n) = 0.0;
    for (auto i : p.loop("i", 1, 2 * n)) rest(i) = f(i) + u(i - 1) + u(i + 1) - 2.0 * u(i);
    coarse(0) = 0.0;
    coarse(n) = 0.0;
    for (auto i : p.loop("i", 1, n)) coarse(i) = tanh(rest(2 * i - 1) + 2.0 * rest(2 * i) + rest(2 * i + 1));
    for (auto i : p.loop("i", 1, n)) coarse(i) = 0.5 * (coarse(i) + coarse(i - 1));
    for (auto i : p.loop("i", 1, 2 * n))
      u(i) += select(i % 2 == 0, coarse(i / 2), 0.5 * (coarse(i / 2) + coarse(i / 2 + 1)));
  }
  return p.build();
}

/// A symmetric matrix kept as a packed triangle, times vectors.
Program packed_symmetric() {
  ProgramBuilder p("packed_symmetric");
  auto n = p.size("n"), b = p.size("b");
  auto a = p.input<float>("a", {n * (n + 1) / 2}), x = p.input<float>("x", {b, n});
  auto y = p.output<float>("y", {b, n});
  for (auto q : p.loop("q", 0, b))
    for (auto i : p.loop("i", 0, n)) {
      y(q, i) = 0.0f;
      for (auto j : p.loop("j", 0, i + 1)) y(q, i) += a(i * (i + 1) / 2 + j) * x(q, j);
      for (auto j : p.loop("j", i + 1, n)) y(q, i) += a(j * (j + 1) / 2 + i) * x(q, j);
    }
  return p.build();
}

/// Haar wavelets, level by level in place of one row.
Program haar() {
  ProgramBuilder p("haar");
  auto rows = p.size("rows"), n = p.size("n");
  auto x = p.input<float>("x", {rows, 8 * n});
  auto y = p.output<float>("y", {rows, 8 * n});
  for (auto r : p.loop("r", 0, rows)) {
    auto t = p.local<float>("t", {8 * n});
    for (auto i : p.loop("i", 0, 8 * n)) y(r, i) = x(r, i);
    for (int level = 0; level < 3; ++level) {
      auto m = (8 >> level) / 2 * n;
      for (auto i : p.loop("i", 0, m)) {
        t(i) = 0.7f * (y(r, 2 * i) + y(r, 2 * i + 1));
        t(m + i) = 0.7f * (y(r, 2 * i) - y(r, 2 * i + 1));
      }
      for (auto i : p.loop("i", 0, 2 * m)) y(r, i) = t(i) / (1.0f + abs(t(i)));
    }
  }
  return p.build();
}

/// D1Q3 lattice Boltzmann that pushes to its neighbours on a ring.
Program lattice_boltzmann() {
  ProgramBuilder p("lattice_boltzmann");
  auto t = p.size("t"), n = p.size("n");
  auto omega = p.input<double>("omega", {n});
  auto f = p.inout<double>("f", {3, n});
  for (auto s : p.loop("s", 0, t)) {
    (void)s;
    auto next = p.local<double>("next", {3, n});
    for (auto i : p.loop("i", 0, n)) {
      auto rho = p.scalar<double>("rho"), speed = p.scalar<double>("speed");
      rho = f(0, i) + f(1, i) + f(2, i);
      speed = (f(2, i) - f(0, i)) / rho;
      for (int k = 0; k < 3; ++k) {
        const double c = k - 1, weight = k == 1 ? 2.0 / 3 : 1.0 / 6;
        auto equal = weight * rho * (1.0 + 3.0 * c * speed + 4.5 * c * c * speed * speed - 1.5 * speed * speed);
        next(k, (i + (k - 1) + n) % n) = f(k, i) + omega(i) * (equal - f(k, i));
      }
    }
    for (int k = 0; k < 3; ++k)
      for (auto i : p.loop("i", 0, n)) f(k, i) = next(k, i);
  }
  return p.build();
}

}  // namespace

std::vector<Field> solvers() {
  auto dominant = [](const Sizes& sizes, std::uint64_t, InputArrays& arrays) {
    const std::int64_t n = sizes.at("n");
    for (std::int64_t i = 0; i < n; ++i) arrays.at("a").set(i * n + i, static_cast<double>(n) + 1);
  };
  auto positive = [](const Sizes&, std::uint64_t seed, InputArrays& arrays) {
    tools::Random random(seed);
    for (auto& [name, array] : arrays)
      for (std::int64_t i = 0; i < array.size(); ++i) array.set(i, random.uniform(0.2, 0.6));
  };
  return {
      {{"gauss_seidel", "", gauss_seidel, {{"t", 20}, {"n", 400}, {"m", 400}}},
       {{{"t", 2}, {"n", 5}, {"m", 7}}, {{"t", 1}, {"n", 3}, {"m", 3}}, {{"t", 3}, {"n", 2}, {"m", 2}}}},
      {{"adi", "", adi, {{"t", 4}, {"n", 300}}}, {{{"t", 2}, {"n", 7}}, {{"t", 1}, {"n", 1}}, {{"t", 3}, {"n", 2}}}},
      {{"lu", "", lu, {{"n", 300}}, {}, {}, dominant}, {{{"n", 7}}, {{"n", 1}}, {{"n", 2}}, {{"n", 12}}}},
      {{"givens", "", givens, {{"batch", 200}, {"n", 16}}},
       {{{"batch", 2}, {"n", 5}}, {{"batch", 1}, {"n", 1}}, {{"batch", 3}, {"n", 2}}}},
      {{"potts", "", potts, {{"n", 500}, {"m", 500}, {"q", 8}}},
       {{{"n", 3}, {"m", 7}, {"q", 2}}, {{"n", 1}, {"m", 1}, {"q", 1}}, {{"n", 2}, {"m", 1}, {"q", 3}}}},
      {{"shrinking", "", shrinking, {{"t", 40}, {"n", 20000}}},
       {{{"t", 3}, {"n", 7}}, {{"t", 1}, {"n", 1}}, {{"t", 7}, {"n", 2}}}},
      {{"periodic_wave", "", periodic_wave, {{"t", 50}, {"n", 30000}}},
       {{{"t", 3}, {"n", 7}}, {{"t", 2}, {"n", 1}}, {{"t", 5}, {"n", 2}}}},
      {{"two_grids", "", two_grids, {{"n", 20000}, {"t", 20}}},
       {{{"n", 4}, {"t", 2}}, {{"n", 1}, {"t", 1}}, {{"n", 7}, {"t", 3}}}},
      {{"packed_symmetric", "", packed_symmetric, {{"n", 500}, {"b", 64}}},
       {{{"n", 7}, {"b", 2}}, {{"n", 1}, {"b", 1}}, {{"n", 2}, {"b", 33}}}},
      {{"haar", "", haar, {{"rows", 1000}, {"n", 128}}},
       {{{"rows", 2}, {"n", 3}}, {{"rows", 1}, {"n", 1}}, {{"rows", 3}, {"n", 2}}}},
      {{"lattice_boltzmann", "", lattice_boltzmann, {{"t", 50}, {"n", 20000}}, {}, {}, positive},
       {{{"t", 3}, {"n", 7}}, {{"t", 1}, {"n", 1}}, {{"t", 4}, {"n", 2}}}},
  };
}

}  // namespace loopgrad::fields

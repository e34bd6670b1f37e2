// Fluxes through faces, waves, colours and lines: simulations with what surrounds them.
#include "bench/fields/fields.h"

namespace loopgrad::fields {
namespace {

/// Finite volumes with faces (owner, neighbour): Green-Gauss gradients, limited by the extrema, upwind flux, boundary
/// faces of their own.
Program fv_faces() {
  ProgramBuilder p("fv_faces");
  auto cells = p.size("cells"), faces = p.size("faces"), bfaces = p.size("bfaces"), steps = p.size("steps");
  auto own = p.input<int>("own", {faces}), nei = p.input<int>("nei", {faces}), bown = p.input<int>("bown", {bfaces});
  auto area = p.input<float>("area", {faces, 2}), barea = p.input<float>("barea", {bfaces, 2});
  auto vel = p.input<float>("vel", {cells, 2}), vol = p.input<float>("vol", {cells});
  auto inflow = p.input<float>("inflow", {bfaces});
  auto q = p.inout<float>("q", {cells});
  auto outflow = p.output<float>("outflow", {steps});
  p.in_range(own, 0, cells), p.in_range(nei, 0, cells), p.in_range(bown, 0, cells);
  for (auto t : p.loop("t", steps)) {
    auto g = p.local<float>("g", {cells, 2});
    auto lo = p.local<float>("lo", {cells}), hi = p.local<float>("hi", {cells}), res = p.local<float>("res", {cells});
    for (auto c : p.loop("c", cells)) {
      g(c, 0) = 0, g(c, 1) = 0;
      lo(c) = q(c), hi(c) = q(c), res(c) = 0;
    }
    for (auto f : p.loop("f", faces)) {
      auto qf = p.let("qf", 0.5f * (q(own(f)) + q(nei(f))));
      for (auto d : p.loop("d", 2)) {
        g(own(f), d) += qf * area(f, d);
        g(nei(f), d) -= qf * area(f, d);
      }
      lo(own(f)).min_with(q(nei(f)));
      hi(own(f)).max_with(q(nei(f)));
      lo(nei(f)).min_with(q(own(f)));
      hi(nei(f)).max_with(q(own(f)));
    }
    for (auto b : p.loop("b", bfaces))
      for (auto d : p.loop("d", 2)) g(bown(b), d) += q(bown(b)) * barea(b, d);
    for (auto f : p.loop("f", faces)) {
      auto o = p.let("o", own(f)), n = p.let("n", nei(f));
      auto flux = p.let("flux", 0.5f * ((vel(o, 0) + vel(n, 0)) * area(f, 0) + (vel(o, 1) + vel(n, 1)) * area(f, 1)));
      auto up = p.scalar<float>("up");
      p.when(flux > 0, [&] {
         up = min(hi(o),
                  max(lo(o), q(o) + 0.1f * (g(o, 0) * area(f, 0) + g(o, 1) * area(f, 1)) / (1 + vol(o) * vol(o))));
       }).otherwise([&] {
        up =
            min(hi(n), max(lo(n), q(n) - 0.1f * (g(n, 0) * area(f, 0) + g(n, 1) * area(f, 1)) / (1 + vol(n) * vol(n))));
      });
      res(o) -= flux * up;
      res(n) += flux * up;
    }
    outflow(t) = 0;
    for (auto b : p.loop("b", bfaces)) {
      auto c = p.let("cell", bown(b));
      auto flux = p.let("flux", vel(c, 0) * barea(b, 0) + vel(c, 1) * barea(b, 1));
      p.when(flux > 0, [&] {
         outflow(t) += flux * q(c);
         res(c) -= flux * q(c);
       }).otherwise([&] { res(c) -= flux * inflow(b); });
    }
    for (auto c : p.loop("c", cells)) q(c) += 0.05f * res(c) / (1 + vol(c) * vol(c));
  }
  return p.build();
}

/// Elastic waves, staggered grid, an absorbing layer with memory variables on the left, sources and receivers at
/// indices.
Program elastic_pml() {
  ProgramBuilder p("elastic_pml");
  auto n = p.size("n"), m = p.size("m"), w = p.size("w"), steps = p.size("steps"), ns = p.size("ns"), nr = p.size("nr");
  auto rho = p.input<float>("rho", {n, m}), lam = p.input<float>("lam", {n, m}), mu = p.input<float>("mu", {n, m});
  auto damp = p.input<float>("damp", {w});
  auto wavelet = p.input<float>("wavelet", {steps, ns});
  auto si = p.input<int>("si", {ns, 2}), ri = p.input<int>("ri", {nr});
  auto rec = p.output<float>("rec", {nr, steps, 2});
  p.in_range(si, 0, min(n, m)), p.in_range(ri, 0, n);
  auto vx = p.local<float>("vx", {n, m}), vy = p.local<float>("vy", {n, m}), sxx = p.local<float>("sxx", {n, m}),
       syy = p.local<float>("syy", {n, m}), sxy = p.local<float>("sxy", {n, m}), mem = p.local<float>("mem", {w, m, 2});
  for (auto [i, j] : p.loop({"i", n}, {"j", m}))
    vx(i, j) = 0, vy(i, j) = 0, sxx(i, j) = 0, syy(i, j) = 0, sxy(i, j) = 0;
  for (auto [i, j, k] : p.loop({"i", w}, {"j", m}, {"k", 2})) mem(i, j, k) = 0;
  for (auto t : p.loop("t", steps)) {
    for (auto [i, j] : p.loop({"i", 1, n}, {"j", 1, m})) {
      auto b = p.let("b", 0.2f / (1.0f + rho(i, j) * rho(i, j)));
      auto dx = p.scalar<float>("dx", sxx(i, j) - sxx(i - 1, j));
      p.when(i < w, [&] {
        mem(i, j, 0) = (0.9f - 0.1f * damp(i)) * mem(i, j, 0) - 0.1f * dx;
        dx += mem(i, j, 0);
      });
      vx(i, j) += b * (dx + sxy(i, j) - sxy(i, j - 1));
      vy(i, j) += b * (sxy(i, j) - sxy(i - 1, j) + syy(i, j) - syy(i, j - 1));
    }
    for (auto [i, j] : p.loop({"i", n - 1}, {"j", m - 1})) {
      auto dx = p.scalar<float>("dx", vx(i + 1, j) - vx(i, j));
      auto dy = p.let("dy", vy(i, j + 1) - vy(i, j));
      p.when(i < w, [&] {
        mem(i, j, 1) = (0.9f - 0.1f * damp(i)) * mem(i, j, 1) - 0.1f * dx;
        dx += mem(i, j, 1);
      });
      sxx(i, j) += 0.2f * ((1 + lam(i, j) + 2 * mu(i, j)) * dx + lam(i, j) * dy);
      syy(i, j) += 0.2f * ((1 + lam(i, j) + 2 * mu(i, j)) * dy + lam(i, j) * dx);
      sxy(i, j) += 0.2f * mu(i, j) * (vx(i, j + 1) - vx(i, j) + vy(i + 1, j) - vy(i, j));
    }
    for (auto s : p.loop("s", ns)) {
      sxx(si(s, 0), si(s, 1)) += wavelet(t, s);
      syy(si(s, 0), si(s, 1)) += wavelet(t, s);
    }
    for (auto r : p.loop("r", nr)) rec(r, t, 0) = vx(ri(r), 0), rec(r, t, 1) = vy(ri(r), m / 2);
  }
  return p.build();
}

/// Gauss-Seidel in colours: colours hold lists of cells, rows hold entries; a nonlinear diagonal.
Program coloured() {
  ProgramBuilder p("coloured");
  auto n = p.size("n"), nnz = p.size("nnz"), colours = p.size("colours"), sweeps = p.size("sweeps");
  auto cstart = p.input<std::int64_t>("cstart", {colours + 1}), row = p.input<std::int64_t>("row", {n + 1});
  auto list = p.input<int>("list", {n}), col = p.input<int>("col", {nnz});
  auto a = p.input<double>("a", {nnz}), b = p.input<double>("b", {n});
  auto x = p.inout<double>("x", {n});
  p.csr(cstart, n), p.csr(row, nnz);
  p.in_range(list, 0, n), p.injective(list), p.in_range(col, 0, n);
  for (auto s : p.loop("s", sweeps))
    for (auto c : p.loop("c", colours)) {
      auto r = p.local<double>("r", {n});
      for (auto k : p.loop("k", cstart(c), cstart(c + 1))) {
        r(k) = b(list(k));
        for (auto e : p.loop("e", row(list(k)), row(list(k) + 1))) r(k) -= a(e) * x(col(e));
      }
      for (auto k : p.loop("k", cstart(c), cstart(c + 1))) {
        auto v = p.let("v", x(list(k)));
        x(list(k)) = v + 0.1 * r(k) / (1.0 + v * v);
      }
    }
  return p.build();
}

/// Levinson-Durbin: linear prediction of many signals, coefficients updated in place from both ends.
Program levinson() {
  ProgramBuilder p("levinson");
  auto signals = p.size("signals"), len = p.size("len"), order = p.size("order");
  auto s = p.input<double>("s", {signals, len + order});
  auto a = p.output<double>("a", {signals, order + 1});
  auto err = p.output<double>("err", {signals});
  for (auto q : p.loop("q", signals)) {
    auto r = p.local<double>("r", {order + 1}), old = p.local<double>("old", {order + 1});
    for (auto k : p.loop("k", order + 1)) {
      r(k) = 0.0;
      for (auto t : p.loop("t", len)) r(k) += s(q, t) * s(q, t + k);
    }
    r(0) += 10.0 * cast<double>(len);
    for (auto k : p.loop("k", order + 1)) a(q, k) = 0.0;
    a(q, 0) = 1.0;
    auto e = p.scalar<double>("e", r(0));
    for (auto m : p.loop("m", 1, order + 1)) {
      auto k = p.scalar<double>("k", 0);
      for (auto j : p.loop("j", m)) k -= a(q, j) * r(m - j);
      k /= e;
      for (auto j : p.loop("j", m + 1)) old(j) = a(q, j);
      for (auto j : p.loop("j", 1, m + 1)) a(q, j) = old(j) + k * old(m - j);
      e *= 1.0 - k * k;
    }
    err(q) = log(e);
  }
  return p.build();
}

/// AC power flow: Gauss-Seidel over the buses with complex voltages, then losses over the lines.
Program power_flow() {
  ProgramBuilder p("power_flow");
  auto buses = p.size("buses"), entries = p.size("entries"), lines = p.size("lines"), sweeps = p.size("sweeps");
  auto row = p.input<std::int64_t>("row", {buses + 1});
  auto col = p.input<int>("col", {entries}), from = p.input<int>("from", {lines}), to = p.input<int>("to", {lines});
  auto Y = p.input<double>("Y", {entries, 2}), S = p.input<double>("S", {buses, 2}),
       z = p.input<double>("z", {lines, 2});
  auto V = p.inout<double>("V", {buses, 2});
  auto loss = p.output<double>("loss", {}), worst = p.output<double>("worst", {});
  p.csr(row, entries);
  p.in_range(col, 0, buses), p.in_range(from, 0, buses), p.in_range(to, 0, buses);
  for (auto s : p.loop("s", sweeps))
    for (auto b : p.loop("b", 1, buses)) {
      auto re = p.scalar<double>("re", 0), im = p.scalar<double>("im", 0);
      for (auto e : p.loop("e", row(b), row(b + 1))) {
        const Complex y(Y(e, 0), Y(e, 1)), v(V(col(e), 0), V(col(e), 1));
        const Complex i = y * v;
        re += i.re;
        im += i.im;
      }
      const Complex v(V(b, 0), V(b, 1));
      const Value den = p.let("den", norm(v) + 1.0);
      const Complex i = Complex(S(b, 0), -S(b, 1)) * v / den;
      const Value nr = p.let("nr", 1.0 + 0.1 * (i.re - re)), ni = p.let("ni", 0.1 * (i.im - im));
      V(b, 0) = nr;
      V(b, 1) = ni;
    }
  loss() = 0.0;
  worst() = 0.0;
  for (auto l : p.loop("l", lines)) {
    auto dr = p.let("dr", V(from(l), 0) - V(to(l), 0)), di = p.let("di", V(from(l), 1) - V(to(l), 1));
    auto w = p.let("w", (dr * dr + di * di) / (1.0 + z(l, 0) * z(l, 0) + z(l, 1) * z(l, 1)));
    loss() += w * abs(z(l, 0));
    worst().max_with(w);
  }
  return p.build();
}

/// A sparse factor from data: forward and backward substitution with rows in order, several right sides, refinement.
Program ilu_apply() {
  ProgramBuilder p("ilu_apply");
  auto n = p.size("n"), nl = p.size("nl"), nu = p.size("nu"), rhs = p.size("rhs"), rounds = p.size("rounds");
  auto lrow = p.input<std::int64_t>("lrow", {n + 1}), urow = p.input<std::int64_t>("urow", {n + 1});
  auto lcol = p.input<int>("lcol", {nl}), ucol = p.input<int>("ucol", {nu});
  auto l = p.input<double>("l", {nl}), u = p.input<double>("u", {nu}), diag = p.input<double>("diag", {n});
  auto b = p.input<double>("b", {n, rhs});
  auto x = p.output<double>("x", {n, rhs});
  p.csr(lrow, nl), p.csr(urow, nu);
  p.in_range(lcol, 0, n), p.in_range(ucol, 0, n);
  for (auto [i, c] : p.loop({"i", n}, {"c", rhs})) x(i, c) = 0.0;
  for (auto k : p.loop("k", rounds)) {
    auto y = p.local<double>("y", {n, rhs});
    for (auto [i, c] : p.loop({"i", n}, {"c", rhs})) y(i, c) = b(i, c) - 0.1 * x(i, c) * x(i, c);
    for (auto i : p.loop("i", n))
      for (auto e : p.loop("e", lrow(i), lrow(i + 1)))
        p.when(lcol(e) < i, [&] {
          for (auto c : p.loop("c", rhs)) y(i, c) -= 0.1 * l(e) * y(lcol(e), c);
        });
    for (auto i : p.loop("i", n, {.descending = true})) {
      for (auto e : p.loop("e", urow(i), urow(i + 1)))
        p.when(ucol(e) > i, [&] {
          for (auto c : p.loop("c", rhs)) y(i, c) -= 0.1 * u(e) * y(ucol(e), c);
        });
      for (auto c : p.loop("c", rhs)) y(i, c) /= 1.0 + diag(i) * diag(i);
    }
    for (auto [i, c] : p.loop({"i", n}, {"c", rhs})) x(i, c) += 0.5 * y(i, c);
  }
  return p.build();
}

/// Discrete ordinates on an unstructured mesh: cells in each angle's own order, upwind cells by index; source
/// iteration.
Program ordinates() {
  ProgramBuilder p("ordinates");
  auto cells = p.size("cells"), angles = p.size("angles"), iters = p.size("iters");
  auto order = p.input<int>("order", {angles, cells}), up = p.input<int>("up", {angles, cells, 2});
  auto weight = p.input<double>("weight", {angles}), sig = p.input<double>("sig", {cells, 2}),
       src = p.input<double>("src", {cells});
  auto phi = p.inout<double>("phi", {cells});
  auto leak = p.output<double>("leak", {angles});
  p.in_range(order, 0, cells), p.in_range(up, -1, cells);
  for (auto it : p.loop("it", iters)) {
    auto next = p.local<double>("next", {cells});
    for (auto c : p.loop("c", cells)) next(c) = 0.0;
    for (auto a : p.loop("a", angles)) {
      auto psi = p.local<double>("psi", {cells});
      for (auto c : p.loop("c", cells)) psi(c) = 0.0;
      for (auto s : p.loop("s", cells)) {
        auto c = p.let("cell", order(a, s));
        auto in = p.scalar<double>("in", 0.1);
        for (int k = 0; k < 2; ++k) {
          auto n = p.let("n", up(a, s, k));
          p.when(n >= 0, [&] { in += 0.5 * psi(n); });
        }
        psi(c) = (src(c) + abs(sig(c, 1)) * phi(c) + in) / (1.5 + abs(sig(c, 0)) + abs(sig(c, 1)));
        next(c) += weight(a) * psi(c);
      }
      leak(a) = psi(cells - 1);
    }
    for (auto c : p.loop("c", cells)) phi(c) = 0.5 * phi(c) + next(c) / cast<double>(angles);
  }
  return p.build();
}

/// Monte Carlo in a slab with implicit capture: the next cell is computed, tallies by cell, roulette below a weight.
Program mc_slab() {
  ProgramBuilder p("mc_slab");
  auto hist = p.size("hist"), cells = p.size("cells"), events = p.size("events");
  auto rnd = p.input<double>("rnd", {hist, events, 2});
  auto sigma = p.input<double>("sigma", {cells, 2});
  auto tally = p.output<double>("tally", {cells}), leak = p.output<double>("leak", {2});
  for (auto c : p.loop("c", cells)) tally(c) = 0.0;
  leak(0) = 0.0, leak(1) = 0.0;
  for (auto h : p.loop("h", hist)) {
    auto pos = p.scalar<std::int64_t>("pos", cells / 2);
    auto dir = p.scalar<std::int64_t>("dir", 1);
    auto w = p.scalar<double>("w", 1.0);
    for (auto e : p.loop_while("e", events, [&](auto) { return pos >= 0 && pos < cells && w > 0.05; })) {
      auto total = p.let("total", 0.5 + abs(sigma(pos, 0)) + abs(sigma(pos, 1)));
      auto path = p.let("path", exp(-total));
      tally(pos) += w * (1.0 - path) * abs(sigma(pos, 0)) / total;
      w *= path + (1.0 - path) * abs(sigma(pos, 1)) / total + 0.3;
      p.when(abs(rnd(h, e, 0)) < 0.4, [&] { dir = -dir; });
      pos = pos + dir;
    }
    p.when(pos < 0, [&] { leak(0) += w; });
    p.when(pos >= cells, [&] { leak(1) += w; });
  }
  return p.build();
}

/// Chemistry: two reactants and two products named by each reaction, Arrhenius rates, semi-implicit steps in each cell.
Program kinetics() {
  ProgramBuilder p("kinetics");
  auto cells = p.size("cells"), species = p.size("species"), reacs = p.size("reacs"), steps = p.size("steps");
  auto re = p.input<int>("re", {reacs, 2}), pr = p.input<int>("pr", {reacs, 2});
  auto A = p.input<double>("A", {reacs}), Ea = p.input<double>("Ea", {reacs});
  auto temp = p.inout<double>("temp", {cells});
  auto y = p.inout<double>("y", {cells, species});
  auto heat = p.input<double>("heat", {species});
  p.in_range(re, 0, species), p.in_range(pr, 0, species);
  for (auto c : p.loop("c", cells)) {
    for (auto s : p.loop("s", steps)) {
      auto make = p.local<double>("make", {species}), lose = p.local<double>("lose", {species});
      for (auto k : p.loop("k", species)) make(k) = 0.0, lose(k) = 0.0;
      for (auto r : p.loop("r", reacs)) {
        auto rate = p.let("rate", (1.0 + A(r)) * exp(-abs(Ea(r)) / (1.0 + temp(c) * temp(c))));
        auto a = p.let("a", re(r, 0)), b = p.let("b", re(r, 1));
        lose(a) += rate * abs(y(c, b));
        lose(b) += rate * abs(y(c, a));
        make(pr(r, 0)) += rate * y(c, a) * y(c, b);
        make(pr(r, 1)) += rate * y(c, a) * y(c, b);
      }
      for (auto k : p.loop("k", species)) {
        auto old = p.scalar<double>("old", y(c, k));
        y(c, k) = (y(c, k) + 0.01 * make(k)) / (1.0 + 0.01 * lose(k));
        temp(c) += heat(k) * (y(c, k) - old);
      }
    }
  }
  return p.build();
}

}  // namespace

std::vector<Field> fluxes() {
  return {
      {{"fv_faces", "", fv_faces, {{"cells", 30011}, {"faces", 60013}, {"bfaces", 1013}, {"steps", 15}}},
       {{{"cells", 5}, {"faces", 7}, {"bfaces", 3}, {"steps", 2}},
        {{"cells", 1}, {"faces", 1}, {"bfaces", 1}, {"steps", 1}}}},
      {{"elastic_pml", "", elastic_pml, {{"n", 151}, {"m", 153}, {"w", 21}, {"steps", 51}, {"ns", 3}, {"nr", 31}}},
       {{{"n", 5}, {"m", 4}, {"w", 2}, {"steps", 3}, {"ns", 2}, {"nr", 3}},
        {{"n", 1}, {"m", 1}, {"w", 1}, {"steps", 1}, {"ns", 1}, {"nr", 1}}}},
      {{"coloured", "", coloured, {{"n", 20011}, {"nnz", 140017}, {"colours", 7}, {"sweeps", 21}}},
       {{{"n", 6}, {"nnz", 11}, {"colours", 3}, {"sweeps", 2}}, {{"n", 1}, {"nnz", 1}, {"colours", 1}, {"sweeps", 1}}}},
      {{"levinson", "", levinson, {{"signals", 1001}, {"len", 1001}, {"order", 31}}},
       {{{"signals", 2}, {"len", 5}, {"order", 3}}, {{"signals", 1}, {"len", 1}, {"order", 1}}}},
      {{"power_flow", "", power_flow, {{"buses", 5003}, {"entries", 25013}, {"lines", 10007}, {"sweeps", 31}}},
       {{{"buses", 5}, {"entries", 9}, {"lines", 6}, {"sweeps", 2}},
        {{"buses", 1}, {"entries", 1}, {"lines", 1}, {"sweeps", 1}}}},
      {{"ilu_apply", "", ilu_apply, {{"n", 10007}, {"nl", 30011}, {"nu", 30013}, {"rhs", 7}, {"rounds", 9}}},
       {{{"n", 5}, {"nl", 7}, {"nu", 6}, {"rhs", 2}, {"rounds", 2}},
        {{"n", 1}, {"nl", 1}, {"nu", 1}, {"rhs", 1}, {"rounds", 1}}}},
      {{"ordinates", "", ordinates, {{"cells", 10007}, {"angles", 23}, {"iters", 5}}},
       {{{"cells", 5}, {"angles", 3}, {"iters", 2}}, {{"cells", 1}, {"angles", 1}, {"iters", 1}}}},
      {{"mc_slab", "", mc_slab, {{"hist", 20011}, {"cells", 101}, {"events", 61}}},
       {{{"hist", 4}, {"cells", 3}, {"events", 5}}, {{"hist", 1}, {"cells", 1}, {"events", 1}}}},
      {{"kinetics", "", kinetics, {{"cells", 1001}, {"species", 31}, {"reacs", 101}, {"steps", 11}}},
       {{{"cells", 2}, {"species", 3}, {"reacs", 4}, {"steps", 2}},
        {{"cells", 1}, {"species", 1}, {"reacs", 1}, {"steps", 1}}}},
  };
}

}  // namespace loopgrad::fields

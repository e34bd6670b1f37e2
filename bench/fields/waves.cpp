// Waves, meshes and lattices, as people of those fields write them.
#include "bench/fields/fields.h"

namespace loopgrad::fields {
namespace {

/// Seismic full-waveform inversion: shots through an acoustic medium with sponges, and the misfit at the receivers.
Program full_waveform() {
  ProgramBuilder p("full_waveform");
  auto nz = p.size("nz"), nx = p.size("nx"), nt = p.size("nt"), shots = p.size("shots"),
       receivers = p.size("receivers");
  auto speed = p.input<float>("speed", {nz, nx}), wavelet = p.input<float>("wavelet", {nt});
  auto observed = p.input<float>("observed", {shots, receivers, nt});
  auto src = p.input<int>("src", {shots}), rec = p.input<int>("rec", {receivers});
  p.in_range(src, 0, nx), p.in_range(rec, 0, nx);
  auto gather = p.output<float>("gather", {shots, receivers, nt});
  auto misfit = p.output<double>("misfit", {});
  misfit() = 0;
  for (auto s : p.loop("s", shots)) {
    auto u = p.ring<float>("u", 3, {nz, nx});
    for (auto [b, z, x] : p.loop({"b", 3}, {"z0", nz}, {"x0", nx})) u(b, z, x) = 0;
    for (auto t : p.loop("t", nt)) {
      for (auto [z, x] : p.loop({"z", 1, nz - 1}, {"x", 1, nx - 1})) {
        auto c = p.let("c", 1.0f + 0.3f * speed(z, x));
        auto lap = p.let("lap", u(t + 1, z - 1, x) + u(t + 1, z + 1, x) + u(t + 1, z, x - 1) + u(t + 1, z, x + 1) -
                                    4.0f * u(t + 1, z, x));
        u(t + 2, z, x) = 2.0f * u(t + 1, z, x) - u(t, z, x) + 0.2f * c * c * lap;
        p.when(z >= nz - 5 || x < 5 || x >= nx - 5, [&] { u(t + 2, z, x) *= 0.95f; });
      }
      u(t + 2, 1, src(s)) += wavelet(t);
      for (auto r : p.loop("r", receivers)) {
        gather(s, r, t) = u(t + 2, 1, rec(r));
        auto d = p.let("d", gather(s, r, t) - observed(s, r, t));
        misfit() += 0.5 * cast<double>(d) * cast<double>(d);
      }
    }
  }
  return p.build();
}

/// Shallow water on an unstructured mesh: fluxes over edges with reconstructed depths, walls, cells that fall dry.
Program shallow_water() {
  ProgramBuilder p("shallow_water");
  auto cells = p.size("cells"), edges = p.size("edges"), gauges = p.size("gauges"), steps = p.size("steps");
  auto left = p.input<int>("left", {edges}), right = p.input<int>("right", {edges}), at = p.input<int>("at", {gauges});
  p.in_range(left, 0, cells), p.in_range(right, -1, cells), p.in_range(at, 0, cells);
  auto angle = p.input<double>("angle", {edges}), bed = p.input<double>("bed", {cells});
  auto friction = p.input<double>("friction", {cells});
  auto h = p.inout<double>("h", {cells}), m = p.inout<double>("m", {cells, 2});
  auto level = p.output<double>("level", {gauges, steps});
  auto dh = p.local<double>("dh", {cells}), dm = p.local<double>("dm", {cells, 2});
  for (auto t : p.loop("t", steps)) {
    for (auto c : p.loop("c0", cells)) {
      dh(c) = 0;
      dm(c, 0) = 0;
      dm(c, 1) = 0;
    }
    for (auto e : p.loop("e", edges)) {
      auto l = left(e), r = right(e);
      auto nx = p.let("nx", cos(3 * angle(e))), ny = p.let("ny", sin(3 * angle(e)));
      p.when(r < 0,
             [&] {  // a wall: only pressure
               dm(l, 0) -= 0.5 * 9.81 * h(l) * h(l) * nx;
               dm(l, 1) -= 0.5 * 9.81 * h(l) * h(l) * ny;
             })
          .otherwise([&] {
            auto z = p.let("z", max(bed(l), bed(r)));
            auto hl = p.let("hl", max(h(l) + bed(l) - z, 0.0)), hr = p.let("hr", max(h(r) + bed(r) - z, 0.0));
            p.when(hl > 1e-3 || hr > 1e-3, [&] {
              auto ul = p.let("ul", (m(l, 0) * nx + m(l, 1) * ny) * h(l) / (h(l) * h(l) + 1e-2));
              auto ur = p.let("ur", (m(r, 0) * nx + m(r, 1) * ny) * h(r) / (h(r) * h(r) + 1e-2));
              auto speed = p.let("speed", max(abs(ul) + sqrt(9.81 * hl + 1e-9), abs(ur) + sqrt(9.81 * hr + 1e-9)));
              auto f = p.let("f", 0.5 * (hl * ul + hr * ur) - 0.5 * speed * (hr - hl));
              dh(l) -= f;
              dh(r) += f;
              for (auto k : p.loop("k", 2)) {
                auto n = p.let("n", select(k == 0, nx, ny));
                auto g = p.let("g", 0.5 * f * (m(l, k) / (h(l) * h(l) + 0.1) + m(r, k) / (h(r) * h(r) + 0.1)));
                dm(l, k) -= g + 0.5 * 9.81 * hl * hl * n;
                dm(r, k) += g + 0.5 * 9.81 * hr * hr * n;
              }
            });
          });
    }
    for (auto c : p.loop("c", cells)) {
      h(c) = max(h(c) + 0.01 * dh(c), 0.0);
      p.when(h(c) < 1e-2, [&] {
         m(c, 0) = 0;
         m(c, 1) = 0;
       }).otherwise([&] {
        auto size = p.let("size", sqrt(m(c, 0) * m(c, 0) + m(c, 1) * m(c, 1) + 1e-12));
        auto drag = p.let("drag", 1 + 0.01 * friction(c) * friction(c) * size / (h(c) * h(c)));
        for (auto k : p.loop("kk", 2)) m(c, k) = (m(c, k) + 0.01 * dm(c, k)) / drag;
      });
    }
    for (auto g : p.loop("gauge", gauges)) level(g, t) = h(at(g)) + bed(at(g));
  }
  return p.build();
}

/// Spectral elements: the stiffness of hexahedra with q^3 nodes each, contracted along one direction after the other.
Program spectral_elements() {
  ProgramBuilder p("spectral_elements");
  auto elements = p.size("elements"), dofs = p.size("dofs"), q = p.size("q");
  auto node = p.input<int>("node", {elements, q, q, q});
  p.in_range(node, 0, dofs);
  auto u = p.input<double>("u", {dofs}), d = p.input<double>("d", {q, q}), weight = p.input<double>("weight", {q});
  auto metric = p.input<double>("metric", {elements, 3});
  auto y = p.output<double>("y", {dofs});
  for (auto i : p.loop("dof", dofs)) y(i) = 0;
  for (auto e : p.loop("e", elements)) {
    auto v = p.local<double>("v", {q, q, q}), gr = p.local<double>("gr", {q, q, q}),
         gs = p.local<double>("gs", {q, q, q}), gt = p.local<double>("gt", {q, q, q});
    for (auto [i, j, k] : p.loop({"i0", q}, {"j0", q}, {"k0", q})) v(i, j, k) = u(node(e, i, j, k));
    for (auto [i, j, k] : p.loop({"i", q}, {"j", q}, {"k", q})) {
      gr(i, j, k) = 0;
      gs(i, j, k) = 0;
      gt(i, j, k) = 0;
      for (auto l : p.loop("l", q)) {
        gr(i, j, k) += d(i, l) * v(l, j, k);
        gs(i, j, k) += d(j, l) * v(i, l, k);
        gt(i, j, k) += d(k, l) * v(i, j, l);
      }
      auto w = p.let("w", weight(i) * weight(j) * weight(k) * (1 + v(i, j, k) * v(i, j, k)));
      gr(i, j, k) *= w * metric(e, 0);
      gs(i, j, k) *= w * metric(e, 1);
      gt(i, j, k) *= w * metric(e, 2);
    }
    for (auto [i, j, k] : p.loop({"i1", q}, {"j1", q}, {"k1", q})) {
      auto s = p.scalar<double>("s", 0);
      for (auto l : p.loop("l1", q)) s += d(l, i) * gr(l, j, k) + d(l, j) * gs(i, l, k) + d(l, k) * gt(i, j, l);
      y(node(e, i, j, k)) += s;
    }
  }
  return p.build();
}

/// Vortex blobs move each other within a cutoff: two half steps, strengths exchanged by diffusion.
Program vortex_blobs() {
  ProgramBuilder p("vortex_blobs");
  auto n = p.size("n"), steps = p.size("steps");
  auto start = p.input<float>("start", {n, 2}), strength = p.input<float>("strength", {n});
  auto cutoff = p.input<float>("cutoff", {});
  auto x = p.output<float>("x", {n, 2}), gamma = p.output<float>("gamma", {n});
  auto half = p.local<float>("half", {n, 2}), vel = p.local<float>("vel", {n, 2}),
       change = p.local<float>("change", {n});
  auto velocities = [&](const ArrayView& at) {
    for (auto i : p.loop("i", n)) {
      vel(i, 0) = 0;
      vel(i, 1) = 0;
      for (auto j : p.loop("j", n)) {
        auto dx = at(i, 0) - at(j, 0), dy = at(i, 1) - at(j, 1);
        auto r2 = p.let("r2", dx * dx + dy * dy);
        p.when(j != i && r2 < 1.0f + 0.5f * cutoff() * cutoff(), [&] {
          auto k = p.let("k", gamma(j) * 0.1591549f * (1.0f - exp(-r2 / 0.05f)) / (r2 + 0.01f));
          vel(i, 0) -= k * dy;
          vel(i, 1) += k * dx;
        });
      }
    }
  };
  for (auto i : p.loop("i0", n)) {
    x(i, 0) = 3.0f * start(i, 0);
    x(i, 1) = 3.0f * start(i, 1);
    gamma(i) = strength(i);
  }
  for (auto t : p.loop("t", steps)) {
    (void)t;
    velocities(x);
    for (auto [i, c] : p.loop({"i1", n}, {"c1", 2})) half(i, c) = x(i, c) + 0.05f * vel(i, c);
    velocities(half);
    for (auto [i, c] : p.loop({"i2", n}, {"c2", 2})) x(i, c) += 0.1f * vel(i, c);
    for (auto i : p.loop("i3", n)) change(i) = 0;
    for (auto i : p.loop("i4", n))
      for (auto j : p.loop("j4", i + 1, n)) {
        auto r2 = p.let("r2", (x(i, 0) - x(j, 0)) * (x(i, 0) - x(j, 0)) + (x(i, 1) - x(j, 1)) * (x(i, 1) - x(j, 1)));
        p.when(r2 < 0.25f, [&] {
          auto flow = p.let("flow", 0.01f * (gamma(j) - gamma(i)) * exp(-4.0f * r2));
          change(i) += flow;
          change(j) -= flow;
        });
      }
    for (auto i : p.loop("i5", n)) gamma(i) += change(i);
  }
  return p.build();
}

/// Hartree-Fock: the two-electron part of a Fock matrix by the eightfold loop over s functions, screened by Schwarz.
Program fock_build() {
  ProgramBuilder p("fock_build");
  auto n = p.size("n");
  auto at = p.input<double>("at", {n, 3}), zeta = p.input<double>("zeta", {n}), dens = p.input<double>("dens", {n, n});
  auto fock = p.output<double>("fock", {n, n});
  auto bound = p.local<double>("bound", {n, n}), width = p.local<double>("width", {n});
  for (auto i : p.loop("i0", n)) width(i) = 0.8 + 0.5 * zeta(i) * zeta(i);
  auto distance2 = [&](const Value& i, const Value& j) {
    const Vec<3> d = load<3>(at.row(i)) - load<3>(at.row(j));
    return dot(d, d);
  };
  for (auto [i, j] : p.loop({"i1", n}, {"j1", n})) {
    fock(i, j) = 0;
    bound(i, j) = exp(-2 * width(i) * width(j) / (width(i) + width(j)) * distance2(i, j));
  }
  for (auto i : p.loop("i", n))
    for (auto j : p.loop("j", 0, i + 1))
      for (auto k : p.loop("k", 0, i + 1))
        for (auto l : p.loop("l", 0, select(k == i, j, k) + 1))
          p.when(bound(i, j) * bound(k, l) > 1e-2, [&] {
            auto a = p.let("a", width(i) + width(j)), b = p.let("b", width(k) + width(l));
            auto t = p.scalar<double>("t", 1e-6);
            for (auto c : p.loop("c", 3)) {
              auto gap = p.let("gap", (width(i) * at(i, c) + width(j) * at(j, c)) / a -
                                          (width(k) * at(k, c) + width(l) * at(l, c)) / b);
              t += gap * gap * a * b / (a + b);
            }
            auto eri = p.scalar<double>("eri");
            eri = sqrt(bound(i, j)) * sqrt(bound(k, l)) * 34.98 / (a * b * sqrt(a + b)) * erf(sqrt(t)) / sqrt(t);
            p.when(i == j, [&] { eri *= 0.5; });
            p.when(k == l, [&] { eri *= 0.5; });
            p.when(i == k && j == l, [&] { eri *= 0.5; });
            fock(i, j) += 4 * dens(k, l) * eri;
            fock(k, l) += 4 * dens(i, j) * eri;
            fock(i, k) -= dens(j, l) * eri;
            fock(i, l) -= dens(j, k) * eri;
            fock(j, k) -= dens(i, l) * eri;
            fock(j, l) -= dens(i, k) * eri;
          });
  return p.build();
}

/// A spin glass on a torus swept in two colours, where spins flip when their random number says so, and relax
/// otherwise.
Program spin_glass() {
  ProgramBuilder p("spin_glass");
  auto n = p.size("n"), m = p.size("m"), sweeps = p.size("sweeps");
  auto coupling = p.input<float>("coupling", {n, m, 2}), dice = p.input<float>("dice", {sweeps, n, m});
  auto beta = p.input<float>("beta", {sweeps});
  auto s = p.inout<float>("s", {n, m});
  auto energy = p.output<float>("energy", {sweeps});
  for (auto t : p.loop("t", sweeps)) {
    for (auto colour : p.loop("colour", 2))
      for (auto [i, j] : p.loop({"i", n}, {"j", m}))
        p.when((i + j) % 2 == colour, [&] {
          auto h = p.let(
              "h", coupling(i, j, 0) * s((i + 1) % n, j) + coupling((i + n - 1) % n, j, 0) * s((i + n - 1) % n, j) +
                       coupling(i, j, 1) * s(i, (j + 1) % m) + coupling(i, (j + m - 1) % m, 1) * s(i, (j + m - 1) % m));
          p.when(0.5f + 0.5f * dice(t, i, j) < exp(-2.0f * (1.0f + beta(t)) * abs(s(i, j) * h)), [&] {
             s(i, j) = -s(i, j);
           }).otherwise([&] { s(i, j) = 0.7f * s(i, j) + 0.3f * tanh((1.0f + beta(t)) * h); });
        });
    energy(t) = 0;
    for (auto [i, j] : p.loop({"i1", n}, {"j1", m}))
      energy(t) -= s(i, j) * (coupling(i, j, 0) * s((i + 1) % n, j) + coupling(i, j, 1) * s(i, (j + 1) % m));
  }
  return p.build();
}

/// Synthetic aperture radar: echoes of all pulses are turned back by the phase of their way and summed into pixels.
Program back_projection() {
  ProgramBuilder p("back_projection");
  auto pulses = p.size("pulses"), bins = p.size("bins"), ny = p.size("ny"), nx = p.size("nx");
  auto echo = p.input<float>("echo", {pulses, bins, 2});
  auto platform = p.input<double>("platform", {pulses, 3});
  auto height = p.input<float>("height", {ny, nx});
  auto image = p.output<float>("image", {ny, nx, 2});
  auto sharpness = p.output<double>("sharpness", {});
  sharpness() = 0;
  for (auto [y, x] : p.loop({"y", ny}, {"x", nx})) {
    image(y, x, 0) = 0;
    image(y, x, 1) = 0;
    for (auto k : p.loop("k", pulses)) {
      auto dx = p.let("dx", cast<double>(x) * 0.5 - 0.25 * cast<double>(nx) - platform(k, 0) * cast<double>(pulses));
      auto dy = p.let("dy", cast<double>(y) * 0.5 + 3 + platform(k, 1));
      auto dz = p.let("dz", 2 + 0.3 * platform(k, 2) - 0.1 * cast<double>(height(y, x)));
      auto range = p.let("range", sqrt(dx * dx + dy * dy + dz * dz));
      auto bin = p.scalar<int>("bin");
      auto at = p.let("at", (range - 3) * 2);
      bin = cast<int>(floor(at));
      p.when(bin >= 0 && bin < bins - 1, [&] {
        auto f = p.let("f", cast<float>(at - cast<double>(bin)));
        auto re = p.let("re", (1 - f) * echo(k, bin, 0) + f * echo(k, bin + 1, 0));
        auto im = p.let("im", (1 - f) * echo(k, bin, 1) + f * echo(k, bin + 1, 1));
        auto turn = p.let("turn", 12.5 * (range - floor(range)));
        auto c = p.let("c", cast<float>(cos(turn))), s = p.let("s", cast<float>(sin(turn)));
        image(y, x, 0) += re * c - im * s;
        image(y, x, 1) += re * s + im * c;
      });
    }
    auto power = p.let("power", cast<double>(image(y, x, 0) * image(y, x, 0) + image(y, x, 1) * image(y, x, 1)));
    sharpness() += power * power;
  }
  return p.build();
}

}  // namespace

std::vector<Field> waves() {
  return {
      {{"full_waveform", "", full_waveform, {{"nz", 101}, {"nx", 203}, {"nt", 151}, {"shots", 3}, {"receivers", 67}}},
       {{{"nz", 7}, {"nx", 9}, {"nt", 5}, {"shots", 2}, {"receivers", 3}},
        {{"nz", 3}, {"nx", 4}, {"nt", 2}, {"shots", 1}, {"receivers", 1}},
        {{"nz", 13}, {"nx", 14}, {"nt", 4}, {"shots", 1}, {"receivers", 5}}}},
      {{"shallow_water", "", shallow_water, {{"cells", 60013}, {"edges", 90017}, {"gauges", 21}, {"steps", 20}}},
       {{{"cells", 5}, {"edges", 9}, {"gauges", 2}, {"steps", 3}},
        {{"cells", 1}, {"edges", 2}, {"gauges", 1}, {"steps", 1}},
        {{"cells", 17}, {"edges", 6}, {"gauges", 3}, {"steps", 2}}}},
      {{"spectral_elements", "", spectral_elements, {{"elements", 4001}, {"dofs", 270001}, {"q", 5}}},
       {{{"elements", 3}, {"dofs", 11}, {"q", 3}},
        {{"elements", 1}, {"dofs", 1}, {"q", 1}},
        {{"elements", 2}, {"dofs", 70}, {"q", 2}}}},
      {{"vortex_blobs", "", vortex_blobs, {{"n", 1201}, {"steps", 3}}},
       {{{"n", 5}, {"steps", 2}}, {{"n", 1}, {"steps", 1}}, {{"n", 9}, {"steps", 1}}}},
      {{"fock_build", "", fock_build, {{"n", 51}}}, {{{"n", 4}}, {{"n", 1}}, {{"n", 5}}}},
      {{"spin_glass", "", spin_glass, {{"n", 401}, {"m", 403}, {"sweeps", 10}}},
       {{{"n", 4}, {"m", 5}, {"sweeps", 2}}, {{"n", 1}, {"m", 1}, {"sweeps", 2}}, {{"n", 6}, {"m", 4}, {"sweeps", 3}}}},
      {{"back_projection", "", back_projection, {{"pulses", 101}, {"bins", 257}, {"ny", 151}, {"nx", 157}}},
       {{{"pulses", 3}, {"bins", 9}, {"ny", 4}, {"nx", 5}},
        {{"pulses", 1}, {"bins", 2}, {"ny", 1}, {"nx", 1}},
        {{"pulses", 5}, {"bins", 17}, {"ny", 3}, {"nx", 2}}}},
  };
}

}  // namespace loopgrad::fields

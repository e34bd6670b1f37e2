// Kernels of laboratories (Livermore loops) as their authors wrote them: counters, gotos, jumps through memory.
#include "bench/fields/fields.h"

#include <algorithm>

namespace loopgrad::fields {
namespace {

/// 2: incomplete Cholesky conjugate gradients: each pass halves what is left and writes behind it.
Program halving_solve() {
  ProgramBuilder p("halving_solve");
  auto n = p.size("n"), passes = p.size("passes");
  auto v = p.input<double>("v", {2 * n + 2});
  auto x = p.inout<double>("x", {2 * n + 2});
  auto ii = p.scalar<std::int64_t>("ii"), ipntp = p.scalar<std::int64_t>("ipntp", 0),
       ipnt = p.scalar<std::int64_t>("ipnt"), i = p.scalar<std::int64_t>("i");
  ii = n;
  for (auto pass : p.loop_while("pass", passes, [&](const Value&) { return ii > 1; })) {
    (void)pass;
    ipnt = ipntp;
    ipntp += ii;
    ii = ii / 2;
    i = ipntp - 1;
    for (auto k : p.loop("k", ipnt + 1, ipntp, {.at_most = {n}, .step = 2})) {
      i += 1;
      x(i) = x(k) - v(k) * x(k - 1) - v(k + 1) * x(k + 1);
    }
  }
  return p.build();
}

/// 4: banded linear equations, with a running offset.
Program banded_equations() {
  ProgramBuilder p("banded_equations");
  auto n = p.size("n");  // 5*n + 7 unknowns
  auto y = p.input<double>("y", {5 * n + 7});
  auto x = p.inout<double>("x", {7 * n + 20});
  for (auto k : p.loop("k", 6, 3 * n + 6, {.step = 3})) {
    auto lw = p.scalar<std::int64_t>("lw");
    auto temp = p.scalar<double>("temp", x(k - 1));
    lw = k - 6;
    for (auto j : p.loop("j", 4, 5 * n + 4, {.step = 5})) {
      temp -= x(lw) * y(j);
      lw += 1;
    }
    x(k - 1) = y(4) * temp;
  }
  return p.build();
}

/// 6: general linear recurrence.
Program all_before() {
  ProgramBuilder p("all_before");
  auto n = p.size("n");
  auto b = p.input<double>("b", {n, n});
  auto w = p.inout<double>("w", {n});
  for (auto i : p.loop("i", 1, n)) {
    w(i) = 0.01;
    for (auto k : p.loop("k", i)) w(i) += b(k, i) * w((i - k) - 1);
  }
  return p.build();
}

/// 13: particles in two dimensions: positions become cells, fields push them on, cells count them.
Program cells_2d() {
  ProgramBuilder p("cells_2d");
  auto n = p.size("n"), g = p.size("g");  // g cells each way
  auto b = p.input<double>("b", {g, g}), c = p.input<double>("c", {g, g}), y = p.input<double>("y", {g}),
       z = p.input<double>("z", {g});
  auto e = p.input<int>("e", {g}), f = p.input<int>("f", {g});
  p.in_range(e, 0, 3);
  p.in_range(f, 0, 3);
  auto q = p.inout<double>("q", {n, 4}), h = p.inout<double>("h", {g, g});
  for (auto ip : p.loop("ip", n)) {
    auto i1 = p.scalar<std::int64_t>("i1"), j1 = p.scalar<std::int64_t>("j1"), i2 = p.scalar<std::int64_t>("i2"),
         j2 = p.scalar<std::int64_t>("j2");
    i1 = cast<std::int64_t>(q(ip, 0)) % g;
    j1 = cast<std::int64_t>(q(ip, 1)) % g;
    q(ip, 2) += b(j1, i1) * q(ip, 3);
    q(ip, 3) += c(j1, i1);
    q(ip, 0) += q(ip, 2);
    q(ip, 1) += q(ip, 3);
    i2 = (cast<std::int64_t>(floor(q(ip, 0))) % g + g) % g;
    j2 = (cast<std::int64_t>(floor(q(ip, 1))) % g + g) % g;
    q(ip, 0) += y(i2) * q(ip, 2);
    q(ip, 1) += z(j2);
    i2 = (i2 + e(i2)) % g;
    j2 = (j2 + f(j2)) % g;
    h(j2, i2) += q(ip, 0) * q(ip, 1);
  }
  return p.build();
}

/// 14: particles in one dimension, three loops with arrays of cells and fractions between them.
Program cells_1d() {
  ProgramBuilder p("cells_1d");
  auto n = p.size("n"), g = p.size("g");
  auto grd = p.input<double>("grd", {n}), ex = p.input<double>("ex", {g + 1}), dex = p.input<double>("dex", {g + 1}),
       flx = p.input<double>("flx", {});
  auto vx = p.inout<double>("vx", {n}), xx = p.inout<double>("xx", {n}), rh = p.inout<double>("rh", {g + 1});
  auto ix = p.local<std::int64_t>("ix", {n}), ir = p.local<std::int64_t>("ir", {n});
  auto xi = p.local<double>("xi", {n}), ex1 = p.local<double>("ex1", {n}), dex1 = p.local<double>("dex1", {n}),
       rx = p.local<double>("rx", {n});
  for (auto k : p.loop("k", n)) {
    vx(k) = 0.0;
    xx(k) = 0.0;
    ix(k) = cast<std::int64_t>(floor((0.5 + 0.49 * grd(k)) * cast<double>(g)));
    xi(k) = cast<double>(ix(k));
    ex1(k) = ex(ix(k));
    dex1(k) = dex(ix(k));
  }
  for (auto k : p.loop("k", n)) {
    vx(k) = vx(k) + ex1(k) + ((0.5 + 0.49 * grd(k)) * cast<double>(g) - xi(k)) * dex1(k);
    xx(k) = xx(k) + vx(k) * grd(k) + flx();
    ir(k) = cast<std::int64_t>(floor(xx(k)));
    rx(k) = xx(k) - cast<double>(ir(k));
    ir(k) = (ir(k) % g + g) % g;
    xx(k) = rx(k) + cast<double>(ir(k));
  }
  for (auto k : p.loop("k", n)) {
    rh(ir(k)) += 1.0 - rx(k);
    rh(ir(k) + 1) += rx(k);
  }
  return p.build();
}

/// 15: casual Fortran: comparisons with neighbours, gotos, roots.
Program casual() {
  ProgramBuilder p("casual");
  auto ng = p.size("ng"), nz = p.size("nz");
  auto vh = p.input<double>("vh", {ng + 1, nz + 1}), vf = p.input<double>("vf", {ng + 1, nz + 1}),
       vg = p.input<double>("vg", {ng + 1, nz + 1});
  auto vy = p.output<double>("vy", {ng, nz}), vs = p.output<double>("vs", {ng, nz});
  const double ar = 0.053, br = 0.073;
  for (auto j : p.loop("j", 1, ng))
    for (auto k : p.loop("k", 1, nz)) {
      auto t = p.scalar<double>("t"), r = p.scalar<double>("r"), s = p.scalar<double>("s");
      p.when(j + 1 >= ng, [&] { vy(j, k) = 0.0; }).otherwise([&] {
        p.when(vh(j + 1, k) > vh(j, k), [&] { t = ar; }).otherwise([&] { t = br; });
        p.when(vf(j, k) < vf(j, k - 1), [&] {
           p.when(vh(j, k - 1) > vh(j + 1, k - 1), [&] { r = vh(j, k - 1); }).otherwise([&] { r = vh(j + 1, k - 1); });
           s = vf(j, k - 1);
         }).otherwise([&] {
          p.when(vh(j, k) > vh(j + 1, k), [&] { r = vh(j, k); }).otherwise([&] { r = vh(j + 1, k); });
          s = vf(j, k);
        });
        vy(j, k) = sqrt(vg(j, k) * vg(j, k) + r * r) * t / (s + 1.5);
      });
      p.when(k + 1 >= nz, [&] { vs(j, k) = 0.0; }).otherwise([&] {
        p.when(vf(j, k) < vf(j - 1, k), [&] {
           r = max(vg(j - 1, k), vg(j - 1, k + 1));
           s = vf(j - 1, k);
           t = br;
         }).otherwise([&] {
          r = max(vg(j, k), vg(j, k + 1));
          s = vf(j, k);
          t = ar;
        });
        vs(j, k) = sqrt(vh(j, k) * vh(j, k) + r * r) * t / (s + 1.5);
      });
    }
  for (auto j : p.loop("j", ng)) {
    vy(j, 0) = 0.0;
    vs(j, 0) = 0.0;
  }
  for (auto k : p.loop("k", 1, nz)) {
    vy(0, k) = 0.0;
    vs(0, k) = 0.0;
  }
  return p.build();
}

/// 17: an implicit conditional: the loop goes backwards, and two paths through its body carry scalars.
Program implicit_conditional() {
  ProgramBuilder p("implicit_conditional");
  auto n = p.size("n");
  auto vlr = p.input<double>("vlr", {n}), vlin = p.input<double>("vlin", {n}), vsp = p.input<double>("vsp", {n}),
       vstp = p.input<double>("vstp", {n});
  auto vxne = p.inout<double>("vxne", {n}), vxnd = p.inout<double>("vxnd", {n}), ve3 = p.output<double>("ve3", {n});
  auto scale = p.scalar<double>("scale", 5.0 / 3.0), xnm = p.scalar<double>("xnm", 1.0 / 3.0),
       e6 = p.scalar<double>("e6", 1.03 / 3.07), e3 = p.scalar<double>("e3"), xnei = p.scalar<double>("xnei");
  for (auto i : p.loop("i", 0, n, {.descending = true})) {
    e3 = xnm * vlr(i) + vlin(i);
    xnei = vxne(i);
    vxnd(i) = e6;
    auto xnc = p.let("xnc", scale * e3);
    ve3(i) = e3;
    p.when(xnm > xnc || xnei > xnc,
           [&] {  // 62
             e6 = 0.5 * (xnm * vsp(i) + vstp(i));
             vxne(i) = e6;
             xnm = e6;
           })
        .otherwise([&] {
          vxne(i) = e3 + e3 - xnm;
          xnm = 0.5 * (e3 + e3 - xnm);
          e6 = e3;
        });
  }
  return p.build();
}

/// 19: general linear recurrence equations, once up and once down.
Program up_and_down() {
  ProgramBuilder p("up_and_down");
  auto n = p.size("n");
  auto sa = p.input<double>("sa", {n}), sb = p.input<double>("sb", {n});
  auto b5 = p.output<double>("b5", {n});
  auto stb5 = p.scalar<double>("stb5", 0.1);
  for (auto k : p.loop("k", n)) {
    b5(k) = sa(k) + stb5 * sb(k);
    stb5 = b5(k) - stb5;
  }
  for (auto i : p.loop("i", 1, n + 1)) {
    auto k = n - i;
    b5(k) = sa(k) + stb5 * sb(k);
    stb5 = 0.5 * (b5(k) - stb5);
  }
  return p.build();
}

/// 20: discrete ordinates: a chain with a quotient, clipped.
Program ordinates_line() {
  ProgramBuilder p("ordinates_line");
  auto n = p.size("n");
  auto y = p.input<double>("y", {n}), g = p.input<double>("g", {n}), w = p.input<double>("w", {n}),
       v = p.input<double>("v", {n}), u = p.input<double>("u", {n}), z = p.input<double>("z", {n}),
       vx = p.input<double>("vx", {n});
  auto x = p.output<double>("x", {n}), xx = p.inout<double>("xx", {n + 1});
  const double s = 0.1, t = 0.9, dk = 0.2;
  for (auto k : p.loop("k", n)) {
    auto di = p.scalar<double>("di"), dn = p.scalar<double>("dn", dk);
    di = (1.5 + y(k)) - g(k) / (2.0 + xx(k) * xx(k));
    p.when(di > 0.2, [&] {
      dn = (1.2 + z(k)) / di;
      p.when(t < dn, [&] { dn = t; });
      p.when(s > dn, [&] { dn = s; });
    });
    x(k) = ((w(k) + v(k) * dn) * xx(k) + u(k)) / (2.5 + vx(k) + v(k) * dn);
    xx(k + 1) = (x(k) - xx(k)) * dn + xx(k);
  }
  return p.build();
}

/// 23: two-dimensional implicit hydrodynamics: in place with five coefficients.
Program implicit_hydro() {
  ProgramBuilder p("implicit_hydro");
  auto n = p.size("n"), m = p.size("m");
  auto zr = p.input<double>("zr", {m, n}), zb = p.input<double>("zb", {m, n}), zu = p.input<double>("zu", {m, n}),
       zv = p.input<double>("zv", {m, n}), zz = p.input<double>("zz", {m, n});
  auto za = p.inout<double>("za", {m, n});
  for (auto j : p.loop("j", 1, m - 1))
    for (auto k : p.loop("k", 1, n - 1)) {
      auto qa = za(j + 1, k) * zr(j, k) + za(j - 1, k) * zb(j, k) + za(j, k + 1) * zu(j, k) + za(j, k - 1) * zv(j, k) +
                zz(j, k);
      za(j, k) += 0.175 * (qa - za(j, k));
    }
  return p.build();
}

/// 24: the first minimum, by its place.
Program first_minimum() {
  ProgramBuilder p("first_minimum");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto least = p.output<double>("least", {});
  auto m = p.scalar<std::int64_t>("m", 0);
  for (auto k : p.loop("k", 1, n)) p.when(x(k) < x(m), [&] { m = k; });
  least() = x(m) * x(m);
  return p.build();
}

}  // namespace

std::vector<Field> livermore() {
  const std::vector<Sizes> lines{{{"n", 7}}, {{"n", 3}}, {{"n", 22}}}, squares{{{"n", 5}}, {{"n", 2}}, {{"n", 8}}};
  auto small = [](const Sizes& sizes, std::uint64_t, InputArrays& arrays) {
    HostArray& x = arrays.at("b");
    for (std::int64_t i = 0; i < x.size(); ++i) x.set(i, x.get(i) / static_cast<double>(sizes.at("n")));
  };
  auto little = [](const Sizes& sizes, std::uint64_t, InputArrays& arrays) {
    HostArray& x = arrays.at("y");
    for (std::int64_t i = 0; i < x.size(); ++i) x.set(i, x.get(i) / static_cast<double>(sizes.at("n")));
  };
  return {
      {{"halving_solve", "", halving_solve, {{"n", 1000001}, {"passes", 20}}},
       {{{"n", 7}, {"passes", 3}}, {{"n", 3}, {"passes", 1}}, {{"n", 22}, {"passes", 5}}}},
      {{"banded_equations", "", banded_equations, {{"n", 1501}}, {}, {}, little}, {{{"n", 3}}, {{"n", 1}}, {{"n", 7}}}},
      {{"all_before", "", all_before, {{"n", 1501}}, {}, {}, small}, squares},
      {{"cells_2d", "", cells_2d, {{"n", 300007}, {"g", 61}}},
       {{{"n", 7}, {"g", 3}}, {{"n", 1}, {"g", 1}}, {{"n", 22}, {"g", 5}}}},
      {{"cells_1d", "", cells_1d, {{"n", 300007}, {"g", 2001}}},
       {{{"n", 7}, {"g", 3}}, {{"n", 1}, {"g", 1}}, {{"n", 22}, {"g", 5}}}},
      {{"casual", "", casual, {{"ng", 501}, {"nz", 703}}},
       {{{"ng", 5}, {"nz", 3}}, {{"ng", 2}, {"nz", 2}}, {{"ng", 3}, {"nz", 7}}}},
      {{"implicit_conditional", "", implicit_conditional, {{"n", 1000003}}}, lines},
      {{"up_and_down", "", up_and_down, {{"n", 1000003}}}, {{{"n", 7}}, {{"n", 3}}, {{"n", 9}}}},
      {{"ordinates_line", "", ordinates_line, {{"n", 1000003}}}, lines},
      {{"implicit_hydro", "", implicit_hydro, {{"n", 1201}, {"m", 803}}},
       {{{"n", 5}, {"m", 4}}, {{"n", 3}, {"m", 3}}, {{"n", 4}, {"m", 7}}}},
      {{"first_minimum", "", first_minimum, {{"n", 3000007}}}, lines}};
}

}  // namespace loopgrad::fields

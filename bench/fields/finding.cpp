// Sums into elements that the program itself finds: cells of positions, bins of values, entries that were searched for.
#include "bench/fields/fields.h"

namespace loopgrad::fields {
namespace {

/// Texture with mip levels, read trilinearly; gradient by the texture and the coordinates.
Program mipmap() {
  ProgramBuilder p("mipmap");
  auto n = p.size("n"), s = p.size("s"), levels = p.size("levels"), c = p.size("c");
  auto uv = p.input<float>("uv", {n, 2}), lod = p.input<float>("lod", {n});
  auto tex = p.input<float>("tex", {levels, s, s, c});
  auto out = p.output<float>("out", {n, c});
  for (auto i : p.loop("i", n)) {
    auto lev = p.let("lev", abs(lod(i)) * cast<float>(levels - 1) * 0.999);
    auto l0 = p.scalar<int>("l0");
    l0 = cast<int>(lev);
    auto u = p.let("u", abs(uv(i, 0)) * cast<float>(s - 1) * 0.999),
         v = p.let("v", abs(uv(i, 1)) * cast<float>(s - 1) * 0.999);
    auto iu = p.scalar<int>("iu"), iv = p.scalar<int>("iv");
    iu = cast<int>(u);
    iv = cast<int>(v);
    auto fu = p.let("fu", u - cast<float>(iu)), fv = p.let("fv", v - cast<float>(iv)),
         fl = p.let("fl", lev - cast<float>(l0));
    for (auto k : p.loop("k", c)) {
      auto acc = p.scalar<float>("acc", 0);
      for (auto d : p.loop("d", 2)) {
        auto wl = p.let("wl", select(d == 0, 1 - fl, fl));
        auto l = p.scalar<int>("l");
        l = cast<int>(min(l0 + d, levels - 1));
        acc += wl * ((1 - fu) * (1 - fv) * tex(l, iv, iu, k) + fu * (1 - fv) * tex(l, iv, iu + 1, k) +
                     (1 - fu) * fv * tex(l, iv + 1, iu, k) + fu * fv * tex(l, iv + 1, iu + 1, k));
      }
      out(i, k) = acc;
    }
  }
  return p.build();
}

/// Particles deposit on a grid, the field is smoothed, and read back, in steps.
Program pic_steps() {
  ProgramBuilder p("pic_steps");
  auto n = p.size("n"), g = p.size("g"), steps = p.size("steps");
  auto x = p.inout<float>("x", {n}), v = p.inout<float>("v", {n});
  auto q = p.input<float>("q", {n});
  auto energy = p.output<float>("energy", {});
  auto rho = p.local<float>("rho", {g}), field = p.local<float>("field", {g});
  for (auto t : p.loop("t", steps)) {
    for (auto j : p.loop("j", g)) rho(j) = 0;
    for (auto i : p.loop("i", n)) {
      auto cell = p.scalar<int>("cell");
      auto pos = p.let("pos", (sin(x(i)) * 0.499 + 0.5) * cast<float>(g - 1));
      cell = cast<int>(pos);
      auto f = p.let("f", pos - cast<float>(cell));
      rho(cell) += q(i) * (1 - f);
      rho(cell + 1) += q(i) * f;
    }
    for (auto j : p.loop("j", g)) field(j) = rho((j + 1) % g) - rho((j + g - 1) % g);
    for (auto i : p.loop("i", n)) {
      auto cell = p.scalar<int>("cell");
      cell = cast<int>((sin(x(i)) * 0.499 + 0.5) * cast<float>(g - 1));
      v(i) += 0.01 * field(cell);
    }
    for (auto i : p.loop("i", n)) x(i) += 0.1 * v(i);
  }
  energy() = 0;
  for (auto i : p.loop("i", n)) energy() += v(i) * v(i);
  return p.build();
}

/// Forward splatting of Gaussians into an image: each adds to a window around its centre.
Program splat_window() {
  ProgramBuilder p("splat_window");
  auto n = p.size("n"), h = p.size("h"), w = p.size("w");
  auto mu = p.input<float>("mu", {n, 2}), amp = p.input<float>("amp", {n, 3}), sig = p.input<float>("sig", {n});
  auto img = p.output<float>("img", {h, w, 3});
  for (auto [y, x, c] : p.loop({"y", h}, {"x", w}, {"c", 3})) img(y, x, c) = 0;
  for (auto i : p.loop("i", n)) {
    auto cy = p.let("cy", abs(mu(i, 0)) * cast<float>(h)), cx = p.let("cx", abs(mu(i, 1)) * cast<float>(w));
    auto iy = p.scalar<int>("iy"), ix = p.scalar<int>("ix");
    iy = cast<int>(cy);
    ix = cast<int>(cx);
    for (auto [dy, dx] : p.loop({"dy", 7}, {"dx", 7})) {
      auto yy = p.let("yy", iy + dy - 3), xx = p.let("xx", ix + dx - 3);
      p.when(yy >= 0 && yy < h && xx >= 0 && xx < w, [&] {
        auto ey = p.let("ey", cast<float>(yy) - cy), ex = p.let("ex", cast<float>(xx) - cx);
        auto g = p.let("g", exp(-(ey * ey + ex * ex) / (1 + sig(i) * sig(i))));
        for (auto c : p.loop("c", 3)) img(yy, xx, c) += g * amp(i, c);
      });
    }
  }
  return p.build();
}

/// Two-dimensional soft histogram (mutual information): joint bins of two images.
Program joint_bins() {
  ProgramBuilder p("joint_bins");
  auto n = p.size("n"), b = p.size("b");
  auto x = p.input<float>("x", {n}), y = p.input<float>("y", {n});
  auto mi = p.output<float>("mi", {});
  auto joint = p.local<float>("joint", {b, b}), px = p.local<float>("px", {b}), py = p.local<float>("py", {b});
  for (auto [i, j] : p.loop({"i", b}, {"j", b})) joint(i, j) = 0;
  for (auto i : p.loop("i", b)) {
    px(i) = 0;
  }
  for (auto i : p.loop("i", b)) {
    py(i) = 0;
  }
  for (auto i : p.loop("i", n)) {
    auto u = p.let("u", abs(x(i)) * 0.999 * cast<float>(b - 1)), v = p.let("v", abs(y(i)) * 0.999 * cast<float>(b - 1));
    auto iu = p.scalar<int>("iu"), iv = p.scalar<int>("iv");
    iu = cast<int>(u);
    iv = cast<int>(v);
    auto fu = p.let("fu", u - cast<float>(iu)), fv = p.let("fv", v - cast<float>(iv));
    joint(iu, iv) += (1 - fu) * (1 - fv) / cast<float>(n);
    joint(iu + 1, iv) += fu * (1 - fv) / cast<float>(n);
    joint(iu, iv + 1) += (1 - fu) * fv / cast<float>(n);
    joint(iu + 1, iv + 1) += fu * fv / cast<float>(n);
  }
  for (auto [i, j] : p.loop({"i", b}, {"j", b})) px(i) += joint(i, j);
  for (auto [i, j] : p.loop({"i", b}, {"j", b})) py(j) += joint(i, j);
  mi() = 0;
  for (auto [i, j] : p.loop({"i", b}, {"j", b}))
    mi() += joint(i, j) * log((joint(i, j) + 1e-6) / (px(i) * py(j) + 1e-6));
  return p.build();
}

/// Nearest codebook entry (vector quantisation), then the entry is read.
Program codebook() {
  ProgramBuilder p("codebook");
  auto n = p.size("n"), k = p.size("k"), d = p.size("d");
  auto x = p.input<float>("x", {n, d}), code = p.input<float>("code", {k, d});
  auto loss = p.output<float>("loss", {n});
  for (auto i : p.loop("i", n)) {
    auto best = p.scalar<float>("best", 1e30);
    auto which = p.scalar<int>("which", 0);
    for (auto c : p.loop("c", k)) {
      auto s = p.scalar<float>("s", 0);
      for (auto j : p.loop("j", d)) {
        auto e = p.let("e", x(i, j) - code(c, j));
        s += e * e;
      }
      p.when(s < best, [&] {
        best = s;
        which = cast<int>(c);
      });
    }
    loss(i) = 0;
    for (auto j : p.loop("j", d))
      loss(i) += (x(i, j) - code(which, j)) * (x(i, j) - code(which, j)) * cast<float>(j + 1);
  }
  return p.build();
}

/// Density along a path that follows a field: semi-Lagrangian advection with backtracking, several steps.
Program advect() {
  ProgramBuilder p("advect");
  auto h = p.size("h"), w = p.size("w"), steps = p.size("steps");
  auto u = p.input<float>("u", {h, w}), v = p.input<float>("v", {h, w});
  auto d = p.inout<float>("d", {h, w});
  auto next = p.local<float>("next", {h, w});
  for (auto t : p.loop("t", steps)) {
    for (auto [y, x] : p.loop({"y", h}, {"x", w})) {
      auto py = p.let("py", max(min(cast<float>(y) - 2 * v(y, x), cast<float>(h) - 1.01), 0.0));
      auto px = p.let("px", max(min(cast<float>(x) - 2 * u(y, x), cast<float>(w) - 1.01), 0.0));
      auto iy = p.scalar<int>("iy"), ix = p.scalar<int>("ix");
      iy = cast<int>(py);
      ix = cast<int>(px);
      auto fy = p.let("fy", py - cast<float>(iy)), fx = p.let("fx", px - cast<float>(ix));
      next(y, x) = (1 - fy) * ((1 - fx) * d(iy, ix) + fx * d(iy, ix + 1)) +
                   fy * ((1 - fx) * d(iy + 1, ix) + fx * d(iy + 1, ix + 1));
    }
    for (auto [y, x] : p.loop({"y", h}, {"x", w})) d(y, x) = next(y, x);
  }
  return p.build();
}

/// Piecewise linear tables by binary search: table of knots, values read.
Program knots() {
  ProgramBuilder p("knots");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<float>("x", {n}), at = p.input<float>("at", {m}), val = p.input<float>("val", {m});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", n)) {
    auto lo = p.scalar<int>("lo", 0), hi = p.scalar<int>("hi");
    hi = cast<int>(m - 1);
    auto key = p.let("key", x(i) * cast<float>(m));
    for (auto step : p.loop("step", 0, 24)) {
      auto mid = p.scalar<int>("mid");
      mid = (lo + hi) / 2;
      p.when(hi - lo > 1, [&] {
        p.when(cast<float>(mid) + 0.3 * at(mid) > abs(key), [&] { hi = mid; }).otherwise([&] { lo = mid; });
      });
    }
    auto t = p.let("t", (abs(key) - cast<float>(lo)) * 0.5);
    y(i) = (1 - t) * val(lo) + t * val(hi);
  }
  return p.build();
}

/// Edges whose weights are computed, with a cutoff by distance (message passing in a box, cell indices from floats).
Program box_messages() {
  ProgramBuilder p("box_messages");
  auto n = p.size("n"), g = p.size("g"), d = p.size("d");
  auto pos = p.input<float>("pos", {n, 2}), feat = p.input<float>("feat", {n, d});
  auto grid = p.local<float>("grid", {g, g, d});
  auto out = p.output<float>("out", {n, d});
  for (auto [a, b, k] : p.loop({"a", g}, {"b", g}, {"k", d})) grid(a, b, k) = 0;
  for (auto i : p.loop("i", n)) {
    auto a = p.scalar<int>("a"), b = p.scalar<int>("b");
    a = cast<int>(abs(pos(i, 0)) * 0.999 * cast<float>(g));
    b = cast<int>(abs(pos(i, 1)) * 0.999 * cast<float>(g));
    for (auto k : p.loop("k", d)) grid(a, b, k) += tanh(feat(i, k));
  }
  for (auto i : p.loop("i", n)) {
    auto a = p.scalar<int>("a"), b = p.scalar<int>("b");
    a = cast<int>(abs(pos(i, 0)) * 0.999 * cast<float>(g));
    b = cast<int>(abs(pos(i, 1)) * 0.999 * cast<float>(g));
    for (auto k : p.loop("k", d)) out(i, k) = grid(a, b, k) * feat(i, k);
  }
  return p.build();
}

}  // namespace

std::vector<Field> finding() {
  return {
      {{"mipmap", "", mipmap, {{"n", 500009}, {"s", 255}, {"levels", 7}, {"c", 3}}},
       {{{"n", 7}, {"s", 5}, {"levels", 3}, {"c", 2}}, {{"n", 1}, {"s", 2}, {"levels", 1}, {"c", 1}}}},
      {{"pic_steps", "", pic_steps, {{"n", 500009}, {"g", 8191}, {"steps", 10}}},
       {{{"n", 9}, {"g", 5}, {"steps", 3}}, {{"n", 2}, {"g", 3}, {"steps", 1}}}},
      {{"splat_window", "", splat_window, {{"n", 100003}, {"h", 517}, {"w", 701}}},
       {{{"n", 5}, {"h", 9}, {"w", 8}}, {{"n", 1}, {"h", 2}, {"w", 3}}}},
      {{"joint_bins", "", joint_bins, {{"n", 2000003}, {"b", 65}}}, {{{"n", 17}, {"b", 5}}, {{"n", 3}, {"b", 2}}}},
      {{"codebook", "", codebook, {{"n", 20011}, {"k", 513}, {"d", 33}}},
       {{{"n", 6}, {"k", 5}, {"d", 3}}, {{"n", 2}, {"k", 1}, {"d", 1}}}},
      {{"advect", "", advect, {{"h", 701}, {"w", 517}, {"steps", 10}}},
       {{{"h", 6}, {"w", 7}, {"steps", 3}}, {{"h", 2}, {"w", 3}, {"steps", 1}}}},
      {{"knots", "", knots, {{"n", 1000003}, {"m", 4099}}}, {{{"n", 8}, {"m", 7}}, {{"n", 1}, {"m", 2}}}},
      {{"box_messages", "", box_messages, {{"n", 300007}, {"g", 65}, {"d", 17}}},
       {{{"n", 9}, {"g", 3}, {"d", 2}}, {{"n", 1}, {"g", 1}, {"d", 1}}}},
  };
}

}  // namespace loopgrad::fields

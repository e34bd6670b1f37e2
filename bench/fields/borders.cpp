// Pictures, fields of phases and games: flattened grids with borders, pyramids, constraints, rays.
#include "bench/fields/fields.h"

#include "tools/support/random.h"

#include <algorithm>
#include <cmath>

namespace loopgrad::fields {
namespace {

/// A separable blur whose borders are mirrored, on a flattened picture, then an unsharp mask.
Program mirror_blur() {
  ProgramBuilder p("mirror_blur");
  auto h = p.size("h"), w = p.size("w"), r = p.size("r");
  auto img = p.input<float>("img", {h * w}), tap = p.input<float>("tap", {2 * r + 1}),
       amount = p.input<float>("amount", {});
  auto out = p.output<float>("out", {h * w});
  auto tmp = p.local<float>("tmp", {h * w});
  const auto mirror = [](const Value& i, const Value& n) {
    auto low = select(i < 0, -i, i);
    return max(min(select(low >= n, 2 * n - 2 - low, low), n - 1), 0);
  };
  for (auto [i, j] : p.loop({"i", h}, {"j", w})) {
    tmp(i * w + j) = 0.0f;
    for (auto k : p.loop("k", -r, r + 1)) tmp(i * w + j) += tap(k + r) * img(i * w + mirror(j + k, w));
  }
  for (auto [i, j] : p.loop({"i1", h}, {"j1", w})) {
    auto blur = p.scalar<float>("blur", 0);
    for (auto k : p.loop("k1", -r, r + 1)) blur += tap(k + r) * tmp(mirror(i + k, h) * w + j);
    out(i * w + j) = img(i * w + j) + amount() * (img(i * w + j) - blur);
  }
  return p.build();
}

/// Opening by a square window with clamped borders on a flattened picture, then the top hat's energy.
Program top_hat() {
  ProgramBuilder p("top_hat");
  auto h = p.size("h"), w = p.size("w");
  auto img = p.input<float>("img", {h * w}), shape = p.input<float>("shape", {3, 3});
  auto hat = p.output<float>("hat", {h * w}), energy = p.output<float>("energy", {});
  auto low = p.local<float>("low", {h * w}), high = p.local<float>("high", {h * w});
  energy() = 0.0f;
  for (auto [i, j] : p.loop({"i", h}, {"j", w})) {
    low(i * w + j) = 1e3f;
    for (auto [a, b] : p.loop({"a", 3}, {"b", 3}))
      low(i * w + j).min_with(img(max(min(i + a - 1, h - 1), 0) * w + max(min(j + b - 1, w - 1), 0)) -
                              0.2f * shape(a, b));
  }
  for (auto [i, j] : p.loop({"i1", h}, {"j1", w})) {
    high(i * w + j) = -1e3f;
    for (auto [a, b] : p.loop({"a1", 3}, {"b1", 3}))
      high(i * w + j).max_with(low(max(min(i + 1 - a, h - 1), 0) * w + max(min(j + 1 - b, w - 1), 0)) +
                               0.2f * shape(a, b));
  }
  for (auto k : p.loop("k", h * w)) {
    hat(k) = img(k) - high(k);
    energy() += hat(k) * hat(k);
  }
  return p.build();
}

/// Levels of a pyramid behind each other in one array, its offsets run: down by averages, up by differences.
Program flat_pyramid() {
  ProgramBuilder p("flat_pyramid");
  auto n = p.size("n"), levels = p.size("levels");
  auto img = p.input<float>("img", {n * n}), gain = p.input<float>("gain", {levels});
  auto out = p.output<float>("out", {n * n}), band = p.output<float>("band", {levels});
  auto all = p.local<float>("all", {2 * n * n}), back = p.local<float>("back", {2 * n * n});
  auto at = p.scalar<std::int64_t>("at", 0), size = p.scalar<std::int64_t>("size", 0);
  size = n;
  for (auto k : p.loop("k", n * n)) all(k) = img(k);
  for (auto l : p.loop("l", 1, levels)) {
    auto half = p.let("half", max(size / 2, 1)), next = p.let("next", at + size * size);
    p.when(size > 1, [&] {
      for (auto [i, j] : p.loop({"i", half}, {"j", half})) {
        auto from = p.let("from", at + 2 * i * size + 2 * j);
        all(next + i * half + j) = 0.25f * (all(from) + all(from + 1) + all(from + size) + all(from + size + 1));
      }
      at = next;
      size = half;
    });
    band(l) = 0.0f;
    for (auto k : p.loop("k1", size * size)) band(l) += gain(l) * all(at + k) * all(at + k);
  }
  band(0) = all(at);
  for (auto [i, j] : p.loop({"i2", n}, {"j2", n})) out(i * n + j) = tanh(all(i * n + j) - all(at));
  (void)back;
  return p.build();
}

/// A flattened picture seen through a lens: bilinear reads where the distorted rays arrive, with darker corners.
Program lens_warp() {
  ProgramBuilder p("lens_warp");
  auto h = p.size("h"), w = p.size("w");
  auto img = p.input<float>("img", {h * w}), k = p.input<float>("k", {4});
  auto out = p.output<float>("out", {h * w});
  for (auto i : p.loop("i", h))
    for (auto j : p.loop("j", w)) {
      auto y = p.let("y", (cast<float>(i) + 0.5f) / cast<float>(h) - 0.5f),
           x = p.let("x", (cast<float>(j) + 0.5f) / cast<float>(w) - 0.5f);
      auto r2 = p.let("r2", x * x + y * y);
      auto s = p.let("s", 1.0f + 0.3f * k(0) * r2 + 0.2f * k(1) * r2 * r2);
      auto u =
          p.let("u", max(min((x * s + 0.1f * k(2) + 0.5f) * cast<float>(w) - 0.5f, cast<float>(w) - 1.001f), 0.0f));
      auto v =
          p.let("v", max(min((y * s + 0.1f * k(3) + 0.5f) * cast<float>(h) - 0.5f, cast<float>(h) - 1.001f), 0.0f));
      auto a = p.let("a", cast<std::int64_t>(v)), b = p.let("b", cast<std::int64_t>(u));
      auto fy = p.let("fy", v - cast<float>(a)), fx = p.let("fx", u - cast<float>(b));
      auto right = p.let("right", min(b + 1, w - 1)), under = p.let("under", min(a + 1, h - 1));
      out(i * w + j) = (1.0f - 0.5f * r2) * ((1.0f - fy) * ((1.0f - fx) * img(a * w + b) + fx * img(a * w + right)) +
                                             fy * ((1.0f - fx) * img(under * w + b) + fx * img(under * w + right)));
    }
  return p.build();
}

/// Cahn and Hilliard on a flattened torus, indices by remainders; the potential first, then its Laplacian.
Program cahn_hilliard() {
  ProgramBuilder p("cahn_hilliard");
  auto h = p.size("h"), w = p.size("w"), steps = p.size("steps");
  auto c = p.inout<double>("c", {h * w});
  auto mobility = p.input<double>("mobility", {h * w}), kappa = p.input<double>("kappa", {});
  auto energy = p.output<double>("energy", {steps});
  auto mu = p.local<double>("mu", {h * w});
  for (auto t : p.loop("t", steps)) {
    energy(t) = 0.0;
    for (auto k : p.loop("k", h * w)) {
      auto i = k / w, j = k % w;
      auto up = (i + h - 1) % h * w + j, down = (i + 1) % h * w + j, left = i * w + (j + w - 1) % w,
           right = i * w + (j + 1) % w;
      mu(k) = c(k) * c(k) * c(k) - c(k) - (0.5 + 0.1 * kappa()) * (c(up) + c(down) + c(left) + c(right) - 4.0 * c(k));
      energy(t) += 0.25 * (c(k) * c(k) - 1.0) * (c(k) * c(k) - 1.0);
    }
    for (auto k : p.loop("k1", h * w)) {
      auto i = k / w, j = k % w;
      auto up = (i + h - 1) % h * w + j, down = (i + 1) % h * w + j, left = i * w + (j + w - 1) % w,
           right = i * w + (j + 1) % w;
      c(k) += 0.01 * (1.0 + 0.3 * mobility(k)) * (mu(up) + mu(down) + mu(left) + mu(right) - 4.0 * mu(k));
    }
  }
  return p.build();
}

/// Ropes of a game: distance constraints in a list are projected one after the other, in place, a few times a frame.
Program rope_game() {
  ProgramBuilder p("rope_game");
  auto points = p.size("points"), links = p.size("links"), frames = p.size("frames");
  auto a = p.input<int>("a", {links}), b = p.input<int>("b", {links});
  p.in_range(a, 0, points), p.in_range(b, 0, points);
  auto rest = p.input<double>("rest", {links}), mass = p.input<double>("mass", {points}),
       floor_at = p.input<double>("floor_at", {});
  auto x = p.inout<double>("x", {points, 2}), old = p.inout<double>("old", {points, 2});
  for (auto f : p.loop("f", frames)) {
    (void)f;
    for (auto [i, c] : p.loop({"i", points}, {"c", 2})) {
      auto v = p.let("v", 0.98 * (x(i, c) - old(i, c)) - select(c == 1, Value(0.02), Value(0.0)));
      old(i, c) = x(i, c);
      x(i, c) += 0.5 * v;
    }
    for (auto r : p.loop("r", 2)) {
      (void)r;
      for (auto l : p.loop("l", links)) {
        auto i = a(l), j = b(l);
        auto dx = p.let("dx", x(j, 0) - x(i, 0)), dy = p.let("dy", x(j, 1) - x(i, 1));
        auto d = p.let("d", sqrt(dx * dx + dy * dy + 0.01));
        auto wi = p.let("wi", 1.0 + 0.5 * mass(i)), wj = p.let("wj", 1.0 + 0.5 * mass(j));
        auto push = p.let("push", 0.5 * (d - 0.5 - 0.1 * rest(l)) / d / (wi + wj));
        p.when(push > -0.2, [&] {
          x(i, 0) += wi * push * dx;
          x(i, 1) += wi * push * dy;
          x(j, 0) -= wj * push * dx;
          x(j, 1) -= wj * push * dy;
        });
      }
    }
    for (auto i : p.loop("i1", points)) x(i, 1).max_with(-1.0 + 0.1 * floor_at());
  }
  return p.build();
}

/// Rays through a flattened map, cell by cell, until enough was absorbed or the map ends.
Program grid_rays() {
  ProgramBuilder p("grid_rays");
  auto rays = p.size("rays"), g = p.size("g");
  auto map = p.input<double>("map", {g * g}), angle = p.input<double>("angle", {rays}),
       origin = p.input<double>("origin", {rays, 2});
  auto seen = p.output<double>("seen", {rays}), far = p.output<double>("far", {rays});
  for (auto r : p.loop("r", rays)) {
    auto x = p.scalar<double>("x"), y = p.scalar<double>("y"), pass = p.scalar<double>("pass", 1),
         t = p.scalar<double>("t", 0);
    auto dx = p.let("dx", cos(3.0 * angle(r))), dy = p.let("dy", sin(3.0 * angle(r)));
    x = (0.5 + 0.4 * origin(r, 0)) * cast<double>(g);
    y = (0.5 + 0.4 * origin(r, 1)) * cast<double>(g);
    seen(r) = 0.0;
    for (auto s : p.loop_while("s", 2 * g, [&](auto) {
           return pass > 0.05 && x >= 0.0 && y >= 0.0 && x < cast<double>(g) && y < cast<double>(g);
         })) {
      (void)s;
      auto cell = p.let("cell", cast<std::int64_t>(y) * g + cast<std::int64_t>(x));
      auto alpha = p.let("alpha", 1.0 - exp(-0.3 * (1.1 + map(cell))));
      seen(r) += pass * alpha * t;
      pass *= 1.0 - alpha;
      auto nx = p.let("nx", select(dx > 0.0, (floor(x) + 1.0 - x) / dx, (floor(x) - x) / dx)),
           ny = p.let("ny", select(dy > 0.0, (floor(y) + 1.0 - y) / dy, (floor(y) - y) / dy));
      auto step = p.let("step", max(min(abs(nx), abs(ny)), 0.0) + 0.01);
      x += step * dx;
      y += step * dy;
      t += step;
    }
    far(r) = t;
  }
  return p.build();
}

/// Histograms of oriented gradients on a flattened picture: cells of 8 by 8, two bins for each pixel, blocks
/// normalised.
Program oriented_cells() {
  ProgramBuilder p("oriented_cells");
  auto ch = p.size("ch"), cw = p.size("cw");
  auto w = cw * 8;
  auto img = p.input<float>("img", {ch * 8 * cw * 8});
  auto out = p.output<float>("out", {ch, cw, 9});
  for (auto [a, b, k] : p.loop({"a0", ch}, {"b0", cw}, {"k0", 9})) out(a, b, k) = 0.0f;
  for (auto i : p.loop("i", 1, ch * 8 - 1))
    for (auto j : p.loop("j", 1, cw * 8 - 1)) {
      auto gx = p.let("gx", img(i * w + j + 1) - img(i * w + j - 1)),
           gy = p.let("gy", img((i + 1) * w + j) - img((i - 1) * w + j));
      auto size = p.let("size", sqrt(gx * gx + gy * gy + 0.01f));
      auto turn = p.let("turn", (atan2(gy, gx + 1e-4f) + 3.1416f) * 1.432f);
      auto bin = p.let("bin", cast<std::int64_t>(turn));
      auto part = p.let("part", turn - cast<float>(bin));
      out(i / 8, j / 8, bin % 9) += size * (1.0f - part);
      out(i / 8, j / 8, (bin + 1) % 9) += size * part;
    }
  for (auto [a, b] : p.loop({"a", ch}, {"b", cw})) {
    auto norm = p.scalar<float>("norm", 0.1f);
    for (auto k : p.loop("k", 9)) norm += out(a, b, k) * out(a, b, k);
    for (auto k : p.loop("k1", 9)) out(a, b, k) = min(out(a, b, k) / sqrt(norm), cast<float>(Value(0.4)));
  }
  return p.build();
}

}  // namespace

std::vector<Field> borders() {
  return {
      {{"mirror_blur", "", mirror_blur, {{"h", 701}, {"w", 903}, {"r", 5}}},
       {{{"h", 5}, {"w", 7}, {"r", 2}}, {{"h", 1}, {"w", 1}, {"r", 1}}, {{"h", 2}, {"w", 9}, {"r", 3}}}},
      {{"top_hat", "", top_hat, {{"h", 501}, {"w", 703}}},
       {{{"h", 5}, {"w", 7}}, {{"h", 1}, {"w", 1}}, {{"h", 2}, {"w", 9}}}},
      {{"flat_pyramid", "", flat_pyramid, {{"n", 1000}, {"levels", 7}}},
       {{{"n", 5}, {"levels", 3}}, {{"n", 1}, {"levels", 1}}, {{"n", 9}, {"levels", 4}}}},
      {{"lens_warp", "", lens_warp, {{"h", 701}, {"w", 903}}},
       {{{"h", 5}, {"w", 7}}, {{"h", 2}, {"w", 2}}, {{"h", 3}, {"w", 11}}}},
      {{"cahn_hilliard", "", cahn_hilliard, {{"h", 101}, {"w", 131}, {"steps", 100}}},
       {{{"h", 5}, {"w", 7}, {"steps", 3}}, {{"h", 1}, {"w", 1}, {"steps", 2}}, {{"h", 2}, {"w", 3}, {"steps", 2}}}},
      {{"rope_game", "", rope_game, {{"points", 1000}, {"links", 1500}, {"frames", 150}}},
       {{{"points", 5}, {"links", 6}, {"frames", 3}}, {{"points", 1}, {"links", 1}, {"frames", 2}}}},
      {{"grid_rays", "", grid_rays, {{"rays", 30000}, {"g", 150}}}, {{{"rays", 5}, {"g", 7}}, {{"rays", 1}, {"g", 1}}}},
      {{"oriented_cells", "", oriented_cells, {{"ch", 53}, {"cw", 71}}},
       {{{"ch", 1}, {"cw", 1}}, {{"ch", 2}, {"cw", 1}}}},
  };
}

}  // namespace loopgrad::fields

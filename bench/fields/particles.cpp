#include "bench/fields/fields.h"

#include "tools/support/random.h"

#include <algorithm>
#include <cmath>

namespace loopgrad::fields {
namespace {

/// PageRank by pulling along incoming edges, T steps, with the teleport vector and edge weights as parameters.
Program pagerank_pull() {
  ProgramBuilder p("pagerank_pull");
  auto v = p.size("v"), e = p.size("e"), t = p.size("t");
  auto ptr = p.input<int>("ptr", {v + 1}), src = p.input<int>("src", {e});
  auto w = p.input<float>("w", {e}), jump = p.input<float>("jump", {v});
  auto rank = p.output<float>("rank", {v});
  p.csr(ptr, e);
  p.in_range(src, 0, v);
  auto next = p.local<float>("next", {v});
  for (auto i : p.loop("i", 0, v)) rank(i) = jump(i);
  for (auto s : p.loop("s", 0, t)) {
    (void)s;
    for (auto i : p.loop("i", 0, v)) {
      next(i) = 0.15f * jump(i);
      for (auto k : p.loop("k", ptr(i), ptr(i + 1))) next(i) += 0.2f * w(k) * rank(src(k));
    }
    for (auto i : p.loop("i", 0, v)) rank(i) = next(i);
  }
  return p.build();
}

/// The same by pushing along outgoing edges.
Program pagerank_push() {
  ProgramBuilder p("pagerank_push");
  auto v = p.size("v"), e = p.size("e"), t = p.size("t");
  auto ptr = p.input<int>("ptr", {v + 1}), dst = p.input<int>("dst", {e});
  auto w = p.input<float>("w", {e}), jump = p.input<float>("jump", {v});
  auto rank = p.output<float>("rank", {v});
  p.csr(ptr, e);
  p.in_range(dst, 0, v);
  auto next = p.local<float>("next", {v});
  for (auto i : p.loop("i", 0, v)) rank(i) = jump(i);
  for (auto s : p.loop("s", 0, t)) {
    (void)s;
    for (auto i : p.loop("i", 0, v)) next(i) = 0.15f * jump(i);
    for (auto i : p.loop("i", 0, v))
      for (auto k : p.loop("k", ptr(i), ptr(i + 1))) next(dst(k)) += 0.2f * w(k) * tanh(rank(i));
    for (auto i : p.loop("i", 0, v)) rank(i) = next(i);
  }
  return p.build();
}

/// Particle in cell in one periodic dimension: deposit charge, a field from it, interpolate, push.
Program particle_in_cell() {
  ProgramBuilder p("particle_in_cell");
  auto n = p.size("n"), g = p.size("g"), t = p.size("t");
  auto charge = p.input<double>("charge", {n});
  auto x = p.inout<double>("x", {n}), v = p.inout<double>("v", {n});
  auto energy = p.output<double>("energy", {t});
  auto rho = p.local<double>("rho", {g}), field = p.local<double>("field", {g});
  for (auto s : p.loop("s", 0, t)) {
    for (auto c : p.loop("c", 0, g)) rho(c) = 0.0;
    for (auto i : p.loop("i", 0, n)) {
      auto at = p.scalar<double>("at"), part = p.scalar<double>("part");
      auto cell = p.scalar<std::int64_t>("cell");
      at = x(i) * cast<double>(g);
      cell = cast<std::int64_t>(floor(at));
      part = at - floor(at);
      rho((cell % g + g) % g) += charge(i) * (1.0 - part);
      rho(((cell + 1) % g + g) % g) += charge(i) * part;
    }
    energy(s) = 0.0;
    for (auto c : p.loop("c", 0, g)) {
      field(c) = 0.5 * (rho((c + g - 1) % g) - rho((c + 1) % g));
      energy(s) += field(c) * field(c);
    }
    for (auto i : p.loop("i", 0, n)) {
      auto at = p.scalar<double>("at"), part = p.scalar<double>("part");
      auto cell = p.scalar<std::int64_t>("cell");
      at = x(i) * cast<double>(g);
      cell = cast<std::int64_t>(floor(at));
      part = at - floor(at);
      v(i) += 0.1 * charge(i) * ((1.0 - part) * field((cell % g + g) % g) + part * field(((cell + 1) % g + g) % g));
      x(i) += 0.1 * v(i);
    }
  }
  return p.build();
}

/// An image warped by a flow: bilinear, clamped at the border.
Program image_warp() {
  ProgramBuilder p("image_warp");
  auto h = p.size("h"), w = p.size("w"), c = p.size("c");
  auto image = p.input<float>("image", {h, w, c}), flow = p.input<float>("flow", {h, w, 2});
  auto out = p.output<float>("out", {h, w, c});
  for (auto i : p.loop("i", 0, h))
    for (auto j : p.loop("j", 0, w)) {
      auto y = p.scalar<float>("y"), x = p.scalar<float>("x"), fy = p.scalar<float>("fy"), fx = p.scalar<float>("fx");
      auto y0 = p.scalar<std::int64_t>("y0"), x0 = p.scalar<std::int64_t>("x0");
      auto y1 = p.scalar<std::int64_t>("y1"), x1 = p.scalar<std::int64_t>("x1");
      y = cast<float>(i) + 2.0f * flow(i, j, 0);
      x = cast<float>(j) + 2.0f * flow(i, j, 1);
      fy = y - floor(y);
      fx = x - floor(x);
      y0 = max(0, min(h - 1, cast<std::int64_t>(floor(y))));
      x0 = max(0, min(w - 1, cast<std::int64_t>(floor(x))));
      y1 = min(h - 1, y0 + 1);
      x1 = min(w - 1, x0 + 1);
      for (auto k : p.loop("k", 0, c))
        out(i, j, k) = (1.0f - fy) * ((1.0f - fx) * image(y0, x0, k) + fx * image(y0, x1, k)) +
                       fy * ((1.0f - fx) * image(y1, x0, k) + fx * image(y1, x1, k));
    }
  return p.build();
}

/// Cubic Hermite splines; the interval of each point is looked for.
Program spline() {
  ProgramBuilder p("spline");
  auto n = p.size("n"), k = p.size("k");
  auto knot = p.input<float>("knot", {k}), value = p.input<float>("value", {k}), slope = p.input<float>("slope", {k});
  auto x = p.input<float>("x", {n});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto at = p.scalar<std::int64_t>("at");
    at = 0;
    for (auto q : p.loop("q", 1, k - 1)) p.when(knot(q) <= x(i), [&] { at = q; });
    auto width = p.scalar<float>("width"), s = p.scalar<float>("s");
    width = knot(at + 1) - knot(at);
    s = (x(i) - knot(at)) / width;
    auto r = 1.0f - s;
    y(i) = (1.0f + 2.0f * s) * r * r * value(at) + s * r * r * width * slope(at) +
           s * s * (3.0f - 2.0f * s) * value(at + 1) - s * s * r * width * slope(at + 1);
  }
  return p.build();
}

/// Lennard-Jones forces of all pairs i < j within a cutoff; both particles get their part.
Program pair_forces() {
  ProgramBuilder p("pair_forces");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n, 3}), size = p.input<float>("size", {n});
  auto force = p.output<float>("force", {n, 3}), energy = p.output<float>("energy", {});
  for (auto i : p.loop("i", 0, n))
    for (auto c : p.loop("c", 0, 3)) force(i, c) = 0.0f;
  energy() = 0.0f;
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", i + 1, n)) {
      auto r2 = p.scalar<float>("r2"), scale = p.scalar<float>("scale"), s6 = p.scalar<float>("s6");
      r2 = 0.3f;
      for (auto c : p.loop("c", 0, 3)) r2 += (x(i, c) - x(j, c)) * (x(i, c) - x(j, c));
      p.when(r2 < 1.5f, [&] {
        auto ratio = (1.0f + 0.1f * size(i) * size(j)) / r2;
        s6 = ratio * ratio * ratio;
        energy() += 0.04f * (s6 * s6 - s6);
        scale = 0.1f * s6 * (2.0f * s6 - 1.0f) / r2;
        for (auto c : p.loop("c", 0, 3)) {
          force(i, c) += scale * (x(i, c) - x(j, c));
          force(j, c) -= scale * (x(i, c) - x(j, c));
        }
      });
    }
  return p.build();
}

/// Finite elements with four nodes: gather, a small element law, scatter.
Program fem_assembly() {
  ProgramBuilder p("fem_assembly");
  auto nodes = p.size("nodes"), elements = p.size("elements");
  auto node = p.input<int>("node", {elements, 4});
  auto u = p.input<float>("u", {nodes}), k = p.input<float>("k", {elements}), shape = p.input<float>("shape", {4, 4});
  auto f = p.output<float>("f", {nodes});
  p.in_range(node, 0, nodes);
  for (auto i : p.loop("i", 0, nodes)) f(i) = 0.0f;
  for (auto e : p.loop("e", 0, elements)) {
    auto local = p.local<float>("local", {4}), result = p.local<float>("result", {4});
    for (auto a : p.loop("a", 0, 4)) local(a) = u(node(e, a));
    for (auto a : p.loop("a", 0, 4)) {
      result(a) = 0.0f;
      for (auto b : p.loop("b", 0, 4)) result(a) += shape(a, b) * local(b);
      result(a) = k(e) * result(a) * sqrt(1.0f + result(a) * result(a));
    }
    for (auto a : p.loop("a", 0, 4)) f(node(e, a)) += result(a);
  }
  return p.build();
}

/// A weighted histogram whose bins are computed, each sample shared by two bins.
Program soft_histogram() {
  ProgramBuilder p("soft_histogram");
  auto n = p.size("n"), bins = p.size("bins");
  auto x = p.input<float>("x", {n}), weight = p.input<float>("weight", {n});
  auto h = p.output<float>("h", {bins});
  for (auto b : p.loop("b", 0, bins)) h(b) = 0.0f;
  for (auto i : p.loop("i", 0, n)) {
    auto at = p.scalar<float>("at"), part = p.scalar<float>("part");
    auto bin = p.scalar<std::int64_t>("bin");
    at = (0.5f + 0.49f * tanh(x(i))) * cast<float>(bins - 1);
    bin = cast<std::int64_t>(at);
    part = at - cast<float>(bin);
    h(bin) += weight(i) * (1.0f - part);
    h(min(bin + 1, bins - 1)) += weight(i) * part;
  }
  return p.build();
}

/// Smoothed particles: densities over lists of neighbours, then pressure forces with both densities.
Program sph() {
  ProgramBuilder p("sph");
  auto n = p.size("n"), pairs = p.size("pairs");
  auto ptr = p.input<int>("ptr", {n + 1}), other = p.input<int>("other", {pairs});
  auto x = p.input<float>("x", {n, 2}), mass = p.input<float>("mass", {n});
  auto force = p.output<float>("force", {n, 2});
  p.csr(ptr, pairs);
  p.in_range(other, 0, n);
  auto density = p.local<float>("density", {n});
  for (auto i : p.loop("i", 0, n)) {
    density(i) = 0.5f;
    for (auto k : p.loop("k", ptr(i), ptr(i + 1))) {
      auto j = other(k);
      auto dx = x(i, 0) - x(j, 0), dy = x(i, 1) - x(j, 1);
      density(i) += (1.0f + 0.1f * mass(j)) * exp(-(dx * dx + dy * dy));
    }
  }
  for (auto i : p.loop("i", 0, n)) {
    for (auto c : p.loop("c", 0, 2)) force(i, c) = 0.0f;
    for (auto k : p.loop("k", ptr(i), ptr(i + 1))) {
      auto j = other(k);
      auto dx = x(i, 0) - x(j, 0), dy = x(i, 1) - x(j, 1);
      auto strength = (1.0f / density(i) + 1.0f / density(j)) * exp(-(dx * dx + dy * dy));
      for (auto c : p.loop("c", 0, 2)) force(i, c) += strength * (x(i, c) - x(j, c));
    }
  }
  return p.build();
}

/// Features of a hashed grid: the two nearest cells of each level, hashed, and a layer on them.
Program hash_grid() {
  ProgramBuilder p("hash_grid");
  auto n = p.size("n"), levels = p.size("levels"), slots = p.size("slots");
  auto x = p.input<float>("x", {n, 2}), table = p.input<float>("table", {levels, slots, 2});
  auto w = p.input<float>("w", {levels, 2});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    y(i) = 0.0f;
    for (auto l : p.loop("l", 0, levels)) {
      auto px = p.scalar<float>("px"), py = p.scalar<float>("py");
      auto cx = p.scalar<std::int64_t>("cx"), cy = p.scalar<std::int64_t>("cy");
      px = (0.5f * x(i, 0) + 0.5f) * cast<float>(4 * l + 3);
      py = (0.5f * x(i, 1) + 0.5f) * cast<float>(4 * l + 3);
      cx = cast<std::int64_t>(floor(px));
      cy = cast<std::int64_t>(floor(py));
      for (int dx = 0; dx < 2; ++dx)
        for (int dy = 0; dy < 2; ++dy) {
          auto slot = p.scalar<std::int64_t>("slot");
          auto part = p.scalar<float>("part");
          slot = ((cx + dx) * 73856093 + (cy + dy) * 19349663) % slots;
          auto fx = px - cast<float>(cx), fy = py - cast<float>(cy);
          part = (dx ? fx : 1.0f - fx) * (dy ? fy : 1.0f - fy);
          for (auto c : p.loop("c", 0, 2)) y(i) += w(l, c) * part * table(l, slot, c);
        }
    }
  }
  return p.build();
}

/// A ray goes through a distance field made of spheres until it is near enough.
Program sphere_trace() {
  ProgramBuilder p("sphere_trace");
  auto rays = p.size("rays"), spheres = p.size("spheres"), steps = p.size("steps");
  auto centre = p.input<float>("centre", {spheres, 2}), radius = p.input<float>("radius", {spheres});
  auto slope = p.input<float>("slope", {rays});
  auto depth = p.output<float>("depth", {rays});
  for (auto r : p.loop("r", 0, rays)) {
    auto t = p.scalar<float>("t"), distance = p.scalar<float>("distance");
    t = 0.0f;
    distance = 1.0f;
    for (auto s : p.loop_while("s", steps, [&](const Value&) { return distance > 0.01f; })) {
      (void)s;
      distance = 10.0f;
      for (auto k : p.loop("k", 0, spheres)) {
        auto dx = t - 3.0f - centre(k, 0), dy = slope(r) * t - centre(k, 1);
        distance.min_with(sqrt(dx * dx + dy * dy + 0.01f) - 0.5f - 0.2f * radius(k));
      }
      t += 0.8f * distance;
    }
    depth(r) = t;
  }
  return p.build();
}

}  // namespace

std::vector<Field> particles() {
  auto rising = [](const Sizes& sizes, std::uint64_t, InputArrays& arrays) {
    const std::int64_t k = sizes.at("k");
    HostArray& knot = arrays.at("knot");
    for (std::int64_t i = 0; i < k; ++i)
      knot.set(i, -1.1 + 2.2 * (static_cast<double>(i) + 0.3 * knot.get(i)) / static_cast<double>(k - 1));
  };
  auto spread = [](const Sizes& sizes, std::uint64_t seed, InputArrays& arrays) {
    tools::Random random(seed);
    const double edge = std::max(1.0, std::cbrt(static_cast<double>(sizes.at("n"))) * 0.5);
    HostArray& x = arrays.at("x");
    for (std::int64_t i = 0; i < x.size(); ++i) x.set(i, random.uniform(0, edge));
  };
  return {
      {{"pagerank_pull", "", pagerank_pull, {{"v", 20000}, {"e", 200000}, {"t", 10}}},
       {{{"v", 7}, {"e", 12}, {"t", 3}}, {{"v", 1}, {"e", 2}, {"t", 1}}, {{"v", 33}, {"e", 7}, {"t", 2}}}},
      {{"pagerank_push", "", pagerank_push, {{"v", 20000}, {"e", 200000}, {"t", 10}}},
       {{{"v", 7}, {"e", 12}, {"t", 3}}, {{"v", 1}, {"e", 2}, {"t", 1}}, {{"v", 33}, {"e", 7}, {"t", 2}}}},
      {{"particle_in_cell", "", particle_in_cell, {{"n", 50000}, {"g", 256}, {"t", 10}}},
       {{{"n", 7}, {"g", 3}, {"t", 2}}, {{"n", 1}, {"g", 1}, {"t", 1}}, {{"n", 33}, {"g", 7}, {"t", 3}}}},
      {{"image_warp", "", image_warp, {{"h", 512}, {"w", 512}, {"c", 3}}},
       {{{"h", 7}, {"w", 3}, {"c", 2}}, {{"h", 1}, {"w", 1}, {"c", 1}}, {{"h", 2}, {"w", 33}, {"c", 1}}}},
      {{"spline", "", spline, {{"n", 200000}, {"k", 32}}, {}, {}, rising},
       {{{"n", 7}, {"k", 5}}, {{"n", 1}, {"k", 2}}, {{"n", 33}, {"k", 7}}}},
      {{"pair_forces", "", pair_forces, {{"n", 1500}}, {}, {}, spread}, {{{"n", 7}}, {{"n", 1}}, {{"n", 12}}}},
      {{"fem_assembly", "", fem_assembly, {{"nodes", 100000}, {"elements", 100000}}},
       {{{"nodes", 7}, {"elements", 5}}, {{"nodes", 1}, {"elements", 1}}, {{"nodes", 3}, {"elements", 33}}}},
      {{"soft_histogram", "", soft_histogram, {{"n", 1000000}, {"bins", 64}}},
       {{{"n", 7}, {"bins", 5}}, {{"n", 33}, {"bins", 2}}, {{"n", 3}, {"bins", 1}}}},
      {{"sph", "", sph, {{"n", 20000}, {"pairs", 300000}}},
       {{{"n", 7}, {"pairs", 12}}, {{"n", 1}, {"pairs", 1}}, {{"n", 33}, {"pairs", 7}}}},
      {{"hash_grid", "", hash_grid, {{"n", 50000}, {"levels", 4}, {"slots", 1024}}},
       {{{"n", 7}, {"levels", 2}, {"slots", 5}},
        {{"n", 1}, {"levels", 1}, {"slots", 1}},
        {{"n", 12}, {"levels", 3}, {"slots", 33}}}},
      {{"sphere_trace", "", sphere_trace, {{"rays", 10000}, {"spheres", 16}, {"steps", 32}}},
       {{{"rays", 3}, {"spheres", 2}, {"steps", 7}},
        {{"rays", 7}, {"spheres", 5}, {"steps", 3}},
        {{"rays", 1}, {"spheres", 1}, {"steps", 1}}}},
  };
}

std::vector<Field> all_fields() {
  std::vector<Field> all;
  for (auto part :
       {learning(),      sequences(), solvers(),    particles(), mixed(),       assorted(),  ragged(),     finding(),
        bands(),         models(),    steps(),      routing(),   fluxes(),      rollouts(),  rows(),       strides(),
        meetings(),      waves(),     estimates(),  contacts(),  pictures(),    reactions(), shapes(),     circuits(),
        structures(),    tables(),    scores(),     borders(),   vectorisers(), packing(),   livermore(),  polyhedra(),
        heterogeneous(), miniapps(),  extrema(),    signals(),   trades(),      molecules(), attentions(), renders(),
        graphs(),        bodies(),    multigrids(), inference()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace loopgrad::fields

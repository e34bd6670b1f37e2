// Pictures of Gaussians, of distances, of triangles, of planes.
#include "bench/fields/fields.h"

#include "tools/support/random.h"

#include <algorithm>
#include <cmath>

namespace loopgrad::fields {
namespace {

/// Gaussian splatting: projected covariances, lists of each tile from front to back, pixels that end when nearly
/// opaque.
Program splat_tiles() {
  ProgramBuilder p("splat_tiles");
  auto n = p.size("n"), tx = p.size("tx"), ty = p.size("ty"), hits = p.size("hits");
  constexpr int side = 12;
  auto mean = p.input<float>("mean", {n, 3}), scale = p.input<float>("scale", {n, 3}),
       quat = p.input<float>("quat", {n, 4}), opacity = p.input<float>("opacity", {n}),
       colour = p.input<float>("colour", {n, 3});
  auto first = p.input<int>("first", {ty * tx + 1}), hit = p.input<int>("hit", {hits});
  p.csr(first, hits);
  p.in_range(hit, 0, n);
  auto picture = p.output<float>("picture", {ty * side, tx * side, 3});
  auto xy = p.local<float>("xy", {n, 2}), conic = p.local<float>("conic", {n, 3});
  for (auto g : p.loop("g", n)) {
    const Vec<4> q = p.let("q", load<4>(quat.row(g)) + Vec<4>(1.5f, 0.0f, 0.0f, 0.0f));
    const Vec<4> u = p.let("u", q / length(q));
    Mat<3> turn;
    turn.rows[0] = Vec<3>(1.0f - 2.0f * (u[2] * u[2] + u[3] * u[3]), 2.0f * (u[1] * u[2] - u[0] * u[3]),
                          2.0f * (u[1] * u[3] + u[0] * u[2]));
    turn.rows[1] = Vec<3>(2.0f * (u[1] * u[2] + u[0] * u[3]), 1.0f - 2.0f * (u[1] * u[1] + u[3] * u[3]),
                          2.0f * (u[2] * u[3] - u[0] * u[1]));
    turn.rows[2] = Vec<3>(2.0f * (u[1] * u[3] - u[0] * u[2]), 2.0f * (u[2] * u[3] + u[0] * u[1]),
                          1.0f - 2.0f * (u[1] * u[1] + u[2] * u[2]));
    Mat<3> m = turn;
    for (std::size_t r = 0; r < 3; ++r)
      for (std::size_t c = 0; c < 3; ++c) m.rows[r][c] = turn(r, c) * exp(scale(g, c) - 1.5f);
    auto z = p.let("z", mean(g, 2) + 4.0f);
    xy(g, 0) = mean(g, 0) / z * 3.0f;
    xy(g, 1) = mean(g, 1) / z * 3.0f;
    Mat<2, 3> jac;
    jac.rows[0] = Vec<3>(3.0f / z, 0.0f, -3.0f * mean(g, 0) / (z * z));
    jac.rows[1] = Vec<3>(0.0f, 3.0f / z, -3.0f * mean(g, 1) / (z * z));
    const auto jm = p.let("jm", jac * m);
    const auto cov = p.let("cov", jm * transpose(jm));
    auto a = p.let("a", cov(0, 0) + 0.01f), b = p.let("b", cov(0, 1)), c = p.let("c", cov(1, 1) + 0.01f);
    auto det = p.let("det", a * c - b * b);
    conic(g, 0) = c / det;
    conic(g, 1) = -b / det;
    conic(g, 2) = a / det;
  }
  for (auto [by, bx] : p.loop({"by", ty}, {"bx", tx}))
    for (auto [iy, ix] : p.loop({"iy", side}, {"ix", side})) {
      auto y = by * side + iy, x = bx * side + ix;
      auto px = p.let("px", 2.0f * (cast<float>(x) + 0.5f) / cast<float>(tx * side) - 1.0f),
           py = p.let("py", 2.0f * (cast<float>(y) + 0.5f) / cast<float>(ty * side) - 1.0f);
      auto light = p.scalar<float>("light", 1), red = p.scalar<float>("red", 0), green = p.scalar<float>("green", 0),
           blue = p.scalar<float>("blue", 0);
      for (auto k : p.loop("k", first(by * tx + bx), first(by * tx + bx + 1)))
        p.when(light > 1e-3f, [&] {
          auto g = hit(k);
          auto dx = p.let("dx", xy(g, 0) - px), dy = p.let("dy", xy(g, 1) - py);
          auto power = p.let("power", -0.5f * (conic(g, 0) * dx * dx + conic(g, 2) * dy * dy) - conic(g, 1) * dx * dy);
          auto alpha = p.let("alpha", min(0.99f, sigmoid(opacity(g)) * exp(power)));
          p.when(alpha > 1.0f / 255.0f, [&] {
            red += light * alpha * colour(g, 0);
            green += light * alpha * colour(g, 1);
            blue += light * alpha * colour(g, 2);
            light *= 1.0f - alpha;
          });
        });
      store(picture.row(y).row(x), Vec<3>(red + 0.2f * light, green + 0.2f * light, blue + 0.3f * light));
    }
  return p.build();
}

/// A surface rendered by its distances: smoothly joined balls, opacity between samples, normals by differences,
/// shading.
Program surface_render() {
  ProgramBuilder p("surface_render");
  auto rays = p.size("rays"), samples = p.size("samples"), m = p.size("m");
  auto origin = p.input<float>("origin", {rays, 3}), aim = p.input<float>("aim", {rays, 2});
  auto ball = p.input<float>("ball", {m, 4}), paint = p.input<float>("paint", {m, 3});
  auto sharp = p.input<float>("sharp", {}), lamp = p.input<float>("lamp", {3});
  auto seen = p.output<float>("seen", {rays, 3}), eikonal = p.output<float>("eikonal", {});
  auto distance = [&](const Vec<3>& at) {
    auto s = p.scalar<float>("s", 0);
    for (auto b : p.loop("b", m)) {
      const Vec<3> away = at - Vec<3>(ball(b, 0), ball(b, 1), ball(b, 2));
      s += exp(-8.0f * (length(away) - 0.3f - 0.1f * ball(b, 3)));
    }
    return p.let("distance", -log(s) / 8.0f);
  };
  eikonal() = 0.0f;
  for (auto r : p.loop("r", rays)) {
    const Vec<3> from(0.3f * origin(r, 0), 0.3f * origin(r, 1), origin(r, 2) * 0.1f - 2.0f);
    const Vec<3> way = p.let("way", normalize(Vec<3>(0.3f * aim(r, 0), 0.3f * aim(r, 1), 1.0f)));
    auto light = p.scalar<float>("light", 1), before = p.scalar<float>("before");
    auto c = p.local<float>("c", {3});
    for (auto k : p.loop("k", 3)) c(k) = 0.0f;
    before = distance(from);
    for (auto i : p.loop("i", 1, samples))
      p.when(light > 1e-2f, [&] {
        const Vec<3> at = p.let("at", from + (4.0f * cast<float>(i) / cast<float>(samples)) * way);
        auto here = distance(at);
        auto slope = p.let("slope", 10.0f * exp(sharp()));
        auto ahead = p.let("ahead", sigmoid(slope * before)), behind = p.let("behind", sigmoid(slope * here));
        auto alpha = p.let("alpha", max((ahead - behind) / (ahead + 1e-4f), 0.0f));
        before = here;
        p.when(alpha > 1e-3f, [&] {
          Vec<3> n(0.0f, 0.0f, 0.0f);
          for (std::size_t k = 0; k < 3; ++k) {
            Vec<3> more = at, less = at;
            more[k] = at[k] + 0.01f;
            less[k] = at[k] - 0.01f;
            n[k] = (distance(more) - distance(less)) / 0.02f;
          }
          const Vec<3> normal = p.let("normal", n);
          auto size = p.let("size", length(normal));
          eikonal() += (size - 1.0f) * (size - 1.0f);
          auto shade = p.let("shade", 0.2f + max(dot(normal, load<3>(lamp)) / (size + 1e-3f), 0.0f));
          auto z = p.scalar<float>("z", 0);
          auto mixed = p.local<float>("mixed", {3});
          for (auto k : p.loop("k", 3)) mixed(k) = 0.0f;
          for (auto b : p.loop("b", m)) {
            const Vec<3> away = at - Vec<3>(ball(b, 0), ball(b, 1), ball(b, 2));
            auto w = p.let("w", exp(-4.0f * dot(away, away)));
            z += w;
            for (auto k : p.loop("k", 3)) mixed(k) += w * paint(b, k);
          }
          for (auto k : p.loop("k", 3)) c(k) += light * alpha * shade * mixed(k) / (z + 1e-6f);
          light *= 1.0f - alpha;
        });
      });
    for (auto k : p.loop("k", 3)) seen(r, k) = c(k) + 0.1f * light;
  }
  return p.build();
}

/// Triangles into a z-buffer by their boxes, then pixels shade what they see: normals and a texture between its texels.
Program mesh_raster() {
  ProgramBuilder p("mesh_raster");
  auto nv = p.size("nv"), nf = p.size("nf"), h = p.size("h"), w = p.size("w"), ts = p.size("ts");
  auto vert = p.input<float>("vert", {nv, 3}), normal = p.input<float>("normal", {nv, 3}),
       uv = p.input<float>("uv", {nv, 2}), texture = p.input<float>("texture", {ts, ts, 3}),
       lamp = p.input<float>("lamp", {3});
  auto face = p.input<int>("face", {nf, 3});
  p.in_range(face, 0, nv);
  auto image = p.output<float>("image", {h, w, 3}), depth = p.output<float>("depth", {h, w});
  auto screen = p.local<float>("screen", {nv, 3});
  auto id = p.local<int>("id", {h, w});
  for (auto v : p.loop("v", nv)) {
    auto z = p.let("z", vert(v, 2) * 0.5f + 3.0f);
    screen(v, 0) = (vert(v, 0) / z * 2.6f + 0.5f) * cast<float>(w);
    screen(v, 1) = (vert(v, 1) / z * 2.6f + 0.5f) * cast<float>(h);
    screen(v, 2) = z;
  }
  auto weights = [&](const Value& f, const Value& py, const Value& px) {
    auto a = face(f, 0), b = face(f, 1), c = face(f, 2);
    auto edge = [&](auto& i, auto& j) {
      return (screen(j, 0) - screen(i, 0)) * (py - screen(i, 1)) - (screen(j, 1) - screen(i, 1)) * (px - screen(i, 0));
    };
    auto area = p.let("area", (screen(b, 0) - screen(a, 0)) * (screen(c, 1) - screen(a, 1)) -
                                  (screen(b, 1) - screen(a, 1)) * (screen(c, 0) - screen(a, 0)));
    auto safe = p.let("safe", select(abs(area) < 1e-3f, 1e-3f, area));
    return p.let("bary", Vec<3>(edge(b, c) / safe, edge(c, a) / safe, edge(a, b) / safe));
  };
  for (auto [y, x] : p.loop({"y", h}, {"x", w})) {
    depth(y, x) = 10.0f;
    id(y, x) = -1;
  }
  for (auto f : p.loop("f", nf)) {
    auto a = face(f, 0), b = face(f, 1), c = face(f, 2);
    auto low = [&](int k) { return min(min(screen(a, k), screen(b, k)), screen(c, k)); };
    auto high = [&](int k) { return max(max(screen(a, k), screen(b, k)), screen(c, k)); };
    auto y0 = p.let("y0", max(cast<std::int64_t>(floor(low(1))), 0)),
         y1 = p.let("y1", min(cast<std::int64_t>(ceil(high(1))), h));
    auto x0 = p.let("x0", max(cast<std::int64_t>(floor(low(0))), 0)),
         x1 = p.let("x1", min(cast<std::int64_t>(ceil(high(0))), w));
    for (auto y : p.loop("y", y0, y1, {.at_most = {h}}))
      for (auto x : p.loop("x", x0, x1, {.at_most = {w}})) {
        const Vec<3> bary = weights(f, cast<float>(y) + 0.5f, cast<float>(x) + 0.5f);
        p.when(bary[0] >= 0.0f && bary[1] >= 0.0f && bary[2] >= 0.0f, [&] {
          auto z = p.let("z", bary[0] * screen(a, 2) + bary[1] * screen(b, 2) + bary[2] * screen(c, 2));
          p.when(z < depth(y, x), [&] {
            depth(y, x) = z;
            id(y, x) = f;
          });
        });
      }
  }
  for (auto [y, x] : p.loop({"y", h}, {"x", w})) {
    for (auto k : p.loop("k", 3)) image(y, x, k) = 0.1f;
    p.when(id(y, x) >= 0, [&] {
      auto f = p.let("f", id(y, x));
      const Vec<3> bary = weights(f, cast<float>(y) + 0.5f, cast<float>(x) + 0.5f);
      const Vec<3> persp(bary[0] / screen(face(f, 0), 2), bary[1] / screen(face(f, 1), 2),
                         bary[2] / screen(face(f, 2), 2));
      const Vec<3> share = p.let("share", persp / (persp[0] + persp[1] + persp[2]));
      Vec<3> n(0.0f, 0.0f, 1.0f);
      Vec<2> st(0.0f, 0.0f);
      for (std::size_t k = 0; k < 3; ++k) {
        n = n + share[k] * load<3>(normal.row(face(f, static_cast<int>(k))));
        st = st + share[k] * load<2>(uv.row(face(f, static_cast<int>(k))));
      }
      auto shade = p.let("shade", 0.3f + max(dot(normalize(n), load<3>(lamp)), 0.0f));
      auto s = p.let("s", (st[0] * 0.45f + 0.5f) * cast<float>(ts - 1)),
           t = p.let("t", (st[1] * 0.45f + 0.5f) * cast<float>(ts - 1));
      auto s0 = p.let("s0", min(max(cast<std::int64_t>(floor(s)), 0), ts - 2)),
           t0 = p.let("t0", min(max(cast<std::int64_t>(floor(t)), 0), ts - 2));
      auto fs = p.let("fs", s - cast<float>(s0)), ft = p.let("ft", t - cast<float>(t0));
      for (auto k : p.loop("k", 3))
        image(y, x, k) = shade * ((1.0f - ft) * ((1.0f - fs) * texture(t0, s0, k) + fs * texture(t0, s0 + 1, k)) +
                                  ft * ((1.0f - fs) * texture(t0 + 1, s0, k) + fs * texture(t0 + 1, s0 + 1, k)));
    });
  }
  return p.build();
}

/// A scene in planes and lines: features of samples from three factors each, colours by a small network along the ray.
Program plane_features() {
  ProgramBuilder p("plane_features");
  auto rays = p.size("rays"), samples = p.size("samples"), g = p.size("g"), f = p.size("f");
  auto plane = p.input<float>("plane", {3, g, g, f}), line = p.input<float>("line", {3, g, f});
  auto start = p.input<float>("start", {rays, 3}), end = p.input<float>("end", {rays, 3});
  auto basis = p.input<float>("basis", {3, 3 * f}), thick = p.input<float>("thick", {3 * f});
  auto out = p.output<float>("out", {rays, 3}), far = p.output<float>("far", {rays});
  for (auto r : p.loop("r", rays)) {
    auto light = p.scalar<float>("light", 1), way = p.scalar<float>("way", 0);
    auto colour = p.local<float>("colour", {3});
    for (auto c : p.loop("c", 3)) colour(c) = 0.0f;
    for (auto i : p.loop("i", samples)) {
      auto t = p.let("t", (cast<float>(i) + 0.5f) / cast<float>(samples));
      auto at = p.local<float>("at", {3}), feature = p.local<float>("feature", {3 * f});
      auto cell = p.local<int>("cell", {3});
      for (auto a : p.loop("a", 3)) {
        auto x = p.let("x", (0.5f + 0.45f * ((1.0f - t) * start(r, a) + t * end(r, a))) * cast<float>(g - 1));
        cell(a) = min(max(cast<int>(floor(x)), 0), cast<int>(g - 2));
        at(a) = x - cast<float>(cell(a));
      }
      auto sigma = p.scalar<float>("sigma", -1);
      for (auto a : p.loop("a", 3)) {
        auto u = p.let("u", (a + 1) % 3), v = p.let("v", (a + 2) % 3);
        for (auto k : p.loop("k", f)) {
          auto flat = (1.0f - at(u)) *
                          ((1.0f - at(v)) * plane(a, cell(u), cell(v), k) + at(v) * plane(a, cell(u), cell(v) + 1, k)) +
                      at(u) * ((1.0f - at(v)) * plane(a, cell(u) + 1, cell(v), k) +
                               at(v) * plane(a, cell(u) + 1, cell(v) + 1, k));
          auto thin = (1.0f - at(a)) * line(a, cell(a), k) + at(a) * line(a, cell(a) + 1, k);
          feature(a * f + k) = flat * thin;
          sigma += feature(a * f + k) * thick(a * f + k);
        }
      }
      auto alpha = p.let("alpha", 1.0f - exp(-log1p(exp(sigma)) * 8.0f / cast<float>(samples)));
      auto weight = p.let("weight", light * alpha);
      p.when(weight > 1e-4f, [&] {
        for (auto c : p.loop("c", 3)) {
          auto s = p.scalar<float>("s", 0);
          for (auto k : p.loop("k", 3 * f)) s += basis(c, k) * feature(k);
          colour(c) += weight * sigmoid(s);
        }
      });
      way += weight * t;
      light *= 1.0f - alpha;
    }
    for (auto c : p.loop("c", 3)) out(r, c) = colour(c) + light;
    far(r) = way;
  }
  return p.build();
}

/// Triangles spread over what is seen, the smaller the more there are.
void small_faces(const Sizes& sizes, std::uint64_t seed, InputArrays& arrays) {
  tools::Random random(seed);
  HostArray &vert = arrays.at("vert"), &face = arrays.at("face");
  const std::int64_t nv = sizes.at("nv"), nf = sizes.at("nf");
  const double size = 2.4 / std::sqrt(static_cast<double>(nf));
  for (std::int64_t v = 0; v < nv; ++v)
    for (std::int64_t k = 0; k < 3; ++k)
      vert.set(v * 3 + k, v % 3 == 0 || nv < 3 ? random.uniform(-0.6, 0.6)
                                               : vert.get((v - v % 3) * 3 + k) + random.uniform(-size, size));
  for (std::int64_t f = 0; f < nf; ++f)
    for (std::int64_t k = 0; k < 3; ++k) face.set(f * 3 + k, static_cast<double>((f * 3 + k) % nv));
}

}  // namespace

std::vector<Field> renders() {
  return {
      {{"splat_tiles", "", splat_tiles, {{"n", 1203}, {"tx", 11}, {"ty", 9}, {"hits", 5107}}},
       {{{"n", 5}, {"tx", 1}, {"ty", 1}, {"hits", 7}},
        {{"n", 1}, {"tx", 1}, {"ty", 1}, {"hits", 1}},
        {{"n", 3}, {"tx", 2}, {"ty", 1}, {"hits", 4}}}},
      {{"surface_render", "", surface_render, {{"rays", 403}, {"samples", 39}, {"m", 11}}},
       {{{"rays", 3}, {"samples", 9}, {"m", 3}},
        {{"rays", 1}, {"samples", 1}, {"m", 1}},
        {{"rays", 2}, {"samples", 14}, {"m", 2}}}},
      {{"mesh_raster",
        "",
        mesh_raster,
        {{"nv", 900}, {"nf", 600}, {"h", 183}, {"w", 251}, {"ts", 63}},
        {},
        {},
        small_faces},
       {{{"nv", 6}, {"nf", 2}, {"h", 7}, {"w", 9}, {"ts", 3}},
        {{"nv", 3}, {"nf", 1}, {"h", 1}, {"w", 1}, {"ts", 2}},
        {{"nv", 9}, {"nf", 4}, {"h", 11}, {"w", 5}, {"ts", 4}}}},
      {{"plane_features", "", plane_features, {{"rays", 307}, {"samples", 45}, {"g", 51}, {"f", 7}}},
       {{{"rays", 2}, {"samples", 3}, {"g", 3}, {"f", 2}},
        {{"rays", 1}, {"samples", 1}, {"g", 2}, {"f", 1}},
        {{"rays", 3}, {"samples", 4}, {"g", 5}, {"f", 1}}}},
  };
}

}  // namespace loopgrad::fields

// Programs as a person writes them who has functions and small vectors at hand: much of what they compute is shared.
#pragma once

#include <loopgrad/autodiff.h>

#include <array>
#include <utility>
#include <vector>

namespace loopgrad::test {

/// The inverse of every matrix of a batch, by cofactors of 2x2 minors.
inline Program inverse_4x4() {
  ProgramBuilder p("inverse");
  auto n = p.size("n");
  auto a = p.input<float>("a", {n, 4, 4});
  auto b = p.output<float>("b", {n, 4, 4});
  for (auto e : p.loop("e", 0, n)) {
    std::vector<Value> m;
    for (int k = 0; k < 16; ++k) m.emplace_back(a(e, k / 4, k % 4));
    const auto at = [&](int r, int c) { return m[static_cast<std::size_t>(4 * r + c)]; };
    const auto minor = [&](int r, int c, int d) { return at(r, c) * at(r + 1, d) - at(r, d) * at(r + 1, c); };
    const std::array<std::array<int, 2>, 6> pairs{{{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}}};
    std::vector<Value> s, t;
    for (const auto& [c, d] : pairs) {
      s.push_back(minor(0, c, d));
      t.push_back(minor(2, c, d));
    }
    const Value det = s[0] * t[5] - s[1] * t[4] + s[2] * t[3] + s[3] * t[2] - s[4] * t[1] + s[5] * t[0];
    const Value inv = 1.0 / det;
    const auto three = [](const Value& x, const Value& u, const Value& y, const Value& v, const Value& z,
                          const Value& w) { return x * u - y * v + z * w; };
    b(e, 0, 0) = three(at(1, 1), t[5], at(1, 2), t[4], at(1, 3), t[3]) * inv;
    b(e, 0, 1) = -three(at(0, 1), t[5], at(0, 2), t[4], at(0, 3), t[3]) * inv;
    b(e, 0, 2) = three(at(3, 1), s[5], at(3, 2), s[4], at(3, 3), s[3]) * inv;
    b(e, 0, 3) = -three(at(2, 1), s[5], at(2, 2), s[4], at(2, 3), s[3]) * inv;
    b(e, 1, 0) = -three(at(1, 0), t[5], at(1, 2), t[2], at(1, 3), t[1]) * inv;
    b(e, 1, 1) = three(at(0, 0), t[5], at(0, 2), t[2], at(0, 3), t[1]) * inv;
    b(e, 1, 2) = -three(at(3, 0), s[5], at(3, 2), s[2], at(3, 3), s[1]) * inv;
    b(e, 1, 3) = three(at(2, 0), s[5], at(2, 2), s[2], at(2, 3), s[1]) * inv;
    b(e, 2, 0) = three(at(1, 0), t[4], at(1, 1), t[2], at(1, 3), t[0]) * inv;
    b(e, 2, 1) = -three(at(0, 0), t[4], at(0, 1), t[2], at(0, 3), t[0]) * inv;
    b(e, 2, 2) = three(at(3, 0), s[4], at(3, 1), s[2], at(3, 3), s[0]) * inv;
    b(e, 2, 3) = -three(at(2, 0), s[4], at(2, 1), s[2], at(2, 3), s[0]) * inv;
    b(e, 3, 0) = -three(at(1, 0), t[3], at(1, 1), t[1], at(1, 2), t[0]) * inv;
    b(e, 3, 1) = three(at(0, 0), t[3], at(0, 1), t[1], at(0, 2), t[0]) * inv;
    b(e, 3, 2) = -three(at(3, 0), s[3], at(3, 1), s[1], at(3, 2), s[0]) * inv;
    b(e, 3, 3) = three(at(2, 0), s[3], at(2, 1), s[1], at(2, 2), s[0]) * inv;
  }
  return p.build();
}

/// Softened gravity of all bodies on each.
inline Program n_body() {
  ProgramBuilder p("n_body");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n, 3});
  auto m = p.input<float>("m", {n});
  auto f = p.output<float>("f", {n, 3});
  for (auto i : p.loop("i", 0, n)) {
    for (int c = 0; c < 3; ++c) f(i, c) = 0;
    for (auto j : p.loop("j", 0, n)) {
      const std::array<Value, 3> d{x(j, 0) - x(i, 0), x(j, 1) - x(i, 1), x(j, 2) - x(i, 2)};
      const Value r2 = d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + 0.01;
      const Value inverse = 1.0 / sqrt(r2);
      const Value strength = m(j) * inverse * inverse * inverse;
      for (int c = 0; c < 3; ++c) f(i, c) += strength * d[static_cast<std::size_t>(c)];
    }
  }
  return p.build();
}

struct Vec2 {
  Value x, y;
};
inline Vec2 operator-(const Vec2& a, const Vec2& b) { return {a.x - b.x, a.y - b.y}; }
inline Vec2 operator*(const Value& s, const Vec2& a) { return {s * a.x, s * a.y}; }
inline Value dot(const Vec2& a, const Vec2& b) { return a.x * b.x + a.y * b.y; }
inline Value cross(const Vec2& a, const Vec2& b) { return a.x * b.y - a.y * b.x; }
inline Value distance_to_segment(const Vec2& p, const Vec2& a, const Vec2& b) {
  const Vec2 ab = b - a, ap = p - a;
  const Value t = min(max(dot(ap, ab) / (dot(ab, ab) + 1e-6), Value(0.0f)), Value(1.0f));
  const Vec2 off = ap - t * ab;
  return dot(off, off);
}

/// Triangles with blurred edges, blended by depth at every pixel.
inline Program soft_raster() {
  ProgramBuilder p("soft_raster");
  auto h = p.size("h"), w = p.size("w"), n = p.size("n");
  auto corners = p.input<float>("corners", {n, 3, 3});
  auto colors = p.input<float>("colors", {n, 3});
  auto image = p.output<float>("image", {h, w, 3});
  for (auto i : p.loop("i", 0, h))
    for (auto j : p.loop("j", 0, w)) {
      auto total = p.scalar<float>("total");
      std::vector<Element> sum{p.scalar<float>("red"), p.scalar<float>("green"), p.scalar<float>("blue")};
      total = 1e-3f;
      for (Element& s : sum) s = 0.0f;
      const Vec2 pixel{cast<float>(i) / cast<float>(h), cast<float>(j) / cast<float>(w)};
      for (auto t : p.loop("t", 0, n)) {
        std::vector<Vec2> v;
        std::vector<Value> z;
        for (int c = 0; c < 3; ++c) {
          v.push_back({corners(t, c, 0), corners(t, c, 1)});
          z.emplace_back(corners(t, c, 2));
        }
        const Value area = cross(v[1] - v[0], v[2] - v[0]);
        const Value u0 = cross(v[1] - pixel, v[2] - pixel) / area;
        const Value u1 = cross(v[2] - pixel, v[0] - pixel) / area;
        const Value u2 = 1.0 - u0 - u1;
        const Value inside = min(min(u0, u1), u2);
        const Value d = min(min(distance_to_segment(pixel, v[0], v[1]), distance_to_segment(pixel, v[1], v[2])),
                            distance_to_segment(pixel, v[2], v[0]));
        const Value cover = sigmoid(select(inside > 0.0, d, -d) * 100.0);
        const Value depth = 1.0 / (u0 / z[0] + u1 / z[1] + u2 / z[2]);
        const Value weight = cover * exp(-depth * 2.0);
        total += weight;
        for (int c = 0; c < 3; ++c) sum[static_cast<std::size_t>(c)] += weight * colors(t, c);
      }
      for (int c = 0; c < 3; ++c) image(i, j, c) = sum[static_cast<std::size_t>(c)] / total;
    }
  return p.build();
}

/// Eigenvalues and eigenvectors of symmetric 3x3 matrices by sweeps of Jacobi rotations.
inline Program jacobi_rotations() {
  ProgramBuilder p("jacobi");
  auto n = p.size("n");
  auto a = p.input<float>("a", {n, 6});
  auto w = p.output<float>("w", {n, 3});
  auto v = p.output<float>("v", {n, 3, 3});
  using Matrix = std::array<std::array<Value, 3>, 3>;
  for (auto e : p.loop("e", 0, n)) {
    Matrix m{{{a(e, 0), a(e, 1), a(e, 2)}, {a(e, 1), a(e, 3), a(e, 4)}, {a(e, 2), a(e, 4), a(e, 5)}}};
    Matrix q{{{1.0f, 0.0f, 0.0f}, {0.0f, 1.0f, 0.0f}, {0.0f, 0.0f, 1.0f}}};
    for (int sweep = 0; sweep < 2; ++sweep) {
      for (const auto& [r, c] : std::vector<std::pair<std::size_t, std::size_t>>{{0, 1}, {0, 2}, {1, 2}}) {
        const Value theta = (m[c][c] - m[r][r]) / (2.0 * m[r][c] + 1e-3);
        const Value t = select(theta > 0.0, 1.0, -1.0) / (abs(theta) + sqrt(theta * theta + 1.0));
        const Value cosine = 1.0 / sqrt(t * t + 1.0), sine = t * cosine;
        const auto rotate = [&](Value& x, Value& y) {
          const Value turned = cosine * x - sine * y;
          y = sine * x + cosine * y;
          x = turned;
        };
        for (std::size_t k = 0; k < 3; ++k) rotate(m[k][r], m[k][c]);
        for (std::size_t k = 0; k < 3; ++k) rotate(m[r][k], m[c][k]);
        for (std::size_t k = 0; k < 3; ++k) rotate(q[k][r], q[k][c]);
      }
    }
    for (std::size_t i = 0; i < 3; ++i) w(e, static_cast<int>(i)) = m[i][i];
    for (std::size_t i = 0; i < 9; ++i) v(e, static_cast<int>(i / 3), static_cast<int>(i % 3)) = q[i / 3][i % 3];
  }
  return p.build();
}

/// Points turned by one unit quaternion after the other, in place.
inline Program quaternion_chain() {
  ProgramBuilder p("quaternions");
  auto n = p.size("n"), k = p.size("k");
  auto q = p.input<float>("q", {k, 4});
  auto x = p.input<float>("x", {n, 3});
  auto y = p.output<float>("y", {n, 3});
  for (auto i : p.loop("i", 0, n)) {
    for (int c = 0; c < 3; ++c) y(i, c) = x(i, c);
    for (auto j : p.loop("j", 0, k)) {
      Value s = q(j, 0), a = q(j, 1), b = q(j, 2), c = q(j, 3);
      const Value norm = 1.0 / sqrt(s * s + a * a + b * b + c * c);
      for (Value* part : {&s, &a, &b, &c}) *part = *part * norm;
      const Value px = y(i, 0), py = y(i, 1), pz = y(i, 2);
      const Value tx = 2.0 * (b * pz - c * py), ty = 2.0 * (c * px - a * pz), tz = 2.0 * (a * py - b * px);
      auto rx = p.scalar<float>("rx"), ry = p.scalar<float>("ry"), rz = p.scalar<float>("rz");
      rx = px + s * tx + (b * tz - c * ty);
      ry = py + s * ty + (c * tx - a * tz);
      rz = pz + s * tz + (a * ty - b * tx);
      y(i, 0) = rx;
      y(i, 1) = ry;
      y(i, 2) = rz;
    }
  }
  return p.build();
}

/// Energies and forces of pairs, switched off smoothly with distance.
inline Program lennard_jones() {
  ProgramBuilder p("lennard_jones");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n, 3});
  auto eps = p.input<float>("eps", {n}), sigma = p.input<float>("sigma", {n});
  auto u = p.output<float>("u", {n});
  auto f = p.output<float>("f", {n, 3});
  for (auto i : p.loop("i", 0, n)) {
    u(i) = 0;
    for (int c = 0; c < 3; ++c) f(i, c) = 0;
    for (auto j : p.loop("j", 0, n)) {
      const std::array<Value, 3> d{x(i, 0) - x(j, 0), x(i, 1) - x(j, 1), x(i, 2) - x(j, 2)};
      const Value r2 = d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + 0.3, r = sqrt(r2);
      const Value s = 0.5 * (sigma(i) + sigma(j)), depth = 0.5 * (eps(i) + eps(j));
      const Value s2 = s * s / r2, s6 = s2 * s2 * s2, s12 = s6 * s6;
      const Value t = min(max((r - 0.8) / 0.6, Value(0.0f)), Value(1.0f));
      const Value on = 1.0 - t * t * t * (10.0 - 15.0 * t + 6.0 * t * t);
      const Value slope = -30.0 * t * t * (1.0 - t) * (1.0 - t) / 0.6;
      const Value energy = 4.0 * depth * (s12 - s6), force = 24.0 * depth * (2.0 * s12 - s6) / r;
      u(i) += energy * on;
      const Value strength = (force * on - energy * slope) / r;
      for (int c = 0; c < 3; ++c) f(i, c) += strength * d[static_cast<std::size_t>(c)];
    }
  }
  return p.build();
}

}  // namespace loopgrad::test

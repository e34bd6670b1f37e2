// A sphere of triangles, for programs that work on meshes.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace loopgrad::tools {

struct Mesh {
  std::vector<std::array<double, 3>> vertices;
  std::vector<std::array<std::int64_t, 3>> faces;
};

namespace detail {

/// Cuts every face in four; the new vertices are on the sphere, too.
inline Mesh refined(const Mesh& coarse) {
  Mesh fine{coarse.vertices, {}};
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> middles;
  auto middle = [&](std::int64_t a, std::int64_t b) {
    const auto [place, is_new] =
        middles.try_emplace(std::minmax(a, b), static_cast<std::int64_t>(fine.vertices.size()));
    if (is_new) {
      const auto &u = fine.vertices[static_cast<std::size_t>(a)], &v = fine.vertices[static_cast<std::size_t>(b)];
      const double x = u[0] + v[0], y = u[1] + v[1], z = u[2] + v[2], length = std::sqrt(x * x + y * y + z * z);
      fine.vertices.push_back({x / length, y / length, z / length});
    }
    return place->second;
  };
  for (const auto& [a, b, c] : coarse.faces) {
    const std::int64_t ab = middle(a, b), bc = middle(b, c), ca = middle(c, a);
    for (const auto& face : {std::array{a, ab, ca}, {b, bc, ab}, {c, ca, bc}, {ab, bc, ca}}) fine.faces.push_back(face);
  }
  return fine;
}

/// Vertices 0 and 11 are the poles, 1 .. 5 and 6 .. 10 the rings next to them. The axis is turned, so that no edge
/// points along a coordinate axis, where a projection would make it a point.
inline Mesh icosahedron() {
  Mesh mesh;
  auto add = [&](double x, double y, double z) {
    const double u = x * std::cos(0.4) - z * std::sin(0.4), w = x * std::sin(0.4) + z * std::cos(0.4);
    mesh.vertices.push_back({u, y * std::cos(0.7) - w * std::sin(0.7), y * std::sin(0.7) + w * std::cos(0.7)});
  };
  const double height = 1 / std::sqrt(5.0), radius = 2 * height, fifth = 2 * std::acos(-1.0) / 5;
  add(0, 0, 1);
  for (int k = 0; k < 5; ++k) add(radius * std::cos(fifth * k), radius * std::sin(fifth * k), height);
  for (int k = 0; k < 5; ++k) add(radius * std::cos(fifth * (k + 0.5)), radius * std::sin(fifth * (k + 0.5)), -height);
  add(0, 0, -1);
  for (std::int64_t k = 0; k < 5; ++k) {
    const std::int64_t next = (k + 1) % 5;
    mesh.faces.push_back({0, 1 + k, 1 + next});
    mesh.faces.push_back({1 + k, 6 + k, 1 + next});
    mesh.faces.push_back({1 + next, 6 + k, 6 + next});
    mesh.faces.push_back({11, 6 + next, 6 + k});
  }
  return mesh;
}

}  // namespace detail

/// The unit sphere as an icosahedron whose faces are cut in four until there are at least `faces` of them: 20, 80, 320,
/// 1280 (with 642 vertices), ...
inline Mesh icosphere(std::int64_t faces) {
  Mesh mesh = detail::icosahedron();
  while (static_cast<std::int64_t>(mesh.faces.size()) < faces) mesh = detail::refined(mesh);
  return mesh;
}

}  // namespace loopgrad::tools

#include "tools/programs/plane.h"
#include "tools/programs/programs.h"
#include "tools/support/icosphere.h"

namespace loopgrad::programs {
namespace {

/// Whether p is in the triangle a b c, whichever way round that is.
Value inside(const Vec<2>& p, const Vec<2>& a, const Vec<2>& b, const Vec<2>& c) {
  auto u = cross(b - a, p - a), v = cross(c - b, p - b), w = cross(a - c, p - c);
  return (u >= 0.0f && v >= 0.0f && w >= 0.0f) || (u <= 0.0f && v <= 0.0f && w <= 0.0f);
}

/// How much each pixel of an image of the unit square is covered by each triangle of a mesh, softly (soft
/// rasterisation).
Program build() {
  ProgramBuilder p("softras");
  auto vertices = p.size("V"), faces = p.size("F"), height = p.size("height"), width = p.size("width");
  auto vertex = p.input<float>("vertex", {vertices, 3});
  auto face = p.input<int>("face", {faces, 3});
  auto covered = p.output<float>("covered", {faces, height, width});
  p.in_range(face, 0, vertices);
  for (auto f : p.loop("f", 0, faces)) {
    auto corner = [&](int k) { return Vec<2>{vertex(face(f, k), 0), vertex(face(f, k), 1)}; };
    const Vec<2> a = corner(0), b = corner(1), c = corner(2);
    for (auto i : p.loop("i", 0, height))
      for (auto j : p.loop("j", 0, width)) {
        const Vec<2> pixel = {cast<float>(j) / cast<float>(width - 1), cast<float>(i) / cast<float>(height - 1)};
        auto distance = squared_distance(pixel, a, b, c);
        covered(f, i, j) = sigmoid(select(inside(pixel, a, b, c), distance, -distance) / 1e-4f);
      }
  }
  return p.build();
}

/// A sphere in the middle of the image.
void fill(const Sizes& sizes, std::uint64_t, InputArrays& arrays) {
  const tools::Mesh mesh = tools::icosphere(sizes.at("F"));
  HostArray &vertex = arrays.at("vertex"), &face = arrays.at("face");
  const std::int64_t vertices = sizes.at("V");
  for (std::int64_t v = 0; v < vertices; ++v) {
    const auto& point = mesh.vertices[static_cast<std::size_t>(v) % mesh.vertices.size()];
    for (std::int64_t k = 0; k < 3; ++k) vertex.set(3 * v + k, 0.4 * point[static_cast<std::size_t>(k)] + 0.5);
  }
  for (std::int64_t f = 0; f < sizes.at("F"); ++f)
    for (std::int64_t k = 0; k < 3; ++k)
      face.set(3 * f + k,
               static_cast<double>(mesh.faces[static_cast<std::size_t>(f)][static_cast<std::size_t>(k)] % vertices));
}

}  // namespace

ProgramEntry softras() {
  return {.name = "softras",
          .summary = "soft coverage of pixels by the triangles of a mesh",
          .build = build,
          .sizes = {{"V", 642}, {"F", 1280}, {"height", 64}, {"width", 64}},
          .check_sizes = {{"V", 12}, {"F", 7}, {"height", 5}, {"width", 3}},
          .wrt = {"vertex"},
          .fill = fill};
}

}  // namespace loopgrad::programs

#include "tools/programs/plane.h"
#include "tools/programs/programs.h"
#include "tools/support/random.h"

#include <array>
#include <cmath>

namespace loopgrad::programs {
namespace {

constexpr float kNear = 1, kFar = 100, kFarthest = 1e-3f;  // depths, and the least normalised one
constexpr float kSigma = 1e-5f, kGamma = 1e-4f;            // how soft edges are, and what is in front of what
constexpr float kThreshold = 9.21024036697585f * kSigma;   // beyond it a face covers less than 1e-4 of a pixel
constexpr int kTexels = 5;                                 // on each side of a face

Value least(const std::array<Vec<2>, 3>& v, std::size_t axis) { return min(min(v[0][axis], v[1][axis]), v[2][axis]); }
Value largest(const std::array<Vec<2>, 3>& v, std::size_t axis) { return max(max(v[0][axis], v[1][axis]), v[2][axis]); }

/// A face as a pixel sees it.
struct Face {
  std::array<Vec<2>, 3> corner;
  std::array<Value, 3> depth;

  Face(const ArrayHandle& faces, const Value& f) {
    for (int k = 0; k < 3; ++k) {
      corner[static_cast<std::size_t>(k)] = {faces(f, k, 0), faces(f, k, 1)};
      depth[static_cast<std::size_t>(k)] = faces(f, k, 2);
    }
  }
  /// Whether it is seen from its front, and the pixel is in its box or nearly so.
  Value may_cover(const Vec<2>& pixel) const {
    const float margin = std::sqrt(kThreshold);
    return pixel[0] >= least(corner, 0) - margin && pixel[0] <= largest(corner, 0) + margin &&
           pixel[1] >= least(corner, 1) - margin && pixel[1] <= largest(corner, 1) + margin &&
           cross(corner[1] - corner[0], corner[2] - corner[0]) > 0.0f;
  }
  /// Barycentric coordinates.
  std::array<Value, 3> weights(const Vec<2>& p) const {
    const auto& [a, b, c] = corner;
    const Value area = cross(b - a, c - a);
    return {cross(c - b, p - b) / area, cross(a - c, p - c) / area, cross(b - a, p - a) / area};
  }
};

/// Of a point of the triangle that is close to these.
std::array<Value, 3> clipped(std::array<Value, 3> weights) {
  for (Value& w : weights) w = min(max(w, 0.0f), 1.0f);
  const Value sum = max(weights[0] + weights[1] + weights[2], 1e-5f);
  for (Value& w : weights) w = w / sum;
  return weights;
}

Value depth_at(const Face& face, const std::array<Value, 3>& w) {
  return 1.0f / (w[0] / face.depth[0] + w[1] / face.depth[1] + w[2] / face.depth[2]);
}

Value is_inside(const std::array<Value, 3>& weights) {
  return weights[0] > 0.0f && weights[1] > 0.0f && weights[2] > 0.0f;
}

/// The texel at a point of a face: two triangles of them fill its square.
Value texel_at(const std::array<Value, 3>& w) {
  const Value across = w[0] * static_cast<float>(kTexels), up = w[1] * static_cast<float>(kTexels);
  const Value column = min(cast<int>(across), kTexels - 1), row = min(cast<int>(up), kTexels - 1);
  const Value lower = across + up - cast<float>(column) - cast<float>(row) <= 1.0f;
  return select(lower, row * kTexels + column, (kTexels - 1 - row) * kTexels + kTexels - 1 - column);
}

/// An image of textured triangles that is differentiable in where they are: a soft rasteriser (Liu, Li, Chen, Li: Soft
/// Rasterizer, ICCV 2019). Faces have x and y on the screen, in -1..1, and a depth; the image has a coverage as well.
Program build() {
  ProgramBuilder p("softras_render");
  auto count = p.size("F"), size = p.size("S");
  auto faces = p.input<float>("faces", {count, 3, 3}),
       textures = p.input<float>("textures", {count, kTexels * kTexels, 3});
  auto image = p.output<float>("image", {size, size, 4});

  for (auto i : p.loop("i", 0, size))
    for (auto j : p.loop("j", 0, size)) {
      const auto on_screen = [&](const Value& k) {
        return (2.0f * cast<float>(k) + 1.0f - cast<float>(size)) / cast<float>(size);
      };
      const Vec<2> pixel = {on_screen(j), on_screen(i)};
      const auto for_each_face = [&](const char* name, const auto& body) {
        for (auto f : p.loop(name, 0, count)) {
          const Face face(faces, f);
          p.when(face.may_cover(pixel), [&] {
            const auto weights = face.weights(pixel);
            const auto point = clipped(weights);
            auto inside = is_inside(weights);
            const auto& [a, b, c] = face.corner;
            auto distance = squared_distance(pixel, a, b, c), z = depth_at(face, point);
            p.when((inside || distance < kThreshold) && z >= kNear && z <= kFar, [&] {
              // 1 where the pixel is well inside, 0 well outside.
              body(f, point, sigmoid(select(inside, distance, -distance) / kSigma), (kFar - z) / (kFar - kNear));
            });
          });
        }
      };
      auto nearest = p.scalar<float>("nearest", kFarthest);
      for_each_face("f", [&](const Value&, const auto&, const Value&, const Value& depth) { nearest.max_with(depth); });
      auto sum = p.scalar<float>("sum", exp((kFarthest - nearest) / kGamma));
      auto transparency = p.scalar<float>("transparency", 1.0f);
      auto colour = p.local<float>("colour", {3});
      for (auto c : p.loop("c", 0, 3)) colour(c) = 0.0f;
      for_each_face("g", [&](const Value& f, const auto& point, const Value& coverage, const Value& depth) {
        auto covered = p.let("covered", coverage);
        transparency *= 1.0f - covered;
        auto weight = p.let("weight", exp((depth - nearest) / kGamma) * covered);
        sum += weight;
        auto texel = p.let("texel", texel_at(point));
        for (auto c : p.loop("c", 0, 3)) colour(c) += weight * textures(f, texel, c);
      });
      for (auto c : p.loop("c", 0, 3)) image(i, j, c) = colour(c) / sum;
      image(i, j, 3) = 1.0f - transparency;
    }
  return p.build();
}

/// A closed mesh of bands around an axis, in front of the camera; faces that are too many for it are points.
void fill(const Sizes& sizes, std::uint64_t seed, InputArrays& arrays) {
  tools::Random random(seed);
  const std::int64_t count = sizes.at("F"), columns = count < 96 ? 3 : 48, bands = count / (2 * columns) + 1;
  HostArray &faces = arrays.at("faces"), &textures = arrays.at("textures");
  const double pi = std::acos(-1.0);
  const auto set_corner = [&](std::int64_t f, std::int64_t k, std::int64_t band, std::int64_t column) {
    const double theta = pi * static_cast<double>(band) / static_cast<double>(bands);
    const double phi = 2 * pi * static_cast<double>(column % columns) / static_cast<double>(columns) + 0.3;
    const double radius = 0.9 + 0.15 * std::sin(3 * theta) * std::cos(2 * phi);
    const double x = radius * std::sin(theta) * std::cos(phi), y = radius * std::cos(theta),
                 z = radius * std::sin(theta) * std::sin(phi);
    // Turned a little about x, so that no edge points at the camera.
    const double up = y * std::cos(0.4) - z * std::sin(0.4), depth = 2.7 + y * std::sin(0.4) + z * std::cos(0.4);
    faces.set((f * 3 + k) * 3, 1.7 * x / depth);
    faces.set((f * 3 + k) * 3 + 1, 1.7 * up / depth);
    faces.set((f * 3 + k) * 3 + 2, depth);
  };
  for (std::int64_t k = 0; k < faces.size(); ++k) faces.set(k, 0.5);
  std::int64_t f = 0;
  const auto add = [&](std::array<std::array<std::int64_t, 2>, 3> corners) {
    if (f >= count) return;
    for (std::int64_t k = 0; k < 3; ++k) {
      const auto& [band, column] = corners[static_cast<std::size_t>(k)];
      set_corner(f, k, band, column);
    }
    ++f;
  };
  for (std::int64_t band = 0; band < bands; ++band)
    for (std::int64_t column = 0; column < columns; ++column) {
      if (band > 0) add({{{band, column}, {band + 1, column}, {band, column + 1}}});
      if (band < bands - 1) add({{{band + 1, column}, {band + 1, column + 1}, {band, column + 1}}});
    }
  for (std::int64_t k = 0; k < textures.size(); ++k) textures.set(k, random.uniform());
}

}  // namespace

ProgramEntry softras_render() {
  return {.name = "softras_render",
          .summary = "an image of a textured mesh, softly rasterised",
          .build = build,
          .sizes = {{"F", 5856}, {"S", 64}},
          .check_sizes = {{"F", 60}, {"S", 7}},
          .wrt = {"faces", "textures"},
          .fill = fill};
}

}  // namespace loopgrad::programs

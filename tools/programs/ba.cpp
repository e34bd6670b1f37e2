#include "tools/programs/programs.h"
#include "tools/support/random.h"

namespace loopgrad::programs {
namespace {

struct Vec3 {
  Value x, y, z;
};

Value dot(const Vec3& a, const Vec3& b) { return a.x * b.x + a.y * b.y + a.z * b.z; }

Vec3 cross(const Vec3& a, const Vec3& b) {
  return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}

Vec3 operator+(const Vec3& a, const Vec3& b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
Vec3 operator-(const Vec3& a, const Vec3& b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
Vec3 operator*(const Value& s, const Vec3& a) { return {s * a.x, s * a.y, s * a.z}; }

/// The components first, first + 1, first + 2 of row i.
Vec3 row(const ArrayHandle& array, const Value& i, int first = 0) {
  return {array(i, first), array(i, first + 1), array(i, first + 2)};
}

/// Turns a point about an axis by the axis' length.
Vec3 rotate(const Vec3& axis, const Vec3& point) {
  auto angle = sqrt(dot(axis, axis) + 1e-12f);
  auto unit = 1.0f / angle * axis;
  return cos(angle) * point + sin(angle) * cross(unit, point) + dot(unit, point) * (1.0f - cos(angle)) * unit;
}

/// Bundle adjustment: how far points are from where cameras saw them. A camera is an axis of rotation (3), a centre
/// (3), a focal length, a principal point (2) and radial distortion (2).
Program build() {
  ProgramBuilder p("ba");
  auto n = p.size("n"), cameras = p.size("cameras"), points = p.size("points");
  auto camera = p.input<float>("camera", {cameras, 11}), point = p.input<float>("point", {points, 3});
  auto seen = p.input<float>("seen", {n, 2}), weight = p.input<float>("weight", {n});
  auto camera_of = p.input<int>("camera_of", {n}), point_of = p.input<int>("point_of", {n});
  auto error = p.output<float>("error", {n, 2});
  p.in_range(camera_of, 0, cameras);
  p.in_range(point_of, 0, points);
  for (auto i : p.loop("i", 0, n)) {
    auto c = camera_of(i);
    auto turned = rotate(row(camera, c), row(point, point_of(i)) - row(camera, c, 3));
    auto x = turned.x / turned.z, y = turned.y / turned.z;
    auto squared = x * x + y * y;
    auto distortion = 1.0f + camera(c, 9) * squared + camera(c, 10) * squared * squared;
    error(i, 0) = weight(i) * (camera(c, 6) * distortion * x + camera(c, 7) - seen(i, 0));
    error(i, 1) = weight(i) * (camera(c, 6) * distortion * y + camera(c, 8) - seen(i, 1));
  }
  return p.build();
}

/// Cameras five units before the points, turned a little; any camera sees any point.
void fill(const Sizes&, std::uint64_t seed, InputArrays& arrays) {
  tools::Random random(seed);
  HostArray& camera = arrays.at("camera");
  for (std::int64_t i = 0; i < camera.size(); ++i) {
    const std::int64_t k = i % 11;
    const double value = random.uniform(-1, 1);
    camera.set(i, k < 3 ? 0.3 * value : k == 5 ? value - 5 : k == 6 ? value + 2 : k < 9 ? 0.5 * value : 0.1 * value);
  }
}

}  // namespace

ProgramEntry ba() {
  return {.name = "ba",
          .summary = "bundle adjustment: reprojection errors of cameras and points",
          .build = build,
          .sizes = {{"n", 100000}, {"cameras", 1000}, {"points", 30000}},
          .check_sizes = {{"n", 11}, {"cameras", 2}, {"points", 5}},
          .wrt = {"camera", "point"},
          .fill = fill};
}

}  // namespace loopgrad::programs

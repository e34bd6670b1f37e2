#include "tools/programs/programs.h"
#include "tools/support/random.h"

#include <array>

namespace loopgrad::programs {
namespace {

constexpr int kBones = 22, kFingers = 5, kParameters = 26;  // a wrist with three angles and a place, 4 angles a finger

using Row = std::array<Value, 4>;
using Affine = std::array<Row, 3>;  // the last row is 0 0 0 1

Affine operator*(const Affine& a, const Affine& b) {
  const auto entry = [&](std::size_t i, std::size_t j) {
    const Value linear = a[i][0] * b[0][j] + a[i][1] * b[1][j] + a[i][2] * b[2][j];
    return j == 3 ? linear + a[i][3] : linear;
  };
  const auto row = [&](std::size_t i) { return Row{entry(i, 0), entry(i, 1), entry(i, 2), entry(i, 3)}; };
  return {row(0), row(1), row(2)};
}

/// Turns about x, then y, then z.
Affine rotation(const Value& x, const Value& y, const Value& z) {
  const Affine about_x{Row{1.0f, 0.0f, 0.0f, 0.0f}, Row{0.0f, cos(x), -sin(x), 0.0f}, Row{0.0f, sin(x), cos(x), 0.0f}};
  const Affine about_y{Row{cos(y), 0.0f, sin(y), 0.0f}, Row{0.0f, 1.0f, 0.0f, 0.0f}, Row{-sin(y), 0.0f, cos(y), 0.0f}};
  const Affine about_z{Row{cos(z), -sin(z), 0.0f, 0.0f}, Row{sin(z), cos(z), 0.0f, 0.0f}, Row{0.0f, 0.0f, 1.0f, 0.0f}};
  return about_z * (about_y * about_x);
}

Affine load(const ArrayHandle& matrices, const Value& bone) {
  const auto row = [&](int i) {
    return Row{matrices(bone, i, 0), matrices(bone, i, 1), matrices(bone, i, 2), matrices(bone, i, 3)};
  };
  return {row(0), row(1), row(2)};
}

void store(const ArrayHandle& matrices, const Value& bone, const Affine& a) {
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 4; ++j) matrices(bone, i, j) = a[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)];
}

/// The angles of each bone: three of the wrist, and of each finger two of the first joint and one of two others.
void to_pose(ProgramBuilder& p, const ArrayHandle& theta, const ArrayHandle& pose) {
  for (auto bone : p.loop("bone", 0, kBones))
    for (auto axis : p.loop("axis", 0, 3)) pose(bone, axis) = 0.0f;
  for (int axis = 0; axis < 3; ++axis) pose(0, axis) = theta(axis);
  for (auto finger : p.loop("finger", 0, kFingers)) {
    pose(2 + 4 * finger, 0) = theta(6 + 4 * finger);
    pose(2 + 4 * finger, 1) = theta(6 + 4 * finger + 1);
    pose(3 + 4 * finger, 0) = theta(6 + 4 * finger + 2);
    pose(4 + 4 * finger, 0) = theta(6 + 4 * finger + 3);
  }
}

/// Hand tracking of ADBench: how far measured points are from the vertices of a skinned hand that they belong to.
/// `parent` of a bone comes before it; that of the wrist is the wrist.
Program build() {
  ProgramBuilder p("hand");
  auto vertices = p.size("vertices"), points = p.size("points");
  auto theta = p.input<float>("theta", {kParameters});
  auto parent = p.input<int>("parent", {kBones});
  auto base_relative = p.input<float>("base_relative", {kBones, 3, 4});
  auto inverse_base_absolute = p.input<float>("inverse_base_absolute", {kBones, 3, 4});
  auto base_position = p.input<float>("base_position", {vertices, 3});
  auto weight = p.input<float>("weight", {vertices, kBones});
  auto correspondence = p.input<int>("correspondence", {points});
  auto point = p.input<float>("point", {points, 3});
  auto error = p.output<float>("error", {points, 3});
  p.in_range(parent, 0, kBones);
  p.in_range(correspondence, 0, vertices);

  auto pose = p.local<float>("pose", {kBones, 3});
  to_pose(p, theta, pose);
  auto absolute = p.local<float>("absolute", {kBones, 3, 4}), transform = p.local<float>("transform", {kBones, 3, 4});
  for (auto bone : p.loop("bone", 0, kBones)) {
    const Affine relative = load(base_relative, bone) * rotation(pose(bone, 0), pose(bone, 1), pose(bone, 2));
    p.when(bone == 0, [&] { store(absolute, bone, relative); }).otherwise([&] {
      auto chained = p.local<float>("chained", {1, 3, 4});
      store(chained, 0, load(absolute, parent(bone)) * relative);
      store(absolute, bone, load(chained, 0));
    });
  }
  for (auto bone : p.loop("bone", 0, kBones))
    store(transform, bone, load(absolute, bone) * load(inverse_base_absolute, bone));

  auto position = p.local<float>("position", {vertices, 3});
  for (auto v : p.loop("v", 0, vertices)) {
    for (auto axis : p.loop("axis", 0, 3)) {
      position(v, axis) = theta(3 + axis);
      for (auto bone : p.loop("bone", 0, kBones)) {
        auto at = transform(bone, axis, 0) * base_position(v, 0) + transform(bone, axis, 1) * base_position(v, 1) +
                  transform(bone, axis, 2) * base_position(v, 2) + transform(bone, axis, 3);
        position(v, axis) += weight(v, bone) * at;
      }
    }
  }
  for (auto i : p.loop("i", 0, points))
    for (auto axis : p.loop("axis", 0, 3)) error(i, axis) = point(i, axis) - position(correspondence(i), axis);
  return p.build();
}

/// A skeleton of five fingers with four bones each, and vertices that at most four bones move.
void fill(const Sizes& sizes, std::uint64_t seed, InputArrays& arrays) {
  tools::Random random(seed);
  for (std::int64_t i = 0; i < kParameters; ++i) arrays.at("theta").set(i, random.uniform(-0.5, 0.5));
  for (std::int64_t bone = 0; bone < kBones; ++bone) {
    const bool is_first = bone < 2 || bone % 4 == 2;
    arrays.at("parent").set(bone, bone == 0  ? 0
                                  : is_first ? static_cast<double>(bone > 1)
                                             : static_cast<double>(bone - 1));
    for (std::int64_t k = 0; k < 12; ++k) {
      const bool diagonal = k % 5 == 0;
      arrays.at("base_relative").set(bone * 12 + k, random.uniform(-0.2, 0.2) + diagonal);
      arrays.at("inverse_base_absolute").set(bone * 12 + k, random.uniform(-0.2, 0.2) + diagonal);
    }
  }
  HostArray& weight = arrays.at("weight");
  for (std::int64_t v = 0; v < sizes.at("vertices"); ++v) {
    for (std::int64_t bone = 0; bone < kBones; ++bone) weight.set(v * kBones + bone, 0);
    for (int k = 0; k < 4; ++k) {
      const std::int64_t at = v * kBones + random.below(kBones);
      weight.set(at, weight.get(at) + 0.25);
    }
  }
}

}  // namespace

ProgramEntry hand() {
  return {.name = "hand",
          .summary = "tracking of a hand whose skin follows its bones (ADBench, simple)",
          .build = build,
          .sizes = {{"vertices", 544}, {"points", 100000}},
          .check_sizes = {{"vertices", 3}, {"points", 5}},
          .wrt = {"theta"},
          .fill = fill};
}

}  // namespace loopgrad::programs

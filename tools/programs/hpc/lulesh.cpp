#include "tools/programs/programs.h"
#include "tools/support/random.h"

#include <array>
#include <cmath>

namespace loopgrad::programs {
namespace {

constexpr float kCut = 1e-7f;  // of energies, pressures and viscosities: smaller ones are zero
constexpr float kLeastVolume = 1e-9f, kLargestVolume = 1e9f, kLeastPressure = 0, kLeastEnergy = -1e15f;
constexpr float kDensity = 1;
constexpr int kCorners = 8, kFaces = 6, kRegions = 11;

/// An element of the mesh while its state is updated.
struct Element8 {
  ProgramBuilder& p;
  Element vnewc, delvc, bvc, pbvc;

  void pressure(const Element& p_new, const Element& energy, const Element& compression) const {
    const float c1s = 2.0f / 3;
    bvc = c1s * (compression + 1.0f);
    pbvc = c1s;
    p_new = bvc * energy;
    p.when(abs(p_new) < kCut, [&] { p_new = 0.0f; });
    p.when(vnewc >= kLargestVolume, [&] { p_new = 0.0f; });
    p.when(p_new < kLeastPressure, [&] { p_new = kLeastPressure; });
  }

  Element sound_speed(const Value& energy, const Value& volume, const Value& pressure) const {
    auto ssc = p.scalar<float>("ssc");
    ssc = (pbvc * energy + volume * volume * bvc * pressure) / kDensity;
    p.when(ssc <= .1111111e-36f, [&] { ssc = .3333333e-18f; }).otherwise([&] { ssc = sqrt(ssc); });
    return ssc;
  }

  void bound_energy(const Element& e_new) const {
    p.when(abs(e_new) < kCut, [&] { e_new = 0.0f; });
    p.when(e_new < kLeastEnergy, [&] { e_new = kLeastEnergy; });
  }
};

/// The state of an element before and after; volumes relative to the initial one.
struct State {
  Element e_old, p_old, q_old, ql, qq, compression, comp_half_step, e_new, p_new, q_new;
};

/// Predicts the energy at half of the step, and corrects it twice.
void calc_energy(const Element8& element, const State& s) {
  ProgramBuilder& p = element.p;
  auto p_half_step = p.scalar<float>("p_half_step"), q_tilde = p.scalar<float>("q_tilde");
  const Element& delvc = element.delvc;
  s.e_new = s.e_old - 0.5f * delvc * (s.p_old + s.q_old);
  p.when(s.e_new < kLeastEnergy, [&] { s.e_new = kLeastEnergy; });

  element.pressure(p_half_step, s.e_new, s.comp_half_step);
  auto vhalf = p.scalar<float>("vhalf");
  vhalf = 1.0f / (1.0f + s.comp_half_step);
  p.when(delvc > 0, [&] { s.q_new = 0.0f; }).otherwise([&] {
    s.q_new = element.sound_speed(s.e_new, vhalf, p_half_step) * s.ql + s.qq;
  });
  s.e_new += 0.5f * delvc * (3.0f * (s.p_old + s.q_old) - 4.0f * (p_half_step + s.q_new));
  element.bound_energy(s.e_new);

  element.pressure(s.p_new, s.e_new, s.compression);
  p.when(delvc > 0, [&] { q_tilde = 0.0f; }).otherwise([&] {
    q_tilde = element.sound_speed(s.e_new, element.vnewc, s.p_new) * s.ql + s.qq;
  });
  s.e_new -= (7.0f * (s.p_old + s.q_old) - 8.0f * (p_half_step + s.q_new) + (s.p_new + q_tilde)) * delvc / 6.0f;
  element.bound_energy(s.e_new);

  element.pressure(s.p_new, s.e_new, s.compression);
  p.when(delvc <= 0, [&] {
    s.q_new = element.sound_speed(s.e_new, element.vnewc, s.p_new) * s.ql + s.qq;
    p.when(abs(s.q_new) < kCut, [&] { s.q_new = 0.0f; });
  });
}

using Axes = std::array<ArrayHandle, 3>;

/// The outward normals of an element at its corners: of each face, a quarter of its area goes to its four.
void sum_normals(ProgramBuilder& p, const Axes& at, const Axes& normal) {
  const int faces[kFaces][4] = {{0, 1, 2, 3}, {0, 4, 5, 1}, {1, 5, 6, 2}, {2, 6, 7, 3}, {3, 7, 4, 0}, {4, 7, 6, 5}};
  for (const auto& axis : normal)
    for (auto k : p.loop("k", 0, kCorners)) axis(k) = 0.0f;
  for (const auto& c : faces) {
    std::array<Element, 3> bisect0{p.scalar<float>("bisect_x0"), p.scalar<float>("bisect_y0"),
                                   p.scalar<float>("bisect_z0")};
    std::array<Element, 3> bisect1{p.scalar<float>("bisect_x1"), p.scalar<float>("bisect_y1"),
                                   p.scalar<float>("bisect_z1")};
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const ArrayHandle& x = at[axis];
      bisect0[axis] = 0.5f * (x(c[3]) + x(c[2]) - x(c[1]) - x(c[0]));
      bisect1[axis] = 0.5f * (x(c[2]) + x(c[1]) - x(c[3]) - x(c[0]));
    }
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const std::size_t next = (axis + 1) % 3, last = (axis + 2) % 3;
      auto area = p.scalar<float>("area");
      area = 0.25f * (bisect0[next] * bisect1[last] - bisect0[last] * bisect1[next]);
      for (int corner : c) normal[axis](corner) += area;
    }
  }
}

/// Part of a step of Lagrangian shock hydrodynamics on a mesh of hexahedra: material properties of the elements of all
/// regions, and the forces of their stresses, which nodes gather from the corners of elements around them.
Program build() {
  ProgramBuilder p("lulesh");
  auto elems = p.size("elems"), nodes = p.size("nodes");
  auto e = p.inout<float>("e", {elems}), pressure = p.inout<float>("p", {elems}), q = p.inout<float>("q", {elems});
  auto ql = p.input<float>("ql", {elems}), qq = p.input<float>("qq", {elems});
  auto vnew = p.input<float>("vnew", {elems}), delv = p.input<float>("delv", {elems});
  auto reg_elem_list = p.input<int>("reg_elem_list", {elems});
  auto ss = p.output<float>("ss", {elems});
  const Axes position{p.input<float>("x", {nodes}), p.input<float>("y", {nodes}), p.input<float>("z", {nodes})};
  const Axes force{p.output<float>("fx", {nodes}), p.output<float>("fy", {nodes}), p.output<float>("fz", {nodes})};
  auto nodelist = p.input<int>("nodelist", {kCorners * elems});
  auto node_elem_start = p.input<int>("node_elem_start", {nodes + 1});
  auto node_elem_corner_list = p.input<int>("node_elem_corner_list", {kCorners * elems});
  p.in_range(reg_elem_list, 0, elems);
  p.injective(reg_elem_list);
  p.in_range(nodelist, 0, nodes);
  p.csr(node_elem_start, kCorners * elems);
  p.in_range(node_elem_corner_list, 0, kCorners * elems);
  p.injective(node_elem_corner_list);

  for (auto index : p.loop("index", 0, elems)) {
    const auto scalar = [&](const char* name) { return p.scalar<float>(name); };
    auto i = reg_elem_list(index);
    Element8 element{p, scalar("vnewc"), scalar("delvc"), scalar("bvc"), scalar("pbvc")};
    State s{scalar("e_old"),       scalar("p_old"),          scalar("q_old"), ql(i),           qq(i),
            scalar("compression"), scalar("comp_half_step"), scalar("e_new"), scalar("p_new"), scalar("q_new")};
    element.vnewc = vnew(i);
    p.when(element.vnewc < kLeastVolume, [&] { element.vnewc = kLeastVolume; });
    p.when(element.vnewc > kLargestVolume, [&] { element.vnewc = kLargestVolume; });
    element.delvc = delv(i);
    s.e_old = e(i);
    s.p_old = pressure(i);
    s.q_old = q(i);
    s.compression = 1.0f / element.vnewc - 1.0f;
    s.comp_half_step = 1.0f / (element.vnewc - element.delvc * 0.5f) - 1.0f;
    p.when(element.vnewc <= kLeastVolume, [&] { s.comp_half_step = s.compression; });
    p.when(element.vnewc >= kLargestVolume, [&] {
      s.p_old = 0.0f;
      s.compression = 0.0f;
      s.comp_half_step = 0.0f;
    });
    calc_energy(element, s);
    pressure(i) = s.p_new;
    e(i) = s.e_new;
    q(i) = s.q_new;
    ss(i) = element.sound_speed(s.e_new, element.vnewc, s.p_new);
  }

  const Axes corner_force{p.local<float>("fx_elem", {kCorners * elems}), p.local<float>("fy_elem", {kCorners * elems}),
                          p.local<float>("fz_elem", {kCorners * elems})};
  for (auto k : p.loop("k", 0, elems)) {
    const Axes at{p.local<float>("x_local", {kCorners}), p.local<float>("y_local", {kCorners}),
                  p.local<float>("z_local", {kCorners})};
    const Axes normal{p.local<float>("pfx", {kCorners}), p.local<float>("pfy", {kCorners}),
                      p.local<float>("pfz", {kCorners})};
    for (auto corner : p.loop("corner", 0, kCorners))
      for (std::size_t axis = 0; axis < 3; ++axis) at[axis](corner) = position[axis](nodelist(corner * elems + k));
    sum_normals(p, at, normal);
    auto stress = p.scalar<float>("stress");
    stress = -pressure(k) - q(k);
    for (auto corner : p.loop("corner", 0, kCorners))
      for (std::size_t axis = 0; axis < 3; ++axis)
        corner_force[axis](corner * elems + k) = -(stress * normal[axis](corner));
  }
  for (auto node : p.loop("node", 0, nodes)) {
    for (std::size_t axis = 0; axis < 3; ++axis) force[axis](node) = 0.0f;
    for (auto c : p.loop("c", node_elem_start(node), node_elem_start(node + 1)))
      for (std::size_t axis = 0; axis < 3; ++axis) force[axis](node) += corner_force[axis](node_elem_corner_list(c));
  }
  return p.build();
}

/// The corners of the elements of a cube, and which corners are at each node. Leaves what facts allow where the sizes
/// are not those of a cube.
void fill_mesh(std::int64_t elems, std::int64_t nodes, tools::Random& random, InputArrays& arrays) {
  const auto side = static_cast<std::int64_t>(std::lround(std::cbrt(static_cast<double>(elems))));
  const std::int64_t edge = side + 1;
  if (side * side * side != elems || edge * edge * edge != nodes) return;
  for (std::int64_t n = 0; n < nodes; ++n) {
    const std::int64_t at[3] = {n % edge, n / edge % edge, n / edge / edge};
    const char* axes[3] = {"x", "y", "z"};
    for (int axis = 0; axis < 3; ++axis)
      arrays.at(axes[axis])
          .set(n, 1.125 * (static_cast<double>(at[axis]) + random.uniform(-0.1, 0.1)) / static_cast<double>(side));
  }
  std::vector<std::vector<std::int64_t>> corners(static_cast<std::size_t>(nodes));
  for (std::int64_t e = 0; e < elems; ++e) {
    const std::int64_t first = (e / side / side * edge + e / side % side) * edge + e % side, up = edge * edge;
    const std::int64_t of_element[kCorners] = {first,      first + 1,      first + edge + 1,      first + edge,
                                               first + up, first + up + 1, first + up + edge + 1, first + up + edge};
    for (std::int64_t corner = 0; corner < kCorners; ++corner) {
      arrays.at("nodelist").set(corner * elems + e, static_cast<double>(of_element[corner]));
      corners[static_cast<std::size_t>(of_element[corner])].push_back(corner * elems + e);
    }
  }
  std::int64_t at = 0;
  for (std::int64_t n = 0; n < nodes; ++n) {
    arrays.at("node_elem_start").set(n, static_cast<double>(at));
    for (const std::int64_t corner : corners[static_cast<std::size_t>(n)])
      arrays.at("node_elem_corner_list").set(at++, static_cast<double>(corner));
  }
  arrays.at("node_elem_start").set(nodes, static_cast<double>(at));
}

/// Runs of elements belong to regions, which are listed one after the other.
void fill_regions(std::int64_t elems, tools::Random& random, InputArrays& arrays) {
  std::vector<std::vector<std::int64_t>> regions(kRegions);
  for (std::int64_t e = 0; e < elems;) {
    auto& region = regions[static_cast<std::size_t>(random.below(kRegions))];
    for (std::int64_t run = 1 + random.below(64); run > 0 && e < elems; --run) region.push_back(e++);
  }
  std::int64_t at = 0;
  for (const auto& region : regions)
    for (const std::int64_t e : region) arrays.at("reg_elem_list").set(at++, static_cast<double>(e));
}

/// A blast from a corner of the cube: behind the shock elements are hot, before it cold; elements that are compressed
/// have viscosity.
void fill(const Sizes& sizes, std::uint64_t seed, InputArrays& arrays) {
  tools::Random random(seed);
  const std::int64_t elems = sizes.at("elems");
  fill_mesh(elems, sizes.at("nodes"), random, arrays);
  fill_regions(elems, random, arrays);
  const auto side = std::max<std::int64_t>(1, std::lround(std::cbrt(static_cast<double>(elems))));
  for (std::int64_t i = 0; i < elems; ++i) {
    const double x = static_cast<double>(i % side), y = static_cast<double>(i / side % side),
                 z = static_cast<double>(i / side / side);
    const bool hot = x * x + y * y + z * z < 0.5 * static_cast<double>(side * side);
    const double volume = hot ? random.uniform(0.7, 1.3) : 1, change = hot ? random.uniform(-0.1, 0.1) : 0;
    const double energy = hot ? random.uniform(0.5, 3) : 0;
    arrays.at("vnew").set(i, volume);
    arrays.at("delv").set(i, change);
    arrays.at("e").set(i, energy);
    arrays.at("p").set(i, 2 * energy / 3 / volume);
    for (const char* name : {"q", "ql", "qq"}) arrays.at(name).set(i, change < 0 ? random.uniform(0, 0.2) : 0);
  }
}

}  // namespace

ProgramEntry lulesh() {
  return {.name = "lulesh",
          .summary = "material properties and nodal forces of shock hydrodynamics on a mesh (LULESH)",
          .build = build,
          .sizes = {{"elems", 27000}, {"nodes", 29791}},
          .check_sizes = {{"elems", 27}, {"nodes", 64}},
          .wrt = {"e", "p"},
          .fill = fill};
}

}  // namespace loopgrad::programs

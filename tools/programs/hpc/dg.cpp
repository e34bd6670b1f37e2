#include "tools/programs/programs.h"
#include "tools/support/random.h"

#include <array>
#include <cmath>

namespace loopgrad::programs {
namespace {

constexpr int kNodes = 5;  // on a side of an element: order 4
constexpr int kStates = 5, kGeometries = 14;
enum State { kRho, kU, kV, kW, kE };  // density, momentum, energy
enum Geometry { kXiX, kEtaX, kZetaX, kXiY, kEtaY, kZetaY, kXiZ, kEtaZ, kZetaZ, kMJ, kMJI, kX, kY, kZ };
using States = std::array<Value, kStates>;

States fluxes_along(const Value& x, const Value& y, const Value& z, const std::array<States, 3>& flux) {
  const auto of = [&](int s) { return x * flux[0][s] + y * flux[1][s] + z * flux[2][s]; };
  return {of(kRho), of(kU), of(kV), of(kW), of(kE)};
}

/// What flows in x, y and z, of each state.
std::array<States, 3> euler_fluxes(const States& q, const Value& pressure) {
  const Value inverse = 1.0f / q[kRho];
  std::array<States, 3> flux{States{0, 0, 0, 0, 0}, States{0, 0, 0, 0, 0}, States{0, 0, 0, 0, 0}};
  for (int axis = 0; axis < 3; ++axis) {
    const Value velocity = inverse * q[kU + axis];
    flux[axis] = {q[kU + axis], velocity * q[kU], velocity * q[kV], velocity * q[kW], velocity * (q[kE] + pressure)};
    flux[axis][kU + axis] = flux[axis][kU + axis] + pressure;
  }
  return flux;
}

/// The volume integrals of a discontinuous Galerkin solver of the compressible Euler equations with gravity, added to
/// the right-hand side: fluxes at the nodes of each listed element, and their derivatives by the matrix `d`.
Program build() {
  ProgramBuilder p("dg");
  auto elements = p.size("elements");
  auto q = p.input<float>("Q", {elements, kStates, kNodes, kNodes, kNodes});
  auto vgeo = p.input<float>("vgeo", {elements, kGeometries, kNodes, kNodes, kNodes});
  auto d = p.input<float>("D", {kNodes, kNodes});
  auto gravity = p.input<float>("gravity", {});
  auto elems = p.input<int>("elems", {elements});
  auto rhs = p.inout<float>("rhs", {elements, kStates, kNodes, kNodes, kNodes});
  p.in_range(elems, 0, elements);
  p.injective(elems);
  const float ratio = 287.04f / 717.96f;  // of the gas constant to the heat capacity
  const auto at_each_node = [&](const auto& body) {
    for (auto j : p.loop("j", 0, kNodes))
      for (auto i : p.loop("i", 0, kNodes)) body(j, i);
  };

  for (auto block : p.loop("block", 0, elements)) {
    auto e = elems(block);
    auto sum = p.local<float>("sum", {kStates, kNodes, kNodes, kNodes});
    for (auto k : p.loop("k", 0, kNodes))
      at_each_node([&](auto j, auto i) {
        for (int s = 0; s < kStates; ++s) sum(s, k, j, i) = 0.0f;
      });
    for (auto k : p.loop("k", 0, kNodes)) {
      auto f = p.local<float>("f", {kStates, kNodes, kNodes}), g = p.local<float>("g", {kStates, kNodes, kNodes});
      at_each_node([&](auto j, auto i) {
        const auto geo = [&](int which) { return vgeo.at({e, which, k, j, i}); };
        const auto state = [&](int which) { return q.at({e, which, k, j, i}); };
        const States now = {state(kRho), state(kU), state(kV), state(kW), state(kE)};
        auto pressure = p.scalar<float>("pressure");
        pressure = ratio * (now[kE] - (now[kU] * now[kU] + now[kV] * now[kV] + now[kW] * now[kW]) / now[kRho] / 2 -
                            now[kRho] * gravity() * geo(kZ));
        const auto flux = euler_fluxes(now, pressure);
        const auto along_xi = fluxes_along(geo(kXiX), geo(kXiY), geo(kXiZ), flux);
        const auto along_eta = fluxes_along(geo(kEtaX), geo(kEtaY), geo(kEtaZ), flux);
        const auto along_zeta = fluxes_along(geo(kZetaX), geo(kZetaY), geo(kZetaZ), flux);
        auto h = p.local<float>("h", {kStates});
        for (int s = 0; s < kStates; ++s) {
          f(s, j, i) = geo(kMJ) * along_xi[s];
          g(s, j, i) = geo(kMJ) * along_eta[s];
          h(s) = geo(kMJ) * along_zeta[s];
        }
        for (auto n : p.loop("n", 0, kNodes))
          for (int s = 0; s < kStates; ++s) sum(s, n, j, i) += d(k, n) * h(s);
        sum(int{kW}, k, j, i) -= geo(kMJ) * state(kRho) * gravity();
      });
      at_each_node([&](auto j, auto i) {
        for (auto n : p.loop("n", 0, kNodes)) {
          for (int s = 0; s < kStates; ++s) {
            sum(s, k, j, i) += d(n, i) * f(s, j, n);
            sum(s, k, j, i) += d(n, j) * g(s, n, i);
          }
        }
      });
    }
    for (auto k : p.loop("k", 0, kNodes))
      at_each_node([&](auto j, auto i) {
        for (int s = 0; s < kStates; ++s) rhs.at({e, s, k, j, i}) += vgeo.at({e, int{kMJI}, k, j, i}) * sum(s, k, j, i);
      });
  }
  return p.build();
}

/// The derivatives of the polynomials that are one at a Gauss-Lobatto node each and zero at the others.
void fill_derivatives(HostArray& d) {
  const double inner = std::sqrt(3.0 / 7), x[kNodes] = {-1, -inner, 0, inner, 1};
  for (int n = 0; n < kNodes; ++n) {
    for (int of = 0; of < kNodes; ++of) {
      double value = 0;
      for (int left_out = 0; left_out < kNodes; ++left_out) {
        if (left_out == of) continue;
        double product = 1 / (x[of] - x[left_out]);
        for (int m = 0; m < kNodes; ++m)
          if (m != of && m != left_out) product *= (x[n] - x[m]) / (x[of] - x[m]);
        value += product;
      }
      d.set(n * kNodes + of, value);
    }
  }
}

/// Air that moves a little, in elements that are nearly cubes.
void fill(const Sizes& sizes, std::uint64_t seed, InputArrays& arrays) {
  tools::Random random(seed);
  const std::int64_t nodes = kNodes * kNodes * kNodes;
  HostArray &q = arrays.at("Q"), &vgeo = arrays.at("vgeo");
  fill_derivatives(arrays.at("D"));
  arrays.at("gravity").set(0, 1);
  for (std::int64_t e = 0; e < sizes.at("elements"); ++e) {
    for (std::int64_t node = 0; node < nodes; ++node) {
      for (int s = 0; s < kStates; ++s) {
        const double value = random.uniform(-0.2, 0.2);
        q.set((e * kStates + s) * nodes + node, s == kRho ? 1 + value : s == kE ? 4 + value : value);
      }
      const double volume = random.uniform(0.9, 1.1);
      for (int s = 0; s < kGeometries; ++s) {
        const double value = random.uniform(-0.1, 0.1);
        const bool diagonal = s == kXiX || s == kEtaY || s == kZetaZ;
        vgeo.set((e * kGeometries + s) * nodes + node, s == kMJ    ? volume
                                                       : s == kMJI ? 1 / volume
                                                       : s >= kX   ? random.uniform()
                                                                   : value + diagonal);
      }
    }
  }
}

}  // namespace

ProgramEntry dg() {
  return {.name = "dg",
          .summary = "volume integrals of a discontinuous Galerkin solver of the Euler equations",
          .build = build,
          .sizes = {{"elements", 1000}},
          .check_sizes = {{"elements", 2}},
          .wrt = {"Q"},
          .fill = fill};
}

}  // namespace loopgrad::programs

#include "tests/programs/primal_run.h"
#include "tools/programs/programs.h"

#include <cmath>

namespace loopgrad::programs {
namespace {

double cut(double value) { return std::abs(value) < 1e-7 ? 0 : value; }

/// Pressure, and the coefficient of energy in it.
struct Pressure {
  double value, of_energy;
};
Pressure pressure_of(double energy, double volume) {
  const double of_energy = 2.0 / 3 / volume;
  return {std::max(0.0, cut(of_energy * energy)), of_energy};
}

double speed_of_sound(double energy, double volume, const Pressure& p) {
  const double squared = 2.0 / 3 * energy + volume * volume * p.of_energy * p.value;
  return squared <= .1111111e-36 ? .3333333e-18 : std::sqrt(squared);
}

/// The update as in the equations, by functions of the volume, and forces scattered from elements to nodes.
TEST(Lulesh, IsThatOfPlainCode) {
  const std::size_t elems = 27, nodes = 64;
  const PrimalRun run(lulesh(), {{"elems", 27}, {"nodes", 64}}, 2);
  const auto x = run.input("x"), y = run.input("y"), z = run.input("z"), nodelist = run.input("nodelist"),
             volume = run.input("vnew"), change = run.input("delv"), ql = run.input("ql"), qq = run.input("qq"),
             e_old = run.input("e"), p_old = run.input("p"), q_old = run.input("q");
  std::vector<double> e(elems), p(elems), q(elems), ss(elems), fx(nodes), fy(nodes), fz(nodes);
  for (std::size_t i = 0; i < elems; ++i) {
    const double half = volume[i] - change[i] / 2, before = p_old[i] + q_old[i];
    const bool grows = change[i] > 0;
    const double first = e_old[i] - change[i] / 2 * before;
    const Pressure at_half = pressure_of(first, half);
    const double q_half = grows ? 0 : speed_of_sound(first, half, at_half) * ql[i] + qq[i];
    const double second = cut(first + change[i] / 2 * (3 * before - 4 * (at_half.value + q_half)));
    const Pressure predicted = pressure_of(second, volume[i]);
    const double q_tilde = grows ? 0 : speed_of_sound(second, volume[i], predicted) * ql[i] + qq[i];
    e[i] = cut(second - change[i] / 6 * (7 * before - 8 * (at_half.value + q_half) + predicted.value + q_tilde));
    const Pressure now = pressure_of(e[i], volume[i]);
    ss[i] = speed_of_sound(e[i], volume[i], now);
    p[i] = now.value;
    q[i] = grows ? q_half : cut(ss[i] * ql[i] + qq[i]);

    // A face pushes its corners with a quarter of pressure times area, half the cross product of its diagonals.
    const std::size_t faces[6][4] = {{0, 3, 2, 1}, {0, 1, 5, 4}, {1, 2, 6, 5},
                                     {2, 3, 7, 6}, {3, 0, 4, 7}, {4, 5, 6, 7}};
    for (const auto& face : faces) {
      std::size_t node[4];
      for (std::size_t k = 0; k < 4; ++k) node[k] = static_cast<std::size_t>(nodelist[face[k] * elems + i]);
      const double a[3] = {x[node[2]] - x[node[0]], y[node[2]] - y[node[0]], z[node[2]] - z[node[0]]};
      const double b[3] = {x[node[3]] - x[node[1]], y[node[3]] - y[node[1]], z[node[3]] - z[node[1]]};
      for (const std::size_t n : node) {
        fx[n] += (p[i] + q[i]) * (a[1] * b[2] - a[2] * b[1]) / 8;
        fy[n] += (p[i] + q[i]) * (a[2] * b[0] - a[0] * b[2]) / 8;
        fz[n] += (p[i] + q[i]) * (a[0] * b[1] - a[1] * b[0]) / 8;
      }
    }
  }
  expect_near(run.output("e"), e, 1e-6);  // literals of the program are f32
  expect_near(run.output("p"), p, 1e-6);
  expect_near(run.output("q"), q, 1e-6);
  expect_near(run.output("ss"), ss, 1e-6);
  expect_near(run.output("fx"), fx, 1e-6);
  expect_near(run.output("fy"), fy, 1e-6);
  expect_near(run.output("fz"), fz, 1e-6);
}

}  // namespace
}  // namespace loopgrad::programs

#include "tests/programs/primal_run.h"
#include "tools/programs/programs.h"

namespace loopgrad::programs {
namespace {

/// Each node sums over the three lines of nodes through it.
TEST(Dg, IsThatOfPlainCode) {
  const std::size_t elements = 3;
  const PrimalRun run(dg(), {{"elements", 3}}, 7);
  const auto q = run.input("Q"), geometry = run.input("vgeo"), d = run.input("D");
  const double gravity = run.input("gravity")[0], ratio = 287.04f / 717.96f;
  const auto node = [](const std::size_t* at) { return (at[2] * 5 + at[1]) * 5 + at[0]; };
  std::vector<double> rhs = run.input("rhs");
  for (std::size_t e = 0; e < elements; ++e) {
    const auto state = [&](std::size_t s, std::size_t n) { return q[(e * 5 + s) * 125 + n]; };
    const auto geo = [&](std::size_t s, std::size_t n) { return geometry[(e * 14 + s) * 125 + n]; };
    // Flux of state s at a node, in direction `axis` of the element.
    const auto flux = [&](std::size_t s, std::size_t n, std::size_t axis) {
      const double rho = state(0, n), m[3] = {state(1, n), state(2, n), state(3, n)}, energy = state(4, n);
      const double kinetic = (m[0] * m[0] + m[1] * m[1] + m[2] * m[2]) / (2 * rho);
      const double pressure = ratio * (energy - kinetic - rho * gravity * geo(13, n));
      double sum = 0;
      for (std::size_t k = 0; k < 3; ++k) {
        double f = m[k] / rho * (s == 4 ? energy + pressure : state(s, n));
        if (s == k + 1) f += pressure;
        sum += geo(3 * k + axis, n) * f;
      }
      return geo(9, n) * sum;
    };
    for (std::size_t n = 0; n < 125; ++n) {
      const std::size_t here[3] = {n % 5, n / 5 % 5, n / 25};
      for (std::size_t s = 0; s < 5; ++s) {
        double sum = s == 3 ? -geo(9, n) * state(0, n) * gravity : 0;
        for (std::size_t axis = 0; axis < 3; ++axis) {
          for (std::size_t other = 0; other < 5; ++other) {
            std::size_t at[3] = {here[0], here[1], here[2]};
            at[axis] = other;
            sum += d[other * 5 + here[axis]] * flux(s, node(at), axis);
          }
        }
        rhs[(e * 5 + s) * 125 + n] += geo(10, n) * sum;
      }
    }
  }
  expect_near(run.output("rhs"), rhs, 1e-12);
  for (std::size_t n = 0; n < 5; ++n)
    EXPECT_NEAR(d[n * 5] + d[n * 5 + 1] + d[n * 5 + 2] + d[n * 5 + 3] + d[n * 5 + 4], 0, 1e-5);
}

}  // namespace
}  // namespace loopgrad::programs

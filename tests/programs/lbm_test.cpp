#include "tests/programs/primal_run.h"
#include "tools/programs/programs.h"

#include <array>

namespace loopgrad::programs {
namespace {

/// Pulls, and sums over directions instead of naming them.
TEST(Lbm, IsThatOfPlainCode) {
  const int n[3] = {7, 5, 6}, steps = 3, cells = n[0] * n[1] * n[2];
  const PrimalRun run(lbm(), {{"nx", n[0]}, {"ny", n[1]}, {"nz", n[2]}, {"T", steps}}, 5);
  const int c[19][3] = {{0, 0, 0},   {0, 1, 0},  {0, -1, 0}, {1, 0, 0},   {-1, 0, 0}, {0, 0, 1},  {0, 0, -1},
                        {1, 1, 0},   {-1, 1, 0}, {1, -1, 0}, {-1, -1, 0}, {0, 1, 1},  {0, 1, -1}, {0, -1, 1},
                        {0, -1, -1}, {1, 0, 1},  {1, 0, -1}, {-1, 0, 1},  {-1, 0, -1}};
  std::vector<double> now = run.input("initial");
  const std::vector<double> flags = run.input("flags");
  EXPECT_EQ(std::count(flags.begin(), flags.end(), 2.0) > 0, true);
  for (int t = 0; t < steps; ++t) {
    std::vector<double> next(now.size());
    for (int to = 0; to < cells; ++to) {
      const int at[3] = {to % n[0], to / n[0] % n[1], to / n[0] / n[1]};
      for (int e = 0; e < 19; ++e) {
        int from[3], back = 0;
        for (int k = 0; k < 3; ++k) from[k] = (at[k] - c[e][k] + n[k]) % n[k];
        const int cell = (from[2] * n[1] + from[1]) * n[0] + from[0];
        while (c[back][0] != -c[e][0] || c[back][1] != -c[e][1] || c[back][2] != -c[e][2]) ++back;
        double rho = 0, u[3] = {0, 0, 0}, along = 0, squared = 0;
        for (int k = 0; k < 19; ++k) {
          const double f = now[static_cast<std::size_t>(k * cells + cell)];
          rho += f;
          for (int axis = 0; axis < 3; ++axis) u[axis] += f * c[k][axis];
        }
        for (int axis = 0; axis < 3; ++axis) u[axis] /= rho;
        if (flags[static_cast<std::size_t>(cell)] == 2) u[0] = 0.005f, u[1] = 0.002f, u[2] = 0;
        for (int axis = 0; axis < 3; ++axis) along += c[e][axis] * u[axis], squared += u[axis] * u[axis];
        const int moving = std::abs(c[e][0]) + std::abs(c[e][1]) + std::abs(c[e][2]);
        const double weight = moving == 0 ? 1.0f / 3 : moving == 1 ? 1.0f / 18 : 1.0f / 36, omega = 1.95f;
        const double equilibrium = weight * rho * (1 + 3 * along + 4.5 * along * along - 1.5 * squared);
        const double old = now[static_cast<std::size_t>(e * cells + cell)];
        next[static_cast<std::size_t>(e * cells + to)] = flags[static_cast<std::size_t>(cell)] == 1
                                                             ? now[static_cast<std::size_t>(back * cells + cell)]
                                                             : old + omega * (equilibrium - old);
      }
    }
    now = next;
  }
  expect_near(run.output("last"), now, 1e-7);  // literals of the program are f32
}

}  // namespace
}  // namespace loopgrad::programs

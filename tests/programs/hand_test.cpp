#include "tests/programs/primal_run.h"
#include "tools/programs/programs.h"

#include <array>
#include <cmath>

namespace loopgrad::programs {
namespace {

using Point = std::array<double, 3>;

Point placed(const double* matrix, const Point& x) {
  Point y;
  for (std::size_t i = 0; i < 3; ++i)
    y[i] = matrix[4 * i] * x[0] + matrix[4 * i + 1] * x[1] + matrix[4 * i + 2] * x[2] + matrix[4 * i + 3];
  return y;
}

/// `x` turned by an angle in the plane of two axes.
Point turned(Point x, std::size_t from, std::size_t to, double angle) {
  const double a = x[from], b = x[to];
  x[from] = std::cos(angle) * a - std::sin(angle) * b;
  x[to] = std::sin(angle) * a + std::cos(angle) * b;
  return x;
}

/// Takes each vertex through its bones one by one, from the tip to the wrist, without products of matrices.
TEST(Hand, IsThatOfPlainCode) {
  const std::size_t vertices = 11, points = 17;
  const PrimalRun run(hand(), {{"vertices", 11}, {"points", 17}}, 6);
  const auto theta = run.input("theta"), parent = run.input("parent"), relative = run.input("base_relative"),
             inverse = run.input("inverse_base_absolute"), base = run.input("base_position"),
             weight = run.input("weight"), of_point = run.input("correspondence"), point = run.input("point");
  std::vector<Point> skin(vertices, Point{theta[3], theta[4], theta[5]});
  for (std::size_t v = 0; v < vertices; ++v) {
    for (std::size_t bone = 0; bone < 22; ++bone) {
      Point x = placed(&inverse[bone * 12], {base[3 * v], base[3 * v + 1], base[3 * v + 2]});
      for (std::size_t at = bone;; at = static_cast<std::size_t>(parent[at])) {
        Point angles{0, 0, 0};
        if (at == 0) angles = {theta[0], theta[1], theta[2]};
        if (at >= 2) {
          const std::size_t of_finger = 6 + (at - 2) / 4 * 4, joint = (at - 2) % 4;
          if (joint == 0) angles = {theta[of_finger], theta[of_finger + 1], 0};
          if (joint == 1 || joint == 2) angles = {theta[of_finger + 1 + joint], 0, 0};
        }
        x = turned(turned(turned(x, 1, 2, angles[0]), 2, 0, angles[1]), 0, 1, angles[2]);
        x = placed(&relative[at * 12], x);
        if (at == 0) break;
      }
      for (std::size_t k = 0; k < 3; ++k) skin[v][k] += weight[v * 22 + bone] * x[k];
    }
  }
  std::vector<double> expected;
  for (std::size_t i = 0; i < points; ++i)
    for (std::size_t k = 0; k < 3; ++k)
      expected.push_back(point[3 * i + k] - skin[static_cast<std::size_t>(of_point[i])][k]);
  expect_near(run.output("error"), expected, 1e-12);
}

}  // namespace
}  // namespace loopgrad::programs

// The problems of ADBench beside plain code of their own: objectives, and Jacobians by central differences of these.
#include "bench/adbench/problem.h"
#include "tests/adbench/made.h"

#include <gtest/gtest.h>
#include <array>
#include <cmath>
#include <functional>
#include <numbers>

namespace adbench {
namespace {

using Point = std::array<double, 3>;

/// The difference that ADBench compares by: absolute for small numbers, relative for large ones.
void expect_near(double actual, double expected, double tolerance, const std::string& what) {
  EXPECT_LT(std::abs(actual - expected) / std::max(1.0, std::abs(actual) + std::abs(expected)), tolerance)
      << what << ": " << actual << " in place of " << expected;
}

double difference(double& at, const std::function<double()>& value) {
  const double x = at, h = 1e-6 * std::max(1.0, std::abs(x));
  at = x + h;
  const double above = value();
  at = x - h;
  const double below = value();
  at = x;
  return (above - below) / (2 * h);
}

Result run(const auto& data, auto... more) {
  const auto problem = make_problem(data, place_of("interpreter"), more...);
  problem->objective();
  problem->jacobian();
  return problem->result();
}

/// The likelihood by densities and determinants, and the prior by the density of Wishart's distribution.
double plain_gmm(const Gmm& g, double sign) {
  const auto d = static_cast<std::size_t>(g.d), size = static_cast<std::size_t>(g.icf_size());
  double weights = 0, result = 0, prior = 0;
  for (double alpha : g.alphas) weights += std::exp(alpha);
  std::vector<Numbers> factor;
  for (std::size_t k = 0; k < g.alphas.size(); ++k) {
    Numbers q(d * d);
    std::size_t next = k * size + d;
    for (std::size_t column = 0; column < d; ++column) {
      q[column * d + column] = std::exp(g.icf[k * size + column]);
      for (std::size_t row = column + 1; row < d; ++row) q[row * d + column] = g.icf[next++];
    }
    double squares = 0, determinant = 1, gamma = std::pow(std::numbers::pi, 0.25 * static_cast<double>(d * (d - 1)));
    for (double element : q) squares += element * element;
    const double m = static_cast<double>(g.m), freedom = static_cast<double>(d) + m + 1;
    for (std::size_t j = 0; j < d; ++j) {
      determinant *= q[j * d + j];
      gamma *= std::tgamma(0.5 * (freedom - static_cast<double>(j)));
    }
    const double power = freedom * static_cast<double>(d);
    prior += std::log(std::pow(determinant, m) * std::exp(-0.5 * g.gamma * g.gamma * squares) *
                      std::pow(g.gamma / std::numbers::sqrt2, power) / gamma);
    factor.push_back(q);
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(g.n); ++i) {
    double density = 0;
    for (std::size_t k = 0; k < factor.size(); ++k) {
      double squared = 0, determinant = 1;
      for (std::size_t row = 0; row < d; ++row) {
        double z = 0;
        for (std::size_t c = 0; c < d; ++c) z += factor[k][row * d + c] * (g.x[i * d + c] - g.means[k * d + c]);
        squared += z * z;
        determinant *= factor[k][row * d + row];
      }
      density += std::exp(g.alphas[k]) / weights * determinant * std::exp(-0.5 * squared) /
                 std::pow(2 * std::numbers::pi, 0.5 * static_cast<double>(d));
    }
    result += std::log(density);
  }
  return result + sign * prior;
}

TEST(Adbench, MixtureOfGaussians) {
  Gmm gmm = read_gmm(made("gmm_d3_K4.txt", {.points = 7}));
  EXPECT_EQ(gmm.n, 7);
  gmm.gamma = 1.3, gmm.m = 2;
  for (const Prior prior : {Prior::ADBench, Prior::GradBench}) {
    const double sign = prior == Prior::ADBench ? -1 : 1;
    const Result result = run(gmm, prior);
    expect_near(result.objective.at(0), plain_gmm(gmm, sign), 1e-12, "objective");
    ASSERT_EQ(result.jacobian.size(), 4u * (1 + 3 + 6));
    std::size_t at = 0;
    for (Numbers* inputs : {&gmm.alphas, &gmm.means, &gmm.icf})
      for (double& input : *inputs) {
        expect_near(result.jacobian[at], difference(input, [&] { return plain_gmm(gmm, sign); }), 1e-7,
                    std::to_string(at));
        ++at;
      }
  }
}

/// Matrix of the turn about an axis by its length, as the sum of its power series.
std::array<double, 9> turn(const double* axis) {
  const std::array<double, 9> generator = {0, -axis[2], axis[1], axis[2], 0, -axis[0], -axis[1], axis[0], 0};
  std::array<double, 9> sum = {1, 0, 0, 0, 1, 0, 0, 0, 1}, term = sum;
  for (int n = 1; n < 30; ++n) {
    std::array<double, 9> next{};
    for (std::size_t i = 0; i < 9; ++i)
      for (std::size_t k = 0; k < 3; ++k) next[i] += term[i / 3 * 3 + k] * generator[k * 3 + i % 3] / n;
    term = next;
    for (std::size_t i = 0; i < 9; ++i) sum[i] += term[i];
  }
  return sum;
}

Point turned(const double* axis, const Point& x) {
  const auto matrix = turn(axis);
  Point y{};
  for (std::size_t i = 0; i < 9; ++i) y[i / 3] += matrix[i] * x[i % 3];
  return y;
}

std::array<double, 3> plain_ba(const Ba& ba, std::size_t i) {
  const double* c = &ba.cameras[11 * static_cast<std::size_t>(ba.camera_of[i])];
  const double* x = &ba.points[3 * static_cast<std::size_t>(ba.point_of[i])];
  const Point seen = turned(c, {x[0] - c[3], x[1] - c[4], x[2] - c[5]});
  const double w = ba.weights[i], u = seen[0] / seen[2], v = seen[1] / seen[2], r = u * u + v * v;
  const double scale = c[6] * (1 + c[9] * r + c[10] * r * r);
  return {w * (scale * u + c[7] - ba.features[2 * i]), w * (scale * v + c[8] - ba.features[2 * i + 1]), 1 - w * w};
}

TEST(Adbench, BundleAdjustmentAndItsSparseJacobian) {
  Ba ba = read_ba(made("ba1_n3_m5_p11.txt", {}));
  for (std::size_t k = 0; k < ba.cameras.size(); ++k) ba.cameras[k] *= 1 + 0.01 * static_cast<double>(k);
  for (std::size_t k = 0; k < ba.points.size(); ++k) ba.points[k] += 0.1 * static_cast<double>(k);
  for (std::size_t k = 0; k < ba.weights.size(); ++k) ba.weights[k] += 0.1 * static_cast<double>(k);
  for (std::size_t k = 0; k < 3; ++k) ba.cameras[k] = 0;  // a camera that is not turned
  const Result result = run(ba);
  const SparseJacobian j = structure_of(ba);
  ASSERT_EQ(j.rows, 33);
  ASSERT_EQ(j.columns, 11 * 3 + 3 * 5 + 11);
  ASSERT_EQ(j.row_starts.size(), 34u);
  ASSERT_EQ(j.column_of.size(), 31u * 11);
  ASSERT_EQ(result.jacobian.size(), 31u * 11);
  const auto input = [&](std::size_t column) -> double& {
    if (column < 33) return ba.cameras[column];
    return column < 48 ? ba.points[column - 33] : ba.weights[column - 48];
  };
  for (std::size_t row = 0; row < 33; ++row) {
    const std::size_t i = row < 22 ? row / 2 : row - 22, side = row < 22 ? row % 2 : 2;
    expect_near(result.objective[row], plain_ba(ba, i)[side], 1e-12, "objective");
    Numbers dense(59);
    for (auto at = static_cast<std::size_t>(j.row_starts[row]); at < static_cast<std::size_t>(j.row_starts[row + 1]);
         ++at)
      dense[static_cast<std::size_t>(j.column_of[at])] = result.jacobian[at];
    for (std::size_t column = 0; column < 59; ++column)
      expect_near(dense[column], difference(input(column), [&] { return plain_ba(ba, i)[side]; }), 1e-6,
                  std::to_string(row) + ", " + std::to_string(column));
  }
}

Point placed(const double* matrix, const Point& x) {
  Point y;
  for (std::size_t i = 0; i < 3; ++i)
    y[i] = matrix[4 * i] * x[0] + matrix[4 * i + 1] * x[1] + matrix[4 * i + 2] * x[2] + matrix[4 * i + 3];
  return y;
}

/// Takes the vertex through its bones one by one, from the tip to the wrist, without products of matrices.
Point plain_vertex(const Hand& hand, std::size_t v) {
  const auto& theta = hand.theta;
  const auto bones = static_cast<std::size_t>(hand.bones());
  Point skin{};
  for (std::size_t bone = 0; bone < bones; ++bone) {
    Point x = placed(&hand.inverse_absolutes[12 * bone],
                     {hand.base_positions[3 * v], hand.base_positions[3 * v + 1], hand.base_positions[3 * v + 2]});
    for (int up = static_cast<int>(bone); up >= 0; up = hand.parents[static_cast<std::size_t>(up)]) {
      const auto at = static_cast<std::size_t>(up);
      const std::size_t of_finger = 6 + (at - 2) / 4 * 4, joint = (at - 2) % 4;
      if (at >= 2 && at < 22 && joint < 3) {
        const double about_x[] = {theta[of_finger + (joint == 0 ? 0 : joint + 1)], 0, 0};
        const double about_z[] = {0, 0, joint == 0 ? theta[of_finger + 1] : 0};
        x = turned(about_z, turned(about_x, x));
      }
      x = placed(&hand.base_relatives[12 * at], x);
    }
    for (std::size_t k = 0; k < 3; ++k) skin[k] += hand.weights[v * bones + bone] * x[k];
  }
  if (hand.mirrored) skin[0] = -skin[0];
  skin = turned(theta.data(), skin);
  for (std::size_t k = 0; k < 3; ++k) skin[k] += theta[3 + k];
  return skin;
}

Point plain_error(const Hand& hand, std::size_t i) {
  const auto target = static_cast<std::size_t>(hand.correspondences[i]);
  Point place{};
  if (!hand.complicated()) place = plain_vertex(hand, target);
  for (std::size_t corner = 0; hand.complicated() && corner < 3; ++corner) {
    const double u = hand.us[2 * i], v = hand.us[2 * i + 1], shares[] = {u, v, 1 - u - v};
    const Point x = plain_vertex(hand, static_cast<std::size_t>(hand.triangles[3 * target + corner]));
    for (std::size_t k = 0; k < 3; ++k) place[k] += shares[corner] * x[k];
  }
  for (std::size_t k = 0; k < 3; ++k) place[k] = hand.points[3 * i + k] - place[k];
  return place;
}

void expect_hand(Hand hand) {
  const Result result = run(hand);
  const std::size_t rows = hand.points.size();
  const std::size_t first = hand.complicated() ? 2 : 0, columns = 26 + first;
  ASSERT_EQ(result.objective.size(), rows);
  ASSERT_EQ(result.jacobian.size(), rows * columns);
  for (std::size_t row = 0; row < rows; ++row) {
    const auto error = [&] { return plain_error(hand, row / 3)[row % 3]; };
    expect_near(result.objective[row], error(), 1e-12, "objective");
    for (std::size_t column = 0; column < columns; ++column) {
      double& input = column < first ? hand.us[row / 3 * 2 + column] : hand.theta[column - first];
      expect_near(result.jacobian[row * columns + column], difference(input, error), 1e-7,
                  std::to_string(row) + ", " + std::to_string(column));
    }
  }
}

TEST(Adbench, Hand) {
  Hand hand = read_hand(made("hand1_t26_c4.txt", {.vertices = 6}), false);
  EXPECT_EQ(hand.bone_names.at(1), "thumb1");
  expect_hand(hand);
  hand.mirrored = true;
  expect_hand(hand);
}

TEST(Adbench, HandWithPointsInTriangles) {
  expect_hand(read_hand(made("hand1_t26_c4.txt", {.vertices = 6, .complicated = true}), true));
}

/// Layer by layer for one bit after the other: cells are diagonal, so that bits meet in the loss only.
double plain_lstm(const Lstm& net) {
  const auto l = static_cast<std::size_t>(net.l), c = static_cast<std::size_t>(net.c),
             b = static_cast<std::size_t>(net.b);
  std::vector<Numbers> predicted(c - 1, Numbers(b));
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  for (std::size_t i = 0; i < b; ++i) {
    Numbers state = net.state;
    for (std::size_t t = 0; t + 1 < c; ++t) {
      double in = net.sequence[t * b + i] * net.extra[i];
      for (std::size_t layer = 0; layer < l; ++layer) {
        double &hidden = state[2 * layer * b + i], &cell = state[(2 * layer + 1) * b + i];
        const auto gate = [&](std::size_t of, double x) {
          return x * net.main[(8 * layer + of) * b + i] + net.main[(8 * layer + 4 + of) * b + i];
        };
        cell = cell * sigmoid(gate(0, in)) + sigmoid(gate(1, hidden)) * std::tanh(gate(3, hidden));
        in = hidden = sigmoid(gate(2, in)) * std::tanh(cell);
      }
      predicted[t][i] = in * net.extra[b + i] + net.extra[2 * b + i];
    }
  }
  double sum = 0;
  for (std::size_t t = 0; t + 1 < c; ++t) {
    double exponentials = 2;
    for (double y : predicted[t]) exponentials += std::exp(y);
    for (std::size_t i = 0; i < b; ++i)
      sum += net.sequence[(t + 1) * b + i] * (predicted[t][i] - std::log(exponentials));
  }
  return -sum / static_cast<double>((c - 1) * b);
}

TEST(Adbench, LongShortTermMemory) {
  Lstm lstm = read_lstm(made("lstm_l2_c6.txt", {}));
  EXPECT_EQ(lstm.b, 14);
  const Result result = run(lstm);
  expect_near(result.objective.at(0), plain_lstm(lstm), 1e-12, "objective");
  ASSERT_EQ(result.jacobian.size(), 2u * 8 * 14 + 3 * 14);
  std::size_t at = 0;
  for (Numbers* inputs : {&lstm.main, &lstm.extra})
    for (double& input : *inputs) {
      expect_near(result.jacobian[at], difference(input, [&] { return plain_lstm(lstm); }), 1e-8, std::to_string(at));
      ++at;
    }
}

}  // namespace
}  // namespace adbench

#include "tests/programs/primal_run.h"
#include "tools/programs/programs.h"

#include <cmath>
#include <complex>

namespace loopgrad::programs {
namespace {

using std::complex;

/// The series with coefficients from their definitions, and the expansion; `far` counts uses of the latter.
complex<double> faddeeva(complex<double> z, int& far) {
  const complex<double> i(0, 1);
  if (std::abs(z) >= 6) {
    ++far;
    return i * z *
           (0.5124242247547685 / (z * z - 0.2752551286084110) + 0.0517653587929878 / (z * z - 2.724744871391589));
  }
  const double pi = std::acos(-1), t = 12;
  const complex<double> power = std::exp(i * t * z);
  complex<double> w = i * (1.0 - power) / (t * z);
  for (int n = 1; n <= 10; ++n) {
    const double a = 2 * std::sqrt(pi) / t * std::exp(-n * n * pi * pi / (t * t));
    w += i * t * t * z / std::sqrt(pi) * a * (std::pow(-1, n) * power - 1.0) / (n * n * pi * pi - t * t * z * z);
  }
  return w;
}

TEST(RsBench, IsThatOfPlainCode) {
  const std::size_t lookups = 19, most = 4, max_poles = 13, max_windows = 4;
  const PrimalRun run(
      rsbench(),
      {{"lookups", 19}, {"nuclides", 6}, {"most", 4}, {"max_poles", 13}, {"max_windows", 4}, {"in_window", 4}}, 4);
  const auto poles = run.input("poles"), l = run.input("l_value"), windows = run.input("windows"),
             start = run.input("window_start"), end = run.input("window_end"), n_windows = run.input("n_windows"),
             k0rs = run.input("pseudo_k0rs"), count = run.input("num_nucs"), mats = run.input("mats"),
             concs = run.input("concs"), energy = run.input("energy"), material = run.input("material");
  std::vector<double> expected(lookups * 4, 0.0);
  int far = 0, all = 0;
  for (std::size_t event = 0; event < lookups; ++event) {
    const double e = energy[event];
    for (std::size_t i = 0; i < static_cast<std::size_t>(count[static_cast<std::size_t>(material[event])]); ++i) {
      const std::size_t entry = static_cast<std::size_t>(material[event]) * most + i;
      const auto nuclide = static_cast<std::size_t>(mats[entry]);
      const std::size_t w = nuclide * max_windows + static_cast<std::size_t>(std::floor(e * n_windows[nuclide]));
      double sigma[3] = {e * windows[w * 3], e * windows[w * 3 + 1], e * windows[w * 3 + 2]};
      for (auto j = static_cast<std::size_t>(start[w]); j < static_cast<std::size_t>(end[w]); ++j, ++all) {
        const double* pole = &poles[(nuclide * max_poles + j) * 8];
        const auto number = [&](int k) { return complex<double>(pole[2 * k], pole[2 * k + 1]); };
        const complex<double> f = faddeeva((e - number(0)) / 2.0, far);
        const auto momentum = static_cast<std::size_t>(l[nuclide * max_poles + j]);
        double phi = k0rs[nuclide * 4 + momentum] * std::sqrt(e);
        if (momentum == 1) phi -= std::atan(phi);
        if (momentum == 2) phi -= std::atan(3 * phi / (3 - phi * phi));
        if (momentum == 3) phi -= std::atan(phi * (15 - phi * phi) / (15 - 6 * phi * phi));
        sigma[0] += (number(1) * f * std::polar(1.0, -2 * phi)).real();
        sigma[1] += (number(2) * f).real();
        sigma[2] += (number(3) * f).real();
      }
      for (std::size_t k = 0; k < 3; ++k) expected[event * 4 + k] += concs[entry] * sigma[k];
      expected[event * 4 + 3] += concs[entry] * (sigma[0] - sigma[1]);
    }
  }
  EXPECT_GT(far, 0);
  EXPECT_LT(far, all);
  expect_near(run.output("macro_xs"), expected, 2e-6);  // coefficients of the program have seven digits
}

}  // namespace
}  // namespace loopgrad::programs

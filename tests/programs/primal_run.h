// A built-in program's own run on its own inputs, beside which a test has a plain C++ version.
#pragma once

#include "tools/cli/directions.h"

#include <gtest/gtest.h>

namespace loopgrad::programs {

/// Inputs as numbers, and outputs of a checked run in f64.
class PrimalRun {
 public:
  PrimalRun(const ProgramEntry& entry, const Sizes& sizes, std::uint64_t seed)
      : problem_(cli::make_problem(entry, sizes, seed)), buffers_({problem_.program}, sizes, problem_.inputs, true) {
    compile(problem_.program, {.target = Target::Interpreter, .checked = true, .f64 = true})
        .run(buffers_.arguments(0), sizes);
  }
  /// An input, or the initial contents of an in-out.
  std::vector<double> input(const std::string& name) const { return numbers(problem_.inputs.at(name)); }
  std::vector<double> output(const std::string& name) const { return numbers(buffers_.at(name)); }

 private:
  static std::vector<double> numbers(const HostArray& array) {
    std::vector<double> result;
    for (std::int64_t i = 0; i < array.size(); ++i) result.push_back(array.get(i));
    return result;
  }
  cli::Problem problem_;
  cli::Buffers buffers_;
};

/// Both are the same up to rounding, and not all zero.
inline void expect_near(const std::vector<double>& actual, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  double largest = 0;
  for (double value : expected) largest = std::max(largest, std::abs(value));
  EXPECT_GT(largest, 0);
  for (std::size_t i = 0; i < actual.size(); ++i) ASSERT_NEAR(actual[i], expected[i], tolerance * largest) << i;
}

}  // namespace loopgrad::programs

// The sum of something over the iterations of a loop, from a few of them.
//
// What a body costs is, as a function of the iterator, made of pieces of polynomials: triangles, bands, borders. Where
// pieces end is known from the comparisons in the body for most of them. A piece is evaluated at four iterations, which
// give a cubic, and at three more, which the cubic has to foretell; where it does not, the piece is cut in two. What is
// no such function, as it follows from data, is sampled: the mean of iterations at equal distances.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

namespace loopgrad::cli {

/// Value: `add(const Value&, double times)`, and `differs_from(const Value&)`, which allows for rounding.
template <class Value, class F>
class LoopSum {
 public:
  /// `at(i)` is the value of an iteration. `pieces`: how many may be looked at before so many `samples` are taken
  /// instead.
  LoopSum(F at, int pieces, std::int64_t samples = 64) : at_(std::move(at)), pieces_left_(pieces), samples_(samples) {}

  /// Over lower..upper. `ends`: where pieces may begin.
  Value of(std::int64_t lower, std::int64_t upper, const std::set<std::int64_t>& ends) {
    Value sum;
    std::int64_t begin = lower;
    for (auto end = ends.upper_bound(lower); end != ends.end() && *end < upper; ++end) {
      add_piece(begin, *end, sum);
      begin = *end;
    }
    add_piece(begin, upper, sum);
    if (is_exact_) return sum;
    sum = Value();
    const std::int64_t count = std::min(samples_, upper - lower);
    const double step = static_cast<double>(upper - lower) / static_cast<double>(count);
    for (std::int64_t k = 0; k < count; ++k)
      sum.add(at_(lower + static_cast<std::int64_t>((static_cast<double>(k) + 0.5) * step)), step);
    return sum;
  }

  /// Whether nothing had to be sampled.
  bool is_exact() const { return is_exact_; }

 private:
  static constexpr std::int64_t few = 6;

  void add_piece(std::int64_t begin, std::int64_t end, Value& sum) {
    if (!is_exact_ || end <= begin) return;
    if (end - begin <= few) {
      for (std::int64_t i = begin; i < end; ++i) sum.add(at_(i), 1);
      return;
    }
    if (pieces_left_-- <= 0) {
      is_exact_ = false;
      return;
    }
    const std::int64_t n = end - begin;
    const std::array<std::int64_t, 4> nodes = {begin, begin + n / 3, begin + 2 * n / 3, end - 1};
    std::array<Value, 4> values;
    for (std::size_t k = 0; k < 4; ++k) values[k] = at_(nodes[k]);
    for (const std::int64_t check : {begin + 1, begin + n / 2, end - 2}) {
      Value foretold;
      for (std::size_t k = 0; k < 4; ++k) foretold.add(values[k], weight(nodes, k, check));
      if (!foretold.differs_from(at_(check))) continue;
      add_piece(begin, begin + n / 2, sum);
      add_piece(begin + n / 2, end, sum);
      return;
    }
    const std::array<double, 4> weights = sums_of_weights(nodes, n);
    for (std::size_t k = 0; k < 4; ++k) sum.add(values[k], weights[k]);
  }

  /// Of node k's value in the cubic's value at `x`.
  static double weight(const std::array<std::int64_t, 4>& nodes, std::size_t k, std::int64_t x) {
    double w = 1;
    for (std::size_t m = 0; m < 4; ++m)
      if (m != k) w *= static_cast<double>(x - nodes[m]) / static_cast<double>(nodes[k] - nodes[m]);
    return w;
  }

  /// The same for the sum of the cubic over all n iterations from nodes[0] on, in terms of x = (i - nodes[0])/(n - 1).
  static std::array<double, 4> sums_of_weights(const std::array<std::int64_t, 4>& nodes, std::int64_t n) {
    const double last = static_cast<double>(n - 1), count = static_cast<double>(n);
    const std::array<double, 4> powers = {count, count / 2, count * (2 * last + 1) / (6 * last),
                                          count * count / (4 * last)};
    std::array<double, 4> weights;
    for (std::size_t k = 0; k < 4; ++k) {
      std::array<double, 4> polynomial = {1, 0, 0, 0};
      double denominator = 1;
      const double own = static_cast<double>(nodes[k] - nodes[0]) / last;
      for (std::size_t m = 0; m < 4; ++m) {
        if (m == k) continue;
        const double root = static_cast<double>(nodes[m] - nodes[0]) / last;
        for (std::size_t p = 3; p > 0; --p) polynomial[p] = polynomial[p - 1] - root * polynomial[p];
        polynomial[0] *= -root;
        denominator *= own - root;
      }
      weights[k] = 0;
      for (std::size_t p = 0; p < 4; ++p) weights[k] += polynomial[p] * powers[p] / denominator;
    }
    return weights;
  }

  F at_;
  int pieces_left_;
  std::int64_t samples_;
  bool is_exact_ = true;
};

}  // namespace loopgrad::cli

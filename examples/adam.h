// The optimiser of the examples.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

namespace examples {

/// Adam (Kingma and Ba, 2015) for the elements of one array.
template <class T>
class Adam {
 public:
  Adam(std::size_t size, T rate) : rate_(rate), mean_(size), square_(size) {}

  /// One step against the gradient.
  void step(std::vector<T>& values, const std::vector<T>& gradient) {
    ++steps_;
    const T rate = rate_ * std::sqrt(1 - std::pow(T(0.999), steps_)) / (1 - std::pow(T(0.9), steps_));
    for (std::size_t i = 0; i < values.size(); ++i) {
      mean_[i] += T(0.1) * (gradient[i] - mean_[i]);
      square_[i] += T(0.001) * (gradient[i] * gradient[i] - square_[i]);
      values[i] -= rate * mean_[i] / (std::sqrt(square_[i]) + T(1e-8));
    }
  }

 private:
  T rate_, steps_ = 0;
  std::vector<T> mean_, square_;
};

}  // namespace examples

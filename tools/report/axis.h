// Logarithmic axes of drawings.
#pragma once

#include <string>
#include <vector>

namespace loopgrad::cli::page {

/// Powers of ten, `first` to `last`, along `length` from `start`.
struct Axis {
  double first = 0, last = 1, start = 0, length = 1;
  double at(double value) const;
};

/// As far as the values go, which are above zero.
Axis axis_over(const std::vector<double>& values, double start, double length);

/// Where both are in a drawing.
struct Frame {
  double width, height, left, right, top, bottom;  // margins but for the first two
  Axis x(const std::vector<double>& values) const { return axis_over(values, left, width - left - right); }
  Axis y(const std::vector<double>& values) const { return axis_over(values, height - bottom, top + bottom - height); }
};

/// Lines and numbers, of the class "axis".
std::string grid(const Frame& frame, const Axis& x, const Axis& y);
/// What the axes are.
std::string axis_titles(const Frame& frame, const std::string& x, const std::string& y);

}  // namespace loopgrad::cli::page

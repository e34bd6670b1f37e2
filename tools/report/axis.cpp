#include "tools/report/axis.h"

#include "tools/report/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace loopgrad::cli::page {
namespace {

std::string power_of_ten(double exponent) {
  const auto e = static_cast<int>(exponent);
  return e >= -2 && e <= 3 ? fmt::format("{:g}", std::pow(10, e)) : fmt::format("1e{}", e);
}

}  // namespace

double Axis::at(double value) const { return start + (std::log10(value) - first) / (last - first) * length; }

Axis axis_over(const std::vector<double>& values, double start, double length) {
  if (values.empty()) return {0, 1, start, length};
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  const double first = std::floor(std::log10(*least)), last = std::ceil(std::log10(*most));
  return {first, std::max(last, first + 1), start, length};
}

std::string grid(const Frame& frame, const Axis& x, const Axis& y) {
  std::string out;
  const double bottom = frame.height - frame.bottom, right = frame.width - frame.right;
  for (double e = x.first; e <= x.last; ++e) {
    const double at = x.at(std::pow(10, e));
    out += fmt::format("<line class=\"axis\" x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2}\"/>", at, frame.top,
                       bottom);
    out +=
        fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", at, bottom + 16, power_of_ten(e));
  }
  for (double e = y.first; e <= y.last; ++e) {
    const double at = y.at(std::pow(10, e));
    out += fmt::format("<line class=\"axis\" x1=\"{1}\" y1=\"{0:.1f}\" x2=\"{2}\" y2=\"{0:.1f}\"/>", at, frame.left,
                       right);
    out += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", frame.left - 6, at + 4,
                       power_of_ten(e));
  }
  return out;
}

std::string axis_titles(const Frame& frame, const std::string& x, const std::string& y) {
  return fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                     (frame.left + frame.width - frame.right) / 2, frame.height - 6, escaped(x)) +
         fmt::format("<text transform=\"translate(12 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
                     (frame.top + frame.height - frame.bottom) / 2, escaped(y));
}

}  // namespace loopgrad::cli::page

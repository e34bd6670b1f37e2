#include "tools/report/roofline.h"

#include "tools/report/axis.h"
#include "tools/report/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace loopgrad::cli::page {
namespace {

constexpr Frame frame = {420, 320, 52, 12, 12, 40};
constexpr double kWorthANumber = 0.02;  // of the slowest part's time

}  // namespace

std::string roofline(const std::vector<RooflinePoint>& points, double bytes_per_second, double flops_per_second) {
  std::vector<RooflinePoint> shown;
  for (const RooflinePoint& p : points)
    if (p.flops > 0 && p.bytes > 0 && p.microseconds > 0) shown.push_back(p);
  if (shown.empty() || !(bytes_per_second > 0) || !(flops_per_second > 0)) return {};
  const double roof = flops_per_second / 1e9, slope = bytes_per_second / 1e9, ridge = roof / slope;
  std::vector<double> xs = {ridge / 3, ridge * 3}, ys = {roof};
  double slowest = 0;
  for (const RooflinePoint& p : shown) {
    xs.push_back(p.flops / p.bytes);
    ys.push_back(std::max(1e-3, p.flops / p.microseconds / 1e3));
    slowest = std::max(slowest, p.microseconds);
  }
  const Axis x = frame.x(xs), y = frame.y(ys);
  std::string out = fmt::format(
      "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"Roofline: GFLOP/s over operations per byte\">\n",
      frame.width, frame.height);
  out += grid(frame, x, y) + axis_titles(frame, "operations for each byte", "GFLOP/s");
  const double low = std::max(std::pow(10, x.first), std::pow(10, y.first) / slope);
  out += fmt::format("<polyline class=\"roof\" points=\"{:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f}\"/>\n", x.at(low),
                     y.at(low * slope), x.at(ridge), y.at(roof), frame.width - frame.right, y.at(roof));
  for (const RooflinePoint& p : shown) {
    const double cx = x.at(p.flops / p.bytes), cy = y.at(std::max(1e-3, p.flops / p.microseconds / 1e3));
    out += fmt::format("<circle class=\"dot-{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\"><title>{}</title></circle>",
                       escaped(p.kind), cx, cy, 4 + 6 * std::sqrt(p.microseconds / slowest), escaped(p.title));
    if (p.microseconds < kWorthANumber * slowest) continue;
    out += fmt::format("<text class=\"number\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n", cx,
                       cy - 13, escaped(p.label));
  }
  return out + "</svg>\n";
}

}  // namespace loopgrad::cli::page

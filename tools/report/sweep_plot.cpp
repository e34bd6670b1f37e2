#include "tools/report/sweep_plot.h"

#include "tools/report/axis.h"
#include "tools/report/html.h"

#include <fmt/format.h>

#include <map>

namespace loopgrad::cli::page {
namespace {

using Json = nlohmann::ordered_json;

constexpr Frame frame = {560, 400, 56, 16, 56, 44};

constexpr const char* style = R"(<style>
  :root { --paper: #ffffff; --ink: #1c2127; --soft: #59636e; --line: #d5dae0; --a: #b4510b; --b: #7a3fa0; --c: #2468b2; }
  @media (prefers-color-scheme: dark) {
    :root { --paper: #14171b; --ink: #e4e8ec; --soft: #9aa5b1; --line: #353c45; --a: #f0a060; --b: #c79be8; --c: #7db3f0; }
  }
  text { font: 13px system-ui, sans-serif; fill: var(--soft); }
  .paper { fill: var(--paper); } .title { fill: var(--ink); font-size: 15px; } .axis { stroke: var(--line); }
  .ink { stroke: var(--ink); } polyline { fill: none; stroke-width: 2; } .backward { stroke-dasharray: 6 4; }
  .naive-tape { stroke: var(--a); } .atomic { stroke: var(--b); } .restructured { stroke: var(--c); }
  circle.naive-tape { fill: var(--a); } circle.atomic { fill: var(--b); } circle.restructured { fill: var(--c); }
</style>
)";

/// The milliseconds of each variant, forward and backward, over the size; where it ran.
using Curve = std::vector<std::pair<double, double>>;
using Curves = std::map<std::string, std::pair<Curve, Curve>>;

Curves curves_of(const Json& sweep) {
  Curves curves;
  const std::string size = sweep["size"].get<std::string>();
  for (const Json& point : sweep["points"]) {
    const double at = point["sizes"][size].get<double>();
    for (const Json& variant : point["variants"]) {
      if (!variant["forward_ms"].is_number()) continue;
      auto& [forward, backward] = curves[variant["name"].get<std::string>()];
      if (const double ms = variant["forward_ms"].get<double>(); ms > 0) forward.emplace_back(at, ms);
      if (const double ms = variant["backward_ms"].get<double>(); ms > 0) backward.emplace_back(at, ms);
    }
  }
  return curves;
}

std::string drawn(const Curve& curve, const std::string& variant, const char* kind, const Axis& x, const Axis& y) {
  std::string points, dots;
  for (const auto& [size, ms] : curve) {
    points += fmt::format("{:.1f},{:.1f} ", x.at(size), y.at(ms));
    dots += fmt::format(
        "<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"><title>{} {}: {:.4g} ms at {:g}</title></circle>\n",
        escaped(variant), x.at(size), y.at(ms), escaped(variant), kind, ms, size);
  }
  return fmt::format("<polyline class=\"{} {}\" points=\"{}\"/>\n", escaped(variant), kind, points) + dots;
}

}  // namespace

std::string sweep_plot(const Json& sweep) {
  const Curves curves = curves_of(sweep);
  std::vector<double> xs, ys;
  for (const auto& [variant, pair] : curves)
    for (const Curve* curve : {&pair.first, &pair.second})
      for (const auto& [size, ms] : *curve) {
        xs.push_back(size);
        ys.push_back(ms);
      }
  const Axis x = frame.x(xs), y = frame.y(ys);
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" role=\"img\">\n",
      frame.width, frame.height);
  out += style;
  out += fmt::format("<rect class=\"paper\" width=\"{}\" height=\"{}\"/>\n", frame.width, frame.height);
  out += fmt::format("<text class=\"title\" x=\"{}\" y=\"20\">{}: milliseconds over {}</text>\n", frame.left,
                     escaped(sweep["program"].get<std::string>()), escaped(sweep["size"].get<std::string>()));
  out += grid(frame, x, y) + axis_titles(frame, sweep["size"].get<std::string>(), "ms");
  double place = frame.left;
  for (const auto& [variant, pair] : curves) {
    out += drawn(pair.first, variant, "forward", x, y) + drawn(pair.second, variant, "backward", x, y);
    out += fmt::format("<polyline class=\"{0}\" points=\"{1},40 {2},40\"/><text x=\"{3}\" y=\"44\">{0}</text>\n",
                       escaped(variant), place, place + 22, place + 27);
    place += 45 + 8 * static_cast<double>(variant.size());
  }
  out += fmt::format(
      "<polyline class=\"backward ink\" points=\"{0},40 {1},40\"/><text x=\"{2}\" "
      "y=\"44\">backward</text>\n",
      place, place + 22, place + 27);
  return out + "</svg>\n";
}

}  // namespace loopgrad::cli::page

// A roofline: what parts of a program reach, over how many operations they have for each byte.
#pragma once

#include <string>
#include <vector>

namespace loopgrad::cli::page {

struct RooflinePoint {
  std::string label;            // a short text beside the point
  std::string title;            // shown when it is pointed at
  std::string kind;             // "forward" or "backward"
  double flops = 0, bytes = 0;  // of all runs
  double microseconds = 0;
};

/// SVG. Points without operations, bytes or time are left out; empty where none is left. The roofs are a copy's rate
/// and that of fused multiply-adds.
std::string roofline(const std::vector<RooflinePoint>& points, double bytes_per_second, double flops_per_second);

}  // namespace loopgrad::cli::page

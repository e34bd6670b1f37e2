#include "tools/cli/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace loopgrad::cli {
namespace {

constexpr double kLargest = 1e12;
constexpr int kMostPoints = 64;

/// "1000" or "1e3".
double number(const std::string& text, const std::string& sweep) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 1 || value > kLargest ||
      value != std::floor(value))
    bad_input(fmt::format("'{}' in --sweep {} is no whole number from 1 to 1e12", text, sweep),
              "write for example n=1e3..1e6");
  return value;
}

}  // namespace

Sweep parse_sweep(const std::string& text, const ProgramEntry& program) {
  const std::size_t equals = text.find('='), dots = text.find(".."), colon = text.find(':');
  if (equals == std::string::npos || dots == std::string::npos || dots < equals)
    bad_input(fmt::format("'{}' is no sweep", text), "write for example --sweep n=1e3..1e6");
  Sweep sweep{text.substr(0, equals), {}};
  std::vector<std::string> names;
  for (const auto& size : program.sizes) names.push_back(size.first);
  if (!program.sizes.contains(sweep.size))
    bad_input(fmt::format("program '{}' has no size '{}'", program.name, sweep.size), suggest(sweep.size, names));
  const double first = number(text.substr(equals + 1, dots - equals - 1), text);
  const double last = number(text.substr(dots + 2, colon == std::string::npos ? colon : colon - dots - 2), text);
  if (last < first) bad_input(fmt::format("--sweep {} goes down", text), "write the smaller value first");
  double points = std::ceil(2 * std::log10(last / first)) + 1;
  if (colon != std::string::npos) points = number(text.substr(colon + 1), text);
  if (points > kMostPoints) bad_input(fmt::format("--sweep {} has {} points, more than {}", text, points, kMostPoints));
  for (double k = 0; k < points; ++k) {
    const double share = points > 1 ? k / (points - 1) : 0;
    sweep.values.push_back(static_cast<std::int64_t>(std::llround(first * std::pow(last / first, share))));
  }
  sweep.values.erase(std::unique(sweep.values.begin(), sweep.values.end()), sweep.values.end());
  return sweep;
}

}  // namespace loopgrad::cli

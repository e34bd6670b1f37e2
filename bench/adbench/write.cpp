#include "bench/adbench/write.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <span>
#include <stdexcept>

namespace adbench {
namespace {

void write(const std::string& path, const std::string& text) {
  std::ofstream out(path);
  out << text;
  if (!out.flush()) throw std::runtime_error("cannot write '" + path + "'");
}

/// All digits, with an exponent, as ADBench's reader of Jacobians expects them.
std::string column(std::span<const double> values) {
  std::string text;
  for (double value : values) text += fmt::format("{:.16e}\n", value);
  return text;
}

}  // namespace

void ResultFiles::write_times(double objective_seconds, double jacobian_seconds) const {
  write(path("times"), fmt::format("{:e}\n{:e}\n", objective_seconds, jacobian_seconds));
}

void ResultFiles::write_scalar(const Result& result) const {
  write(path("F"), column(result.objective));
  write(path("J"), column(result.jacobian));
}

void ResultFiles::write_bundle(const Result& result, const Ba& ba) const {
  const std::span errors(result.objective);
  const auto reprojections = static_cast<std::size_t>(2 * ba.p);
  write(path("F"), "Reprojection error:\n" + column(errors.first(reprojections)) + "Zach weight error:\n" +
                       column(errors.subspan(reprojections)));
  const SparseJacobian j = structure_of(ba);
  write(path("J"), fmt::format("{} {}\n{}\n{}\n{}\n{}\n{:.16e}\n", j.rows, j.columns, j.row_starts.size(),
                               fmt::join(j.row_starts, " "), j.column_of.size(), fmt::join(j.column_of, " "),
                               fmt::join(result.jacobian, " ")));
}

void ResultFiles::write_hand(const Result& result, const Hand& hand) const {
  write(path("F"), column(result.objective));
  const std::size_t columns = static_cast<std::size_t>(kThetas) + (hand.complicated() ? 2 : 0);
  std::string text;
  for (std::size_t at = 0; at < result.jacobian.size(); at += columns)
    text += fmt::format("{:.16e}\n", fmt::join(std::span(result.jacobian).subspan(at, columns), "\t"));
  write(path("J"), text);
}

}  // namespace adbench

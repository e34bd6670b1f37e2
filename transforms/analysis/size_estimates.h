// Values of integer expressions by estimate, where a plan depends on how large things are.
#pragma once

#include "dsl/ir/program.h"

#include <map>
#include <optional>

namespace loopgrad::transforms {

/// A size that nobody has stated, and the iterations of a loop whose bounds are data.
inline constexpr double assumed_size = 1024, assumed_trips = 16;

/// Stated sizes, by name.
using SizeEstimates = std::map<std::string, std::int64_t>;

class SizeEstimator {
 public:
  /// The references must outlive the object.
  SizeEstimator(const ir::Program& program, const SizeEstimates& sizes) : program_(program), sizes_(sizes) {}

  /// `iterators`: values to take for them, usually the middle of their ranges.
  double value_of(const ir::Expr& e, const std::map<ir::Symbol, double>& iterators);
  /// Of a loop; rows of a CSR structure have the average length. An iterator over a row, or a part of one, is to have
  /// its place in the row.
  double trips_of(const ir::Expr& lower, const ir::Expr& upper, const std::map<ir::Symbol, double>& iterators);

  /// "n = 1048576, k = 64 (assumed)": the sizes that were used so far.
  std::string basis() const;
  /// Something was not known.
  bool assumed() const { return assumed_; }
  /// Nobody has stated one of the sizes that were used; what is read from data does not count.
  bool assumed_sizes() const;

 private:
  std::optional<bool> holds_by_estimate(const ir::Expr& condition, const std::map<ir::Symbol, double>& iterators);
  const ir::Fact* rows_of(const ir::Expr& bound) const;
  double average_row(const ir::Fact& csr, const std::map<ir::Symbol, double>& iterators);
  const ir::Fact* longest_row_of(const ir::Symbol& size) const;
  double longest_row(const ir::Fact& csr, const std::map<ir::Symbol, double>& iterators);

  const ir::Program& program_;
  const SizeEstimates& sizes_;
  std::map<std::string, double> used_;
  bool assumed_ = false;
};

}  // namespace loopgrad::transforms

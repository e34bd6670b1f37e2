// From named arguments to checked pointers: the same for every target.
#pragma once

#include "dsl/ir/program.h"

#include <loopgrad/arrays.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace loopgrad::backend {

/// Values of size symbols.
using SizeValues = std::map<ir::Symbol, std::int64_t>;

/// Evaluates an integer expression of sizes and constants. Throws UsageError(BadSize) on overflow.
std::int64_t evaluate(const ir::Expr& e, const SizeValues& sizes);

/// Everything a run needs, checked: one view per program array in the order of `program.arrays`.
struct Binding {
  SizeValues sizes;
  std::vector<View> arrays;
};

/// What binding asks of a program and no argument changes, and what it has found out about the last arguments: sizes
/// that follow from the same shapes are not solved for again. May be used by any threads at once.
class BindPlan {
 public:
  explicit BindPlan(const ir::Program& program);
  /// By positions in `program.arrays`.
  bool is_written(std::size_t array) const { return written_[array]; }
  bool may_alias(std::size_t a, std::size_t b) const { return aliases_.count({std::min(a, b), std::max(a, b)}) > 0; }
  /// The sizes that were remembered last, if that was for these shapes and given sizes.
  std::optional<SizeValues> known_sizes(const std::vector<View>& arrays, const Sizes& given) const;
  void remember(const std::vector<View>& arrays, const Sizes& given, const SizeValues& sizes) const;

 private:
  struct Last {
    std::vector<std::vector<std::int64_t>> shapes;
    Sizes given;
    SizeValues sizes;
  };
  std::vector<bool> written_;
  std::set<std::pair<std::size_t, std::size_t>> aliases_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Last> last_;
};

struct BindOptions {
  /// Arguments and sizes that the program does not declare are skipped instead of refused.
  bool ignore_unknown = false;
  /// Arrays of any float type are expected as f64 (the interpreter's f64 mode).
  bool all_f64 = false;
  /// Of the same program, where it is bound many times; null: made for this one.
  const BindPlan* plan = nullptr;
};

/// Solves for sizes from extents that are a size alone or affine with one unknown size left, checks the others, then
/// checks every argument: present, known, type, rank, extents, contiguous, no overlap with another one that is written
/// unless `may_alias` was stated. Throws UsageError naming program, array and the array's line; nothing has been
/// touched then. Arrays of role Tape must be among `arguments` like any other.
Binding bind(const ir::Program& program, const Arguments& arguments, const Sizes& sizes,
             const BindOptions& options = {});

/// The concrete shape of an array under `sizes`; throws UsageError(BadSize) when negative or overflowing.
std::vector<std::int64_t> shape_of(const ir::Array& array, const SizeValues& sizes);

}  // namespace loopgrad::backend

// From named arguments to checked pointers: the same for every target.
#pragma once

#include "dsl/ir/program.h"

#include <loopgrad/arrays.h>

#include <map>

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

struct BindOptions {
  /// Arguments and sizes that the program does not declare are skipped instead of refused.
  bool ignore_unknown = false;
  /// Arrays of any float type are expected as f64 (the interpreter's f64 mode).
  bool all_f64 = false;
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

// The generator of gradients with a direct-indexed tape.
#pragma once

#include "tape/gradient_program.h"

#include <set>

namespace loopgrad::tape {

struct DirectGradient {
  ir::Stmt forward, backward;
  std::vector<ir::Array> tape;    // role Tape, written by forward and read by backward
  std::vector<ir::Symbol> sizes;  // extra sizes, set by `sizing`
  ir::Program sizing;
  std::set<ir::Array> copied = {};                    // whose initial contents `forward` saves, all of them
  std::map<ir::Array, ir::Symbol> longest_rows = {};  // those of the extra sizes that are, by the pointer to the rows
};

/// Before -> after: `for i: y[i] = 0; for j: y[i] += x[i + j]*w[j]` gives the backward sweep
/// ```
///   for i reversed:
///     for j reversed:
///       d_x[i + j] += d_y[i]*w[j]
///       d_w[j] += d_y[i]*x[i + j]
/// ```
/// Every saved value has an index made of loop iterators, so the backward sweep may be reordered freely as far as its
/// own sums and dependences allow. Throws DifferentiationError where a loop's extent cannot be known (see
/// loop_extents.h).
DirectGradient direct_gradient(const Prepared& prepared, Report& report);

}  // namespace loopgrad::tape

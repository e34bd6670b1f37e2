// Locals of a nest that are the same in all iterations of some of the loops around them, computed apart from these.
//
//   for c in 0..channels:                       if 0 < channels:
//     for i in 0..n:                              for i in 0..n:
//       local i32 at                                local i32 at
//       at = i32(x[i])                   ->         at = i32(x[i])
//       y[c, at] += g[c, i]
//
// What crosses from one part of a nest to another is kept for all iterations (expand_locals.h). Of such a local the
// nest that is made here keeps n elements, not channels*n, and sums whose elements it chooses are sorted once, not for
// each channel.
#pragma once

#include "dsl/ir/program.h"

#include <set>
#include <vector>

namespace loopgrad::transforms {

/// Does all that decides about the locals, with the same iterators as the nest that they were found in: names are to be
/// made fresh.
struct InvariantNest {
  ir::Stmt nest;
  std::vector<ir::Array> locals;
};

/// For those of `locals` that do not depend on all of the loops around them, a nest for each set of loops that they do
/// depend on. `nest` is a part of the program. Leaves alone: what reads arrays that the nest changes, or that may alias
/// such; locals that depend on no loop at all.
std::vector<InvariantNest> invariant_nests(const ir::Program& program, const ir::Stmt& nest,
                                           const std::vector<ir::Array>& locals);

/// The loops around one of the nest's locals that do not decide about it, by their iterators.
std::set<ir::Symbol> loops_without_say(const ir::Program& program, const ir::Stmt& nest, const ir::Array& local);

}  // namespace loopgrad::transforms

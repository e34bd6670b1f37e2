// Loops that count the entries of a CSR row for themselves count them as they are numbered in all rows.
//
//   for t in 0..ptr[r + 1] - ptr[r]:            for t in ptr[r]..ptr[r + 1]:
//     y[ptr[r] + t] = x[ptr[r] + t]*t     ->      y[t] = x[t]*(t - ptr[r])
//
// Entries are then known to belong to one row, as those of loops that are written so.
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::ir {

/// Requires: nothing; scalars in bounds have been looked through (known_scalars.h). Guarantees: the same results; the
/// iterator has its name. Leaves alone loops in which no index is the number of an entry, pointers that are not inputs
/// with a CSR fact, and rows that change inside.
Program with_numbered_entries(const Program& program);

}  // namespace loopgrad::ir

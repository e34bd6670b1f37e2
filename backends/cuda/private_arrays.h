// Arrays of the block that are really arrays of its threads.
//
//   local f32 row[T, 8]                          (in each thread)  float row[8];
//   threads for t in 0..T:
//     for k in 0..8: row[t, k] = ...      ->     for k in 0..8: row[k] = ...
//   threads for t in 0..T:
//     for k in 0..8: ... row[t, k] ...           for k in 0..8: ... row[k] ...
//
// They need neither shared memory nor barriers, and live in registers where the loops over them are unrolled.
#pragma once

#include "dsl/ir/program.h"

#include <set>

namespace loopgrad::backend {

/// A kernel with the first dimension dropped from each local array that only single loops over the threads touch, at
/// the thread's number, and whose other extents are small constants. `found` receives the new arrays.
ir::Stmt with_private_arrays(const ir::Stmt& kernel, std::set<ir::Array>& found);

}  // namespace loopgrad::backend

// Arrays of the threads that are declared outside of the loops over them, as parts of one.
//
//   local f32 row[T, 8] (thread)                 (in each thread)  float row[8];
//   threads for t in 0..T:
//     for k in 0..8: row[t, k] = ...      ->     for k in 0..8: row[k] = ...
//   threads for t in 0..T:
//     for k in 0..8: ... row[t, k] ...           for k in 0..8: ... row[k] ...
//
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::backend {

/// A kernel inside of Grid loops with the first dimension, the thread's number, dropped from each of them.
ir::Stmt with_private_arrays(const ir::Stmt& kernel);

}  // namespace loopgrad::backend

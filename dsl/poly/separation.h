// Accesses that are apart in different iterations of a loop, seen from their text: most accesses of parallel loops are,
// and of products of sizes and iterators isl knows nothing.
//
//   x[i + n]              moves with i, whatever happens in the loop
//   x[start[r] + k]       moves with k where nothing in the loop writes start
//   x[i*w + j]            moves with i where j is less than w apart from any other j there: a digit of a position of
//                         which rows are w apart, and so for any product of sizes
#pragma once

#include "dsl/poly/model.h"

namespace loopgrad::poly {

/// Whether accesses `a` of statement `s` and `b` of statement `t`, to one array, surely touch different elements in
/// different iterations of the loop at `depth` around both. False where that is not seen.
bool are_separated(const Model& model, const Statement& s, const Access& a, const Statement& t, const Access& b,
                   std::size_t depth);

}  // namespace loopgrad::poly

// A sort of keys by loops, for a GPU.
#pragma once

#include "dsl/ir/stmt.h"

namespace loopgrad::transforms {

struct SortShares {
  std::int64_t tile = 32;    // neighbouring keys whose digits one thread counts
  std::int64_t group = 128;  // counts that one thread adds up
  /// Values of a digit. All counts of the tiles of a block should fit into its cache.
  std::int64_t radix = 64;
};

/// Code that sets sorted[0..count] to key[0..count] (i64, in 0..key_end) in ascending order and item[0..count] (i64) to
/// where each was; equal keys stay in their order. `count` and `key_end` are expressions of sizes.
///
/// A counting sort by digits, the least significant first (Knuth, The Art of Computer Programming 3, 5.2.5), as
/// parallel loops: each tile counts its digits, a scan in three levels turns counts into places, and each tile moves
/// its keys.
ir::Stmt counting_sort(const ir::Array& key, const ir::Array& sorted, const ir::Array& item, const ir::Expr& count,
                       const ir::Expr& key_end, const SortShares& shares, const SourceLocation& where);

}  // namespace loopgrad::transforms

// A sort of keys by loops, for a GPU.
#pragma once

#include "dsl/ir/stmt.h"

#include <functional>

namespace loopgrad::transforms {

struct SortShares {
  std::int64_t threads = 256;   // of a block
  std::int64_t keys = 8;        // that each of them sorts: a block has a tile of threads*keys
  std::int64_t values = 16;     // of the bits that a round of the tile's sort looks at; a power of two
  std::int64_t group = 16;      // threads whose counts one thread adds up
  std::int64_t most_bits = 10;  // of a digit
};

/// A sort can have fewer than that many keys.
inline constexpr std::int64_t most_sorted = std::int64_t{1} << 31;
/// What `key_end` may be at most.
inline constexpr std::int64_t most_key_end = std::int64_t{1} << 30;

/// How many binary digits numbers up to `most` need.
ir::Expr bits_of(const ir::Expr& most, std::int64_t most_bits);

/// What is sorted: a key, and something below 2^32 that goes with it.
ir::Expr sort_word(const ir::Expr& key, const ir::Expr& item);
ir::Expr key_of(const ir::Expr& word);
ir::Expr item_of(const ir::Expr& word);

/// Code that sorts words[0, p] for p in 0..count (of shape 2 by count) by keys in 0..key_end, equal keys in their
/// order, followed by then(side): words[side, p] are the result. `count` and `key_end` are expressions of sizes. Where
/// `left` is not null, words with the last of the keys stand for nothing: the first pass drops them, so that others do
/// not move them. It has shape 2 and type i32, and left[0] is `count` before; left[side] is how many words are left.
/// (With one key there is no pass.)
///
/// A counting sort by digits, the least significant first (Knuth, The Art of Computer Programming 3, 5.2.5), which
/// sorts tiles of words first, so that words of a tile move together (Satish, Harris and Garland, Designing efficient
/// sorting algorithms for manycore GPUs, 2009). Three nests a digit:
///
///   parallel for tile:                                         # a block
///     order of the tile = its positions, sorted by digit       # a few bits at a time
///     for d: start[d, tile] = where digit d begins among them
///   parallel for d:                                            # a block
///     for tile: shift[d, tile] = (words of smaller digits, or of this one in tiles before) - start[d, tile]
///   parallel for p in 0..count:
///     words[1 - side, shift[digit, tile] + p % tile_size] = the word of order[p]
///
/// No thread adds to what another one adds to, so nothing is atomic.
ir::Stmt counting_sort(const ir::Array& words, const ir::Expr& count, const ir::Expr& key_end, const ir::Array& left,
                       const SortShares& shares, const SourceLocation& where,
                       const std::function<ir::Stmt(const ir::Expr& side)>& then);

}  // namespace loopgrad::transforms

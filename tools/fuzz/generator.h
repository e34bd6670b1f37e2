// Random loop programs that are legal by construction: every index is in range, every element read has been written,
// every value stays finite and well conditioned.
#pragma once

#include "tools/fuzz/case.h"

namespace loopgrad::fuzz {

/// Kinds of programs and checks that can be left out. Flip a constant here to change what every run does.
inline constexpr bool rounded_control_by_default = true;
inline constexpr bool same_bits_by_default = true;
inline constexpr bool false_facts_compiled_by_default = true;

struct Axes {
  /// Programs whose branches, indices and extrema depend on rounded products, and on ties.
  bool rounded_control = rounded_control_by_default;
  /// Compiled and interpreted runs must give the same bits where no sum is reordered and no function is approximated.
  bool same_bits = same_bits_by_default;
  /// Compiled code must refuse a false fact, as the checked interpreter does.
  bool false_facts_compiled = false_facts_compiled_by_default;
};

/// The program of a seed: the same for ever on every machine. It mixes random nests (overwrites, in-place updates,
/// sums, products, minima and maxima, branches on data and iterators, triangular and data-dependent loops, indirect,
/// nested and computed indices, locals at any level) with shapes that are known to be hard: time loops with double
/// buffers, recurrences, CSR loops with and without the fact, bounded while loops, compaction, argmax, products of
/// matrices, stencils, integer results, scalars carried through loops. All element types, ranks to four, true facts.
Case generate(std::uint64_t seed, const Axes& axes = {});

}  // namespace loopgrad::fuzz

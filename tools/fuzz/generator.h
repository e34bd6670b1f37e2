// Random loop programs that are legal by construction: every index is in range, every element read has been written,
// every value stays finite and well conditioned.
#pragma once

#include "tools/fuzz/case.h"

namespace loopgrad::fuzz {

struct GeneratorOptions {
  bool double_only = false;  // no f32 arrays, so that a compiled run can be compared tightly
};

/// The program of a seed: the same for ever on every machine. It mixes random nests (overwrites, in-place updates,
/// sums, products, minima and maxima, branches on data and iterators, triangular and data-dependent loops, indirect
/// indices, locals at any level) with shapes that are known to be hard: time loops with double buffers, recurrences,
/// CSR loops with and without the fact, bounded while loops, compaction, argmax, scalars carried through loops.
Case generate(std::uint64_t seed, const GeneratorOptions& options = {});

}  // namespace loopgrad::fuzz

// One random program with everything that is needed to run it.
#pragma once

#include "dsl/ir/program.h"

#include <loopgrad/arrays.h>
#include <loopgrad/program.h>

#include <map>
#include <set>
#include <string>

namespace loopgrad::fuzz {

/// What an integer input holds, so that every access of the program stays in range. Floats are uniform in [-1, 1).
struct IndexContents {
  enum class Kind { Below, Permutation, CsrPointer, Sorted };
  Kind kind = Kind::Below;
  ir::Expr bound;          // Below, Sorted: values in [0, bound); CsrPointer: the total; Permutation: of [0, extent)
  std::int64_t shift = 0;  // added to every value: for integers that are data rather than indices
};

struct Case {
  std::uint64_t seed = 0;
  Program program;
  Sizes sizes;                                    // a few iterations of each loop: for checked interpretation
  Sizes medium;                                   // enough for threads, lanes, tiles and libraries: for compiled runs
  std::map<std::string, IndexContents> contents;  // of the integer inputs
  std::set<std::string> coarse;                   // floats that are multiples of 1/4, so that ties occur
  std::map<std::string, std::string> shared;      // an array that is given the memory of another one
  std::set<std::string> traits;                   // what the program was written from, for the table of features
  std::set<std::string> left_out = {};            // passes that lowered forms go without, as by LOOPGRAD_SKIP
  Sizes expected = {};                            // sizes that these are made for, as by `expected_sizes`
};

/// Arrays by name.
using Arrays = std::map<std::string, HostArray>;

/// An array for each that the program declares, of its declared type or f64 for all floats: inputs and in-outs filled
/// from the seed, the others zero. Throws UsageError(BadSize) when an index array has no value to hold.
Arrays make_arrays(const Case& c, bool f64);

/// The same program at its medium sizes.
Case at_medium_sizes(Case c);

/// Seed, sizes and pseudo-code.
std::string describe(const Case& c);

}  // namespace loopgrad::fuzz

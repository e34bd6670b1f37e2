// One random program with everything that is needed to run it.
#pragma once

#include "dsl/ir/program.h"

#include <loopgrad/arrays.h>
#include <loopgrad/program.h>

#include <map>
#include <string>

namespace loopgrad::fuzz {

/// What an integer input holds, so that every access of the program stays in range. Floats are uniform in [-1, 1).
struct IndexContents {
  enum class Kind { Below, Permutation, CsrPointer };
  Kind kind = Kind::Below;
  ir::Expr bound;  // Below: values in [0, bound); CsrPointer: the total; Permutation: of [0, extent)
};

struct Case {
  std::uint64_t seed = 0;
  Program program;
  Sizes sizes;
  std::map<std::string, IndexContents> contents;  // of the integer inputs
};

/// Arrays by name.
using Arrays = std::map<std::string, HostArray>;

/// An array for each that the program declares, of its declared type or f64 for all floats: inputs and in-outs filled
/// from the seed, the others zero. Throws UsageError(BadSize) when an index array has no value to hold.
Arrays make_arrays(const Case& c, bool f64);

/// Seed, sizes and pseudo-code.
std::string describe(const Case& c);

}  // namespace loopgrad::fuzz

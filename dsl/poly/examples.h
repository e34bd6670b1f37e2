// A conflict in concrete terms, for messages: which elements, at which lines, for which values of the iterators.
#pragma once

#include "dsl/poly/dependences.h"

namespace loopgrad::poly {

/// A concrete pair of instances of a conflict.
struct Example {
  std::vector<std::int64_t> first, second;  // values of the iterators of the two statements
  std::string sizes;                        // "n = 3, m = 2": of the symbols that matter
};

/// The pair that a point of the wrapped `conflict.pairs` stands for.
Example example_at(const Model& model, const Conflict& conflict, const isl::point& point);

/// "x[i + j]" as in the program; without an access, the run-time stack.
std::string element_text(const Access* access);
/// " at f.cpp:12", where the access is or else its statement; empty when that is not known.
std::string line_of(const Statement& s, const Access* access);

}  // namespace loopgrad::poly

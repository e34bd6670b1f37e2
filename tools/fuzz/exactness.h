// Which results have the same bits wherever a program runs.
#pragma once

#include "tools/fuzz/case.h"

#include <set>
#include <string>

namespace loopgrad::fuzz {

/// Who decides the order of the terms of a sum, and of the steps of a recurrence.
enum class SumOrder {
  AsWritten,  // the program: every target adds them up in textual order
  Free,       // the plan, so that results of sums and scans are not the same everywhere
};

/// Names of the arrays whose elements must have the same bits on every target by the table of docs/numerics.md, when
/// the programs run one after the other: nothing that they depend on, by value, index or control, comes from a function
/// that is approximated or from a sum or product of floats whose order is free. `shared` names arrays that are given
/// the memory of another one.
std::set<std::string> exact_arrays(const std::vector<Program>& programs, SumOrder order,
                                   const std::map<std::string, std::string>& shared);

/// Whether generated C++ shares out the terms of some sum to vector lanes or leaves it to a library. Those are the two
/// ways in which a serial sum is not added up as written: a loop over lanes that sums into an f32 or f64 scalar
/// (`reduction(+ : s)` or `Lanes`, see plan_simd), and a product of matrices (`multiply`).
bool reorders_sums(const std::string& generated);

}  // namespace loopgrad::fuzz

// A sum that reads what its loop changes later gets copies of that, so that it can have a nest of its own.
//
//   for j in 0..n:                          for j in 0..n:
//     d_b[j] += d_h*x[j]                      local f32 d_h_then
//     d_h = d_h*a[j]                ->        d_h_then = d_h
//                                             d_b[j] += d_h_then*x[j]
//                                             d_h = d_h*a[j]
//
// Requires: nothing. Guarantees: the same values. One changed operand is copied as it is, of several the value that is
// made of them; indices are copied one by one. Whether the copies, one for each instance of the sum in the end, are
// worth their memory is for the caller to decide.
#pragma once

#include "dsl/ir/program.h"

#include <optional>

namespace loopgrad::transforms {

/// A nest, and the sum in it that reads copies.
struct KeptOperands {
  ir::Stmt nest, sum;
};

/// nullopt where `sum`, a Reduce of the nest, reads nothing that another statement of the nest stores.
std::optional<KeptOperands> keep_operands(const ir::Stmt& nest, const ir::Stmt& sum);

/// A sum, and the statement that stands for it: the term gets a name of its own, which the sum reads.
struct NamedTerm {
  ir::Stmt statement, sum;
  ir::Array term;
};
NamedTerm with_named_term(const ir::Stmt& sum);

}  // namespace loopgrad::transforms

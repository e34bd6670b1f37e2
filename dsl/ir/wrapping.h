// Integer arithmetic that may leave its type, and go on at the other end of it, for indices as programs have them.
#pragma once

#include "dsl/ir/program.h"

#include <functional>
#include <set>

namespace loopgrad::ir {

/// Whether a sum or product of integers may wrap around although iterators, sizes and indices from data are moderate:
/// those of hashes and random numbers do, which multiply by large numbers. What is known of the operands, as that they
/// are not negative, does not hold for the result then.
bool may_wrap(const Expr& e);

/// Whether values up to this one are indices of elements that may exist: not a large number.
bool bounds_indices(const Expr& upper, const std::set<Symbol>& large);

/// Sizes that are no extents and that no loop counts up to, and iterators that begin there: they may be any numbers.
std::set<Symbol> large_symbols(const Program& program, const std::function<bool(const Array&)>& is_index);

/// Whether it stays within its type for whatever data: those of arrays that `is_index` says so of are below 2^31, as
/// iterators and sizes are.
bool surely_fits(const Expr& e, const std::function<bool(const Array&)>& is_index, const std::set<Symbol>& large);

}  // namespace loopgrad::ir

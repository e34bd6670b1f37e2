// What it takes to compute a local again.
#pragma once

#include "tape/value_plan.h"

namespace loopgrad::tape {

/// Calls `f` for what `e`, or a statement, reads, with whether control depends on the value of the read. Where `f`
/// returns false, the indices of the read are left out.
using OnRead = std::function<bool(const ir::Expr& load, bool decides)>;
void for_each_read(const ir::Expr& e, bool decides, const OnRead& f);
void for_each_read(const ir::Stmt& s, const OnRead& f);

/// How often a loop runs, as far as prices need to know.
using Trips = std::function<double(const ir::Stmt& loop)>;

/// Whether an array is small enough to be computed again.
bool has_few_elements(const ir::Array& array);

/// The slice of a local scalar, or of a local array of a few elements; nullopt where there is none: a `while` writes
/// it, or it is large.
std::optional<Slice> slice_of(const ir::Array& local, const Sites& sites, const Trips& trips);

}  // namespace loopgrad::tape

// What a part of a loop needs in order to run again, without a tape or with one.
#pragma once

#include "dsl/ir/program.h"

#include <set>

namespace loopgrad::tape {

/// Those of `written`, arrays that `forward` stores to, of which something depends that `backward` reads, that
/// `forward` saves in other arrays, or that decides what it does.
std::set<ir::Array> needed_arrays(const ir::Stmt& forward, const ir::Stmt& backward,
                                  const std::set<ir::Array>& written);

/// Without the stores to some arrays.
ir::Stmt without_stores(const ir::Stmt& s, const std::set<ir::Array>& to);

/// Those of `candidates` of which `s` may read an element that it has not set itself. `sizes`: symbols of `s` that are
/// no sizes of the program.
std::set<ir::Array> found_at_start(const ir::Program& program, const std::vector<ir::Symbol>& sizes, const ir::Stmt& s,
                                   const std::set<ir::Array>& candidates);

/// An array on which control depends (a branch, an index, which operand an extremum takes) in `s`, although what is in
/// it may be rounded in another way when `s` runs in another program: a sum over a loop or a recurrence, or computed
/// from such. Null: there is none.
ir::Array inexact_control(const ir::Stmt& s);

}  // namespace loopgrad::tape

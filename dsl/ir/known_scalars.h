// Scalars that only name a value which is known before the program runs.
#pragma once

#include "dsl/ir/program.h"

#include <map>
#include <set>

namespace loopgrad::ir {

/// Looks through scalars that are assigned once, from sizes, iterators and inputs that nothing changes:
///
///   local i64 first                       local i64 first
///   first = ptr[v]                        first = ptr[v]
///   for e in first[]..ptr[v + 1]:   ->    for e in ptr[v]..ptr[v + 1]:
///
/// The value is the same wherever the scalar may be read, as reading it elsewhere would be reading before writing: no
/// loop stands between declaration and assignment. Long computations are left alone.
class KnownScalars {
 public:
  /// `computed`: inputs that another program computes, such as outputs that a backward program is given.
  explicit KnownScalars(const Program& program, const std::set<Array>& computed = {});
  /// The expression with such scalars replaced by what they were assigned; itself where there are none.
  Expr look_through(const Expr& e) const;
  /// Whether nothing that is read can change or be computed by the program.
  bool is_known(const Expr& e) const;

 private:
  std::set<Array> constant_;      // inputs that do not share memory with what is written
  std::map<Array, Expr> values_;  // of the scalars
};

/// The program with known scalars looked through in the bounds of its loops.
Program with_known_bounds(const Program& program);

}  // namespace loopgrad::ir

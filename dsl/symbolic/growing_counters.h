// Counters that grow from one execution of a statement to the next.
//
//   j = -1
//   for i in 0..n:
//     if b[i] > 0:
//       j += 1
//       a[j] = b[i]           # never the same j twice: iterations write different elements, whatever data decide
//
// Where a loop packs what data choose, its positions follow from no iterator, and yet they are as good as one.
#pragma once

#include "dsl/ir/program.h"

#include <set>
#include <utility>

namespace loopgrad::ir {

/// Which statements find which local i64 scalars at a value of their own each time that they are executed.
///
/// That is proved where, in the outermost loop around the statement, all that writes the scalar adds constants of one
/// sign, and one that is not zero is added once in each execution of the statements in a row that this one is part of:
/// before it or after it. So the scalar has moved on since the last execution, and never comes back.
///
/// Complexity: linear in the program. Leaves alone: what is set anew inside of that loop (per row of a matrix, say),
/// steps from data, and i32, which may come to where it began in a long loop.
class GrowingCounters {
 public:
  explicit GrowingCounters(const Stmt& body);

  /// Whether `s`, a statement of the body by identity, is executed with another value of `counter` each time; nothing
  /// in `s` changes it.
  bool moves_between(const Stmt& s, const Array& counter) const { return moved_.count({s.get(), counter}) > 0; }
  /// Whether `s` is such a statement, or is executed several times in one that is a loop.
  bool moves_around(const Stmt& s, const Array& counter) const {
    return moves_between(s, counter) || repeated_.count({s.get(), counter}) > 0;
  }
  bool empty() const { return moved_.empty(); }

 private:
  std::set<std::pair<const StmtNode*, Array>> moved_, repeated_;
};

}  // namespace loopgrad::ir

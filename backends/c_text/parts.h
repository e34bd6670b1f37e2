// The parts of a program as it is emitted: what is timed, and what estimates of time are made for.
#pragma once

#include "dsl/ir/program.h"

#include <map>
#include <vector>

namespace loopgrad::backend {

/// A part is a loop that threads or the blocks of a kernel share, a product of matrices, or a loop that has none of
/// these inside. What is around parts, and single statements between them, belongs to none.
class Parts {
 public:
  explicit Parts(const ir::Program& emitted);

  /// In the order of the program. Loops that are in the region of the one before them belong to that one's part.
  const std::vector<ir::Stmt>& all() const { return all_; }
  /// Whether threads or the blocks of a kernel share this loop.
  bool is_shared(const ir::Stmt& s) const;
  bool is_part(const ir::Stmt& s) const;
  /// Whether it is a loop in the region of the part before it.
  static bool joins(const ir::Stmt& s);
  bool contains_part(const ir::Stmt& s) const { return around_.count(s.get()) > 0; }

 private:
  bool find(const ir::Stmt& s);

  bool any_threads_ = false;  // else parallel loops are shared
  std::map<const ir::StmtNode*, bool> has_shared_;
  std::map<const ir::StmtNode*, bool> around_;  // statements with parts inside
  std::vector<ir::Stmt> all_;
};

}  // namespace loopgrad::backend

// The parts of a program as it is emitted: what is timed, and what estimates of time are made for.
#pragma once

#include "dsl/ir/program.h"

#include <map>
#include <vector>

namespace loopgrad::backend {

/// A part is a loop that threads or the blocks of a kernel share, a product of matrices, or a loop that has none of
/// these inside. What a loop in order does beside the parts in it is a part as well: the rest of that loop, the
/// outermost of several. Statements outside of loops belong to none.
class Parts {
 public:
  explicit Parts(const ir::Program& emitted);

  /// In the order of the program; a rest, which is the loop, comes before the parts in the loop. Loops that are in the
  /// region of the one before them belong to that one's part.
  const std::vector<ir::Stmt>& all() const { return all_; }
  bool is_rest(const ir::Stmt& s) const { return rests_.count(s.get()) > 0; }
  /// Of a rest: how many of those after it are in its loop.
  std::size_t count_in(const ir::Stmt& rest) const { return rests_.at(rest.get()); }
  /// Whether threads or the blocks of a kernel share this loop.
  bool is_shared(const ir::Stmt& s) const;
  bool is_part(const ir::Stmt& s) const;
  /// Whether it is a loop in the region of the part before it.
  static bool joins(const ir::Stmt& s);
  bool contains_part(const ir::Stmt& s) const { return around_.count(s.get()) > 0; }

 private:
  bool find(const ir::Stmt& s, bool in_rest);
  bool has_own_statements(const ir::Stmt& s) const;

  bool any_threads_ = false;  // of a CPU; else parallel loops are shared
  std::map<const ir::StmtNode*, bool> has_shared_;
  std::map<const ir::StmtNode*, bool> around_;  // statements with parts inside
  std::map<const ir::StmtNode*, std::size_t> rests_;
  std::vector<ir::Stmt> all_;
};

}  // namespace loopgrad::backend

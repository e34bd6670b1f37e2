// How long one iteration of what a GPU's blocks share takes, however many of them there are: steps one after the other.
//
// Threads of a block share the parallel loops in it, and those whose iterations have nothing in common but sums; other
// loops are steps. The estimate takes what a step takes from measurements: threads that meet after each of them, by way
// of memory, or one thread by itself.
#pragma once

#include "tools/cli/work_counter.h"
#include "transforms/pass/machine.h"

#include <functional>

namespace loopgrad::cli {

/// A loop whose iterations the threads of a block do one after the other.
struct BlockSteps {
  const ir::For* loop = nullptr;  // null: a While
  ir::Stmt statement;
  double trips = 0;
  double ns = 0;            // of all its iterations
  bool has_shared = false;  // threads share what is in them
};

class CriticalPath {
 public:
  /// `only_sums`: whether iterations of a loop share sums alone, or nothing. All must outlive this.
  CriticalPath(WorkCounter& counter, const transforms::Machine& machine, std::function<bool(const ir::Stmt&)> only_sums)
      : counter_(counter), machine_(machine), only_sums_(std::move(only_sums)) {}

  /// Of one iteration of `part`, whose iterations run at once.
  double ns_of(const ir::Stmt& part);
  /// Of all of `s`, by one block.
  double ns_in_one_block(const ir::Stmt& s);
  /// The outermost loops of steps in the last part, the longest first.
  std::vector<BlockSteps> steps() const;

 private:
  double path(const ir::Stmt& s, double threads);
  double path_of_loop(const ir::Stmt& s, const ir::For& loop, double threads);
  double path_of_steps(const ir::Stmt& s, const ir::For* loop, const ir::Stmt& body, double trips, double threads);
  bool shares(const ir::Stmt& s);

  WorkCounter& counter_;
  const transforms::Machine& machine_;
  const std::function<bool(const ir::Stmt&)> only_sums_;
  std::map<const ir::StmtNode*, bool> known_;
  std::vector<BlockSteps> steps_;
  int inside_ = 0;  // of loops of steps
};

}  // namespace loopgrad::cli

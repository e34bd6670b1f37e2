// Finding what the steps of a schedule name, and the pieces that their rewrites share.
#pragma once

#include "dsl/ir/program.h"

#include <loopgrad/schedule.h>

namespace loopgrad::transforms {

/// The For of that name. Throws UsageError when there is none or more than one.
ir::Stmt find_loop(const ir::Program& program, const LoopName& name);

/// The Allocate of a local of that name, likewise.
ir::Stmt find_local(const ir::Program& program, const std::string& name);

/// The loops of a perfect nest from `outermost` on, as far as it goes.
std::vector<ir::Stmt> perfect_nest(const ir::Stmt& outermost);

/// The statements that a loop's body executes one after another, seen through blocks and allocations.
std::vector<ir::Stmt> statements_of(const ir::Stmt& body);

/// Whether `inner` is `s` or lies below it.
bool contains(const ir::Stmt& s, const ir::Stmt& inner);

/// A loop that is not marked parallel any more: its place among other loops has changed, so what was proved of it may
/// not hold.
ir::LoopMode unmarked(ir::LoopMode mode);

/// The program with the statement `old` (by identity) replaced.
ir::Program with_replaced(const ir::Program& program, const ir::Stmt& old, const ir::Stmt& by);

/// Throws UsageError about a loop: "cannot <action>: <why>".
[[noreturn]] void misuse(const ir::Program& program, const ir::Stmt& loop, const std::string& action,
                         const std::string& why, const std::string& hint = "");

/// Iterations of a loop in full groups of `factor`, and the rest. In terms of `group`, the k-th iteration of a group in
/// the order of the loop is `iteration(k)`.
struct Groups {
  ir::Symbol group;
  ir::Expr count;     // of full groups
  ir::Expr first;     // iterator value of a group's first iteration
  int direction = 1;  // -1 for a backward loop
  ir::Expr rest_lower, rest_upper;

  ir::Expr iteration(std::int64_t k) const { return first + ir::int_const(direction * k); }
};
Groups groups_of(const ir::Program& program, const ir::For& loop, std::int64_t factor, const std::string& suffix);

}  // namespace loopgrad::transforms

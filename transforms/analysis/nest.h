// Small tools on loop nests.
#pragma once

#include "dsl/ir/rewriter.h"
#include "transforms/pass/sum_plan.h"

#include <functional>
#include <map>
#include <optional>
#include <set>

namespace loopgrad::transforms {

using StmtSet = std::set<const ir::StmtNode*>;
StmtSet set_of(const std::vector<ir::Stmt>& list);

/// Statements without statements below them, in textual order.
std::vector<ir::Stmt> leaves(const ir::Stmt& s);

/// The loops and conditions around each leaf (within `s`, outermost first).
std::map<const ir::StmtNode*, std::vector<ir::Stmt>> surroundings(const ir::Stmt& s);

/// The For and While statements around `s`, outermost first; nullopt where it is no part of `body`, by identity.
std::optional<std::vector<ir::Stmt>> loops_around(const ir::Stmt& body, const ir::Stmt& s);

/// Statements outside of all loops and branches of `s`, in textual order.
std::vector<ir::Stmt> top_level(const ir::Stmt& s);

/// A loop whose iterations may run at once (false for a null statement).
bool is_parallel_loop(const ir::Stmt& s);
/// Whether one is at or below `s`.
bool contains_parallel_loop(const ir::Stmt& s);

/// The part of `s` that executes the given leaves; loops, branches and allocations that are left empty vanish.
ir::Stmt slice(const ir::Stmt& s, const StmtSet& keep);

/// `s` with the statement `old` replaced by `by` (by identity).
ir::Stmt replace(const ir::Stmt& s, const ir::Stmt& old, const ir::Stmt& by);

/// `s` with contractions replaced by their loops: for code that has no library to call.
ir::Stmt without_contractions(const ir::Stmt& s);
bool has_contraction(const ir::Stmt& s);

/// The leaves that contractions stand for: these go or stay together.
StmtSet leaves_of_contractions(const ir::Stmt& s);

/// Arrays allocated at or below `s`, with the loops and conditions that enclose each Allocate (within `s`, outermost
/// first).
struct LocalArray {
  ir::Array array;
  std::vector<ir::Stmt> around;
};
std::vector<LocalArray> locals_of(const ir::Stmt& s);

/// What runs one after the other in `s`, with the locals that are declared between.
struct Scope {
  std::vector<ir::Stmt> locals;  // the Allocates, with bodies that stay behind
  std::vector<ir::Stmt> list;    // no Block, no Allocate
};
Scope scope_of(const ir::Stmt& s);
/// `body` with these locals declared around it.
ir::Stmt with_locals(const Scope& s, ir::Stmt body);

/// What is left when locals are declared elsewhere.
ir::Stmt without_allocations(const ir::Stmt& s);

/// Whether anything at or below `s` loads or stores the array.
bool uses(const ir::Stmt& s, const ir::Array& array);
bool uses(const ir::Expr& e, const ir::Array& array);

/// Calls f(array, indices) for every element stored to by a leaf (nothing for other statements).
template <class F>
void for_each_store(const ir::Stmt& s, F&& f) {
  if (auto* assign = s.as<ir::Assign>()) f(assign->array, assign->indices);
  if (auto* reduce = s.as<ir::Reduce>()) f(reduce->array, reduce->indices);
  if (auto* pop = s.as<ir::Pop>()) f(pop->array, pop->indices);
}

/// The indices that are one for all these elements, and for all iterations in the nest: null for others, which data or
/// its iterators choose.
std::vector<ir::Expr> fixed_indices(const ir::Stmt& nest, const std::vector<std::vector<ir::Expr>>& elements);

/// What integers in it are divided by, outside of loads, and could be zero; those inside of others first.
std::vector<ir::Expr> divisors_in(const ir::Expr& e);

/// Whether the host can compute it when it launches kernels: from sizes and iterators, in integers.
bool host_knows(const ir::Expr& e);

/// A For with another body or mode.
ir::Stmt with_body(const ir::For& loop, ir::Stmt body);
ir::Stmt with_mode(const ir::For& loop, ir::LoopMode mode);
/// The loops, outermost first, around a statement.
ir::Stmt around(const std::vector<const ir::For*>& loops, ir::Stmt body);

/// `s` with f(block) for the outermost blocks that are in no parallel loop.
ir::Stmt rewrite_host_blocks(const ir::Stmt& s, const std::function<ir::Stmt(const ir::Block&)>& f);

/// The arrays that something at or below `s` stores to.
std::set<ir::Array> stored_in(const ir::Stmt& s);

/// "d_x[i + j] += d_y[i]*w[j]", for reports.
std::string text_of(const ir::Reduce& sum);
/// The sum as a plan names it.
PlannedSum planned(const ir::Reduce& sum);

}  // namespace loopgrad::transforms

#include "transforms/storage/settle_scalars.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "transforms/analysis/nest.h"

#include <set>

namespace loopgrad::transforms {

using ir::Expr;
using ir::LoopMode;
using ir::Stmt;

namespace {

Stmt single(const Stmt& s, const SourceLocation& where) {
  return ir::for_loop(ir::make_symbol("t"), ir::int_const(0), ir::int_const(1), s, LoopMode::Threads, where);
}

/// A scalar of the block that single threads set is no longer each thread's own: whoever else sets it must be one
/// thread as well.
Stmt set_by_one(const Stmt& body) {
  std::set<ir::Array> shared;
  ir::walk_stmts(body, [&](const Stmt& s) {
    const auto* loop = s.as<ir::For>();
    if (!loop || loop->mode != LoopMode::Threads) return;
    std::set<ir::Array> own;
    for (const LocalArray& local : locals_of(loop->body)) own.insert(local.array);
    for (const Stmt& leaf : leaves(loop->body)) {
      const auto* sum = leaf.as<ir::Reduce>();
      if (sum && sum->atomic) continue;
      for_each_store(leaf, [&](const ir::Array& array, const std::vector<Expr>& indices) {
        if (indices.empty() && array->role == ir::ArrayRole::Local && !own.count(array)) shared.insert(array);
      });
    }
  });
  if (shared.empty()) return body;
  return ir::rewrite(body, {}, [&](const Stmt& s) -> std::optional<Stmt> {
    const auto* loop = s.as<ir::For>();
    if (loop && loop->mode == LoopMode::Threads) return s;
    bool set = false;
    for_each_store(s, [&](const ir::Array& array, const std::vector<Expr>&) { set |= shared.count(array) > 0; });
    if (!set) return std::nullopt;
    return single(s, s->location);
  });
}

bool is_single(const Stmt& s) {
  const auto* loop = s.as<ir::For>();
  return loop && loop->mode == LoopMode::Threads && ir::as_int(loop->upper - loop->lower) == 1;
}

/// What a single thread does, under a condition or not; null for other statements.
Stmt by_one(const Stmt& s) {
  if (is_single(s)) return s.as<ir::For>()->body;
  const auto* branch = s.as<ir::If>();
  if (!branch || branch->else_body || !is_single(branch->then_body)) return {};
  return ir::if_then(branch->condition, branch->then_body.as<ir::For>()->body, {}, branch->location);
}

/// One thread's statements in a row need no barrier between them.
Stmt merge_singles(const Stmt& body) {
  return ir::rewrite(body, {}, [&](const Stmt& s) -> std::optional<Stmt> {
    const auto* block = s.as<ir::Block>();
    if (!block) return std::nullopt;
    std::vector<Stmt> merged;
    for (std::size_t i = 0; i < block->body.size();) {
      std::vector<Stmt> list;
      const Stmt& first = block->body[i];
      for (; i < block->body.size(); ++i) {
        if (const Stmt own = by_one(block->body[i])) list.push_back(own);
        else break;
      }
      if (list.size() > 1) merged.push_back(single(ir::block(std::move(list)), first->location));
      else if (list.size() == 1) merged.push_back(first);
      else merged.push_back(merge_singles(block->body[i++]));
    }
    return ir::block(std::move(merged));
  });
}

}  // namespace

Stmt settle_scalars(const Stmt& body) { return merge_singles(set_by_one(body)); }

}  // namespace loopgrad::transforms

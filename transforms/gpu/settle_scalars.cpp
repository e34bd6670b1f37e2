#include "transforms/gpu/settle_scalars.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "transforms/nest.h"

#include <set>

namespace loopgrad::transforms {

using ir::Expr;
using ir::LoopMode;
using ir::Stmt;

namespace {

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
    return ir::for_loop(ir::make_symbol("t"), ir::int_const(0), ir::int_const(1), s, LoopMode::Threads, s->location);
  });
}

bool is_single(const Stmt& s) {
  const auto* loop = s.as<ir::For>();
  return loop && loop->mode == LoopMode::Threads && ir::as_int(loop->upper) == 1;
}

/// One thread's statements in a row need no barrier between them.
Stmt merge_singles(const Stmt& body) {
  return ir::rewrite(body, {}, [&](const Stmt& s) -> std::optional<Stmt> {
    const auto* block = s.as<ir::Block>();
    if (!block) return std::nullopt;
    std::vector<Stmt> merged;
    for (const Stmt& child : block->body) {
      if (is_single(child) && !merged.empty() && is_single(merged.back())) {
        const ir::For &before = *merged.back().as<ir::For>(), &here = *child.as<ir::For>();
        merged.back() = with_body(before, ir::block({before.body, here.body}));
      } else {
        merged.push_back(is_single(child) ? child : merge_singles(child));
      }
    }
    return ir::block(std::move(merged));
  });
}

}  // namespace

Stmt settle_scalars(const Stmt& body) { return merge_singles(set_by_one(body)); }

}  // namespace loopgrad::transforms

#include "transforms/sums/merge_updates.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/nest.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::Expr;
using ir::Stmt;

namespace {

// A statement that changes one element.
struct MergedUpdate {
  ir::Array array;
  std::vector<Expr> indices;
  Expr value;
  std::optional<ir::BinaryOp> op;  // none: the value replaces the old one
  const ir::Reduce* reduce = nullptr;
  SourceLocation location;

  Expr after(const Expr& old) const { return reduce ? ir::combined(*reduce, old) : value; }
};

std::optional<ir::BinaryOp> merged_op(ir::ReduceOp op) {
  if (op == ir::ReduceOp::Add) return ir::BinaryOp::Add;
  if (op == ir::ReduceOp::Mul) return ir::BinaryOp::Mul;
  return std::nullopt;
}

std::optional<MergedUpdate> merged_update(const Stmt& s) {
  if (auto* node = s.as<ir::Assign>())
    return MergedUpdate{node->array, node->indices, node->value, {}, nullptr, node->location};
  auto* node = s.as<ir::Reduce>();
  if (!node || node->atomic || !merged_op(node->op)) return std::nullopt;
  return MergedUpdate{node->array, node->indices, node->value, merged_op(node->op), node, node->location};
}

bool is_neutral(const Expr& e, ir::BinaryOp op) { return ir::is_const(e, op == ir::BinaryOp::Mul ? 1 : 0); }

class Merger final : public ir::Rewriter {
 public:
  Merger(const ir::Program& program, Updates which) : which_(which) { aliased_ = ir::aliased_arrays(program); }

  using Rewriter::rewrite;
  Expr rewrite(const Expr& e) override { return e; }
  Stmt rewrite(const Stmt& s) override {
    Stmt result = rewrite_children(s);
    auto* block = result.as<ir::Block>();
    if (!block) return result;
    std::vector<Stmt> merged;
    for (const Stmt& child : block->body) {
      Stmt both = merged.empty() ? Stmt() : merge(merged.back(), child);
      if (both) {
        merged.back() = both;
      } else {
        merged.push_back(child);
      }
    }
    return merged.size() == block->body.size() ? result : ir::block(std::move(merged));
  }

 private:
  // The two as one statement, or null.
  Stmt merge(const Stmt& first, const Stmt& second) const {
    std::optional<MergedUpdate> a = merged_update(first), b = merged_update(second);
    if (!a || !b || !b->op || a->array != b->array || !ir::equal(a->indices, b->indices)) return {};
    if (aliased_.count(a->array) || value_type(a->array->type) != a->array->type) return {};
    // The first store may change which element the second one is.
    const auto moves = [&](const Expr& index) { return uses(index, a->array); };
    if (std::any_of(a->indices.begin(), a->indices.end(), moves)) return {};
    if (may_read(b->value, b->array, b->indices)) return {};
    if (!a->op && is_neutral(a->value, *b->op)) return ir::assign(b->array, b->indices, b->value, b->location);
    if (which_ == Updates::OfConstants) return {};
    const Expr between = a->after(ir::load(a->array, a->indices, a->location));
    return ir::assign(b->array, b->indices, b->after(between), b->location);
  }

  Updates which_;
  std::set<ir::Array> aliased_;
};

}  // namespace

ir::Program merge_updates(const ir::Program& program, Updates which) {
  return ir::with_body(program, Merger(program, which).rewrite(program.body));
}

}  // namespace loopgrad::transforms

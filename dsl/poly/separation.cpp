#include "dsl/poly/separation.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/ir/visit.h"
#include "dsl/ir/wrapping.h"
#include "dsl/symbolic/flat_index.h"
#include "dsl/symbolic/linear_form.h"
#include "dsl/symbolic/ranges.h"

#include <algorithm>
#include <functional>

namespace loopgrad::poly {

using ir::Expr;

namespace {

bool is_around(const ir::Stmt& loop, const Statement& s) {
  return std::any_of(s.loops.begin(), s.loops.end(), [&](const ir::Stmt& around) { return around.same_as(loop); });
}

// Whether the loop leaves the array as it is.
bool keeps(const Model& model, const ir::Stmt& loop, const ir::Array& array) {
  if (!model.aliases.empty()) return false;
  return std::none_of(model.statements.begin(), model.statements.end(), [&](const Statement& s) {
    return is_around(loop, s) && std::any_of(s.accesses.begin(), s.accesses.end(), [&](const Access& access) {
             return access.kind != AccessKind::Read && access.array == array;
           });
  });
}

// An index in terms of what changes in a loop, and what does not.
struct Movement {
  const Model& model;
  const ir::Stmt& loop;
  const ir::Symbol& iterator;
  std::vector<ir::Symbol> inside;  // iterators
  bool by_data = true;             // where rows begin, data may say, as in x[start[r] + k]

  // It differs from iteration to iteration whatever happens in them.
  bool moves(const Expr& e) const {
    if (auto* var = e.as<ir::Var>()) return var->symbol == iterator;
    if (auto* cast = e.as<ir::Cast>()) return cast->type == ScalarType::I64 && moves(cast->a);
    auto* sum = e.as<ir::Binary>();
    if (!sum || (sum->op != ir::BinaryOp::Add && sum->op != ir::BinaryOp::Sub) || ir::may_wrap(e)) return false;
    return (moves(sum->a) && stays(sum->b)) || (stays(sum->a) && moves(sum->b));
  }
  bool stays(const Expr& e) const {
    bool result = !ir::mentions(e, iterator) &&
                  std::none_of(inside.begin(), inside.end(), [&](const ir::Symbol& i) { return ir::mentions(e, i); });
    ir::walk(e, [&](const Expr& part) {
      const auto* load = part.as<ir::Load>();
      result = result && (!load || (by_data && keeps(model, loop, load->array)));
    });
    return result;
  }
};

// What iterators from `depth` on may be, in terms of those around, which both accesses have in common.
ir::RangeContext ranges_within(const Model& model, const Statement& s, std::size_t depth) {
  ir::RangeContext ranges = ir::ranges_in_variables();
  const std::set<ir::Symbol> moving(s.iterators.begin() + static_cast<std::ptrdiff_t>(depth), s.iterators.end());
  ranges.leaf = [moving](const Expr& leaf) {
    const auto* var = leaf.as<ir::Var>();
    return var && !moving.count(var->symbol) ? std::optional(ir::Range{leaf, leaf}) : std::nullopt;
  };
  ranges.non_negative = [&sizes = model.sizes](const ir::Symbol& symbol) {
    return std::find(sizes.begin(), sizes.end(), symbol) != sizes.end();
  };
  for (std::size_t k = depth; k < s.loops.size(); ++k) {
    const auto* loop = s.loops[k].as<ir::For>();
    if (!loop) continue;
    const auto lower = ir::range_of(loop->lower, ranges);
    const auto upper = ir::highest_of(loop->upper, ranges);
    if (lower && upper) ranges.variables[s.iterators[k]] = {lower->lowest, *upper - ir::int_const(1)};
  }
  return ranges;
}

// Positions as numbers of several digits, of which each has as many values as its row has elements.
class Digits {
 public:
  Digits(const Model& model, const Expr& a, const Expr& b, const Expr& extent) : flat_(model.sizes, true) {
    if (ir::may_wrap(a) || ir::may_wrap(b)) return;
    const ir::StridedTerms of_a = flat_.terms(a), of_b = flat_.terms(b);
    std::set<ir::Stride> strides;
    for (const ir::StridedTerms* terms : {&of_a, &of_b})
      for (const auto& [stride, rest] : terms->rests) strides.insert(stride);
    const auto chain = ir::as_chain(strides);
    if (!chain || chain->size() < 2) return;
    chain_ = *chain;
    has_elements_ = ir::quotient(flat_.factors(extent), chain_[0]).has_value();
    a_ = flat_.indices(of_a, chain_);
    b_ = flat_.indices(of_b, chain_);
  }

  bool are_several() const { return !chain_.empty(); }

  // Whether equal positions have equal digits, and one of them moves.
  bool are_apart(const Movement& index, const ir::RangeContext& of_a, const ir::RangeContext& of_b) const {
    bool any_moves = false;
    for (std::size_t k = 0; k < chain_.size(); ++k) {
      const bool same = ir::equal(a_[k], b_[k]);
      any_moves = any_moves || (same && index.moves(a_[k]));
      if (k == 0 || (has_elements_ && same && index.stays(a_[k]))) continue;
      const auto a = ir::range_of(a_[k], of_a), b = ir::range_of(b_[k], of_b);
      if (!a || !b) return false;
      const ir::Stride row = *ir::quotient(chain_[k - 1], chain_[k]);
      if (!is_less(a->highest - b->lowest, row) || !is_less(b->highest - a->lowest, row)) return false;
    }
    return any_moves;
  }

 private:
  bool is_less(const Expr& distance, const ir::Stride& row) const {
    const Expr length = flat_.product(row);
    const std::function<bool(const Expr&)> is_less = [&](const Expr& e) {
      const auto* n = e.as<ir::Binary>();
      if (n && n->op == ir::BinaryOp::Min) return is_less(n->a) || is_less(n->b);
      if (n && n->op == ir::BinaryOp::Max) return is_less(n->a) && is_less(n->b);
      return (has_length(row) && ir::as_int(e).value_or(1) <= 0) || ir::distance(length, e).value_or(0) > 0;
    };
    return is_less(ir::simplify_indices(distance));
  }
  bool has_length(const ir::Stride& row) const {
    return has_elements_ && std::all_of(row.begin(), row.end(), [&](const std::string& factor) {
             const Expr e = flat_.product({factor});
             return e.as<ir::Var>() || ir::as_int(e).value_or(0) > 0;
           });
  }

  ir::FlatIndices flat_;
  std::vector<ir::Stride> chain_;  // empty where they are no such positions
  bool has_elements_ = false;      // none of the strides is 0 where the array has elements
  std::vector<Expr> a_, b_;
};

}  // namespace

bool are_separated(const Model& model, const Statement& s, const Access& a, const Statement& t, const Access& b,
                   std::size_t depth) {
  const auto dims = static_cast<std::size_t>(isl_map_dim(a.relation.get(), isl_dim_out));
  if (a.array != b.array) return false;
  if (dims - a.indices.size() > depth) return true;  // allocated in the loop
  Movement index{model, s.loops[depth], s.iterators[depth], {}};
  // Neither sums, which have plans of their own, nor tapes are a reason to share out the loop over a row: where both
  // could be, a GPU would take it in place of the loop over all rows.
  const bool is_sum = a.kind == AccessKind::Reduce && b.kind == AccessKind::Reduce && a.op == b.op;
  index.by_data = !is_sum && a.array->role != ir::ArrayRole::Tape;
  index.inside.assign(s.iterators.begin() + static_cast<std::ptrdiff_t>(depth) + 1, s.iterators.end());
  index.inside.insert(index.inside.end(), t.iterators.begin() + static_cast<std::ptrdiff_t>(depth) + 1,
                      t.iterators.end());
  for (std::size_t k = 0; k < a.indices.size(); ++k) {
    if (ir::equal(a.indices[k], b.indices[k]) && index.moves(a.indices[k])) return true;
    if (!ir::mentions(a.indices[k], index.iterator) || !ir::mentions(b.indices[k], index.iterator)) continue;
    const Digits digits(model, a.indices[k], b.indices[k], a.array->shape[k]);
    if (digits.are_several() && digits.are_apart(index, ranges_within(model, s, depth), ranges_within(model, t, depth)))
      return true;
  }
  return false;
}

}  // namespace loopgrad::poly

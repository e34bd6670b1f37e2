#include "transforms/sums/scans/sequence.h"

#include "dsl/ir/rewriter.h"
#include "dsl/symbolic/linear_form.h"

namespace loopgrad::transforms {

using ir::Array;
using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

Expr trips_of(const Recurrence& r) { return simplify_indices(r.loop->upper - r.loop->lower); }

Sequence sequence_of(const Recurrence& r) {
  const ir::For& loop = *r.loop;
  const bool down = loop.mode == ir::LoopMode::Backward;
  const auto at = [&loop, down](const Expr& e, const Expr& p) {
    if (!e) return e;
    const Expr i = simplify_indices(down ? loop.upper - number(1) - p : loop.lower + p);
    return simplify_indices(ir::substitute(e, {{loop.iterator, i}}));
  };
  Sequence s;
  s.count = trips_of(r);
  s.step = [&r, at](const Expr& p) { return Composite{at(r.update.factor, p), at(r.update.term, p)}; };
  s.store = [&r, at](const Expr& p, const Expr& value) {
    std::vector<Expr> indices;
    for (const Expr& e : r.indices) indices.push_back(at(e, p));
    return ir::assign(r.array, indices, value, r.where);
  };
  s.start = [&r] { return r.start; };
  s.next = [&r, at](const Expr& p, const Expr& value) {
    return ir::rewrite(at(r.value, p), [&](const Expr& e) -> std::optional<Expr> {
      const auto* load = e.as<ir::Load>();
      return load && load->array == r.previous ? std::optional(value) : std::nullopt;
    });
  };
  s.in_order = [&r, next = s.next](const Expr& p, const Array& value) {
    return ir::assign(value, {}, next(p, ir::load(value, {}, r.where)), r.where);
  };
  return s;
}

Stmt in_parallel(const LoopsAround& around, Stmt body) {
  for (auto it = around.rbegin(); it != around.rend(); ++it) {
    const ir::For& n = **it;
    body = ir::for_loop(n.iterator, n.lower, n.upper, std::move(body), ir::LoopMode::Parallel, n.location);
  }
  return body;
}

Pieces::Pieces(const Recurrence& r, const LoopsAround& around, const Expr& length, bool pieces_first,
               std::int64_t count)
    : LoopBuilder(r.where),
      r_(r),
      length_(length),
      pieces_first_(pieces_first),
      composing_(r),
      steps_(sequence_of(r)),
      count_(count ? number(count) : simplify_indices(ceil_div(steps_.count, length))) {
  std::vector<Expr> extents;
  for (const ir::For* loop : around) {
    extents.push_back(ir::larger(simplify_indices(loop->upper - loop->lower), number(0)));
    row_.push_back(simplify_indices(ir::var(loop->iterator) - loop->lower));
  }
  extents.insert(pieces_first ? extents.begin() : extents.end(), ir::larger(count_, number(0)));
  if (composing_.has_factor()) factor_ = local("piece_factor", extents, composing_.type());
  if (composing_.has_term()) term_ = local("piece_term", extents, composing_.type());
  after_ = local("after_piece", extents, composing_.type());
}

std::vector<Expr> Pieces::at(const Expr& piece) const {
  std::vector<Expr> result = row_;
  result.insert(pieces_first_ ? result.begin() : result.end(), piece);
  return result;
}

Stmt Pieces::keep(const Expr& piece, const Composite& all) const {
  std::vector<Stmt> result;
  if (factor_) result.push_back(set(factor_, at(piece), all.factor));
  if (term_) result.push_back(set(term_, at(piece), all.term));
  return ir::block(std::move(result));
}

Composite Pieces::kept(const Expr& piece) const {
  return {factor_ ? get(factor_, at(piece)) : Expr(), term_ ? get(term_, at(piece)) : Expr()};
}

Expr Pieces::start_of(const Expr& piece) const {
  const Expr before = ir::cast(r_.array->type, get(after_, at(piece - number(1))));
  return ir::select(ir::binary(BinaryOp::Eq, piece, number(0)), steps_.start(), before);
}

Sequence Pieces::as_steps() const {
  Sequence s;
  s.count = count_;
  s.step = [this](const Expr& p) { return kept(p); };
  s.store = [this](const Expr& p, const Expr& value) { return set(after_, at(p), value); };
  s.start = [this] { return ir::cast(composing_.type(), steps_.start()); };
  s.in_order = [this](const Expr& p, const Array& value) { return in_order(p, value); };
  return s;
}

Stmt Pieces::in_order(const Expr& piece, const Array& value) const {
  const Array next = local("next", {}, composing_.type()), own = local("own", {}, r_.array->type);
  const Expr now = get(next, {}), before = get(value, {}), after = composing_.applied(kept(piece), before);
  if (!composing_.may_want_order()) return set(value, {}, after);
  const Stmt each = each_step(piece, [&](const Expr& p) { return steps_.in_order(p, own); });
  const Stmt elements = ir::block(
      {set(own, {}, ir::cast(r_.array->type, before)), each, set(next, {}, ir::cast(composing_.type(), get(own, {})))});
  const Stmt again = ir::if_then(composing_.want_order(before, now), ir::allocate(own, elements, where_));
  return ir::allocate(next, ir::block({set(next, {}, after), again, set(value, {}, now)}), where_);
}

Stmt Pieces::with_arrays(Stmt body) const {
  for (const Array& array : {factor_, term_, after_})
    if (array) body = ir::allocate(array, body, where_);
  return body;
}

}  // namespace loopgrad::transforms

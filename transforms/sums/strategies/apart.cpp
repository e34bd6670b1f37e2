// Sums that meet others but not themselves, as neighbours on a ring do: each in a nest of its own, by its elements.
//
//   for i in 0..n:                              for j in 0..n:
//     t[(i + 1)%n] += f(i)              ->        t[j] += f((j - 1)%n)
//
// so that nests of several such sums into one array are one again where they can be fused. Places that are no shift of
// a whole ring stay as they are written. plan_sums.h says which sums are parted.
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/nest.h"
#include "transforms/sums/strategies.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

namespace {

std::optional<std::string> by_parting(SumNest&, const SumGroup&, std::vector<ir::Array>&) {
  return "only sums that meet each other but not themselves";
}

/// `(i + shift) % n` of a loop over the whole ring.
struct RingPlace {
  const ir::For* loop = nullptr;
  Expr shift;
};

std::optional<RingPlace> ring_place(const Expr& index, const std::vector<const ir::For*>& loops) {
  const auto* rest = index.as<ir::Binary>();
  if (!rest || rest->op != BinaryOp::Mod) return std::nullopt;
  for (const ir::For* loop : loops) {
    if (coefficient_of(rest->a, loop->iterator) != 1) continue;
    if (ir::as_int(loop->lower) != 0 || !same_value(loop->upper, rest->b)) continue;
    // Whole rounds do not matter.
    ir::LinearForm shift = linear_form(rest->a - ir::var(loop->iterator));
    std::erase_if(shift.terms, [&](const ir::LinearForm::Term& term) { return same_value(term.atom, rest->b); });
    const Expr by = to_expr(shift);
    const bool is_fixed = !ir::has_load(by) && std::none_of(loops.begin(), loops.end(), [&](const ir::For* other) {
      return mentions(by, other->iterator);
    });
    if (is_fixed) return RingPlace{loop, by};
  }
  return std::nullopt;
}

bool bounds_need(const std::vector<const ir::For*>& loops, const ir::Symbol& iterator) {
  return std::any_of(loops.begin(), loops.end(), [&](const ir::For* loop) {
    return mentions(loop->lower, iterator) || mentions(loop->upper, iterator);
  });
}

/// The loops around the only leaf of `piece`, which is a sum; empty for others.
std::vector<const ir::For*> loops_around_sum(const Stmt& piece) {
  const std::vector<Stmt> all = leaves(piece);
  std::vector<const ir::For*> loops;
  if (all.size() != 1 || all[0].kind() != ir::Kind::Reduce) return loops;
  ir::walk_stmts(piece, [&](const Stmt& s) {
    if (const auto* loop = s.as<ir::For>()) loops.push_back(loop);
  });
  return loops;
}

/// With the loop over the elements of the ring, at `index`, in place of that over what is added to them.
Stmt by_elements(const Stmt& piece, const Expr& index, const RingPlace& place) {
  const ir::For& loop = *place.loop;
  const ir::Symbol element = ir::make_symbol(loop.iterator.name);
  const Expr own = ir::binary(BinaryOp::Mod, simplify_indices(ir::var(element) - place.shift), loop.upper);
  return ir::rewrite(piece, {}, [&](const Stmt& s) -> std::optional<Stmt> {
    if (s.as<ir::For>() != &loop) return std::nullopt;
    const Stmt marked = ir::rewrite(loop.body, [&](const Expr& e) -> std::optional<Expr> {
      return ir::equal(e, index) ? std::optional(ir::var(element)) : std::nullopt;
    });
    return ir::for_loop(element, loop.lower, loop.upper, ir::substitute(marked, {{loop.iterator, own}}), loop.mode,
                        loop.location, loop.at_most);
  });
}

Stmt apply(SumNest&, const Stmt& piece, const std::vector<SumGroup*>&) {
  Stmt result = piece;
  const std::vector<const ir::For*> first = loops_around_sum(piece);
  if (first.empty()) return piece;
  const std::size_t dims = leaves(piece)[0].as<ir::Reduce>()->indices.size();
  for (std::size_t dim = 0; dim < dims; ++dim) {
    const std::vector<const ir::For*> loops = loops_around_sum(result);
    const Expr index = leaves(result)[0].as<ir::Reduce>()->indices[dim];
    const auto place = ring_place(index, loops);
    if (place && !bounds_need(loops, place->loop->iterator)) result = by_elements(result, index, *place);
  }
  return result;
}

}  // namespace

const SumStrategy apart_strategy = {
    .strategy = Strategy::Apart, .in_own_nest = true, .obstacle = by_parting, .apply = apply};

}  // namespace loopgrad::transforms

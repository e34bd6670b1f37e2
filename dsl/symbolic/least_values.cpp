#include "dsl/symbolic/least_values.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/visit.h"

#include <algorithm>

namespace loopgrad::ir {

namespace {

using Least = std::optional<std::int64_t>;

Least smaller(const Least& a, const Least& b) { return a && b ? Least(std::min(*a, *b)) : std::nullopt; }
Least larger(const Least& a, const Least& b) { return a && b ? Least(std::max(*a, *b)) : a ? a : b; }

/// The bounds that hold together: the operands of a minimum (of upper bounds) or a maximum (of lower ones).
void collect(const Expr& e, BinaryOp op, std::vector<Expr>& bounds) {
  const auto* n = e.as<Binary>();
  if (!n || n->op != op) return bounds.push_back(e);
  collect(n->a, op, bounds);
  collect(n->b, op, bounds);
}

}  // namespace

LeastValues::LeastValues(const Program& program) : LeastValues(program.body) {
  sizes_.insert(program.sizes.begin(), program.sizes.end());
}

LeastValues::LeastValues(const Stmt& body) {
  walk_stmts(body, [&](const Stmt& s) {
    const auto* loop = s.as<For>();
    if (!loop) return;
    const auto [found, is_new] =
        loops_.try_emplace(loop->iterator, Loop{loops_.size(), loop->lower, loop->upper, true});
    found->second.unique &= is_new;
    const auto* count = loop->upper.as<Var>();
    if (count && loop->mode == LoopMode::Threads && as_int(loop->lower) == 0) threads_.insert(count->symbol);
  });
}

Least LeastValues::of(const Expr& e) const { return e.type() == ScalarType::I64 ? of(linear_form(e)) : std::nullopt; }

Least LeastValues::of(const LinearForm& form) const {
  const LinearForm::Term* innermost = nullptr;
  const Loop* around = nullptr;
  for (const LinearForm::Term& term : form.terms) {
    const auto* var = term.atom.as<Var>();
    const auto found = var ? loops_.find(var->symbol) : loops_.end();
    if (found == loops_.end() || !found->second.unique || (around && around->depth > found->second.depth)) continue;
    innermost = &term;
    around = &found->second;
  }
  if (!innermost) {
    std::int64_t sum = form.constant;
    for (const LinearForm::Term& term : form.terms) {
      const Least least = term.coefficient > 0 ? of_atom(term.atom) : std::nullopt;
      if (!least) return std::nullopt;
      sum += term.coefficient * *least;
    }
    return sum;
  }
  const bool from_below = innermost->coefficient > 0;
  std::vector<Expr> bounds;
  collect(from_below ? around->lower : around->upper, from_below ? BinaryOp::Max : BinaryOp::Min, bounds);
  Least best;
  for (const Expr& bound : bounds) {
    if (has_load(bound)) continue;
    const Expr extreme = from_below ? bound : bound - int_const(1);
    const Expr change = int_const(innermost->coefficient) * (extreme - innermost->atom);
    best = larger(best, of(linear_form(to_expr(form) + change)));
  }
  return best;
}

Least LeastValues::of_atom(const Expr& atom) const {
  if (const auto* var = atom.as<Var>())
    return threads_.count(var->symbol) ? Least(1) : sizes_.count(var->symbol) ? Least(0) : std::nullopt;
  if (const auto* select = atom.as<Select>()) return smaller(of(select->a), of(select->b));
  const auto* n = atom.as<Binary>();
  if (!n) return std::nullopt;
  const Least a = of(n->a), b = of(n->b);
  switch (n->op) {
    case BinaryOp::Max: return larger(a, b);
    case BinaryOp::Min: return smaller(a, b);
    case BinaryOp::Mul: return a && b && *a >= 0 && *b >= 0 ? Least(0) : std::nullopt;
    case BinaryOp::FloorDiv: return a && b && *a >= 0 && *b >= 1 ? Least(0) : std::nullopt;
    case BinaryOp::Mod: return b && *b >= 1 ? Least(0) : std::nullopt;
    default: return std::nullopt;
  }
}

bool LeastValues::are_apart(const std::vector<Expr>& a, const std::vector<Expr>& b) const {
  for (std::size_t d = 0; d < a.size(); ++d)
    if (is_at_least(a[d] - b[d], 1) || is_at_least(b[d] - a[d], 1)) return true;
  return false;
}

}  // namespace loopgrad::ir

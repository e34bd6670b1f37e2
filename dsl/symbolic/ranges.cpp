#include "dsl/symbolic/ranges.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/ir/visit.h"
#include "dsl/ir/wrapping.h"
#include "dsl/symbolic/linear_form.h"

#include <algorithm>
#include <vector>

namespace loopgrad::ir {
namespace {

/// Of ranges between constants.
std::optional<Range> constant_product(const Range& a, const Range& b) {
  std::vector<Expr> corners;
  for (const Expr& x : {a.lowest, a.highest})
    for (const Expr& y : {b.lowest, b.highest}) {
      corners.push_back(x * y);
      if (!as_int(corners.back())) return std::nullopt;
    }
  const auto [least, most] = std::minmax_element(corners.begin(), corners.end(),
                                                 [](const Expr& x, const Expr& y) { return *as_int(x) < *as_int(y); });
  return Range{*least, *most};
}

std::optional<Range> product(const Range& a, const Range& b, const RangeContext& context) {
  if (!equal(b.lowest, b.highest)) return std::nullopt;
  const Expr& factor = b.lowest;
  if (surely_non_negative(factor, context)) return Range{a.lowest * factor, a.highest * factor};
  if (const auto c = as_int(factor); c && *c < 0) return Range{a.highest * factor, a.lowest * factor};
  return std::nullopt;
}

std::optional<Range> range_of_binary(const Binary& n, const RangeContext& context) {
  const auto a = range_of(n.a, context), b = range_of(n.b, context);
  if (!b) return std::nullopt;
  if (n.op == BinaryOp::Mod) {  // needs no bounds of the dividend
    const bool positive = equal(b->lowest, b->highest) && surely_non_negative(b->lowest, context);
    return positive ? std::optional(Range{int_const(0), b->highest - int_const(1)}) : std::nullopt;
  }
  if (!a) return std::nullopt;
  switch (n.op) {
    case BinaryOp::Add: return Range{a->lowest + b->lowest, a->highest + b->highest};
    case BinaryOp::Sub: return Range{a->lowest - b->highest, a->highest - b->lowest};
    case BinaryOp::Mul: {
      for (const auto& r : {product(*a, *b, context), product(*b, *a, context)})
        if (r) return r;
      return constant_product(*a, *b);
    }
    case BinaryOp::Min: return Range{smaller(a->lowest, b->lowest), smaller(a->highest, b->highest)};
    case BinaryOp::Max: return Range{larger(a->lowest, b->lowest), larger(a->highest, b->highest)};
    case BinaryOp::FloorDiv: {
      const auto c = as_int(b->lowest);
      if (!c || *c <= 0 || !equal(b->lowest, b->highest)) return std::nullopt;
      return Range{binary(BinaryOp::FloorDiv, a->lowest, b->lowest), binary(BinaryOp::FloorDiv, a->highest, b->lowest)};
    }
    default: return std::nullopt;
  }
}

}  // namespace

Expr smaller(const Expr& a, const Expr& b) { return equal(a, b) ? a : binary(BinaryOp::Min, a, b); }
std::optional<Expr> band_width(const Expr& lower, const Expr& upper, const std::function<bool(const Expr&)>& is_fixed) {
  if (has_load(lower) || has_load(upper) || is_fixed(lower)) return std::nullopt;
  const std::function<void(const Expr&, BinaryOp, const Expr&, std::vector<Expr>&)> collect =
      [&](const Expr& e, BinaryOp op, const Expr& shift, std::vector<Expr>& parts) {
        const auto* n = e.as<Binary>();
        if (n && n->op == op) {
          collect(n->a, op, shift, parts);
          collect(n->b, op, shift, parts);
        } else if (n && n->op == BinaryOp::Add && as_int(n->b)) {  // min(i + r, n - 1) + 1
          collect(n->a, op, shift + n->b, parts);
        } else {
          parts.push_back(e + shift);
        }
      };
  std::vector<Expr> starts, ends;
  collect(lower, BinaryOp::Max, int_const(0), starts);
  collect(upper, BinaryOp::Min, int_const(0), ends);
  std::optional<Expr> width;
  for (const Expr& start : starts)
    for (const Expr& end : ends) {
      const Expr apart = to_expr(linear_form(end - start));
      if (is_fixed(apart)) width = width ? smaller(*width, apart) : apart;
    }
  return width ? std::optional(larger(*width, int_const(0))) : std::nullopt;
}

Expr larger(const Expr& a, const Expr& b) { return equal(a, b) ? a : binary(BinaryOp::Max, a, b); }

bool surely_non_negative(const Expr& e, const RangeContext& context) {
  if (const auto c = as_int(e)) return *c >= 0;
  if (const auto* v = e.as<Var>()) return context.non_negative && context.non_negative(v->symbol);
  const auto* b = e.as<Binary>();
  if (!b) return false;
  if (b->op == BinaryOp::Max) return surely_non_negative(b->a, context) || surely_non_negative(b->b, context);
  return (b->op == BinaryOp::Add || b->op == BinaryOp::Mul || b->op == BinaryOp::Min || b->op == BinaryOp::FloorDiv) &&
         surely_non_negative(b->a, context) && surely_non_negative(b->b, context);
}

std::optional<Range> range_of(const Expr& e, const RangeContext& context) {
  using Result = std::optional<Range>;
  // Bounds are numbers of 64 bits, whatever the type of what is read.
  const auto leaf = [&]() -> Result {
    const Result found = context.leaf ? context.leaf(e) : Result();
    if (!found) return found;
    const auto wide = [](const Expr& bound) {
      return bound.type() == ScalarType::I64 ? bound : cast(ScalarType::I64, bound);
    };
    return Range{wide(found->lowest), wide(found->highest)};
  };
  return visit(e, overloaded{
                      [&](const IntConst& n) {
                        const Expr c = int_const(n.value);
                        return Result(Range{c, c});
                      },
                      [&](const Var& n) {
                        const auto it = context.variables.find(n.symbol);
                        if (it != context.variables.end()) return Result(it->second);
                        return leaf();
                      },
                      [&](const Load&) { return leaf(); },
                      [&](const Unary& n) {
                        const auto a = n.op == UnaryOp::Neg ? range_of(n.a, context) : Result();
                        return a ? Result(Range{-a->highest, -a->lowest}) : Result();
                      },
                      [&](const Binary& n) { return may_wrap(e) ? Result() : range_of_binary(n, context); },
                      [&](const Select& n) {
                        const auto a = range_of(n.a, context), b = range_of(n.b, context);
                        if (!a || !b) return Result();
                        return Result(Range{smaller(a->lowest, b->lowest), larger(a->highest, b->highest)});
                      },
                      [&](const Cast& n) { return is_integer(n.a.type()) ? range_of(n.a, context) : Result(); },
                      [&](const auto&) { return Result(); },
                  });
}

std::optional<Expr> highest_of(const Expr& e, const RangeContext& context) {
  if (const auto* v = e.as<Var>()) {
    const auto found = context.highest.find(v->symbol);
    if (found != context.highest.end()) return found->second;
  }
  const auto* n = e.as<Binary>();
  if (n && (n->op == BinaryOp::Min || n->op == BinaryOp::Max)) {
    const auto a = highest_of(n->a, context), b = highest_of(n->b, context);
    if (a && b) return n->op == BinaryOp::Min ? smaller(*a, *b) : larger(*a, *b);
    return n->op == BinaryOp::Max ? std::nullopt : a ? a : b;
  }
  if (const auto range = range_of(e, context)) return range->highest;
  if (!n) return std::nullopt;
  const auto a = highest_of(n->a, context);
  if (!a) return std::nullopt;
  const auto b = range_of(n->b, context);
  const auto factor = as_int(n->b);
  switch (n->op) {
    case BinaryOp::Add: {
      const auto other = highest_of(n->b, context);
      return other ? std::optional(*a + *other) : std::nullopt;
    }
    case BinaryOp::Sub: return b ? std::optional(*a - b->lowest) : std::nullopt;
    case BinaryOp::Mul: return factor && *factor >= 0 ? std::optional(*a * n->b) : std::nullopt;
    case BinaryOp::FloorDiv: return factor && *factor > 0 ? std::optional(binary(n->op, *a, n->b)) : std::nullopt;
    default: return std::nullopt;
  }
}

}  // namespace loopgrad::ir

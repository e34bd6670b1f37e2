#include "dsl/symbolic/ranges.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/ir/visit.h"
#include "dsl/ir/wrapping.h"
#include "dsl/symbolic/csr_rows.h"
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

std::optional<Range> range_of_arithmetic(const Binary& n, const RangeContext& context) {
  const auto b = range_of(n.b, context);
  if (!b) return std::nullopt;
  if (n.op == BinaryOp::Mod) {  // needs no bounds of the dividend
    const bool one = equal(b->lowest, b->highest) && surely_non_negative(b->lowest, context);
    const bool positive = one || (as_int(b->lowest).value_or(0) > 0 && as_int(b->highest));
    return positive ? std::optional(Range{int_const(0), b->highest - int_const(1)}) : std::nullopt;
  }
  const auto a = range_of(n.a, context);
  if (!a) return std::nullopt;
  switch (n.op) {
    case BinaryOp::Add: return Range{a->lowest + b->lowest, a->highest + b->highest};
    case BinaryOp::Sub: return Range{a->lowest - b->highest, a->highest - b->lowest};
    case BinaryOp::Mul: {
      for (const auto& r : {product(*a, *b, context), product(*b, *a, context)})
        if (r) return r;
      return constant_product(*a, *b);
    }
    case BinaryOp::FloorDiv: {
      const auto by = [](const Expr& value, const Expr& divisor) { return binary(BinaryOp::FloorDiv, value, divisor); };
      if (equal(b->lowest, b->highest) && surely_positive(b->lowest))
        return Range{by(a->lowest, b->lowest), by(a->highest, b->lowest)};
      const auto least = as_int(b->lowest), most = as_int(b->highest);
      if (!least || !most || *least <= 0) return std::nullopt;
      return Range{binary(BinaryOp::Min, by(a->lowest, b->lowest), by(a->lowest, b->highest)),
                   binary(BinaryOp::Max, by(a->highest, b->lowest), by(a->highest, b->highest))};
    }
    default: return std::nullopt;
  }
}

/// Bounds of which either may be missing: null. Only what gives one of its operands has such: what has no upper bound
/// may be so large that a sum of it wraps around.
struct Ends {
  Expr lowest, highest;
};

Ends ends_of(const Expr& e, const RangeContext& context);

template <class F>
Expr of_both(const Expr& a, const Expr& b, F&& f) {
  return a && b ? f(a, b) : Expr();
}
template <class F>
Expr of_either(const Expr& a, const Expr& b, F&& f) {
  return a && b ? f(a, b) : a ? a : b;
}

Ends ends_of_binary(const Binary& n, const RangeContext& context) {
  if (n.op != BinaryOp::Min && n.op != BinaryOp::Max) {
    const auto range = range_of_arithmetic(n, context);
    return range ? Ends{range->lowest, range->highest} : Ends();
  }
  const Ends a = ends_of(n.a, context), b = ends_of(n.b, context);
  if (n.op == BinaryOp::Min) return {of_both(a.lowest, b.lowest, smaller), of_either(a.highest, b.highest, smaller)};
  return {of_either(a.lowest, b.lowest, larger), of_both(a.highest, b.highest, larger)};
}

bool is_op(const Expr& e, BinaryOp op) {
  const auto* n = e.as<Binary>();
  return n && n->op == op;
}

}  // namespace

Expr smaller(const Expr& a, const Expr& b) { return equal(a, b) ? a : binary(BinaryOp::Min, a, b); }

RangeContext ranges_in_variables() {
  RangeContext result;
  result.leaf = [](const Expr& leaf) { return leaf.as<Var>() ? std::optional(Range{leaf, leaf}) : std::nullopt; };
  return result;
}

std::optional<Expr> band_width(const Expr& lower, const Expr& upper, const std::function<bool(const Expr&)>& is_fixed) {
  if (has_load(lower) || has_load(upper) || is_fixed(lower)) return std::nullopt;
  const std::function<void(const Expr&, BinaryOp, const Expr&, std::vector<Expr>&)> collect =
      [&](const Expr& e, BinaryOp op, const Expr& shift, std::vector<Expr>& parts) {
        const auto* n = e.as<Binary>();
        if (n && n->op == op) {
          collect(n->a, op, shift, parts);
          collect(n->b, op, shift, parts);
        } else if (n && n->op == BinaryOp::Add && (as_int(n->b) || is_op(n->a, op))) {  // min(i + r, n - 1) + 1
          collect(n->a, op, shift + n->b, parts);
        } else if (n && n->op == BinaryOp::Add && is_op(n->b, op)) {
          collect(n->b, op, shift + n->a, parts);
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

bool surely_positive(const Expr& e) {
  if (const auto c = as_int(e)) return *c > 0;
  const auto* n = e.as<Binary>();
  return n && n->op == BinaryOp::Max && (surely_positive(n->a) || surely_positive(n->b));
}

bool surely_non_negative(const Expr& e, const RangeContext& context) {
  if (const auto c = as_int(e)) return *c >= 0;
  if (const auto* v = e.as<Var>()) return context.non_negative && context.non_negative(v->symbol);
  const auto* b = e.as<Binary>();
  if (!b) return false;
  if (b->op == BinaryOp::Max) return surely_non_negative(b->a, context) || surely_non_negative(b->b, context);
  return (b->op == BinaryOp::Add || b->op == BinaryOp::Mul || b->op == BinaryOp::Min || b->op == BinaryOp::FloorDiv) &&
         surely_non_negative(b->a, context) && surely_non_negative(b->b, context);
}

namespace {

Ends ends_of_leaf(const Expr& e, const RangeContext& context) {
  const auto found = context.leaf ? context.leaf(e) : std::nullopt;
  if (!found) return {};
  // Bounds are numbers of 64 bits, whatever the type of what is read.
  const auto wide = [](const Expr& bound) {
    return bound.type() == ScalarType::I64 ? bound : cast(ScalarType::I64, bound);
  };
  return {wide(found->lowest), wide(found->highest)};
}

Ends ends_of_row_length(const Expr& e, const RangeContext& context) {
  const Load* const first = context.row_length ? row_length(e).first : nullptr;
  const auto known = first ? context.row_length(*first) : std::nullopt;
  return known ? Ends{known->lowest, known->highest} : Ends();
}

Ends ends_of_cast(const Cast& n, const RangeContext& context) {
  if (!is_integer(n.a.type())) return {};
  const Ends a = ends_of(n.a, context);
  const bool is_narrower = bytes_of(n.type) < bytes_of(n.a.type());  // what has no end may go on at the other one
  return is_narrower && !(a.lowest && a.highest) ? Ends() : a;
}

Ends ends_of(const Expr& e, const RangeContext& context) {
  return visit(e, overloaded{
                      [&](const IntConst& n) {
                        const Expr c = int_const(n.value);
                        return Ends{c, c};
                      },
                      [&](const Var& n) {
                        const auto it = context.variables.find(n.symbol);
                        if (it != context.variables.end()) return Ends{it->second.lowest, it->second.highest};
                        return ends_of_leaf(e, context);
                      },
                      [&](const Load&) { return ends_of_leaf(e, context); },
                      [&](const Unary& n) {
                        const auto a = n.op == UnaryOp::Neg ? range_of(n.a, context) : std::nullopt;
                        return a ? Ends{-a->highest, -a->lowest} : Ends();
                      },
                      [&](const Binary& n) {
                        if (const Ends row = ends_of_row_length(e, context); row.lowest) return row;
                        return may_wrap(e) ? Ends() : ends_of_binary(n, context);
                      },
                      [&](const Select& n) {
                        const Ends a = ends_of(n.a, context), b = ends_of(n.b, context);
                        return Ends{of_both(a.lowest, b.lowest, smaller), of_both(a.highest, b.highest, larger)};
                      },
                      [&](const Cast& n) { return ends_of_cast(n, context); },
                      [&](const auto&) { return Ends(); },
                  });
}

}  // namespace

std::optional<Range> range_of(const Expr& e, const RangeContext& context) {
  const Ends ends = ends_of(e, context);
  return ends.lowest && ends.highest ? std::optional(Range{ends.lowest, ends.highest}) : std::nullopt;
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

#include "transforms/sums/scans/composites.h"

#include <limits>

namespace loopgrad::transforms {

using ir::BinaryOp;
using ir::Expr;

namespace {

// A product of f64 below this may have been rounded to a denormal, or to 0.
constexpr double least_product = 0x1p-960;

Expr is(BinaryOp op, const Expr& a, const Expr& b) { return ir::binary(op, a, b); }
Expr nan(ScalarType type) { return ir::float_const(std::numeric_limits<double>::quiet_NaN(), type); }

}  // namespace

Composing::Composing(const Recurrence& r)
    : kind_(r.update.kind),
      value_type_(r.array->type),
      type_(kind_ == Update::Kind::Linear && is_float(value_type_) ? ScalarType::F64 : value_type_),
      has_factor_(static_cast<bool>(r.update.factor)),
      has_term_(static_cast<bool>(r.update.term)),
      rearranged_(r.update.rearranged),
      forgets_(r.update.forgets),
      previous_first_(r.update.previous_first) {}

Composite Composing::identity() const {
  if (kind_ == Update::Kind::Linear)
    return {has_factor_ ? ir::const_of(1, type_) : Expr(), has_term_ ? ir::const_of(0, type_) : Expr()};
  return {{}, ir::identity_of(kind_ == Update::Kind::Min ? ir::ReduceOp::Min : ir::ReduceOp::Max, type_)};
}

Composite Composing::wide(const Composite& step) const {
  const auto as = [&](const Expr& e) { return e ? ir::cast(type_, e) : e; };
  return {as(step.factor), as(step.term)};
}

Composite Composing::both(const Composite& first, const Composite& second) const {
  if (kind_ != Update::Kind::Linear) return {{}, applied(second, first.term)};
  Composite result;
  if (has_factor_) {
    result.factor = looked_at(second.factor, second.factor * first.factor, second.factor);
    if (value_type_ == ScalarType::F64) {
      const Expr zero = ir::const_of(0, type_), least = ir::float_const(least_product, type_);
      const Expr small = is(BinaryOp::Lt, ir::unary(ir::UnaryOp::Abs, result.factor), least);
      const Expr none = is(BinaryOp::Or, is(BinaryOp::Eq, first.factor, zero), is(BinaryOp::Eq, second.factor, zero));
      const Expr lost = is(BinaryOp::And, small, ir::unary(ir::UnaryOp::Not, none));
      result.factor = ir::select(lost, nan(type_), result.factor);
    }
  }
  if (has_term_) result.term = applied(second, first.term);
  return result;
}

Expr Composing::looked_at(const Expr& factor, const Expr& after, const Expr& forgotten) const {
  return forgets_ ? ir::select(is(BinaryOp::Eq, factor, ir::const_of(0, factor.type())), forgotten, after) : after;
}

Expr Composing::applied(const Composite& steps, const Expr& value) const {
  if (kind_ != Update::Kind::Linear) {
    const Expr extremum = stepped(steps, value);
    if (previous_first_) return extremum;
    // A step that is NaN forgets what was before it, which no extremum does.
    const Expr unordered = is(BinaryOp::Or, is(BinaryOp::Ne, steps.term, steps.term), is(BinaryOp::Ne, value, value));
    return ir::select(unordered, nan(type_), extremum);
  }
  if (!has_factor_) return value + steps.term;
  if (!has_term_) return looked_at(steps.factor, steps.factor * value, steps.factor);
  return looked_at(steps.factor, ir::fma(steps.factor, value, steps.term), steps.term);
}

Expr Composing::stepped(const Composite& step, const Expr& value) const {
  if (kind_ != Update::Kind::Linear) {
    const Expr &a = previous_first_ ? value : step.term, &b = previous_first_ ? step.term : value;
    return is(kind_ == Update::Kind::Min ? BinaryOp::Min : BinaryOp::Max, a, b);
  }
  if (!has_factor_ || !has_term_) return applied(step, value);
  const auto sum = [&](ScalarType type) {
    return ir::cast(type, step.factor) * ir::cast(type, value) + ir::cast(type, step.term);
  };
  return looked_at(step.factor, rearranged_ ? ir::cast(value.type(), sum(ScalarType::F64)) : sum(value.type()),
                   step.term);
}

Expr Composing::want_order(const Expr& before, const Expr& after) const {
  if (!may_want_order()) return {};
  if (kind_ != Update::Kind::Linear) return is(BinaryOp::Ne, after, after);
  const auto is_number = [](const Expr& e) {
    const double most =
        e.type() == ScalarType::F32 ? std::numeric_limits<float>::max() : std::numeric_limits<double>::max();
    return is(BinaryOp::Le, ir::unary(ir::UnaryOp::Abs, e), ir::float_const(most, e.type()));
  };
  const Expr lost = ir::unary(ir::UnaryOp::Not, is_number(after));
  if (forgets_) return lost;
  // What is none before the steps is none after them in order, too.
  return is(BinaryOp::And, is_number(before), lost);
}

}  // namespace loopgrad::transforms

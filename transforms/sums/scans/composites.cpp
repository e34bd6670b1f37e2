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
      type_(kind_ == Update::Kind::Linear ? ScalarType::F64 : value_type_),
      has_factor_(static_cast<bool>(r.update.factor)),
      has_term_(static_cast<bool>(r.update.term)),
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
  if (kind_ != Update::Kind::Linear) {
    const Expr extremum = is(kind_ == Update::Kind::Min ? BinaryOp::Min : BinaryOp::Max,
                             previous_first_ ? first.term : second.term, previous_first_ ? second.term : first.term);
    if (previous_first_) return {{}, extremum};
    // A step that is NaN forgets what was before it, which no extremum does.
    const Expr unordered =
        is(BinaryOp::Or, is(BinaryOp::Ne, second.term, second.term), is(BinaryOp::Ne, first.term, first.term));
    return {{}, ir::select(unordered, nan(type_), extremum)};
  }
  Composite result;
  if (has_factor_) {
    result.factor = second.factor * first.factor;
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

Expr Composing::applied(const Composite& steps, const Expr& value) const {
  if (kind_ != Update::Kind::Linear) {
    const Expr &a = previous_first_ ? value : steps.term, &b = previous_first_ ? steps.term : value;
    const Expr extremum = is(kind_ == Update::Kind::Min ? BinaryOp::Min : BinaryOp::Max, a, b);
    return extremum;
  }
  if (!has_factor_) return value + steps.term;
  if (!has_term_) return steps.factor * value;
  return ir::fma(steps.factor, value, steps.term);
}

Expr Composing::stepped(const Composite& step, const Expr& value) const {
  if (kind_ != Update::Kind::Linear || !has_factor_ || !has_term_) return applied(step, value);
  return step.factor * value + step.term;
}

Expr Composing::is_lost(const Expr& value) const {
  if (kind_ == Update::Kind::Linear) {
    if (!has_factor_) return {};
    const Expr most = ir::float_const(
        value.type() == ScalarType::F32 ? std::numeric_limits<float>::max() : std::numeric_limits<double>::max(),
        value.type());
    return ir::unary(ir::UnaryOp::Not, is(BinaryOp::Le, ir::unary(ir::UnaryOp::Abs, value), most));
  }
  return previous_first_ ? Expr() : is(BinaryOp::Ne, value, value);
}

}  // namespace loopgrad::transforms

// Steps of a recurrence composed: (factor, term) or an extremum, and what to do where numbers end.
#pragma once

#include "dsl/symbolic/ranges.h"
#include "transforms/loops/loop_builder.h"
#include "transforms/sums/scans/recurrence.h"

namespace loopgrad::transforms {

/// Some steps in a row as one. Null: the factor 1, the term 0.
struct Composite {
  ir::Expr factor, term;
};

/// How the steps of a recurrence compose.
class Composing {
 public:
  explicit Composing(const Recurrence& r);

  bool has_factor() const { return has_factor_; }
  bool has_term() const { return has_term_; }
  /// Of composites: wider than the value where that is f32 and linear, and the same for integers.
  ScalarType type() const { return type_; }
  /// Nothing at all.
  Composite identity() const;
  /// A step of the type of the value as a composite.
  Composite wide(const Composite& step) const;
  /// Steps only add.
  bool is_sum() const { return kind_ == Update::Kind::Linear && !has_factor_; }
  /// `first` and then `second`. NaN where a product of f64 has lost bits to underflow.
  Composite both(const Composite& first, const Composite& second) const;
  /// What they make of a value of their type.
  ir::Expr applied(const Composite& steps, const ir::Expr& value) const;
  /// The step of one iteration on a value, rounded as in the loop where that does the same operations; else in f64, so
  /// that f32 does not overflow in between.
  ir::Expr stepped(const Composite& step, const ir::Expr& value) const;
  /// Whether steps from `before`, which come to `after` as a composite, may come to something else in order; null: they
  /// never do. Once they do, all later composites say so.
  ir::Expr want_order(const ir::Expr& before, const ir::Expr& after) const;
  bool may_want_order() const { return kind_ == Update::Kind::Linear ? has_factor_ : !previous_first_; }

 private:
  /// `after`, what steps make of a value, or `forgotten`, where they do not look at it.
  ir::Expr looked_at(const ir::Expr& factor, const ir::Expr& after, const ir::Expr& forgotten) const;

  Update::Kind kind_;
  ScalarType value_type_, type_;
  bool has_factor_, has_term_, rearranged_, forgets_, previous_first_;
};

}  // namespace loopgrad::transforms

#include "dsl/poly/abstraction.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/ir/visit.h"
#include "dsl/ir/wrapping.h"

namespace loopgrad::poly {

using ir::BinaryOp;
using ir::Expr;
using ir::UnaryOp;

namespace {

BinaryOp negated(BinaryOp comparison) {
  switch (comparison) {
    case BinaryOp::Lt: return BinaryOp::Ge;
    case BinaryOp::Le: return BinaryOp::Gt;
    case BinaryOp::Gt: return BinaryOp::Le;
    case BinaryOp::Ge: return BinaryOp::Lt;
    case BinaryOp::Eq: return BinaryOp::Ne;
    default: return BinaryOp::Eq;
  }
}

bool widens(const ir::Cast& node) {
  return is_integer(node.type) && is_integer(node.a.type()) && bytes_of(node.a.type()) <= bytes_of(node.type);
}

}  // namespace

Facts::Facts(const ir::Program& program) {
  auto note = [this](const ir::Array& array) { written_.insert(array->id); };
  ir::walk_stmts(program.body, [&](const ir::Stmt& s) {
    if (auto* node = s.as<ir::Assign>()) note(node->array);
    if (auto* node = s.as<ir::Reduce>()) note(node->array);
    if (auto* node = s.as<ir::Pop>()) note(node->array);
  });
  for (const ir::Fact& fact : program.facts) {
    if (fact.kind != ir::FactKind::MayAlias) continue;
    // A write to one of two aliases may change the other.
    if (!is_constant(fact.array) || !is_constant(fact.other)) {
      note(fact.array);
      note(fact.other);
    }
  }
  for (const ir::Fact& fact : program.facts) {
    if (fact.kind == ir::FactKind::Distinct) distinct_.insert(fact.array->id);
    if (!ir::is_about_data(fact.kind) || !is_constant(fact.array)) continue;
    if (fact.kind == ir::FactKind::Injective) injective_.insert(fact.array->id);
    if (fact.kind == ir::FactKind::InRange) ranges_[fact.array->id] = {fact.lower, fact.upper};
    if (fact.kind == ir::FactKind::CsrPointer) {
      csr_.insert(fact.array->id);
      ranges_[fact.array->id] = {ir::int_const(0), fact.upper + ir::int_const(1)};
    }
  }
}

const std::pair<Expr, Expr>* Facts::range_of(const ir::Array& array) const {
  auto found = ranges_.find(array->id);
  return found == ranges_.end() ? nullptr : &found->second;
}

const ir::Load* as_indirect(const Expr& index) {
  if (auto* node = index.as<ir::Cast>()) return widens(*node) ? as_indirect(node->a) : nullptr;
  auto* node = index.as<ir::Load>();
  return node && is_integer(node->type) ? node : nullptr;
}

const Numbers& Abstraction::no_numbers() {
  static const Numbers none;
  return none;
}

Expr Abstraction::opaque(const Expr& e, const Expr& lower, const Expr& upper) {
  exact_ = false;
  for (std::size_t k = 0; k < originals_.size(); ++k) {
    if (ir::equal(originals_[k], e)) return ir::var(symbols_[k]);
  }
  symbols_.push_back(ir::make_symbol("v"));
  originals_.push_back(e);
  Expr symbol = ir::var(symbols_.back());
  // A bound need not be affine either, such as a product of sizes.
  if (lower) constraints_.push_back(ir::binary(BinaryOp::Ge, symbol, value(ir::cast(ScalarType::I64, lower))));
  if (upper) constraints_.push_back(ir::binary(BinaryOp::Lt, symbol, value(ir::cast(ScalarType::I64, upper))));
  return symbol;
}

Expr Abstraction::value_of_load(const ir::Load& node, const Expr& e) {
  auto* range = facts_.range_of(node.array);
  return range ? opaque(e, range->first, range->second) : opaque(e);
}

Abstraction::Choice Abstraction::choice(const Expr& a, const Expr& b) {
  const bool was_exact = exact_;
  const std::size_t symbols = symbols_.size(), constraints = constraints_.size();
  Choice result;
  exact_ = true;
  result.a = value(a);
  result.a_exact = exact_;
  exact_ = true;
  result.b = value(b);
  result.b_exact = exact_;
  exact_ = was_exact && result.exact();
  result.unknown = !result.exact() && !ir::has_load(a) && !ir::has_load(b);
  if (result.unknown) {
    symbols_.resize(symbols);
    originals_.resize(symbols);
    constraints_.resize(constraints);
  }
  return result;
}

Expr Abstraction::value_of_extremum(const ir::Binary& node, const Expr& e) {
  const Choice operands = choice(node.a, node.b);
  if (!operands.unknown) return ir::binary(node.op, operands.a, operands.b);
  Expr result = opaque(e);
  const BinaryOp relation = node.op == BinaryOp::Max ? BinaryOp::Ge : BinaryOp::Le;
  if (operands.a_exact) constraints_.push_back(ir::binary(relation, result, operands.a));
  if (operands.b_exact) constraints_.push_back(ir::binary(relation, result, operands.b));
  return result;
}

Expr Abstraction::value_of_select(const ir::Select& node, const Expr& e) {
  Abstraction probe(facts_);
  probe.condition(node.condition, true);
  if (probe.exact()) {
    const Choice cases = choice(node.a, node.b);
    return cases.unknown ? opaque(e) : ir::select(node.condition, cases.a, cases.b);
  }
  Expr result = opaque(e), a = value(node.a), b = value(node.b);
  constraints_.push_back(
      ir::binary(BinaryOp::Or, ir::binary(BinaryOp::Eq, result, a), ir::binary(BinaryOp::Eq, result, b)));
  return result;
}

// By something that need not be a positive number: where it is not, nothing is known of the remainder.
Expr Abstraction::value_of_remainder(const ir::Binary& node, const Expr& e) {
  const auto where_positive = [&](const Expr& result, const Expr& divisor, const Expr& also) {
    const Expr positive = ir::binary(BinaryOp::Lt, ir::int_const(0), divisor);
    Expr holds = ir::binary(BinaryOp::And, ir::binary(BinaryOp::Le, ir::int_const(0), result),
                            ir::binary(BinaryOp::Lt, result, divisor));
    if (also) holds = ir::binary(BinaryOp::And, holds, also);
    constraints_.push_back(ir::binary(BinaryOp::Or, ir::binary(BinaryOp::And, positive, holds),
                                      ir::binary(BinaryOp::Le, divisor, ir::int_const(0))));
    return result;
  };
  if (remainders_ == Remainders::Any) {
    const Expr divisor = value(node.b);
    return where_positive(opaque(e), divisor, {});
  }
  const bool was_exact = exact_;
  const Choice operands = choice(node.a, node.b);
  const Expr result = opaque(e);
  if (!operands.exact()) return operands.unknown ? result : where_positive(result, operands.b, {});
  exact_ = was_exact;
  has_periods_ = true;
  Expr one_of;
  for (std::int64_t period = -1; period <= 2; ++period) {
    const Expr equal = ir::binary(BinaryOp::Eq, operands.a, result + ir::int_const(period) * operands.b);
    one_of = one_of ? ir::binary(BinaryOp::Or, one_of, equal) : equal;
  }
  return where_positive(result, operands.b, one_of);
}

// `number` takes few values, and each of them makes the product affine.
Expr Abstraction::value_of_product(const Expr& number, const Expr& factor, const Expr& e) {
  constexpr std::int64_t most_cases = 16;
  ir::RangeContext context;
  context.variables = numbers_;
  const auto range = numbers_.empty() ? std::nullopt : ir::range_of(number, context);
  const auto first = range ? ir::as_int(range->lowest) : std::nullopt,
             last = range ? ir::as_int(range->highest) : first;
  if (!first || !last || *last - *first >= most_cases) return {};
  const bool was_exact = exact_;
  const Choice operands = choice(number, factor);
  exact_ = was_exact;
  if (!operands.exact()) return {};
  const Expr result = opaque(e);
  exact_ = was_exact;
  Expr one_of;
  for (std::int64_t c = *first; c <= *last; ++c) {
    const Expr is = ir::binary(BinaryOp::And, ir::binary(BinaryOp::Eq, operands.a, ir::int_const(c)),
                               ir::binary(BinaryOp::Eq, result, ir::int_const(c) * operands.b));
    one_of = one_of ? ir::binary(BinaryOp::Or, one_of, is) : is;
  }
  constraints_.push_back(one_of);
  return result;
}

Expr Abstraction::value_of_binary(const ir::Binary& node, const Expr& e) {
  if (ir::may_wrap(e)) return opaque(e);
  switch (node.op) {
    case BinaryOp::Add:
    case BinaryOp::Sub: return ir::binary(node.op, value(node.a), value(node.b));
    case BinaryOp::Min:
    case BinaryOp::Max: return value_of_extremum(node, e);
    case BinaryOp::Mul:
      if (ir::as_int(node.a) || ir::as_int(node.b)) return value(node.a) * value(node.b);
      for (const auto& [number, factor] : {std::pair(node.a, node.b), std::pair(node.b, node.a)})
        if (const Expr exactly = value_of_product(number, factor, e)) return exactly;
      return opaque(e);
    case BinaryOp::FloorDiv: {
      auto divisor = ir::as_int(node.b);
      return divisor && *divisor > 0 ? ir::binary(node.op, value(node.a), ir::int_const(*divisor)) : opaque(e);
    }
    case BinaryOp::Mod: {
      auto divisor = ir::as_int(node.b);
      if (divisor && *divisor > 0) return ir::binary(node.op, value(node.a), ir::int_const(*divisor));
      return value_of_remainder(node, e);
    }
    default: return opaque(e);
  }
}

// Everything below is i64: symbols are, and widening casts are dropped.
Expr Abstraction::value(const Expr& e) {
  if (!is_integer(e.type())) return opaque(e);
  return ir::visit(
      e, ir::overloaded{[&](const ir::IntConst& node) { return ir::int_const(node.value); },
                        [&](const ir::Var&) { return e; }, [&](const ir::Load& node) { return value_of_load(node, e); },
                        [&](const ir::Unary& node) {
                          bool affine = node.op == UnaryOp::Neg || node.op == UnaryOp::Abs;
                          return affine ? ir::unary(node.op, value(node.a)) : opaque(e);
                        },
                        [&](const ir::Binary& node) { return value_of_binary(node, e); },
                        [&](const ir::Select& node) { return value_of_select(node, e); },
                        [&](const ir::Cast& node) {
                          if (widens(node)) return value(node.a);
                          if (node.a.type() != ScalarType::Bool) return opaque(e);
                          Abstraction probe(facts_);
                          probe.condition(node.a, true);
                          if (probe.exact()) return ir::cast(ScalarType::I64, node.a);
                          return opaque(e);
                        },
                        [&](const auto&) { return opaque(e); }});
}

Expr Abstraction::condition(const Expr& e, bool expected) {
  if (auto constant = ir::as_int(e)) return ir::bool_const((*constant != 0) == expected);
  if (auto* node = e.as<ir::Unary>()) {
    if (node->op == UnaryOp::Not) return condition(node->a, !expected);
  }
  if (auto* node = e.as<ir::Binary>()) {
    if (node->op == BinaryOp::And || node->op == BinaryOp::Or) {
      bool both = (node->op == BinaryOp::And) == expected;
      return ir::binary(both ? BinaryOp::And : BinaryOp::Or, condition(node->a, expected),
                        condition(node->b, expected));
    }
    if (ir::is_comparison(node->op) && is_integer(node->a.type())) {
      return ir::binary(expected ? node->op : negated(node->op), value(node->a), value(node->b));
    }
  }
  exact_ = false;
  return ir::bool_const(true);
}

}  // namespace loopgrad::poly

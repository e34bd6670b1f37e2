#include "tape/adjoint_rules.h"

#include "dsl/ir/structural_equal.h"
#include "dsl/ir/visit.h"

namespace loopgrad::tape {
namespace {

using ir::BinaryOp;
using ir::Expr;
using ir::UnaryOp;

Expr number(double value, const Expr& like) { return ir::float_const(value, like.type()); }
Expr divide(const Expr& a, const Expr& b) { return ir::binary(BinaryOp::Div, a, b); }
Expr call(UnaryOp op, const Expr& a) { return ir::unary(op, a); }
Expr less(const Expr& a, const Expr& b) { return ir::binary(BinaryOp::Lt, a, b); }

/// a + b where either may be null, standing for zero.
Expr sum(const Expr& a, const Expr& b) {
  if (!a) return b;
  return b ? a + b : a;
}

/// True for what is made of constants and integers, so that no gradient can reach it.
bool is_fixed(const Expr& e) {
  bool fixed = true;
  ir::walk(e, [&](const Expr& node) {
    fixed &= node.kind() != ir::Kind::Load || !is_float(node.type());
    return fixed;
  });
  return fixed;
}

/// d/da a^b for a constant b; null for zero. Small whole exponents take products, which are exact at every base.
Expr slope_of_power(const Expr& a, double b) {
  if (b == 0) return {};
  if (b == 1) return number(1, a);
  if (b == 2) return number(2, a) * a;
  if (b == 3) return number(3, a) * (a * a);
  const Expr exponent = number(b, a), one_less = number(b - 1, a);
  const bool exact = one_less.as<ir::FloatConst>()->value == b - 1;
  return exponent * ir::binary(BinaryOp::Pow, a, exact ? one_less : exponent - number(1, a));
}

/// d/da a^b = b a^(b-1). Where b is 0 the power is 1 for every base, and the product could be 0 times infinity. There
/// the slope is written as b / a, so that its own derivative by b, 1 / a, is not lost.
Expr slope_of_power(const Expr& a, const Expr& b) {
  const Expr zero = number(0, a), one = number(1, a);
  const Expr flat =
      is_fixed(b) ? zero : divide(b, ir::select(ir::binary(BinaryOp::Or, less(a, zero), less(zero, a)), a, one));
  return ir::select(ir::binary(BinaryOp::Eq, b, zero), flat, b * ir::binary(BinaryOp::Pow, a, b - one));
}

OperandSeeds pull_back_pow(const Expr& a, const Expr& b, const Expr& result, const Expr& seed) {
  const auto* constant = b.as<ir::FloatConst>();
  const Expr slope = constant ? slope_of_power(a, constant->value) : slope_of_power(a, b);
  const Expr to_a = slope ? seed * slope : Expr{};
  if (constant) return {to_a, {}};
  // d/db a^b = a^b log a; for a <= 0 the exponent cannot vary smoothly, and 0^b is taken as constant in b.
  const Expr to_b = seed * ir::select(less(number(0, a), a), result * call(UnaryOp::Log, a), number(0, a));
  return {to_a, to_b};
}

/// Walks `value` from the root down, carrying the adjoint of the current node.
class Collector {
 public:
  Collector(const IsActive& active, std::vector<Contribution>& out) : active_(active), out_(out) {}

  void collect(const Expr& e, const Expr& seed, const Expr& result, std::vector<Expr>& guards) {
    if (!seed || !reaches_active(e)) return;
    ir::visit(e, ir::overloaded{
                     [&](const ir::Load& n) { add(n, seed, guards); },
                     [&](const ir::Unary& n) { collect(n.a, pull_back(n, result ? result : e, seed), {}, guards); },
                     [&](const ir::Binary& n) {
                       const OperandSeeds seeds = pull_back(n, result ? result : e, seed);
                       collect(n.a, seeds.a, {}, guards);
                       collect(n.b, seeds.b, {}, guards);
                     },
                     [&](const ir::Fma& n) {
                       collect(n.a, seed * n.b, {}, guards);
                       collect(n.b, seed * n.a, {}, guards);
                       collect(n.c, seed, {}, guards);
                     },
                     [&](const ir::Select& n) {
                       guards.push_back(n.condition);
                       collect(n.a, seed, {}, guards);
                       guards.back() = ir::unary(UnaryOp::Not, n.condition);
                       collect(n.b, seed, {}, guards);
                       guards.pop_back();
                     },
                     [&](const ir::Cast& n) {
                       if (is_float(n.a.type()) && is_float(n.type))
                         collect(n.a, ir::cast(n.a.type(), seed), {}, guards);
                     },
                     [](const ir::IntConst&) {},
                     [](const ir::FloatConst&) {},
                     [](const ir::Var&) {},
                 });
  }

 private:
  bool reaches_active(const Expr& e) const {
    bool found = false;
    ir::walk(e, [&](const Expr& node) {
      if (const auto* load = node.as<ir::Load>()) found |= active_(load->array);
      return !found;
    });
    return found;
  }

  void add(const ir::Load& target, const Expr& value, const std::vector<Expr>& guards) {
    if (!active_(target.array)) return;
    for (Contribution& c : out_) {
      if (c.target->array == target.array && ir::equal(c.target->indices, target.indices) &&
          ir::equal(c.guards, guards)) {
        c.value = c.value + value;
        return;
      }
    }
    out_.push_back({&target, value, guards});
  }

  const IsActive& active_;
  std::vector<Contribution>& out_;
};

}  // namespace

Expr second_counts(BinaryOp op, const Expr& a, const Expr& b) {
  return op == BinaryOp::Min ? ir::binary(BinaryOp::Le, b, a) : ir::binary(BinaryOp::Le, a, b);
}

Expr pull_back(const ir::Unary& node, const Expr& result, const Expr& seed) {
  const Expr& a = node.a;
  const Expr one = is_float(a.type()) ? number(1, a) : Expr{};
  switch (node.op) {
    case UnaryOp::Neg: return -seed;
    case UnaryOp::Not: return {};
    case UnaryOp::Abs:
      return ir::select(less(number(0, a), a), seed, ir::select(less(a, number(0, a)), -seed, number(0, a)));
    case UnaryOp::Sqrt: return divide(seed * number(0.5, a), result);
    case UnaryOp::Exp: return seed * result;
    case UnaryOp::Log: return divide(seed, a);
    case UnaryOp::Sin: return seed * call(UnaryOp::Cos, a);
    case UnaryOp::Cos: return -(seed * call(UnaryOp::Sin, a));
    case UnaryOp::Tan: return seed * (one + result * result);
    case UnaryOp::Asin: return divide(seed, call(UnaryOp::Sqrt, one - a * a));
    case UnaryOp::Acos: return -divide(seed, call(UnaryOp::Sqrt, one - a * a));
    case UnaryOp::Atan: return divide(seed, one + a * a);
    case UnaryOp::Sinh: return seed * call(UnaryOp::Cosh, a);
    case UnaryOp::Cosh: return seed * call(UnaryOp::Sinh, a);
    case UnaryOp::Tanh: return seed * (one - result * result);
    case UnaryOp::Sigmoid: return seed * (result * (one - result));
    case UnaryOp::Erf: return seed * (number(1.1283791670955126, a) * call(UnaryOp::Exp, -(a * a)));  // 2/sqrt(pi)
    case UnaryOp::Log1p: return divide(seed, one + a);
    case UnaryOp::Expm1: return seed * (result + one);
    case UnaryOp::RoundF16:
    case UnaryOp::RoundBF16: return seed;  // of the value that is meant, as for a conversion from f64 to f32
    case UnaryOp::Floor:
    case UnaryOp::Ceil:
    case UnaryOp::Stop: return {};
  }
  return {};
}

OperandSeeds pull_back(const ir::Binary& node, const Expr& result, const Expr& seed) {
  const Expr &a = node.a, &b = node.b;
  switch (node.op) {
    case BinaryOp::Add: return {seed, seed};
    case BinaryOp::Sub: return {seed, -seed};
    case BinaryOp::Mul: return {seed * b, seed * a};
    case BinaryOp::Div: return {divide(seed, b), -divide(seed * result, b)};
    case BinaryOp::Mod: return {seed, -(seed * ir::binary(BinaryOp::FloorDiv, a, b))};
    case BinaryOp::Min:
    case BinaryOp::Max: {
      const Expr second = second_counts(node.op, a, b);
      return {ir::select(second, number(0, a), seed), ir::select(second, seed, number(0, a))};
    }
    case BinaryOp::Pow: return pull_back_pow(a, b, result, seed);
    case BinaryOp::Atan2: {
      const Expr scaled = divide(seed, a * a + b * b);
      return {scaled * b, -(scaled * a)};
    }
    case BinaryOp::FloorDiv:
    case BinaryOp::Lt:
    case BinaryOp::Le:
    case BinaryOp::Gt:
    case BinaryOp::Ge:
    case BinaryOp::Eq:
    case BinaryOp::Ne:
    case BinaryOp::And:
    case BinaryOp::Or: return {};
  }
  return {};
}

std::vector<Contribution> contributions(const Expr& value, const Expr& seed, const IsActive& active,
                                        const Expr& result) {
  std::vector<Contribution> out;
  std::vector<Expr> guards;
  Collector(active, out).collect(value, seed, result, guards);
  return out;
}

Expr push_forward(const Expr& value, const TangentOfLoad& tangent) {
  return ir::visit(value, ir::overloaded{
                              [&](const ir::Load& n) { return tangent(n); },
                              [&](const ir::Unary& n) {
                                const Expr t = push_forward(n.a, tangent);
                                return t ? pull_back(n, value, t) : Expr{};
                              },
                              [&](const ir::Binary& n) {
                                const Expr ta = push_forward(n.a, tangent), tb = push_forward(n.b, tangent);
                                const Expr from_a = ta ? pull_back(n, value, ta).a : Expr{};
                                const Expr from_b = tb ? pull_back(n, value, tb).b : Expr{};
                                return sum(from_a, from_b);
                              },
                              [&](const ir::Fma& n) {
                                const Expr ta = push_forward(n.a, tangent), tb = push_forward(n.b, tangent);
                                return sum(sum(ta ? ta * n.b : Expr{}, tb ? tb * n.a : Expr{}),
                                           push_forward(n.c, tangent));
                              },
                              [&](const ir::Select& n) {
                                Expr ta = push_forward(n.a, tangent), tb = push_forward(n.b, tangent);
                                if (!ta && !tb) return Expr{};
                                if (!ta) ta = number(0, value);
                                if (!tb) tb = number(0, value);
                                return ir::select(n.condition, ta, tb);
                              },
                              [&](const ir::Cast& n) {
                                if (!is_float(n.a.type()) || !is_float(n.type)) return Expr{};
                                const Expr t = push_forward(n.a, tangent);
                                return t ? ir::cast(n.type, t) : Expr{};
                              },
                              [](const ir::IntConst&) { return Expr{}; },
                              [](const ir::FloatConst&) { return Expr{}; },
                              [](const ir::Var&) { return Expr{}; },
                          });
}

bool reuses_result(const ir::Expr& value) {
  if (const auto* u = value.as<ir::Unary>()) {
    switch (u->op) {
      case ir::UnaryOp::Exp:
      case ir::UnaryOp::Sqrt:
      case ir::UnaryOp::Tan:
      case ir::UnaryOp::Tanh:
      case ir::UnaryOp::Sigmoid:
      case ir::UnaryOp::Expm1: return true;
      default: return false;
    }
  }
  const auto* b = value.as<ir::Binary>();
  return b && b->op == ir::BinaryOp::Div;
}

}  // namespace loopgrad::tape

#include "backends/runtime/solve_sizes.h"

#include "dsl/ir/printer.h"
#include "dsl/ir/visit.h"

#include <loopgrad/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace loopgrad::backend {
namespace {

using Number = std::optional<std::int64_t>;

Number evaluate_binary(ir::BinaryOp op, std::int64_t a, std::int64_t b) {
  using enum ir::BinaryOp;
  std::int64_t r = 0;
  switch (op) {
    case Add: return __builtin_add_overflow(a, b, &r) ? Number() : r;
    case Sub: return __builtin_sub_overflow(a, b, &r) ? Number() : r;
    case Mul: return __builtin_mul_overflow(a, b, &r) ? Number() : r;
    case FloorDiv:
      if (b == -1) return evaluate_binary(Sub, 0, a);
      return b == 0 ? 0 : a / b - (a % b != 0 && (a < 0) != (b < 0));
    case Mod: return b == 0 || b == -1 ? 0 : a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0);
    case Min: return b < a ? b : a;
    case Max: return a < b ? b : a;
    case Lt: return a < b;
    case Le: return a <= b;
    case Gt: return a > b;
    case Ge: return a >= b;
    case Eq: return a == b;
    case Ne: return a != b;
    case And: return a && b;
    case Or: return a || b;
    case Div:
    case Pow:
    case Atan2: break;
  }
  throw InternalError(fmt::format("'{}' in an expression of sizes", name_of(op)));
}

Number evaluate_unary(ir::UnaryOp op, std::int64_t a) {
  switch (op) {
    case ir::UnaryOp::Neg: return evaluate_binary(ir::BinaryOp::Sub, 0, a);
    case ir::UnaryOp::Abs: return a < 0 ? evaluate_binary(ir::BinaryOp::Sub, 0, a) : a;
    case ir::UnaryOp::Not: return !a;
    default: throw InternalError(fmt::format("'{}' in an expression of sizes", name_of(op)));
  }
}

/// Numbers of 32 bits wrap around, as they do where loops run.
Number evaluate_cast(ScalarType type, const Number& a) {
  if (!a || type == ScalarType::I64) return a;
  if (type == ScalarType::Bool) return *a != 0;
  if (type != ScalarType::I32) throw InternalError("a floating point value in an expression of sizes");
  return static_cast<std::int32_t>(*a);
}

/// The second operand where the first one has not decided.
Number evaluate_logic(const ir::Binary& n, const SizeValues& sizes) {
  const Number first = try_evaluate(n.a, sizes);
  if (!first || (*first != 0) == (n.op == ir::BinaryOp::Or)) return first;
  return try_evaluate(n.b, sizes);
}

/// `e` as constant + sum of coefficient * symbol over the symbols without a value; nullopt when it is not of that form.
struct Affine {
  std::int64_t constant = 0;
  std::map<ir::Symbol, std::int64_t> coefficients;
};
using MaybeAffine = std::optional<Affine>;

MaybeAffine scaled(const Affine& a, std::int64_t factor) {
  Affine result;
  if (__builtin_mul_overflow(a.constant, factor, &result.constant)) return std::nullopt;
  for (const auto& [symbol, coefficient] : a.coefficients) {
    if (factor != 0 && __builtin_mul_overflow(coefficient, factor, &result.coefficients[symbol])) return std::nullopt;
  }
  return result;
}

MaybeAffine sum(const MaybeAffine& a, const MaybeAffine& b) {
  if (!a || !b) return std::nullopt;
  Affine result = *a;
  if (__builtin_add_overflow(result.constant, b->constant, &result.constant)) return std::nullopt;
  for (const auto& [symbol, coefficient] : b->coefficients) {
    std::int64_t& total = result.coefficients[symbol];
    if (__builtin_add_overflow(total, coefficient, &total)) return std::nullopt;
    if (total == 0) result.coefficients.erase(symbol);
  }
  return result;
}

MaybeAffine affine(const ir::Expr& e, const SizeValues& sizes);

MaybeAffine affine_binary(const ir::Binary& node, const SizeValues& sizes) {
  const MaybeAffine a = affine(node.a, sizes), b = affine(node.b, sizes);
  if (!a || !b) return std::nullopt;
  switch (node.op) {
    case ir::BinaryOp::Add: return sum(a, b);
    case ir::BinaryOp::Sub: return sum(a, scaled(*b, -1));
    case ir::BinaryOp::Mul:
      if (a->coefficients.empty()) return scaled(*b, a->constant);
      if (b->coefficients.empty()) return scaled(*a, b->constant);
      return std::nullopt;
    default: return std::nullopt;
  }
}

MaybeAffine affine(const ir::Expr& e, const SizeValues& sizes) {
  if (const auto* v = e.as<ir::Var>(); v && !sizes.count(v->symbol)) return Affine{0, {{v->symbol, 1}}};
  if (const auto* unary = e.as<ir::Unary>(); unary && unary->op == ir::UnaryOp::Neg) {
    const MaybeAffine a = affine(unary->a, sizes);
    return a ? scaled(*a, -1) : std::nullopt;
  }
  if (const auto* binary = e.as<ir::Binary>()) {
    if (MaybeAffine result = affine_binary(*binary, sizes)) return result;
  }
  bool known = true;
  ir::walk(e, [&](const ir::Expr& sub) {
    if (const auto* v = sub.as<ir::Var>()) known &= sizes.count(v->symbol) > 0;
  });
  if (!known) return std::nullopt;
  const Number value = try_evaluate(e, sizes);
  return value ? MaybeAffine(Affine{*value, {}}) : std::nullopt;
}

UsageError size_error(const ir::Program& program, std::string message, std::string hint) {
  return UsageError({ErrorCode::BadSize, std::move(message), program.name, "", "", std::move(hint), program.location});
}

SizeValues given_sizes(const ir::Program& program, const Sizes& given) {
  SizeValues sizes;
  for (const auto& [name, value] : given) {
    std::vector<std::string> known;
    for (const ir::Symbol& symbol : program.sizes) {
      known.push_back(symbol.name);
      if (symbol.name == name) sizes[symbol] = value;
    }
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw size_error(
          program, fmt::format("there is no size '{}'", name),
          known.empty() ? "the program has no sizes" : fmt::format("the sizes are: {}", fmt::join(known, ", ")));
    }
    if (value < 0) {
      throw size_error(program, fmt::format("size '{}' is negative: {}", name, value), "sizes count from zero");
    }
  }
  return sizes;
}

/// Solves extent = value for the one unknown that `form`, the affine form of the declared extent, has.
void solve(const ir::Program& program, const ir::Array& array, std::size_t dimension, const Affine& form,
           std::int64_t value, SizeValues& sizes) {
  const auto& [symbol, coefficient] = *form.coefficients.begin();
  const auto difference = evaluate_binary(ir::BinaryOp::Sub, value, form.constant);
  const auto size = difference ? evaluate_binary(ir::BinaryOp::FloorDiv, *difference, coefficient) : Number();
  if (size && *size >= 0 && evaluate_binary(ir::BinaryOp::Mul, *size, coefficient) == difference) {
    sizes[symbol] = *size;
    return;
  }
  throw UsageError({ErrorCode::BadShape,
                    fmt::format("no size '{}' gives the argument's extent {} in dimension {}, declared {}", symbol.name,
                                value, dimension, ir::print(array->callers_shape()[dimension])),
                    program.name, "", array->name, "pass arrays and sizes that agree", array->location});
}

}  // namespace

Number try_evaluate(const ir::Expr& e, const SizeValues& sizes) {
  return ir::visit(e, ir::overloaded{[](const ir::IntConst& c) -> Number { return c.value; },
                                     [&](const ir::Var& v) -> Number {
                                       const auto found = sizes.find(v.symbol);
                                       if (found != sizes.end()) return found->second;
                                       throw InternalError(fmt::format("'{}' is no size with a value", v.symbol.name));
                                     },
                                     [&](const ir::Unary& u) -> Number {
                                       const Number a = try_evaluate(u.a, sizes);
                                       return evaluate_cast(e.type(), a ? evaluate_unary(u.op, *a) : Number());
                                     },
                                     [&](const ir::Binary& b) -> Number {
                                       using enum ir::BinaryOp;
                                       if (b.op == And || b.op == Or) return evaluate_logic(b, sizes);
                                       const Number x = try_evaluate(b.a, sizes), y = try_evaluate(b.b, sizes);
                                       return evaluate_cast(e.type(),
                                                            x && y ? evaluate_binary(b.op, *x, *y) : Number());
                                     },
                                     [&](const ir::Select& s) -> Number {
                                       const Number c = try_evaluate(s.condition, sizes);
                                       return c ? try_evaluate(*c ? s.a : s.b, sizes) : Number();
                                     },
                                     [&](const ir::Cast& c) { return evaluate_cast(c.type, try_evaluate(c.a, sizes)); },
                                     [](const auto&) -> Number { throw InternalError("not an expression of sizes"); }});
}

std::int64_t evaluate(const ir::Expr& e, const SizeValues& sizes) {
  if (const Number value = try_evaluate(e, sizes)) return *value;
  throw UsageError(
      {.code = ErrorCode::BadSize, .message = fmt::format("{} overflows", ir::print(e)), .hint = "use other sizes"});
}

std::vector<std::int64_t> shape_of(const ir::Array& array, const SizeValues& sizes) {
  std::vector<std::int64_t> shape;
  for (const ir::Expr& extent : array->callers_shape()) {
    const Number value = try_evaluate(extent, sizes);
    if (!value || *value < 0) {
      throw UsageError(
          {ErrorCode::BadSize,
           fmt::format("extent {} {}", ir::print(extent), value ? fmt::format("is negative: {}", *value) : "overflows"),
           "", "", array->name, "use other sizes", array->location});
    }
    shape.push_back(*value);
  }
  element_count(shape, array->type, array->name);
  return shape;
}

SizeValues solve_sizes(const ir::Program& program, const std::vector<View>& views, const Sizes& given) {
  SizeValues sizes = given_sizes(program, given);
  // Extents that are a size alone come first: their errors say what is wrong most directly.
  for (const bool affine_too : {false, true}) {
    for (bool progress = true; progress;) {
      progress = false;
      for (std::size_t i = 0; i < views.size(); ++i) {
        for (std::size_t d = 0; d < views[i].shape.size(); ++d) {
          const ir::Expr& extent = program.arrays[i]->callers_shape()[d];
          if (!affine_too && !extent.as<ir::Var>()) continue;
          const MaybeAffine form = affine(extent, sizes);
          if (!form || form->coefficients.size() != 1) continue;
          solve(program, program.arrays[i], d, *form, views[i].shape[d], sizes);
          progress = true;
        }
      }
    }
  }
  for (const ir::Symbol& symbol : program.sizes) {
    if (sizes.count(symbol)) continue;
    throw size_error(program, fmt::format("size '{}' does not follow from the arguments", symbol.name),
                     fmt::format("pass it: {{\"{}\", ...}}", symbol.name));
  }
  return sizes;
}

}  // namespace loopgrad::backend

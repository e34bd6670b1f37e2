#include "backends/c_text/expr_text.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/visit.h"
#include "dsl/ir/wrapping.h"

#include <fmt/format.h>
#include <loopgrad/error.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

namespace loopgrad::backend {
namespace {

using namespace ir;

std::string wrapped(std::string text, Level own, Level surrounding) {
  return own < surrounding ? "(" + text + ")" : text;
}

std::string int_text(const IntConst& c) {
  if (c.type == ScalarType::Bool) return c.value ? "true" : "false";
  if (c.value == std::numeric_limits<std::int64_t>::min()) return "INT64_MIN";
  if (c.type == ScalarType::I32 && c.value == std::numeric_limits<std::int32_t>::min()) return "INT32_MIN";
  return std::to_string(c.value);
}

/// The shortest decimal that reads back as the same bits.
std::string float_text(const FloatConst& c) {
  const bool single = c.type == ScalarType::F32;
  if (std::isnan(c.value)) return single ? "NAN" : "double(NAN)";
  if (std::isinf(c.value)) {
    const std::string infinity = single ? "INFINITY" : "double(INFINITY)";
    return c.value < 0 ? "-" + infinity : infinity;
  }
  std::string digits = single ? fmt::format("{}", static_cast<float>(c.value)) : fmt::format("{}", c.value);
  if (digits.find_first_of(".e") == std::string::npos) digits += ".0";
  return single ? digits + "f" : digits;
}

constexpr std::string_view wide_type = "int64_t";

std::string call(const char* function, const Expr& a, EmitState& state) {
  return fmt::format("{}({})", function, argument_text(a, state));
}

std::string call(const char* function, const Expr& a, const Expr& b, EmitState& state) {
  std::string left = argument_text(a, state), right = argument_text(b, state);
  if (a.type() == ScalarType::I64) {
    const bool left_wide = is_wide(a, state), right_wide = is_wide(b, state);
    if (left_wide && !right_wide) right = fmt::format("{}({})", wide_type, right);
    if (right_wide && !left_wide) left = fmt::format("{}({})", wide_type, left);
  }
  return fmt::format("{}({}, {})", function, left, right);
}

bool surely_fits(const Expr& e, const EmitState& state) {
  return ir::surely_fits(
      e, [&](const Array& array) { return state.index_data.count(array) != 0; }, state.large);
}

/// Whether an operation on integers must be kept from overflowing: to CUDA that is undefined. All data of a program may
/// overflow, while its indices do not but for those that multiply by large numbers or by data.
bool may_overflow(ScalarType type, std::initializer_list<Expr> operands, const EmitState& state) {
  if (!state.device || (type != ScalarType::I32 && type != ScalarType::I64)) return false;
  if (type == ScalarType::I32) return true;
  return !state.in_index && std::any_of(operands.begin(), operands.end(), has_load);
}

bool is_exact(UnaryOp op) {
  return op == UnaryOp::Abs || op == UnaryOp::Sqrt || op == UnaryOp::Floor || op == UnaryOp::Ceil;
}

/// Of the standard library. What is not exact is kept from the host compiler, see Helper::Library.
template <class Op>
std::string function_name(Op op, const char* name, EmitState& state) {
  bool exact = false;
  if constexpr (std::is_same_v<Op, UnaryOp>) exact = is_exact(op);
  if (exact || state.device) return fmt::format("std::{}", name);
  state.helpers.insert(Helper::Library);
  return fmt::format("library::{}", name);
}

std::string unary_text(const Unary& n, EmitState& state, Level surrounding) {
  if (n.op == UnaryOp::Stop) return text_of(n.a, state, surrounding);
  if (n.op == UnaryOp::Neg && may_overflow(n.type, {n.a}, state)) {
    state.helpers.insert(Helper::Wrapping);
    return call("wrapping_sub", int_const(0, n.type), n.a, state);
  }
  if (n.op == UnaryOp::Neg || n.op == UnaryOp::Not) {
    // A literal or a second sign after the minus is put in parentheses: -(-1) is not --1.
    std::string operand = text_of(n.a, state, Level::Prefix);
    if (operand[0] == '-') operand = "(" + operand + ")";
    return wrapped((n.op == UnaryOp::Neg ? "-" : "!") + operand, Level::Prefix, surrounding);
  }
  if (state.vector_math && n.type == ScalarType::F32) {
    static const std::map<UnaryOp, std::pair<Helper, const char*>> functions = {
        {UnaryOp::Exp, {Helper::ExpF32, "exp_f32"}},
        {UnaryOp::Log, {Helper::LogF32, "log_f32"}},
        {UnaryOp::Tanh, {Helper::TanhF32, "tanh_f32"}},
        {UnaryOp::Sigmoid, {Helper::SigmoidF32, "sigmoid_f32"}},
    };
    if (const auto found = functions.find(n.op); found != functions.end()) {
      state.helpers.insert(found->second.first);
      return call(found->second.second, n.a, state);
    }
  }
  if (n.op == UnaryOp::RoundF16 || n.op == UnaryOp::RoundBF16) {
    const ScalarType storage = n.op == UnaryOp::RoundF16 ? ScalarType::F16 : ScalarType::BF16;
    return loaded(storage, stored(storage, text_of(n.a, state), state), state);
  }
  if (n.op == UnaryOp::Sigmoid && state.device) {
    state.helpers.insert(Helper::Sigmoid);
    return call("sigmoid", n.a, state);
  }
  if (n.op == UnaryOp::Abs && !is_float(n.type)) {
    state.helpers.insert(Helper::AbsOf);
    return call("abs_of", n.a, state);
  }
  return call(function_name(n.op, name_of(n.op), state).c_str(), n.a, state);
}

struct Infix {
  const char* symbol;
  Level level;
};

Infix infix_of(BinaryOp op) {
  switch (op) {
    case BinaryOp::Add: return {"+", Level::Sum};
    case BinaryOp::Sub: return {"-", Level::Sum};
    case BinaryOp::Mul: return {"*", Level::Product};
    case BinaryOp::Div: return {"/", Level::Product};
    case BinaryOp::Lt: return {"<", Level::Relation};
    case BinaryOp::Le: return {"<=", Level::Relation};
    case BinaryOp::Gt: return {">", Level::Relation};
    case BinaryOp::Ge: return {">=", Level::Relation};
    case BinaryOp::Eq: return {"==", Level::Equality};
    case BinaryOp::Ne: return {"!=", Level::Equality};
    case BinaryOp::And: return {"&&", Level::And};
    case BinaryOp::Or: return {"||", Level::Or};
    default: throw InternalError(std::string("no infix operator for ") + name_of(op));
  }
}

Level above(Level level) { return static_cast<Level>(static_cast<int>(level) + 1); }

std::string infix_text(Infix infix, const Expr& a, const Expr& b, EmitState& state, Level surrounding) {
  // Two literals would be computed in int: the first one fixes the type.
  const bool literals = a.kind() == Kind::IntConst && b.kind() == Kind::IntConst;
  // Compilers ask for parentheses around a conjunction in a disjunction.
  const auto operand = [&](const Expr& e, Level level) {
    const auto* n = e.as<Binary>();
    return text_of(e, state, infix.level == Level::Or && n && n->op == BinaryOp::And ? Level::Equality : level);
  };
  const std::string left = literals ? argument_text(a, state) : operand(a, infix.level);
  return wrapped(fmt::format("{} {} {}", left, infix.symbol, operand(b, above(infix.level))), infix.level, surrounding);
}

/// Integer division and remainder; the operators of C++ do where no sign is in play.
std::string division_text(const Binary& n, EmitState& state, Level surrounding) {
  const auto divisor = as_int(n.b);
  const bool quotient = n.op == BinaryOp::FloorDiv;
  if (divisor && *divisor > 0 && is_non_negative(n.a, state))
    return infix_text({quotient ? "/" : "%", Level::Product}, n.a, n.b, state, surrounding);
  state.helpers.insert(quotient ? Helper::FloorDiv : Helper::FloorMod);
  return call(quotient ? "floor_div" : "floor_mod", n.a, n.b, state);
}

const char* wrapping_name(BinaryOp op) {
  return op == BinaryOp::Add ? "wrapping_add" : op == BinaryOp::Sub ? "wrapping_sub" : "wrapping_mul";
}

std::string power_text(const Binary& n, EmitState& state) {
  if (!state.device) return call(function_name(n.op, "pow", state).c_str(), n.a, n.b, state);
  state.helpers.insert(Helper::Power);
  return call("power", n.a, n.b, state);
}

std::string binary_text(const Binary& n, EmitState& state, Level surrounding) {
  const bool ring = n.op == BinaryOp::Add || n.op == BinaryOp::Sub || n.op == BinaryOp::Mul;
  const auto leaves_type = [&] {
    const Expr e = binary(n.op, n.a, n.b);
    if (may_wrap(e)) return true;
    return n.type == ScalarType::I64 && (!state.in_index || n.op == BinaryOp::Mul) && !surely_fits(e, state);
  };
  if (ring && (may_overflow(n.type, {n.a, n.b}, state) || (state.device && leaves_type()))) {
    state.helpers.insert(Helper::Wrapping);
    return call(wrapping_name(n.op), n.a, n.b, state);
  }
  switch (n.op) {
    case BinaryOp::FloorDiv:
    case BinaryOp::Mod: return division_text(n, state, surrounding);
    case BinaryOp::Min: state.helpers.insert(Helper::MinOf); return call("min_of", n.a, n.b, state);
    case BinaryOp::Max: state.helpers.insert(Helper::MaxOf); return call("max_of", n.a, n.b, state);
    case BinaryOp::Pow: return power_text(n, state);
    case BinaryOp::Atan2: return call(function_name(n.op, "atan2", state).c_str(), n.a, n.b, state);
    default: return infix_text(infix_of(n.op), n.a, n.b, state, surrounding);
  }
}

std::string fma_text(const Expr& a, const Expr& b, const std::string& c, EmitState& state) {
  state.helpers.insert(Helper::Fused);
  return fmt::format("fused({}, {}, {})", text_of(a, state), text_of(b, state), c);
}

std::string select_text(const Select& n, EmitState& state, Level surrounding) {
  const bool literals = n.a.kind() == Kind::IntConst && n.b.kind() == Kind::IntConst;
  return wrapped(fmt::format("{} ? {} : {}", text_of(n.condition, state, Level::Or),
                             literals ? argument_text(n.a, state) : text_of(n.a, state, Level::Or),
                             text_of(n.b, state, Level::Ternary)),
                 Level::Ternary, surrounding);
}

std::string cast_text(const Cast& n, EmitState& state, Level surrounding) {
  if (n.type == ScalarType::Bool)
    return wrapped(text_of(n.a, state, Level::Equality) + " != 0", Level::Equality, surrounding);
  if (is_float(n.a.type()) && !is_float(n.type)) {
    state.helpers.insert(Helper::ToInteger);
    return fmt::format("to_integer<{}>({})", value_cpp_type(n.type), text_of(n.a, state));
  }
  // To C++ `double(float(x[i]))` may be a type, of a function with a parameter x.
  const std::string type = value_cpp_type(n.type);
  return fmt::format("{}({})", n.a.kind() == Kind::Cast ? "static_cast<" + type + ">" : type, text_of(n.a, state));
}

/// True for a text with an operator outside of all parentheses.
bool is_compound(const std::string& text) {
  int depth = 0;
  for (const char c : text) {
    if (c == '(' || c == '[') ++depth;
    if (c == ')' || c == ']') --depth;
    if (c == ' ' && depth == 0) return true;
  }
  return false;
}

/// Where an element lies in its array.
std::string position_text(const Array& array, const std::vector<Expr>& indices, EmitState& state) {
  std::string position = state.position ? state.position(array, indices) : "";
  if (!position.empty()) return position;
  // Row-major position by Horner's rule: (i * m + j) * k + l.
  for (std::size_t d = 0; d < indices.size(); ++d) {
    const bool last = d + 1 == indices.size();
    std::string index = text_of(indices[d], state, position.empty() && last ? Level::Any : Level::Sum);
    if (!position.empty()) position = as_int(indices[d]) == 0 ? position : position + " + " + index;
    else if (as_int(indices[d]) != 0 || last) position = index;
    if (last || position.empty() || as_int(array->shape[d + 1]) == 1) continue;
    position = fmt::format("{} * {}", is_compound(position) ? "(" + position + ")" : position,
                           text_of(array->shape[d + 1], state, Level::Prefix));
  }
  return position;
}

}  // namespace

EmitState::EmitState(const Program& program) : names(generated_name) {
  non_negative.insert(program.sizes.begin(), program.sizes.end());
  large = large_symbols(program, [](const Array&) { return false; });
  for (const Fact& fact : program.facts) {
    const auto lower = fact.lower ? as_int(fact.lower) : std::nullopt;
    if (fact.kind != FactKind::CsrPointer && !(fact.kind == FactKind::InRange && lower && *lower >= 0)) continue;
    non_negative_data.insert(fact.array);
    if (fact.kind == FactKind::CsrPointer || bounds_indices(fact.upper, large)) index_data.insert(fact.array);
  }
  large = large_symbols(program, [this](const Array& array) { return index_data.count(array) != 0; });
}

bool is_wide(const Expr& e, const EmitState& state) {
  const bool all = state.index_type == wide_type;
  return visit(e, overloaded{
                      [&](const IntConst& n) { return all || n.value != static_cast<std::int32_t>(n.value); },
                      [&](const Var& n) { return all || state.wide.count(n.symbol) > 0; },
                      [&](const Load& n) { return n.array->type == ScalarType::I64; },
                      [&](const Unary& n) { return is_wide(n.a, state); },
                      [&](const Binary& n) { return is_wide(n.a, state) || is_wide(n.b, state); },
                      [&](const Select& n) { return is_wide(n.a, state) || is_wide(n.b, state); },
                      [&](const Cast& n) { return n.type == ScalarType::I64; },
                      [](const auto&) { return false; },
                  });
}

std::string text_of(const Expr& e, EmitState& state, Level surrounding) {
  return visit(e, overloaded{
                      [&](const IntConst& n) {
                        // NVRTC's int64_t is another type than that of a large literal: the two do not go together as
                        // arguments of a helper.
                        if (state.index_type != wide_type && n.type == ScalarType::I64 && is_wide(e, state))
                          return fmt::format("{}({})", wide_type, int_text(n));
                        return wrapped(int_text(n), n.value < 0 ? Level::Prefix : Level::Postfix, surrounding);
                      },
                      [&](const FloatConst& n) {
                        return wrapped(float_text(n), std::signbit(n.value) ? Level::Prefix : Level::Postfix,
                                       surrounding);
                      },
                      [&](const Var& n) { return state.names.of(n.symbol); },
                      [&](const Load& n) {
                        std::string element = element_text(n.array, n.indices, state);
                        if (state.constant.count(n.array)) element = "__ldg(&" + element + ")";
                        return loaded(n.array, element, state);
                      },
                      [&](const Unary& n) { return unary_text(n, state, surrounding); },
                      [&](const Binary& n) { return binary_text(n, state, surrounding); },
                      [&](const Fma& n) { return fma_text(n.a, n.b, text_of(n.c, state), state); },
                      [&](const Select& n) { return select_text(n, state, surrounding); },
                      [&](const Cast& n) { return cast_text(n, state, surrounding); },
                  });
}

std::string argument_text(const Expr& e, EmitState& state) {
  const auto* literal = e.as<IntConst>();
  if (!literal || e.type() != ScalarType::I64) return text_of(e, state);
  return fmt::format("{}({})", is_wide(e, state) ? wide_type : std::string_view(state.index_type), int_text(*literal));
}

std::string element_text(const Array& array, const std::vector<Expr>& indices, EmitState& state) {
  const std::string name = state.names.of(array);
  if (indices.empty()) return array->role == ArrayRole::Local ? name : name + "[0]";
  const bool outside = std::exchange(state.in_index, true);
  const std::string position = position_text(array, indices, state);
  state.in_index = outside;
  return fmt::format("{}[{}]", name, position);
}

std::string stored(ScalarType storage, const std::string& value, EmitState& state) {
  if (storage != ScalarType::F16 && storage != ScalarType::BF16) return value;
  const bool half = storage == ScalarType::F16;
  state.helpers.insert(half ? Helper::F16 : Helper::BF16);
  return fmt::format("{}({})", half ? "to_f16" : "to_bf16", value);
}

std::string stored(ScalarType storage, const Expr& value, EmitState& state) {
  // The conversion rounds by itself.
  const auto* rounded = value.as<Unary>();
  const bool twice = rounded && ((storage == ScalarType::F16 && rounded->op == UnaryOp::RoundF16) ||
                                 (storage == ScalarType::BF16 && rounded->op == UnaryOp::RoundBF16));
  return stored(storage, text_of(twice ? rounded->a : value, state), state);
}

namespace {

/// Arrays of the program itself. Compilers do not vectorise loops that load `bool`.
bool keeps_bytes(const Array& array) {
  const bool own = array->role == ArrayRole::Tape || array->role == ArrayRole::Local;
  return own && array->type == ScalarType::Bool && !array->shape.empty();
}

}  // namespace

std::string loaded(const Array& array, const std::string& element, EmitState& state) {
  return keeps_bytes(array) ? "bool(" + element + ")" : loaded(array->type, element, state);
}

std::string loaded(ScalarType storage, const std::string& element, EmitState& state) {
  if (storage != ScalarType::F16 && storage != ScalarType::BF16) return element;
  const bool half = storage == ScalarType::F16;
  state.helpers.insert(half ? Helper::F16 : Helper::BF16);
  return fmt::format("{}({})", half ? "from_f16" : "from_bf16", element);
}

std::string updated_text(const Reduce& n, const std::string& before, EmitState& state) {
  const std::string old = loaded(n.array, before, state);
  if (n.fused) {
    const auto factors = *product_of(n.value);
    return stored(n.array->type, fma_text(factors.a, factors.b, old, state), state);
  }
  const bool arithmetic = n.op == ReduceOp::Add || n.op == ReduceOp::Mul;
  const bool wraps = arithmetic && may_overflow(n.array->type, {load(n.array, n.indices)}, state);
  if (arithmetic && !wraps)
    return stored(
        n.array->type,
        fmt::format("{} {} {}", old, n.op == ReduceOp::Add ? "+" : "*", text_of(n.value, state, Level::Product)),
        state);
  const bool least = n.op == ReduceOp::Min;
  state.helpers.insert(wraps ? Helper::Wrapping : least ? Helper::MinOf : Helper::MaxOf);
  const char* const function = wraps   ? wrapping_name(n.op == ReduceOp::Add ? BinaryOp::Add : BinaryOp::Mul)
                               : least ? "min_of"
                                       : "max_of";
  std::string value = argument_text(n.value, state);
  if (n.array->type == ScalarType::I64 && !is_wide(n.value, state)) value = fmt::format("{}({})", wide_type, value);
  return stored(n.array->type, fmt::format("{}({}, {})", function, old, value), state);
}

const char* value_cpp_type(ScalarType type) { return storage_cpp_type(value_type(type)); }

const char* storage_cpp_type(ScalarType type) {
  switch (type) {
    case ScalarType::Bool: return "bool";
    case ScalarType::I32: return "int32_t";
    case ScalarType::I64: return "int64_t";
    case ScalarType::F16:
    case ScalarType::BF16: return "uint16_t";
    case ScalarType::F32: return "float";
    case ScalarType::F64: return "double";
  }
  throw InternalError("unknown scalar type");
}

const char* storage_cpp_type(const Array& array) {
  return keeps_bytes(array) ? "uint8_t" : storage_cpp_type(array->type);
}

std::string joined(const std::vector<std::string>& list, std::size_t column, std::size_t indent) {
  std::string out;
  for (const std::string& item : list) {
    if (!out.empty()) out += ",";
    const bool wrap = column + item.size() > 100;
    if (wrap) out.append("\n").append(indent, ' ');
    else if (!out.empty()) out += " ";
    column = (wrap ? indent : column) + item.size() + 2;
    out += item;
  }
  return out;
}

/// A number that an i64 expression is never below: of sums and maxima of those that are not negative.
static std::optional<std::int64_t> least_of(const Expr& e, const EmitState& state) {
  if (const auto value = as_int(e)) return value;
  if (const auto* n = e.as<Binary>(); n && (n->op == BinaryOp::Add || n->op == BinaryOp::Max)) {
    const auto a = least_of(n->a, state), b = least_of(n->b, state);
    if (n->op == BinaryOp::Add && !surely_fits(e, state)) return std::nullopt;
    if (n->op == BinaryOp::Max) return a && b ? std::max(a, b) : a ? a : b;
    std::int64_t sum = 0;
    return a && b && !__builtin_add_overflow(*a, *b, &sum) ? std::optional(sum) : std::nullopt;
  }
  return is_non_negative(e, state) ? std::optional(std::int64_t{0}) : std::nullopt;
}

bool is_non_negative(const Expr& e, const EmitState& state) {
  auto both = [&](const Expr& a, const Expr& b) { return is_non_negative(a, state) && is_non_negative(b, state); };
  return visit(e, overloaded{
                      [&](const IntConst& n) { return n.value >= 0; },
                      [&](const FloatConst&) { return false; },
                      [&](const Var& n) { return state.non_negative.count(n.symbol) > 0; },
                      [&](const Load& n) { return state.non_negative_data.count(n.array) > 0; },
                      [&](const Unary&) { return false; },
                      [&](const Binary& n) {
                        switch (n.op) {
                          case BinaryOp::Add:
                          case BinaryOp::Mul:  // narrower types may wrap
                            return n.type == ScalarType::I64 && both(n.a, n.b) && !may_wrap(e) && surely_fits(e, state);
                          case BinaryOp::Sub: {
                            const auto less = as_int(n.b);
                            return n.type == ScalarType::I64 && less && least_of(n.a, state).value_or(-1) >= *less;
                          }
                          case BinaryOp::FloorDiv:
                          case BinaryOp::Min: return both(n.a, n.b);
                          case BinaryOp::Max: return is_non_negative(n.a, state) || is_non_negative(n.b, state);
                          case BinaryOp::Mod: return as_int(n.b).value_or(0) > 0;
                          default: return false;
                        }
                      },
                      [&](const Fma&) { return false; },
                      [&](const Select& n) { return both(n.a, n.b); },
                      [&](const Cast& n) {
                        return !is_float(n.a.type()) && n.type == ScalarType::I64 && is_non_negative(n.a, state);
                      },
                  });
}

}  // namespace loopgrad::backend

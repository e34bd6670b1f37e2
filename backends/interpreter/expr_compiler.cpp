#include "backends/interpreter/expr_compiler.h"

#include "backends/interpreter/operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace loopgrad::backend::interpreter {
namespace {

// Operations that can fail. Those that trap NaNs go through function pointers: checked mode needs no speed.

template <class T>
struct TrappingUnary final : Eval<T> {
  T (*const f)(T);
  const EvalPtr<T> a;
  const Site& site;
  const char* const name;
  TrappingUnary(T (*f_in)(T), EvalPtr<T> a_in, const Site& s, const char* n)
      : f(f_in), a(std::move(a_in)), site(s), name(n) {}
  T eval() const override {
    const T x = a->eval(), result = f(x);
    trap_nan(site, name, result, {x});
    return result;
  }
};

template <class T>
struct TrappingBinary final : Eval<T> {
  T (*const f)(T, T);
  const EvalPtr<T> a, b;
  const Site& site;
  const char* const name;
  TrappingBinary(T (*f_in)(T, T), EvalPtr<T> a_in, EvalPtr<T> b_in, const Site& s, const char* n)
      : f(f_in), a(std::move(a_in)), b(std::move(b_in)), site(s), name(n) {}
  T eval() const override {
    const T x = a->eval(), y = b->eval(), result = f(x, y);
    trap_nan(site, name, result, {x, y});
    return result;
  }
};

template <class T, bool modulo>
struct IntegerDivision final : Eval<T> {
  const EvalPtr<T> a, b;
  const Site* const site;  // null: by zero it gives 0
  IntegerDivision(EvalPtr<T> a_in, EvalPtr<T> b_in, const Site* s) : a(std::move(a_in)), b(std::move(b_in)), site(s) {}
  T eval() const override {
    const T x = a->eval(), y = b->eval();
    if (y == 0) {
      if (!site) return 0;
      fail(*site, ErrorCode::NotANumber, fmt::format("integer division of {} by zero", x), "test the divisor first");
    }
    return modulo ? floor_mod(x, y) : floor_div(x, y);
  }
};

/// Truncated towards zero: the nearest integer where it does not fit, 0 for NaN.
template <class Integer>
Integer saturated(double value) {
  if (const auto integer = to_integer<Integer>(value)) return *integer;
  if (std::isnan(value)) return 0;
  return value < 0 ? std::numeric_limits<Integer>::min() : std::numeric_limits<Integer>::max();
}

template <class Integer, class Float>
struct FloatToInteger final : Eval<Integer> {
  const EvalPtr<Float> a;
  const Site* const site;  // null: out of range it gives the nearest integer
  FloatToInteger(EvalPtr<Float> a_in, const Site* s) : a(std::move(a_in)), site(s) {}
  Integer eval() const override {
    const Float x = a->eval();
    if (!site) return saturated<Integer>(x);
    if (const auto integer = to_integer<Integer>(x)) return *integer;
    fail(*site, ErrorCode::NotANumber,
         fmt::format("{} cannot be converted to {}", x, loopgrad::name_of(scalar_type<Integer>())),
         "bound the value before the cast");
  }
};

[[noreturn]] void mistyped(const ir::Expr& e) {
  throw InternalError(fmt::format("an expression of type {} where another is due", loopgrad::name_of(e.type())));
}

}  // namespace

template <class T>
void trap_nan(const Site& site, const char* operation, T result, std::initializer_list<T> operands) {
  if (!std::isnan(result) || std::any_of(operands.begin(), operands.end(), [](T x) { return std::isnan(x); })) return;
  fail(site, ErrorCode::NotANumber, fmt::format("{}({}) is not a number", operation, fmt::join(operands, ", ")),
       "keep the operands inside the function's domain");
}
template void trap_nan<float>(const Site&, const char*, float, std::initializer_list<float>);
template void trap_nan<double>(const Site&, const char*, double, std::initializer_list<double>);

ExprCompiler::ExprCompiler(Machine& machine) : machine_(machine) {}

void ExprCompiler::bind(const ir::Symbol& iterator, const LoopSlot& slot) { iterators_[iterator.id] = &slot; }

void ExprCompiler::unbind(const ir::Symbol& iterator) { iterators_.erase(iterator.id); }

Place ExprCompiler::place(const ir::Array& array, const std::vector<ir::Expr>& indices, const Scope& scope) const {
  Place result{machine_.array(array), machine_.add_site(scope.loop, scope.location, array), machine_.parallel, {}};
  if (indices.size() != result.slot.shape.size()) throw InternalError("rank of an access to '" + array->name + "'");
  for (const ir::Expr& index : indices) result.indices.push_back(compile<std::int64_t>(index, scope));
  return result;
}

const Site* ExprCompiler::checked_site(const Scope& scope) const {
  return machine_.options.checked ? &machine_.add_site(scope.loop, scope.location) : nullptr;
}

template <class T>
EvalPtr<T> ExprCompiler::counted(EvalPtr<T> node, std::int64_t WorkCount::*counter) const {
  if (!machine_.options.work) return node;
  return std::make_unique<Counted<T>>(std::move(node), machine_.options.work->*counter);
}

EvalPtr<std::int64_t> ExprCompiler::compile_var(const ir::Var& node) const {
  if (const auto found = iterators_.find(node.symbol.id); found != iterators_.end()) {
    return std::make_unique<IteratorValue>(found->second->value);
  }
  if (const auto found = machine_.sizes.find(node.symbol); found != machine_.sizes.end()) {
    return std::make_unique<Constant<std::int64_t>>(found->second);
  }
  throw InternalError("'" + node.symbol.name + "' is neither a size nor an iterator of an enclosing loop");
}

Place ExprCompiler::place_of(const ir::Load& node, const Scope& scope) const {
  return place(node.array, node.indices, {scope.loop, node.location.known() ? node.location : scope.location});
}

template <class T>
EvalPtr<T> ExprCompiler::compile_load(const ir::Load& node, const Scope& scope) const {
  Place element = place_of(node, scope);
  return with_storage(machine_.run_type(node.array->type), [&]<class Storage>() -> EvalPtr<T> {
    if constexpr (std::is_same_v<typename Storage::Value, T>) {
      EvalPtr<T> load;
      if (machine_.options.checked) load = std::make_unique<LoadNode<Storage, true>>(std::move(element));
      else load = std::make_unique<LoadNode<Storage, false>>(std::move(element));
      return node.array->role == ir::ArrayRole::Local ? std::move(load) : counted(std::move(load), &WorkCount::loads);
    } else {
      throw InternalError("type of a load from '" + node.array->name + "'");
    }
  });
}

template <class T>
EvalPtr<T> ExprCompiler::compile_unary(const ir::Unary& node, const Scope& scope) const {
  EvalPtr<T> a = compile<T>(node.a, scope);
  if constexpr (std::is_same_v<T, bool>) {
    if (node.op == ir::UnaryOp::Not) return apply<T>([](bool x) { return !x; }, std::move(a));
  } else if constexpr (std::is_integral_v<T>) {
    if (node.op == ir::UnaryOp::Neg) return apply<T>([](T x) { return wrapping_sub(T{0}, x); }, std::move(a));
    if (node.op == ir::UnaryOp::Abs)
      return apply<T>([](T x) { return x < 0 ? wrapping_sub(T{0}, x) : x; }, std::move(a));
  } else {
    auto result = with_float_unary<T>(node.op, [&](auto f) -> EvalPtr<T> {
      if (!machine_.options.trap_nan || !machine_.options.checked) return apply<T>(f, std::move(a));
      const Site& site = machine_.add_site(scope.loop, scope.location);
      return std::make_unique<TrappingUnary<T>>(f, std::move(a), site, name_of(node.op));
    });
    return is_flop(node.op) ? counted(std::move(result), &WorkCount::flops) : std::move(result);
  }
  throw InternalError(fmt::format("'{}' of a value of type {}", name_of(node.op), loopgrad::name_of(node.type)));
}

EvalPtr<bool> ExprCompiler::compile_logic(const ir::Binary& node, const Scope& scope) const {
  if (node.op == ir::BinaryOp::And) {
    return std::make_unique<AndNode>(compile<bool>(node.a, scope), compile<bool>(node.b, scope));
  }
  if (node.op == ir::BinaryOp::Or) {
    return std::make_unique<OrNode>(compile<bool>(node.a, scope), compile<bool>(node.b, scope));
  }
  return with_value_type(machine_.run_type(node.a.type()), [&]<class U>() {
    return with_comparison<U>(
        node.op, [&](auto f) { return apply<bool>(f, compile<U>(node.a, scope), compile<U>(node.b, scope)); });
  });
}

template <class T>
EvalPtr<T> ExprCompiler::compile_binary(const ir::Binary& node, const Scope& scope) const {
  if constexpr (std::is_same_v<T, bool>) {
    if (node.op != ir::BinaryOp::Min && node.op != ir::BinaryOp::Max) return compile_logic(node, scope);
  }
  EvalPtr<T> a = compile<T>(node.a, scope), b = compile<T>(node.b, scope);
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    const Site* const site = checked_site(scope);
    if (node.op == ir::BinaryOp::FloorDiv) {
      return std::make_unique<IntegerDivision<T, false>>(std::move(a), std::move(b), site);
    }
    if (node.op == ir::BinaryOp::Mod) {
      return std::make_unique<IntegerDivision<T, true>>(std::move(a), std::move(b), site);
    }
  }
  auto result = with_binary<T>(node.op, [&](auto f) -> EvalPtr<T> {
    if constexpr (std::is_floating_point_v<T>) {
      if (machine_.options.trap_nan && machine_.options.checked) {
        const Site& site = machine_.add_site(scope.loop, scope.location);
        return std::make_unique<TrappingBinary<T>>(f, std::move(a), std::move(b), site, name_of(node.op));
      }
    }
    return apply<T>(f, std::move(a), std::move(b));
  });
  return std::is_floating_point_v<T> ? counted(std::move(result), &WorkCount::flops) : std::move(result);
}

template <class T>
EvalPtr<T> ExprCompiler::compile_fma(const ir::Fma& node, const Scope& scope) const {
  if constexpr (std::is_floating_point_v<T>) {
    EvalPtr<T> result =
        std::make_unique<FmaNode<T>>(compile<T>(node.a, scope), compile<T>(node.b, scope), compile<T>(node.c, scope));
    return counted(counted(std::move(result), &WorkCount::flops), &WorkCount::flops);
  }
  throw InternalError(fmt::format("'fma' of a value of type {}", loopgrad::name_of(node.type)));
}

template <class T>
EvalPtr<T> ExprCompiler::compile_cast(const ir::Cast& node, const Scope& scope) const {
  return with_value_type(machine_.run_type(node.a.type()), [&]<class U>() -> EvalPtr<T> {
    EvalPtr<U> a = compile<U>(node.a, scope);
    if constexpr (std::is_same_v<T, bool>) {
      return apply<bool>([](U x) { return x != U{0}; }, std::move(a));
    } else if constexpr (std::is_floating_point_v<U> && std::is_integral_v<T>) {
      return std::make_unique<FloatToInteger<T, U>>(std::move(a), checked_site(scope));
    } else if constexpr (std::is_same_v<T, U>) {
      return a;  // f32 and f64 are one type in f64 mode
    } else {
      return apply<T>([](U x) { return static_cast<T>(x); }, std::move(a));
    }
  });
}

template <class T>
EvalPtr<T> ExprCompiler::compile(const ir::Expr& e, const Scope& scope) const {
  if (!with_value_type(machine_.run_type(e.type()), []<class U>() { return std::is_same_v<T, U>; })) mistyped(e);
  if (const auto* c = e.as<ir::IntConst>()) return std::make_unique<Constant<T>>(static_cast<T>(c->value));
  if (const auto* c = e.as<ir::FloatConst>()) return std::make_unique<Constant<T>>(static_cast<T>(c->value));
  if (const auto* load = e.as<ir::Load>()) return compile_load<T>(*load, scope);
  if (const auto* unary = e.as<ir::Unary>()) return compile_unary<T>(*unary, scope);
  if (const auto* binary = e.as<ir::Binary>()) return compile_binary<T>(*binary, scope);
  if (const auto* fma = e.as<ir::Fma>()) return compile_fma<T>(*fma, scope);
  if (const auto* cast = e.as<ir::Cast>()) return compile_cast<T>(*cast, scope);
  if (const auto* select = e.as<ir::Select>()) {
    return std::make_unique<SelectNode<T>>(compile<bool>(select->condition, scope), compile<T>(select->a, scope),
                                           compile<T>(select->b, scope));
  }
  if constexpr (std::is_same_v<T, std::int64_t>) {
    if (const auto* var = e.as<ir::Var>()) return compile_var(*var);
  }
  mistyped(e);
}

template EvalPtr<bool> ExprCompiler::compile(const ir::Expr&, const Scope&) const;
template EvalPtr<std::int32_t> ExprCompiler::compile(const ir::Expr&, const Scope&) const;
template EvalPtr<std::int64_t> ExprCompiler::compile(const ir::Expr&, const Scope&) const;
template EvalPtr<float> ExprCompiler::compile(const ir::Expr&, const Scope&) const;
template EvalPtr<double> ExprCompiler::compile(const ir::Expr&, const Scope&) const;

}  // namespace loopgrad::backend::interpreter

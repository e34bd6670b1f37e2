// The compiled form of expressions and statements: typed trees with every name resolved to an address.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace loopgrad::backend::interpreter {

/// An expression with values of T: bool, std::int32_t, std::int64_t, float or double.
template <class T>
struct Eval {
  virtual ~Eval() = default;
  virtual T eval() const = 0;
};
template <class T>
using EvalPtr = std::unique_ptr<const Eval<T>>;

/// A statement.
struct Action {
  virtual ~Action() = default;
  virtual void run() const = 0;
};
using ActionPtr = std::unique_ptr<const Action>;

template <class T>
struct Constant final : Eval<T> {
  const T value;
  explicit Constant(T v) : value(v) {}
  T eval() const override { return value; }
};

struct IteratorValue final : Eval<std::int64_t> {
  const std::int64_t& slot;
  explicit IteratorValue(const std::int64_t& s) : slot(s) {}
  std::int64_t eval() const override { return slot; }
};

template <class R, class T, class F>
struct Apply1 final : Eval<R> {
  const F f;
  const EvalPtr<T> a;
  Apply1(F f_in, EvalPtr<T> a_in) : f(f_in), a(std::move(a_in)) {}
  R eval() const override { return f(a->eval()); }
};
template <class R, class T, class F>
EvalPtr<R> apply(F f, EvalPtr<T> a) {
  return std::make_unique<Apply1<R, T, F>>(f, std::move(a));
}

template <class T>
struct FmaNode final : Eval<T> {
  const EvalPtr<T> a, b, c;
  FmaNode(EvalPtr<T> a_in, EvalPtr<T> b_in, EvalPtr<T> c_in)
      : a(std::move(a_in)), b(std::move(b_in)), c(std::move(c_in)) {}
  T eval() const override {
    const T x = a->eval(), y = b->eval();
    return std::fma(x, y, c->eval());
  }
};

template <class R, class T, class F>
struct Apply2 final : Eval<R> {
  const F f;
  const EvalPtr<T> a, b;
  Apply2(F f_in, EvalPtr<T> a_in, EvalPtr<T> b_in) : f(f_in), a(std::move(a_in)), b(std::move(b_in)) {}
  R eval() const override {
    const T x = a->eval();
    return f(x, b->eval());
  }
};
template <class R, class T, class F>
EvalPtr<R> apply(F f, EvalPtr<T> a, EvalPtr<T> b) {
  return std::make_unique<Apply2<R, T, F>>(f, std::move(a), std::move(b));
}

template <class T>
struct SelectNode final : Eval<T> {
  const EvalPtr<bool> condition;
  const EvalPtr<T> a, b;
  SelectNode(EvalPtr<bool> c, EvalPtr<T> a_in, EvalPtr<T> b_in)
      : condition(std::move(c)), a(std::move(a_in)), b(std::move(b_in)) {}
  T eval() const override { return condition->eval() ? a->eval() : b->eval(); }
};

struct AndNode final : Eval<bool> {
  const EvalPtr<bool> a, b;
  AndNode(EvalPtr<bool> a_in, EvalPtr<bool> b_in) : a(std::move(a_in)), b(std::move(b_in)) {}
  bool eval() const override { return a->eval() && b->eval(); }
};

struct OrNode final : Eval<bool> {
  const EvalPtr<bool> a, b;
  OrNode(EvalPtr<bool> a_in, EvalPtr<bool> b_in) : a(std::move(a_in)), b(std::move(b_in)) {}
  bool eval() const override { return a->eval() || b->eval(); }
};

/// Adds one to `counter` whenever `node` is evaluated.
template <class T>
struct Counted final : Eval<T> {
  const EvalPtr<T> node;
  std::int64_t& counter;
  Counted(EvalPtr<T> n, std::int64_t& c) : node(std::move(n)), counter(c) {}
  T eval() const override {
    ++counter;
    return node->eval();
  }
};

}  // namespace loopgrad::backend::interpreter

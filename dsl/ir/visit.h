// One visitor. `visit(expr_or_stmt, overloaded{...})` calls the case for the node's type; a missing case fails to
// compile, naming the node, unless the overload set has an `[](const auto&)` default.
#pragma once

#include "dsl/ir/program.h"

#include <type_traits>

namespace loopgrad::ir {

template <class... Cases>
struct overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
overloaded(Cases...) -> overloaded<Cases...>;

template <class Cases>
decltype(auto) visit(const Expr& e, Cases&& cases) {
  switch (e.kind()) {
#define LOOPGRAD_EXPR(Name)                                                                            \
  case Kind::Name:                                                                                     \
    static_assert(std::is_invocable_v<Cases, const Name&>, "visit() has no case for the node " #Name); \
    return cases(static_cast<const Name&>(*e.get()));
#define LOOPGRAD_STMT(Name)
#include "dsl/ir/nodes.def"
    default: __builtin_unreachable();
  }
}

template <class Cases>
decltype(auto) visit(const Stmt& s, Cases&& cases) {
  switch (s.kind()) {
#define LOOPGRAD_EXPR(Name)
#define LOOPGRAD_STMT(Name)                                                                            \
  case Kind::Name:                                                                                     \
    static_assert(std::is_invocable_v<Cases, const Name&>, "visit() has no case for the node " #Name); \
    return cases(static_cast<const Name&>(*s.get()));
#include "dsl/ir/nodes.def"
    default: __builtin_unreachable();
  }
}

/// Calls `f` on every direct child of the node, in field order; `f` takes `const Expr&` and `const Stmt&`.
template <class Node, class F>
void for_each_child(const Node& node, F&& f) {
  auto one = [&f](const auto& field) {
    using Field = std::decay_t<decltype(field)>;
    if constexpr (std::is_same_v<Field, Expr> || std::is_same_v<Field, Stmt>) {
      if (field) f(field);
    } else if constexpr (std::is_same_v<Field, std::vector<Expr>> || std::is_same_v<Field, std::vector<Stmt>>) {
      for (const auto& child : field) f(child);
    }
  };
  std::apply([&](auto... member) { (one(node.*member), ...); }, Node::fields());
}

/// A callable of the caller's, which outlives the walk. Walks are compiled once for all callables: as templates over
/// them they were most of what compiling the passes took.
template <class Result, class Node>
class OnNode {
 public:
  OnNode() = default;  // never called: walks leave such nodes out
  template <class F>
  explicit OnNode(F& f) : object_(const_cast<void*>(static_cast<const void*>(&f))), call_(call<F>) {}
  explicit operator bool() const { return call_ != nullptr; }
  Result operator()(const Node& node) const { return call_(object_, node); }

 private:
  template <class F>
  static Result call(void* object, const Node& node) {
    F& f = *static_cast<F*>(object);
    if constexpr (std::is_same_v<std::invoke_result_t<F&, const Node&>, Result>) {
      return f(node);
    } else {
      f(node);
      return Result(true);
    }
  }

  void* object_ = nullptr;
  Result (*call_)(void*, const Node&) = nullptr;
};
using OnExpr = OnNode<bool, Expr>;  // false skips the children
using OnStmt = OnNode<void, Stmt>;
void each_child(const Expr& parent, OnExpr on_expr);
void each_child(const Stmt& parent, OnExpr on_expr, OnStmt on_stmt);
void walk_nodes(const Expr& root, OnExpr on_expr);
void walk_nodes(const Stmt& root, OnStmt on_stmt, OnExpr on_expr);

/// The same for a node of any type.
template <class F>
void for_each_child(const Expr& parent, F&& f) {
  each_child(parent, OnExpr(f));
}
template <class F>
void for_each_child(const Stmt& parent, F&& f) {
  each_child(parent, OnExpr(f), OnStmt(f));
}

/// Calls `f(const Expr&)` on `root` and everything below it, parents first. `f` may return bool: false skips the
/// children.
template <class F>
void walk(const Expr& root, F&& f) {
  walk_nodes(root, OnExpr(f));
}

/// Calls `on_stmt` on every statement and `on_expr` on every expression at or below `root`, parents first, in textual
/// order. Shapes of allocated arrays are not visited.
template <class ForStmt, class ForExpr>
void walk(const Stmt& root, ForStmt&& on_stmt, ForExpr&& on_expr) {
  walk_nodes(root, OnStmt(on_stmt), OnExpr(on_expr));
}
template <class ForStmt>
void walk_stmts(const Stmt& root, ForStmt&& on_stmt) {
  walk_nodes(root, OnStmt(on_stmt), OnExpr());
}

}  // namespace loopgrad::ir

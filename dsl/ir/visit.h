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

/// Calls `f(const Expr&)` on `root` and everything below it, parents first. `f` may return bool: false skips the
/// children.
template <class F>
void walk(const Expr& root, F&& f) {
  if constexpr (std::is_same_v<std::invoke_result_t<F&, const Expr&>, bool>) {
    if (!f(root)) return;
  } else {
    f(root);
  }
  visit(root, [&f](const auto& node) { for_each_child(node, [&f](const Expr& child) { walk(child, f); }); });
}

/// Calls `on_stmt` on every statement and `on_expr` on every expression at or below `root`, parents first, in textual
/// order. Shapes of allocated arrays are not visited.
template <class OnStmt, class OnExpr>
void walk(const Stmt& root, OnStmt&& on_stmt, OnExpr&& on_expr) {
  if (!root) return;
  on_stmt(root);
  visit(root, [&](const auto& node) {
    for_each_child(
        node, overloaded{[&](const Expr& e) { walk(e, on_expr); }, [&](const Stmt& s) { walk(s, on_stmt, on_expr); }});
  });
}
template <class OnStmt>
void walk_stmts(const Stmt& root, OnStmt&& on_stmt) {
  walk(root, on_stmt, [](const Expr&) {});
}

}  // namespace loopgrad::ir

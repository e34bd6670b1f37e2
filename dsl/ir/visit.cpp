#include "dsl/ir/visit.h"

namespace loopgrad::ir {

void each_child(const Expr& parent, OnExpr on_expr) {
  visit(parent, [&](const auto& node) { for_each_child(node, on_expr); });
}

void each_child(const Stmt& parent, OnExpr on_expr, OnStmt on_stmt) {
  const auto f = overloaded{[&](const Expr& e) { on_expr(e); }, [&](const Stmt& s) { on_stmt(s); }};
  visit(parent, [&](const auto& node) { for_each_child(node, f); });
}

void walk_nodes(const Expr& root, OnExpr on_expr) {
  if (!on_expr(root)) return;
  for_each_child(root, [&](const Expr& child) { walk_nodes(child, on_expr); });
}

void walk_nodes(const Stmt& root, OnStmt on_stmt, OnExpr on_expr) {
  if (!root) return;
  on_stmt(root);
  const auto on_child = overloaded{[&](const Expr& e) {
                                     if (on_expr) walk_nodes(e, on_expr);
                                   },
                                   [&](const Stmt& s) { walk_nodes(s, on_stmt, on_expr); }};
  for_each_child(root, on_child);
}

}  // namespace loopgrad::ir

// One rewriter. Derive from Rewriter and override `rewrite`, or use the lambda forms below. A subtree in which nothing
// changed is returned as the same pointer, so passes can see at once that they did nothing.
#pragma once

#include "dsl/ir/visit.h"

#include <functional>
#include <map>

namespace loopgrad::ir {

class Rewriter {
 public:
  virtual ~Rewriter() = default;
  /// Override to replace nodes; call `rewrite_children` for the default. A statement may become null or a block.
  virtual Expr rewrite(const Expr& e) { return rewrite_children(e); }
  virtual Stmt rewrite(const Stmt& s) { return rewrite_children(s); }

 protected:
  Expr rewrite_children(const Expr& e);
  Stmt rewrite_children(const Stmt& s);
};

/// `f` is asked first at every node; what it returns stands for the node, nullopt means "rewrite the children".
using ExprRewrite = std::function<std::optional<Expr>(const Expr&)>;
using StmtRewrite = std::function<std::optional<Stmt>(const Stmt&)>;
Expr rewrite(const Expr& e, const ExprRewrite& f);
Stmt rewrite(const Stmt& s, const ExprRewrite& on_expr, const StmtRewrite& on_stmt = {});

/// Replaces variables by expressions.
using Substitution = std::map<Symbol, Expr>;
Expr substitute(const Expr& e, const Substitution& values);
Stmt substitute(const Stmt& s, const Substitution& values);

/// Without the marks of stop_gradient(), which only derivatives ask for.
Stmt without_stops(const Stmt& s);

/// Every region with a custom gradient as its body alone.
Stmt without_rules(const Stmt& s);

/// A copy in which every loop iterator and local array is a new symbol, so that two copies may be nested or fused.
Stmt with_fresh_names(const Stmt& s);
/// Replaces arrays (in loads, stores and allocations) by others of the same rank.
Stmt replace_arrays(const Stmt& s, const std::map<Array, Array>& arrays);

/// Another place for an element.
struct ElementPlace {
  Array array;
  std::vector<Expr> indices;
};
/// Asked at every load and store; nullopt: the element stays where it is. Elements that the indices of the
/// new place are read from move, too.
using ElementMove = std::function<std::optional<ElementPlace>(const Array& array, const std::vector<Expr>& indices)>;
Stmt move_elements(const Stmt& s, const ElementMove& move);

}  // namespace loopgrad::ir

#include "dsl/ir/element_loops.h"

namespace loopgrad::ir {

Stmt over_elements(const std::vector<Expr>& shape, const SourceLocation& where,
                   const std::function<Stmt(const std::vector<Expr>&)>& body, const std::string& name, LoopMode mode) {
  std::vector<Symbol> iterators;
  std::vector<Expr> indices;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    iterators.push_back(make_symbol(name + std::to_string(d)));
    indices.push_back(var(iterators.back()));
  }
  Stmt result = body(indices);
  for (std::size_t d = shape.size(); d-- > 0;)
    result = for_loop(iterators[d], int_const(0), shape[d], result, mode, where);
  return result;
}

}  // namespace loopgrad::ir

// What the writers of one kernel share: its lines so far, and what is known about the iterators in scope.
#pragma once

#include "backends/c_text/code_text.h"
#include "backends/c_text/expr_text.h"

namespace loopgrad::backend {

struct KernelScope {
  explicit KernelScope(const ir::Program& program) : state(program) { state.device = true; }

  CodeText code;
  EmitState state;

  std::string text(const ir::Expr& e, Level surrounding = Level::Any) { return text_of(e, state, surrounding); }
  const std::string& name_of(const ir::Symbol& symbol) { return state.names.of(symbol); }
  std::string element(const ir::Array& array, const std::vector<ir::Expr>& indices) {
    return element_text(array, indices, state);
  }

  /// The C++ type of an iterator in scope, or of another name for an index.
  std::string type_of(const ir::Symbol& symbol) const {
    return state.wide.count(symbol) ? "int64_t" : state.index_type;
  }
  /// Where one of the indices that make up its value is data, the symbol needs 64 bits.
  void note_width(const ir::Symbol& symbol, const std::vector<ir::Expr>& made_of) {
    for (const ir::Expr& e : made_of)
      if (is_wide(e, state)) state.wide.insert(symbol);
  }

  /// Notes what the bounds of a loop tell about its iterator.
  void enter(const ir::For& loop) {
    note_width(loop.iterator, {loop.lower, loop.upper});
    if (is_non_negative(loop.lower, state)) state.non_negative.insert(loop.iterator);
  }
};

}  // namespace loopgrad::backend

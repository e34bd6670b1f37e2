// From expressions of the IR to typed trees that evaluate quickly.
#pragma once

#include "backends/interpreter/elements.h"

#include <unordered_map>

namespace loopgrad::backend::interpreter {

/// Where an expression stands: what its errors report.
struct Scope {
  const LoopSlot* loop = nullptr;
  SourceLocation location;
};

class ExprCompiler {
 public:
  explicit ExprCompiler(Machine& machine);

  /// `T` must be the C++ type of `e` in this run (in f64 mode every float is double). Instantiated for all five.
  template <class T>
  EvalPtr<T> compile(const ir::Expr& e, const Scope& scope) const;

  Place place(const ir::Array& array, const std::vector<ir::Expr>& indices, const Scope& scope) const;
  Place place_of(const ir::Load& node, const Scope& scope) const;

  /// Gives an iterator its slot for what is compiled from now on, until `unbind`.
  void bind(const ir::Symbol& iterator, const LoopSlot& slot);
  void unbind(const ir::Symbol& iterator);

 private:
  EvalPtr<std::int64_t> compile_var(const ir::Var& node) const;
  template <class T>
  EvalPtr<T> compile_load(const ir::Load& node, const Scope& scope) const;
  template <class T>
  EvalPtr<T> compile_unary(const ir::Unary& node, const Scope& scope) const;
  template <class T>
  EvalPtr<T> compile_binary(const ir::Binary& node, const Scope& scope) const;
  EvalPtr<bool> compile_logic(const ir::Binary& node, const Scope& scope) const;
  template <class T>
  EvalPtr<T> compile_fma(const ir::Fma& node, const Scope& scope) const;
  template <class T>
  EvalPtr<T> compile_cast(const ir::Cast& node, const Scope& scope) const;
  /// Where to report what only checked mode takes for a mistake; null in other modes.
  const Site* checked_site(const Scope& scope) const;
  /// Wraps a node so that evaluating it adds to one of the work counters.
  template <class T>
  EvalPtr<T> counted(EvalPtr<T> node, std::int64_t WorkCount::*counter) const;

  Machine& machine_;
  std::unordered_map<std::int64_t, const LoopSlot*> iterators_;  // by symbol id
};

/// Throws NotANumber when `result` is the NaN that an operation made of operands that are none.
template <class T>
void trap_nan(const Site& site, const char* operation, T result, std::initializer_list<T> operands);

}  // namespace loopgrad::backend::interpreter

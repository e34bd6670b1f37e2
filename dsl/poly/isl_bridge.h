// The only door to isl: includes its C++ interface, owns its context, turns its errors into ours, and converts between
// ir expressions and isl objects. Include it from .cpp files and from headers of dsl/poly only (isl/cpp.h is large).
//
// In isl objects every symbol is a parameter or a set dimension. A parameter's id is unique per symbol (not per name),
// so two loops that are both called `i` never mix. Ids are numbered per Context in order of first use: the same program
// gives the same isl objects in every process.
#pragma once

#include "dsl/ir/program.h"

#include <loopgrad/error.h>

#include <isl/cpp.h>

#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace loopgrad::poly {

/// isl's operation budget is spent, or isl has failed on its own account. Whoever asked for the analysis falls back to
/// the conservative answer.
struct BudgetError : Error {
  BudgetError();
};

/// One isl context with an operation budget. Shared by everything built in it, which must not outlive it: objects that
/// hold isl objects keep a `shared_ptr<Context>` declared before them.
class Context {
 public:
  static constexpr unsigned long default_budget = 2'000'000;

  /// `budget` is a number of isl operations; 0 means no limit.
  explicit Context(unsigned long budget = default_budget);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  isl::ctx isl() const { return isl::ctx(ctx_.get()); }
  /// Starts counting operations anew. Call it at the start of each independent piece of work.
  void restart_budget() { restart_budget(budget_); }
  void restart_budget(unsigned long budget);
  /// The same for one piece of work that gets less, or all that it takes: the next restart is as before.
  void restart_budget_once(unsigned long most);
  void restart_without_budget();

  /// The id that stands for a symbol (as a parameter) or an array (as a tuple).
  isl::id id_of(const ir::Symbol& symbol);
  isl::id id_of(const ir::Array& array);
  /// The symbol of an id made here; BudgetError for others, which are a defect of isl (0.25). Arrays: InternalError.
  const ir::Symbol& symbol_of(const isl::id& id) const;
  const ir::Array& array_of(const isl::id& id) const;
  /// A new id that stands for nothing else.
  isl::id fresh_id(const std::string& name);

 private:
  struct Free {
    void operator()(isl_ctx* ctx) const;
  };
  void restart(unsigned long operations);

  std::unique_ptr<isl_ctx, Free> ctx_;  // first: freed after the ids below
  unsigned long budget_ = 0;
  int count_ = 0;
  std::map<std::int64_t, isl::id> ids_;  // symbols and arrays share one numbering
  std::map<std::string, ir::Symbol> symbols_;
  std::map<std::string, ir::Array> arrays_;
};

/// Whether the budget of the context is spent. From then on isl refuses every allocation, so its functions fail in many
/// ways: null results, numbers below zero, complaints about arguments that such results became.
bool is_spent(isl::ctx ctx);

/// The error of ours that an error of isl stands for: std::bad_alloc where memory has run out, BudgetError where the
/// budget is spent or isl has a defect (as little is known then), else InternalError. An error that merely follows from
/// an earlier one, such as a null argument, counts as that one.
[[noreturn]] void throw_as_ours(const isl::exception& e, isl::ctx ctx);

/// Runs `work` with isl's errors turned into ours. Wrap every direct use of isl.
template <class Work>
decltype(auto) guarded(isl::ctx ctx, Work&& work) {
  try {
    return work();
  } catch (const isl::exception& e) {
    throw_as_ours(e, ctx);
  }
}
template <class Work>
decltype(auto) guarded(const Context& context, Work&& work) {
  return guarded(context.isl(), std::forward<Work>(work));
}

/// Takes over the result of an isl C function. isl's C++ interface lacks many functions; their null results become
/// exceptions here. **Example:** `checked(context, isl_set_sample_point(set.copy()))`.
template <class Pointer>
auto checked(const Context& context, Pointer* result) {
  if (!result) isl::exception::throw_last_error(context.isl());
  return isl::manage(result);
}
/// The answer of an isl C function; its failure, which is neither yes nor no, becomes an exception.
inline bool checked(const Context& context, isl_bool answer) {
  if (answer == isl_bool_error) isl::exception::throw_last_error(context.isl());
  return answer == isl_bool_true;
}

/// While it lives, no context of this thread gets a larger budget: for tests of what happens past it.
class BudgetCap {
 public:
  explicit BudgetCap(unsigned long most);
  BudgetCap(const BudgetCap&) = delete;
  BudgetCap& operator=(const BudgetCap&) = delete;
  ~BudgetCap();

 private:
  unsigned long outer_;
};

/// Where expressions live: symbols in `iterators` are set dimensions (in that order), all others parameters.
struct Scope {
  std::shared_ptr<Context> context;
  std::vector<ir::Symbol> iterators;
  std::string tuple = {};  // name of the set's tuple, or empty
  /// Arithmetic is taken as exact, as whoever made the expressions has left out what wraps around (Abstraction).
  bool never_wraps = false;

  isl::space space() const;
  isl::set universe() const;
};

// From ir to isl
// -------------------------------------------------------------------------------------------------------

/// The expression as a piecewise quasi-affine function of the scope; nullopt when it is not one. Understood: constants,
/// variables, + - neg, * with a constant factor, floordiv and mod by positive constants, min, max, abs, select on
/// affine conditions, and casts that cannot change the value. What may wrap around (`ir::may_wrap`) is none.
std::optional<isl::pw_aff> to_pw_aff(const ir::Expr& e, const Scope& scope);

/// The points of the scope where a bool expression holds; nullopt when it is not made of affine comparisons.
/// `free` are iterators of the scope whose values nobody will ask for: what the result says of them alone may be
/// missing. `within`: only points of this set of the scope.
std::optional<isl::set> to_set(const ir::Expr& condition, const Scope& scope, const std::vector<ir::Symbol>& free = {},
                               const std::optional<isl::set>& within = {});

// From isl to ir
// -------------------------------------------------------------------------------------------------------

/// Builds code for what has the space `of`, where `known` (a set of parameters) holds. Parameters are brought into the
/// order of `of`: isl (0.25) names others in remainders where the two orders differ, `n % 3` instead of `nnz % 3`.
isl::ast_build ast_builder(const isl::set& known, const isl::space& of);

/// What the ids in an isl AST stand for, by id name. Ids not listed are looked up as symbols of the context.
using Names = std::map<std::string, ir::Expr>;

/// An AST expression of isl as an i64 or bool expression. Comparisons and logic give bool.
ir::Expr to_expr(const isl::ast_expr& e, const Names& names, const Context& context);

/// The function as an i64 expression, where set dimension k is `dims[k]`. Outside its domain the result is arbitrary.
/// `known`, when given, is a set in the domain's space that is known to hold, used to simplify. A function of
/// parameters only takes no `dims`.
ir::Expr to_expr(const isl::pw_aff& value, const std::vector<ir::Expr>& dims, Context& context,
                 const std::optional<isl::set>& known = {});
/// One expression per output dimension.
std::vector<ir::Expr> to_exprs(const isl::multi_pw_aff& value, const std::vector<ir::Expr>& dims, Context& context,
                               const std::optional<isl::set>& known = {});
/// A bool expression that holds exactly on the set (given `known`).
ir::Expr to_condition(const isl::set& set, const std::vector<ir::Expr>& dims, Context& context,
                      const std::optional<isl::set>& known = {});

}  // namespace loopgrad::poly

// Lower bounds of integer expressions inside the loops of a program.
//
// Interval arithmetic loses that i - j is at least 1 where i runs from j + 1. Here iterators are replaced one by one,
// the innermost first, by the bound that makes the expression least: i by j + 1, and then the difference is a number.
#pragma once

#include "dsl/ir/program.h"
#include "dsl/symbolic/linear_form.h"

#include <map>
#include <set>

namespace loopgrad::ir {

class LeastValues {
 public:
  /// Knows the bounds of the iterators of the program, and that sizes are not negative. Keeps no reference.
  explicit LeastValues(const Program& program);
  /// For a part of a program: loops around it are not known.
  explicit LeastValues(const Stmt& s);

  /// A number that the value, inside the loops of the iterators that it mentions, is never less than; nullopt: none
  /// follows. Those of loads are not known. Corner cases of overflow aside, as everywhere with indices.
  std::optional<std::int64_t> of(const Expr& e) const;

  bool is_at_least(const Expr& e, std::int64_t least) const {
    const auto found = of(e);
    return found && *found >= least;
  }

  /// Whether an index of one element is always less than that of the other.
  bool are_apart(const std::vector<Expr>& a, const std::vector<Expr>& b) const;

 private:
  struct Loop {
    std::size_t depth = 0;  // grows inwards
    Expr lower, upper;
    bool unique = true;  // no other loop has the same iterator
  };

  std::optional<std::int64_t> of(const LinearForm& form) const;
  std::optional<std::int64_t> of_atom(const Expr& atom) const;

  std::map<Symbol, Loop> loops_;
  std::set<Symbol> sizes_;
  std::set<Symbol> threads_;  // how many a block has: at least one
};

}  // namespace loopgrad::ir

// Over-approximation of expressions that isl cannot express: each non-affine part becomes a fresh, bounded symbol.
#pragma once

#include "dsl/ir/program.h"
#include "dsl/symbolic/ranges.h"

#include <map>
#include <set>
#include <vector>

namespace loopgrad::poly {

/// The user's facts about arrays that the program never writes (facts are checked before the first statement, so they
/// say nothing about arrays that change later), and what was found about arrays that it does write.
class Facts {
 public:
  explicit Facts(const ir::Program& program);

  bool is_constant(const ir::Array& array) const { return !written_.count(array->id); }
  bool is_injective(const ir::Array& array) const { return injective_.count(array->id) > 0; }
  /// As is_injective, at all times: of values that are read and written, not of those that were there.
  bool is_distinct(const ir::Array& array) const { return distinct_.count(array->id) > 0; }
  bool is_csr_pointer(const ir::Array& array) const { return csr_.count(array->id) > 0; }
  /// Bounds lower <= element < upper of the array's values, or null.
  const std::pair<ir::Expr, ir::Expr>* range_of(const ir::Array& array) const;

 private:
  std::set<std::int64_t> written_, injective_, distinct_, csr_;
  std::map<std::int64_t, std::pair<ir::Expr, ir::Expr>> ranges_;
};

/// The Load that an index consists of, looking through integer casts, or null.
const ir::Load* as_indirect(const ir::Expr& index);

/// Values of the iterators around an expression, where numbers are the bounds of the loops.
using Numbers = std::map<ir::Symbol, ir::Range>;

/// Rewrites integer expressions and conditions into affine ones over additional `symbols`. Read the result as "for some
/// values of the symbols that satisfy `constraints`". One abstraction serves expressions evaluated at one moment: equal
/// loads get the same symbol.
///
/// **Example:** `x[2 * idx[i] + j]` with idx in [0, m) gives index `2 * s + j`, symbols {s}, constraints {s >= 0, s <
/// m}. `min(n//k, m)` gives index `s`, constraints {s <= m}. `c*n` of an iterator in 0..3 gives `s`, exactly,
/// constraints {c = 0 and s = 0, or c = 1 and s = n, or c = 2 and s = 2*n}.
class Abstraction {
 public:
  /// Remainders by a size, `a % n`: any number in 0..n; or exactly, as long as `a` is less than a few periods away, in
  /// -n..3*n: the caller has to prove that.
  enum class Remainders { Any, OfFewPeriods };

  /// Both references must outlive it.
  explicit Abstraction(const Facts& facts, Remainders remainders = Remainders::Any,
                       const Numbers& numbers = no_numbers())
      : facts_(facts), remainders_(remainders), numbers_(numbers) {}

  /// An affine expression that takes the value of `e` for the right choice of symbols.
  ir::Expr value(const ir::Expr& e);
  /// A condition that holds whenever `e` is `expected` (it may hold more often when `exact` turns false).
  ir::Expr condition(const ir::Expr& e, bool expected);

  const std::vector<ir::Symbol>& symbols() const { return symbols_; }
  const std::vector<ir::Expr>& constraints() const { return constraints_; }
  /// False once anything had to be over-approximated.
  bool exact() const { return exact_; }
  /// There is a remainder whose constraints no value satisfies when its operand is too many periods away.
  bool has_periods() const { return has_periods_; }

 private:
  ir::Expr opaque(const ir::Expr& e, const ir::Expr& lower = {}, const ir::Expr& upper = {});
  // Two expressions of which one is the value.
  struct Choice {
    ir::Expr a, b;
    bool a_exact = true, b_exact = true;
    bool unknown = false;  // not exact, and no fact bounds either: one symbol for their parent says as much

    bool exact() const { return a_exact && b_exact; }
  };
  Choice choice(const ir::Expr& a, const ir::Expr& b);
  ir::Expr value_of_extremum(const ir::Binary& node, const ir::Expr& e);
  ir::Expr value_of_select(const ir::Select& node, const ir::Expr& e);
  ir::Expr value_of_product(const ir::Expr& number, const ir::Expr& factor, const ir::Expr& e);
  ir::Expr value_of_binary(const ir::Binary& node, const ir::Expr& e);
  ir::Expr value_of_remainder(const ir::Binary& node, const ir::Expr& e);
  ir::Expr value_of_load(const ir::Load& node, const ir::Expr& e);

  static const Numbers& no_numbers();

  const Facts& facts_;
  const Remainders remainders_;
  const Numbers& numbers_;
  bool has_periods_ = false;
  std::vector<ir::Symbol> symbols_;
  std::vector<ir::Expr> originals_;  // what each symbol stands for
  std::vector<ir::Expr> constraints_;
  bool exact_ = true;
};

}  // namespace loopgrad::poly

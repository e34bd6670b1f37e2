// "In registers", of the storage plan: a scalar takes the place of an element over statements.
//
//   u[t, i] += a[i]                          local f32 u_now
//   if i > 0:                                u_now = u[t, i]
//     u[t, i] += u[t + 1, i - 1]*c     ->    u_now += a[i]
//   if i + 1 < n:                            if i > 0: u_now += u[t + 1, i - 1]*c
//     u[t, i] += u[t + 1, i + 1]*c           if i + 1 < n: u_now += u[t + 1, i + 1]*c
//                                            u[t, i] = u_now
//
// Legality and action for passes that know where it pays: over which statements, and whether the element is wanted
// after them. It looks at one iteration of what is around the statements, as one thread sees it.
#pragma once

#include "dsl/ir/program.h"
#include "dsl/symbolic/least_values.h"

#include <functional>
#include <set>
#include <string>
#include <vector>

namespace loopgrad::transforms {

/// An element, and what statements in a row, some of which store to it, do with it.
struct Element {
  ir::Array array;
  std::vector<ir::Expr> indices;

  bool fits = true;         // a scalar can take its place: it stays the element, and nothing else may be it
  bool certain = false;     // they store to it in any case: it exists
  bool starts_new = false;  // the first access is an assignment that is executed in any case
  int stores = 0;
  bool assigns = false;       // some of the stores are no sums
  bool read_in_loop = false;  // after it was stored to, by a loop among them
  bool stored_in_loop = false, in_parallel_loop = false;
  std::set<ir::ReduceOp> sums;  // kinds
  SourceLocation location;      // of the first sum, or else of the first store

  bool is(const ir::Array& other, const std::vector<ir::Expr>& at) const;
  bool is_used_in(const ir::Stmt& s) const;
};

/// What a pass decides.
struct ScalarPolicy {
  std::function<bool(const Element&)> pays;
  std::function<std::string(const Element&)> name;  // of the scalar
  std::function<bool(const ir::For&)> descends;     // whether to look inside of a loop
  bool whole_blocks = false;                        // or from the first use to the last
  bool data_bounds = false;                         // over loops, too, whose bounds are loaded
};

class ScalarElements {
 public:
  explicit ScalarElements(const ir::Program& program);

  /// The elements that statements in a row store to. A scalar takes no place of elements that another access may be, of
  /// arrays that may alias, of f16 and bf16 (rounded at each step in memory), of stacks and products of matrices, and
  /// of atomic sums.
  std::vector<Element> of(const std::vector<ir::Stmt>& statements) const;

  /// `body` with scalars in place of elements that fit, where it pays: over blocks that store to them in any case, the
  /// outermost, and over loops, with loops directly inside them, that do so in each trip, if they make one. An element
  /// is read only where the program as written does (old_value.h), unless it is an argument that came with a value.
  ir::Stmt in_scalars(const ir::Stmt& body, const ScalarPolicy& policy) const;

  /// `s` with a scalar in place of one that it stores to in any case, and that nobody wants afterwards; `s` itself
  /// where that might read an element that has no value yet.
  ir::Stmt without_store(const ir::Stmt& s, const Element& e, const std::string& name) const;

 private:
  ir::Stmt over_block(const ir::Stmt& s, const ScalarPolicy& policy) const;
  ir::Stmt over_loop(const ir::Stmt& s, const ScalarPolicy& policy) const;
  ir::Stmt before(const ir::Stmt& s, const Element& e, const ir::Array& scalar) const;

  const std::set<ir::Array> aliases_;
  const ir::LeastValues least_;
};

}  // namespace loopgrad::transforms

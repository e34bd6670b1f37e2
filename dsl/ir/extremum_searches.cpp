#include "dsl/ir/extremum_searches.h"

#include "dsl/ir/kept_extremum.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"

#include <algorithm>

namespace loopgrad::ir {
namespace {

constexpr std::int64_t few = 65;  // iterations: fewer are faster in order than twice in lanes that begin anew

/// Writes the result for one nest.
class Searcher {
 public:
  explicit Searcher(const KeptExtremum& extremum) : of_(extremum) {}

  /// `in_few`: when the iteration is found in order; null: never. A constant: always.
  Stmt searched(const Stmt& nest, const Expr& in_few) const;

 private:
  Stmt loops_from(std::size_t first, Stmt body, const Substitution& known, bool in_order = false) const;
  Stmt in_order(const Array& best, const std::vector<Array>& taken) const;
  Stmt in_any_order(const Array& best, const std::vector<Array>& taken, const Expr& kept) const;
  Expr none_of(std::size_t loop) const;
  bool takes_least(std::size_t loop) const { return (of_.loops[loop]->mode == LoopMode::Forward) == of_.is_strict(); }
  Stmt once(const Stmt& s) const;
  bool leads_to_branch(const Stmt& s) const;

  const KeptExtremum& of_;
};

/// The loops from this one on around a body, of iterations of those before.
Stmt Searcher::loops_from(std::size_t first, Stmt body, const Substitution& known, bool in_order) const {
  for (std::size_t k = of_.loops.size(); k-- > first;) {
    const For& n = *of_.loops[k];
    const LoopMode mode = in_order ? n.mode : LoopMode::Forward;
    body = for_loop(n.iterator, n.lower, n.upper, body, mode, n.location, n.at_most);
  }
  return with_fresh_names(substitute(body, known));
}

/// The number that no iteration has, on the side of those that are taken last.
Expr Searcher::none_of(std::size_t loop) const {
  return takes_least(loop) ? of_.loops[loop]->upper : of_.loops[loop]->lower - int_const(1);
}

bool Searcher::leads_to_branch(const Stmt& s) const {
  bool found = false;
  walk_stmts(s, [&](const Stmt& part) { found |= part.same_as(of_.branch); });
  return found;
}

/// What one iteration does that takes the branch.
Stmt Searcher::once(const Stmt& s) const {
  if (s.same_as(of_.branch)) return s;
  if (const auto* n = s.as<For>(); n && leads_to_branch(s)) return once(n->body);
  if (const auto* n = s.as<Allocate>()) return mapped_like(*n, allocate(n->array, once(n->body), n->location));
  if (const auto* n = s.as<If>(); n && leads_to_branch(s)) return once(n->then_body);
  const auto* list = s.as<Block>();
  if (!list) return s;
  std::vector<Stmt> body;
  for (const Stmt& child : list->body) body.push_back(once(child));
  return block(std::move(body));
}

/// Finds the iteration that takes the branch last: as the program does.
Stmt Searcher::in_order(const Array& best, const std::vector<Array>& taken) const {
  std::vector<Stmt> set{assign(best, {}, of_.value, of_.where)}, body;
  for (std::size_t k = 0; k < of_.loops.size(); ++k) {
    set.push_back(assign(taken[k], {}, var(of_.loops[k]->iterator), of_.where));
    if (k > 0) body.push_back(assign(taken[k], {}, int_const(0), of_.where));
  }
  const Expr passes = binary(of_.comparison, of_.value, load(best, {}, of_.where));
  body.push_back(loops_from(0, if_then(both(of_.others, passes), block(set), {}, of_.where), {}, true));
  return block(std::move(body));
}

/// The same in any order.
Stmt Searcher::in_any_order(const Array& best, const std::vector<Array>& taken, const Expr& kept) const {
  const Expr extremum = load(best, {}, of_.where);
  const Stmt each = reduce(best, {}, of_.is_largest() ? ReduceOp::Max : ReduceOp::Min, of_.value, of_.where);
  std::vector<Stmt> body{loops_from(0, of_.others ? if_then(of_.others, each, {}, of_.where) : each, {})};
  Substitution known;
  for (std::size_t k = 0; k < of_.loops.size(); ++k) {
    const Expr number = load(taken[k], {}, of_.where), none = substitute(none_of(k), known);
    Expr fits = binary(BinaryOp::Eq, of_.value, extremum), exists = of_.others;
    if (k > 0) exists = both(binary(BinaryOp::Ne, load(taken[0], {}, of_.where), none_of(0)), exists);
    else if (of_.is_strict()) fits = both(fits, binary(of_.comparison, extremum, kept));
    const Stmt look = reduce(taken[k], {}, takes_least(k) ? ReduceOp::Min : ReduceOp::Max,
                             select(fits, var(of_.loops[k]->iterator), none), of_.where);
    if (k > 0) body.push_back(assign(taken[k], {}, none, of_.where));
    body.push_back(loops_from(k, exists ? if_then(exists, look, {}, of_.where) : look, known));
    known[of_.loops[k]->iterator] = number;
  }
  return block(std::move(body));
}

Stmt Searcher::searched(const Stmt& nest, const Expr& in_few) const {
  std::vector<Array> locals, taken;
  const auto local = [&](const char* name, ScalarType type) {
    return locals.emplace_back(make_array(name, type, {}, ArrayRole::Local, of_.where));
  };
  std::vector<Stmt> body;
  Expr kept = of_.kept;
  if (!of_.is_scalar()) {
    const Array before = local("before", of_.value.type());
    Expr any;  // iterations
    for (const For* n : of_.loops) any = both(any, binary(BinaryOp::Lt, n->lower, n->upper));
    const Expr nothing = identity_of(of_.is_largest() ? ReduceOp::Max : ReduceOp::Min, of_.value.type());
    body.push_back(assign(before, {}, select(any, of_.kept, nothing), of_.where));
    kept = load(before, {}, of_.where);
  }
  const Array best = local("best", of_.value.type());
  Substitution known;
  for (const For* n : of_.loops) {
    taken.push_back(local("taken", ScalarType::I64));
    known[n->iterator] = load(taken.back(), {}, of_.where);
  }
  body.push_back(assign(best, {}, kept, of_.where));
  body.push_back(assign(taken[0], {}, none_of(0), of_.where));
  const Stmt look = in_any_order(best, taken, kept);
  if (!in_few) body.push_back(look);
  else if (as_int(in_few)) body.push_back(in_order(best, taken));
  else body.push_back(if_then(in_few, in_order(best, taken), look, of_.where));
  body.push_back(if_then(binary(BinaryOp::Ne, load(taken[0], {}, of_.where), none_of(0)),
                         with_fresh_names(substitute(once(nest), known)), {}, of_.where));
  Stmt result = block(std::move(body));
  for (const Array& array : locals) result = allocate(array, result, of_.where);
  return result;
}

/// Finds the nests of a program.
class Searches : public Rewriter {
 public:
  Searches(const Program& program, std::int64_t least, GuardedSearch guarded)
      : least_(least), guarded_(guarded), aliased_(aliased_arrays(program)) {}
  using Rewriter::rewrite;

  Stmt rewrite(const Stmt& s) override {
    if (s.kind() == Kind::CustomGradient) return s;
    if (const auto* n = s.as<If>()) return rewrite_branches(s, *n);
    const bool is_loop = s.kind() == Kind::For || s.kind() == Kind::While;
    if (const auto extremum = kept_extremum(s, aliased_)) return searched(s, *extremum);
    loops_ += is_loop;
    const Stmt result = rewrite_children(s);
    loops_ -= is_loop;
    return result;
  }
  Expr rewrite(const Expr& e) override { return e; }

 private:
  Stmt searched(const Stmt& s, const KeptExtremum& extremum) const {
    const Searcher searcher(extremum);
    const Expr trips = extremum.trips();
    if (loops_ > 0 && extremum.others && guarded_ != GuardedSearch::InAnyOrder)
      return guarded_ == GuardedSearch::None ? s : searcher.searched(s, bool_const(true));
    if (!trips) return searcher.searched(s, {});
    if (const auto known = as_int(trips)) return *known < least_ ? s : searcher.searched(s, {});
    const Expr are_few = binary(BinaryOp::Lt, trips, int_const(few));
    const bool is_in_order =  // as it has been written here
        std::any_of(asked_.begin(), asked_.end(), [&](const Expr& condition) { return equal(condition, are_few); });
    return is_in_order ? s : searcher.searched(s, loops_ > 0 ? are_few : Expr());
  }

  Stmt rewrite_branches(const Stmt& s, const If& n) {
    asked_.push_back(n.condition);
    const Stmt then_body = rewrite(n.then_body);
    asked_.pop_back();
    const Stmt else_body = n.else_body ? rewrite(n.else_body) : n.else_body;
    const bool same = then_body.same_as(n.then_body) && else_body.same_as(n.else_body);
    return same ? s : if_then(n.condition, then_body, else_body, n.location);
  }

  const std::int64_t least_;
  const GuardedSearch guarded_;
  const std::set<Array> aliased_;
  std::vector<Expr> asked_;  // conditions around
  int loops_ = 0;            // around
};

}  // namespace

Program with_extremum_searches(const Program& program, std::int64_t least, GuardedSearch guarded) {
  return program.body ? with_body(program, Searches(program, least, guarded).rewrite(program.body)) : program;
}

}  // namespace loopgrad::ir

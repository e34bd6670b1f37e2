#include "dsl/symbolic/closed_counters.h"

#include "dsl/ir/known_scalars.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/target.h"
#include "dsl/symbolic/closed_forms.h"
#include "dsl/symbolic/linear_form.h"

#include <algorithm>
#include <set>

namespace loopgrad::ir {
namespace {

std::set<Array> written_in(const Stmt& s) {
  std::set<Array> written;
  walk_stmts(s, [&](const Stmt& child) {
    if (const Array array = target_of(child)) written.insert(array);
  });
  return written;
}

/// Integer scalars that are written in a loop which has not declared them.
class Carried {
 public:
  explicit Carried(const Stmt& body) { visit_stmt(body); }

  std::set<Array> take() {
    for (const Array& array : refused_) carried_.erase(array);
    return std::move(carried_);
  }

 private:
  void visit_stmt(const Stmt& s) {
    if (const auto* local = s.as<Allocate>()) {
      declared_in_[local->array] = loops_;
      for (const Expr& extent : local->array->shape) refuse(extent);
    }
    if (s.kind() == Kind::CustomGradient || s.kind() == Kind::Push || s.kind() == Kind::Pop ||
        s.kind() == Kind::Contraction)
      return refuse(s);
    if (const Array array = target_of(s); array && is_integer(array->type) && array->shape.empty()) {
      const auto declared = declared_in_.find(array);
      if (declared != declared_in_.end() && declared->second < loops_) carried_.insert(array);
    }
    const bool is_loop = s.kind() == Kind::For || s.kind() == Kind::While;
    loops_ += is_loop;
    for_each_child(s, overloaded{[](const Expr&) {}, [&](const Stmt& child) { visit_stmt(child); }});
    loops_ -= is_loop;
  }

  void refuse(const Expr& e) {
    walk(e, [&](const Expr& part) {
      if (const auto* n = part.as<Load>()) refused_.insert(n->array);
    });
  }

  void refuse(const Stmt& s) {
    walk(
        s,
        [&](const Stmt& child) {
          if (const Array array = target_of(child)) refused_.insert(array);
          if (const auto* n = child.as<Pop>()) refused_.insert(n->array);
        },
        [&](const Expr& e) {
          if (const auto* n = e.as<Load>()) refused_.insert(n->array);
        });
  }

  int loops_ = 0;
  std::map<Array, int> declared_in_;
  std::set<Array> carried_, refused_;
};

Stmt settled(const Stmt& s, const Substitution& values) {
  return rewrite(s, [&](const Expr& e) -> std::optional<Expr> {
    return e.type() == ScalarType::I64 ? std::optional(settled(e, values)) : std::nullopt;
  });
}

/// Values of scalars along the program.
class Walk {
 public:
  explicit Walk(const Program& program)
      : program_(program), scalars_(program), carried_(Carried(program.body).take()) {}

  bool has_work() const { return !carried_.empty(); }
  const std::set<Array>& carried() const { return carried_; }

  Stmt visit(const Stmt& s) {
    if (const auto* n = s.as<Block>()) {
      std::vector<Stmt> body;
      bool same = true;
      for (const Stmt& child : n->body) {
        body.push_back(visit(child));
        same &= body.back().same_as(child);
      }
      return same ? s : block(std::move(body));
    }
    if (const auto* n = s.as<For>()) return visit_loop(s, *n);
    if (const auto* n = s.as<If>()) return visit_branches(s, *n);
    if (const auto* n = s.as<While>()) return visit_while(s, *n);
    if (const auto* n = s.as<Allocate>()) {
      values_.erase(n->array);
      const Stmt body = visit(n->body);
      return body.same_as(n->body) ? s : mapped_like(*n, allocate(n->array, body, n->location));
    }
    const Stmt result = known(s);
    if (const auto* n = result.as<Assign>()) set(n->array, n->value);
    if (const auto* n = result.as<Reduce>()) {
      const auto before = values_.find(n->array);
      set(n->array, before == values_.end() ? Expr() : combined(*n, before->second));
    }
    return result;
  }

 private:
  void set(const Array& array, const Expr& value) {
    if (!carried_.count(array)) return;
    const Expr looked = value ? scalars_.look_through(value) : value;
    if (looked && is_short_value(looked) && scalars_.is_known(looked)) values_[array] = looked;
    else values_.erase(array);
  }

  void forget(const std::set<Array>& arrays) {
    for (const Array& array : arrays) values_.erase(array);
  }

  std::optional<Expr> value_of(const Expr& e) const {
    const auto* n = e.as<Load>();
    const auto found = n ? values_.find(n->array) : values_.end();
    return found == values_.end() ? std::nullopt : std::optional(found->second);
  }

  Expr known(const Expr& e) const {
    const Expr result = rewrite(e, [&](const Expr& part) { return value_of(part); });
    return result.same_as(e) || result.type() != ScalarType::I64 ? result : simplify_indices(result);
  }

  /// A statement without statements below it.
  Stmt known(const Stmt& s) const {
    if (values_.empty()) return s;
    return rewrite(s, [&](const Expr& e) -> std::optional<Expr> {
      return e.type() == ScalarType::I64 ? std::optional(known(e)) : value_of(e);
    });
  }

  Stmt visit_branches(const Stmt& s, const If& n) {
    const Expr condition = known(n.condition);
    const std::map<Array, Expr> before = values_;
    const Stmt then_body = visit(n.then_body);
    values_ = before;
    const Stmt else_body = n.else_body ? visit(n.else_body) : Stmt();
    values_ = before;
    forget(written_in(n.then_body));
    if (n.else_body) forget(written_in(n.else_body));
    const bool same = condition.same_as(n.condition) && then_body.same_as(n.then_body);
    return same && else_body.same_as(n.else_body) ? s : if_then(condition, then_body, else_body, n.location);
  }

  Stmt visit_while(const Stmt& s, const While& n) {
    const std::set<Array> written = written_in(n.body);
    const Expr most = known(n.max_trips);
    forget(written);
    const Expr condition = known(n.condition);
    const Stmt body = visit(n.body);
    forget(written);
    const bool same = most.same_as(n.max_trips) && condition.same_as(n.condition) && body.same_as(n.body);
    return same ? s : while_loop(n.iterator, most, condition, body, n.location);
  }

  Stmt visit_loop(const Stmt& s, const For& n) {
    const Expr lower = known(n.lower), upper = known(n.upper);
    const Expr at_most = n.at_most ? known(n.at_most) : Expr();
    const std::set<Array> written = written_in(n.body);
    const std::map<Array, Expr> before = values_;
    const bool counts = !is_parallel(n.mode) && scalars_.is_known(lower) && scalars_.is_known(upper) &&
                        is_short_value(lower) && is_short_value(upper);
    const Trips trips = trips_of(program_, n, lower, upper);
    for (;;) {
      std::vector<CarriedScalar> candidates;
      if (counts) candidates = candidates_in(n, s->id, before);
      values_ = before;
      forget(written);
      for (const CarriedScalar& c : candidates) values_[c.array] = cast(c.array->type, var(c.start));
      const Stmt body = visit(n.body);
      // What the body reads of them in memory is not there any more when they are no longer written.
      for (CarriedScalar& c : candidates)
        if (const auto end = values_.find(c.array); end != values_.end() && !reads(body, c.array))
          c.at_end = end->second;
      if (!solve(candidates, trips)) {
        for (const CarriedScalar& c : candidates)
          if (!c.value) given_up_.insert({s->id, c.array});
        continue;  // as if no loop carried these: at most once for each loop and scalar
      }
      forget(written);
      const bool same = candidates.empty() && lower.same_as(n.lower) && upper.same_as(n.upper) && body.same_as(n.body);
      if (same && at_most.same_as(n.at_most)) return s;
      const Stmt loop = mapped_like(
          n, for_loop(n.iterator, lower, upper, replaced(body, candidates), n.mode, n.location, at_most, n.shape));
      return leave(loop, candidates, before, n.location);
    }
  }

  std::vector<CarriedScalar> candidates_in(const For& n, std::int64_t id, const std::map<Array, Expr>& before) const {
    std::set<Array> inside;
    walk_stmts(n.body, [&](const Stmt& child) {
      if (const auto* local = child.as<Allocate>()) inside.insert(local->array);
    });
    std::vector<CarriedScalar> candidates;
    std::set<Array> seen;
    walk_stmts(n.body, [&](const Stmt& child) {
      const Array array = target_of(child);
      if (!array || !carried_.count(array) || inside.count(array) || given_up_.count({id, array})) return;
      if (!seen.insert(array).second) return;
      const auto found = before.find(array);
      const Expr base = found == before.end() ? load(array, {}, n.location) : found->second;
      candidates.push_back({array, make_symbol(array->name), base, {}, {}, {}});
    });
    return candidates;
  }

  /// The body of a loop that writes the candidates no more.
  static Stmt replaced(const Stmt& body, const std::vector<CarriedScalar>& candidates) {
    if (candidates.empty()) return body;
    Substitution values;
    std::set<Array> arrays;
    for (const CarriedScalar& c : candidates) {
      values[c.start] = c.value;
      arrays.insert(c.array);
    }
    const Stmt kept = rewrite(body, {}, [&](const Stmt& s) -> std::optional<Stmt> {
      return arrays.count(target_of(s)) > 0 ? std::optional(Stmt()) : std::nullopt;
    });
    return is_empty(kept) ? kept : settled(kept, values);
  }

  /// The loop, and what it leaves in the scalars: those that were found later may need the old values of others.
  Stmt leave(const Stmt& loop, const std::vector<CarriedScalar>& candidates, const std::map<Array, Expr>& before,
             SourceLocation location) {
    std::vector<Stmt> body{loop};
    for (auto c = candidates.rbegin(); c != candidates.rend(); ++c) {
      const Expr value = cast(c->array->type, c->after);
      body.push_back(assign(c->array, {}, value, location));
      if (before.count(c->array)) set(c->array, value);
    }
    return block(std::move(body));
  }

  const Program& program_;
  const KnownScalars scalars_;
  const std::set<Array> carried_;
  std::map<Array, Expr> values_;  // of scalars here, in their types
  std::set<std::pair<std::int64_t, Array>> given_up_;
};

/// Those of `scalars` that something besides their own values may come from.
std::set<Array> read_of(const std::set<Array>& scalars, const Stmt& body) {
  std::set<Array> found;
  std::map<Array, std::set<Array>> needed;
  const std::function<void(const Stmt&)> look = [&](const Stmt& s) {
    const Array target = target_of(s);
    std::set<Array>& into = target && scalars.count(target) ? needed[target] : found;
    for_each_child(s, overloaded{[&](const Expr& e) {
                                   walk(e, [&](const Expr& part) {
                                     const auto* n = part.as<Load>();
                                     if (n && scalars.count(n->array)) into.insert(n->array);
                                   });
                                 },
                                 look});
  };
  look(body);
  std::vector<Array> open(found.begin(), found.end());
  while (!open.empty()) {
    const Array next = open.back();
    open.pop_back();
    for (const Array& array : needed[next])
      if (found.insert(array).second) open.push_back(array);
  }
  return found;
}

Stmt without(const std::set<Array>& scalars, const Stmt& body) {
  return rewrite(body, {}, [&](const Stmt& s) -> std::optional<Stmt> {
    if (const auto* local = s.as<Allocate>(); local && scalars.count(local->array))
      return without(scalars, local->body);
    return scalars.count(target_of(s)) > 0 ? std::optional(Stmt()) : std::nullopt;
  });
}

/// In a loop that makes a trip, `max(upper - lower, 0)` is `upper - lower`, where nothing changes these.
class InTrips : public Rewriter {
 public:
  explicit InTrips(const Program& program) : scalars_(program) {}
  using Rewriter::rewrite;
  Stmt rewrite(const Stmt& s) override {
    const auto* n = s.as<For>();
    if (!n) return rewrite_children(s);
    const Expr lower = rewrite(n->lower), upper = rewrite(n->upper);
    const Expr at_most = n->at_most ? rewrite(n->at_most) : Expr();
    const Expr trips = upper - lower;
    const bool is_known = scalars_.is_known(trips);
    if (is_known) trips_.push_back(trips);
    const Stmt body = rewrite(n->body);
    if (is_known) trips_.pop_back();
    const bool same = lower.same_as(n->lower) && upper.same_as(n->upper) && body.same_as(n->body);
    if (same && at_most.same_as(n->at_most)) return s;
    return mapped_like(*n, for_loop(n->iterator, lower, upper, body, n->mode, n->location, at_most, n->shape));
  }
  Expr rewrite(const Expr& e) override {
    const auto* n = e.as<Binary>();
    const bool is_max = n && n->op == BinaryOp::Max && e.type() == ScalarType::I64;
    if (is_max && std::any_of(trips_.begin(), trips_.end(), [&](const Expr& trips) {
          return distance(n->a - n->b, trips).value_or(-2) >= -1;  // and there is one at least
        }))
      return rewrite(n->a);
    const Expr result = rewrite_children(e);
    return result.same_as(e) || e.type() != ScalarType::I64 ? result : simplify_indices(result);
  }

 private:
  const KnownScalars scalars_;
  std::vector<Expr> trips_;
};

}  // namespace

Program with_closed_counters(const Program& program) {
  if (!program.body) return program;
  Walk walk(program);
  if (!walk.has_work()) return program;
  const Stmt body = walk.visit(program.body);
  if (body.same_as(program.body)) return program;
  std::set<Array> unread = walk.carried();
  for (const Array& array : read_of(unread, body)) unread.erase(array);
  const Stmt rest = without(unread, body);
  return with_body(program, InTrips(with_body(program, rest)).rewrite(rest));
}

}  // namespace loopgrad::ir

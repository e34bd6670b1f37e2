#include "transforms/storage/old_value.h"

#include "dsl/ir/structural_equal.h"
#include "dsl/ir/visit.h"
#include "transforms/analysis/nest.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::Expr;
using ir::Stmt;

namespace {

// Functions, as a program may be compiled before main.
OldValue always() { return {ir::bool_const(true)}; }
OldValue perhaps() { return {ir::bool_const(true), false}; }

/// Of what is evaluated or executed one after the other.
OldValue either(const OldValue& a, const OldValue& b) {
  if (!b.when || a.is_sure()) return a;
  if (!a.when || b.is_sure()) return b;
  if (!a.is_exact || !b.is_exact) return perhaps();
  return ir::equal(a.when, b.when) ? a : OldValue{ir::binary(ir::BinaryOp::Or, a.when, b.when)};
}

/// `yes` where the condition holds.
OldValue under(const Expr& condition, const OldValue& yes) {
  if (!yes.when || !yes.is_exact) return yes;
  return {ir::binary(ir::BinaryOp::And, condition, yes.when)};
}

/// Of two branches. What both need may be what follows them: it is in no condition twice.
OldValue one_of(const Expr& condition, const OldValue& yes, const OldValue& no) {
  if (!no.when) return under(condition, yes);
  if (!yes.when) return under(ir::unary(ir::UnaryOp::Not, condition), no);
  return yes.is_exact && no.is_exact && ir::equal(yes.when, no.when) ? yes : perhaps();
}

class Finder {
 public:
  Finder(const Element& e, const std::set<ir::Array>& aliases) : e_(e), aliases_(aliases) {}

  /// Of `s` and what follows it, which needs `after`.
  OldValue find(const Stmt& s, const OldValue& after) const {
    if (!s) return after;
    if (const auto* block = s.as<ir::Block>()) {
      OldValue result = after;
      for (auto child = block->body.rbegin(); child != block->body.rend(); ++child) result = find(*child, result);
      return result;
    }
    if (const auto* local = s.as<ir::Allocate>()) return unless_decided_by({local->array}, find(local->body, after));
    if (!e_.is_used_in(s)) return unless_decided_by(stored_in(s), after);
    if (const auto* branch = s.as<ir::If>())
      return guarded(branch->condition, find(branch->then_body, after), find(branch->else_body, after));
    if (s.kind() == ir::Kind::For || s.kind() == ir::Kind::While) return of_loop(s, after);
    return of_leaf(s, after);
  }

 private:
  /// What a loop only assigns has the old value where it makes no trip, which matters to what follows alone.
  OldValue of_loop(const Stmt& s, const OldValue& after) const {
    return !after.when && only_assigns(s) ? OldValue() : perhaps();
  }

  OldValue of_leaf(const Stmt& s, const OldValue& after) const {
    bool stores = false;
    for_each_store(s, [&](const ir::Array& array, const std::vector<Expr>& at) { stores = e_.is(array, at); });
    if (stores && !s.as<ir::Assign>()) return always();  // adds to it
    OldValue result;
    ir::for_each_child(s,
                       ir::overloaded{[&](const Expr& x) { result = either(result, read_in(x)); }, [](const Stmt&) {}});
    return stores ? result : either(result, unless_decided_by(stored_in(s), after));
  }

  /// Of the evaluation of an expression.
  OldValue read_in(const Expr& x) const {
    const auto* load = x.as<ir::Load>();
    if (load && e_.is(load->array, load->indices)) return always();
    if (const auto* select = x.as<ir::Select>())
      return guarded(select->condition, read_in(select->a), read_in(select->b));
    if (const auto* binary = x.as<ir::Binary>()) {
      if (binary->op == ir::BinaryOp::And) return guarded(binary->a, read_in(binary->b), {});
      if (binary->op == ir::BinaryOp::Or) return guarded(binary->a, {}, read_in(binary->b));
    }
    OldValue result;
    ir::for_each_child(x, [&](const Expr& child) { result = either(result, read_in(child)); });
    return result;
  }

  /// Of the condition, and then `yes` where it holds and `no` where it does not.
  OldValue guarded(const Expr& condition, const OldValue& yes, const OldValue& no) const {
    const OldValue first = read_in(condition), then = one_of(condition, yes, no);
    if (!first.when) return then;
    if (!yes.when && !no.when) return first;
    return either(first, then.is_sure() ? then : perhaps());  // no other condition that can be asked before
  }

  /// `after` behind what changes these arrays.
  OldValue unless_decided_by(const std::set<ir::Array>& arrays, const OldValue& after) const {
    if (!after.when) return after;
    const bool any_alias =
        std::any_of(arrays.begin(), arrays.end(), [&](const ir::Array& array) { return aliases_.count(array) > 0; });
    bool decided = false;
    ir::walk(after.when, [&](const Expr& x) {
      const auto* load = x.as<ir::Load>();
      decided |= load && (arrays.count(load->array) || (any_alias && aliases_.count(load->array)));
    });
    return decided ? perhaps() : after;
  }

  bool only_assigns(const Stmt& s) const {
    bool only = true;
    ir::walk(
        s,
        [&](const Stmt& t) {
          for_each_store(t, [&](const ir::Array& array, const std::vector<Expr>& at) {
            only &= t.as<ir::Assign>() || !e_.is(array, at);
          });
        },
        [&](const Expr& x) {
          const auto* load = x.as<ir::Load>();
          only &= !load || !e_.is(load->array, load->indices);
        });
    return only;
  }

  const Element& e_;
  const std::set<ir::Array>& aliases_;
};

}  // namespace

OldValue old_value(const Stmt& s, const Element& e, const std::set<ir::Array>& aliases) {
  return Finder(e, aliases).find(s, always());
}

}  // namespace loopgrad::transforms

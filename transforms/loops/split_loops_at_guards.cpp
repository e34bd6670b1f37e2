#include "transforms/loops/split_loops_at_guards.h"

#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/nest.h"
#include "transforms/loops/peel.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

namespace {

constexpr std::size_t large_body = 64;  // statements

// Adds forms that are >= 0 where a + gap <= b: a maximum on the left and a minimum on the right stand for two each.
void at_most(const Expr& a, const Expr& b, std::int64_t gap, std::vector<ir::LinearForm>& forms) {
  const auto* left = a.as<ir::Binary>();
  const auto* right = b.as<ir::Binary>();
  if (left && left->op == BinaryOp::Max) {
    at_most(left->a, b, gap, forms);
    return at_most(left->b, b, gap, forms);
  }
  if (right && right->op == BinaryOp::Min) {
    at_most(a, right->a, gap, forms);
    return at_most(a, right->b, gap, forms);
  }
  forms.push_back(linear_form(b - a - ir::int_const(gap)));
}

// The conjuncts of a condition as forms that are >= 0; nullopt when it is something else.
std::optional<std::vector<ir::LinearForm>> inequalities_of(const Expr& condition) {
  auto* node = condition.as<ir::Binary>();
  if (!node) return std::nullopt;
  if (node->op == BinaryOp::And) {
    auto a = inequalities_of(node->a), b = inequalities_of(node->b);
    if (!a || !b) return std::nullopt;
    a->insert(a->end(), b->begin(), b->end());
    return a;
  }
  if (node->a.type() != ScalarType::I64) return std::nullopt;
  std::vector<ir::LinearForm> forms;
  switch (node->op) {
    case BinaryOp::Ge: at_most(node->b, node->a, 0, forms); break;
    case BinaryOp::Gt: at_most(node->b, node->a, 1, forms); break;
    case BinaryOp::Le: at_most(node->a, node->b, 0, forms); break;
    case BinaryOp::Lt: at_most(node->a, node->b, 1, forms); break;
    default: return std::nullopt;
  }
  return forms;
}

bool same_terms(const ir::LinearForm& a, const ir::LinearForm& b) {
  if (a.terms.size() != b.terms.size()) return false;
  return std::all_of(a.terms.begin(), a.terms.end(), [&](const ir::LinearForm::Term& x) {
    return std::any_of(b.terms.begin(), b.terms.end(), [&](const ir::LinearForm::Term& y) {
      return x.coefficient == y.coefficient && ir::equal(x.atom, y.atom);
    });
  });
}

// Adds `form >= 0` unless a stronger one is there.
void add_inequality(std::vector<ir::LinearForm>& list, const ir::LinearForm& form) {
  for (ir::LinearForm& other : list) {
    if (!same_terms(other, form)) continue;
    other.constant = std::min(other.constant, form.constant);
    return;
  }
  list.push_back(form);
}

// What the conditions of one loop say about its iterator and about everything else.
class Guards {
 public:
  explicit Guards(const ir::For& loop) : loop_(loop) {}

  /// Takes in a condition; false when it is of another kind.
  bool add(const Expr& condition) {
    auto forms = inequalities_of(condition);
    if (!forms) return false;
    for (const ir::LinearForm& form : *forms) {
      if (!is_usable(form)) return false;
    }
    for (const ir::LinearForm& form : *forms) {
      std::int64_t c = coefficient(form);
      add_inequality(c > 0 ? lower_ : c < 0 ? upper_ : outside_, form);
    }
    return true;
  }

  bool restrict_iterator() const { return !lower_.empty() || !upper_.empty(); }

  /// The first and the last but one iteration in which all conditions hold, within the loop's bounds.
  Expr first() const {
    Expr result = loop_.lower;
    for (const ir::LinearForm& form : lower_) {  // a*c + rest >= 0, a > 0: c is at least -rest/a, rounded up
      const std::int64_t a = coefficient(form);
      ir::LinearForm least = scaled(without_iterator(form), -1);
      least.constant += a - 1;
      result = ir::binary(BinaryOp::Max, result, divided(least, a));
    }
    return result;
  }
  Expr end() const {
    Expr result = loop_.upper;
    for (const ir::LinearForm& form : upper_) {  // rest - a*c >= 0, a > 0: c is at most rest/a, rounded down
      const std::int64_t a = -coefficient(form);
      ir::LinearForm rest = without_iterator(form);
      rest.constant += a;
      result = ir::binary(BinaryOp::Min, result, divided(rest, a));
    }
    return result;
  }
  /// The conditions that do not depend on the iterator, or null.
  Expr outside() const {
    Expr result;
    for (const ir::LinearForm& form : outside_) {
      Expr holds = ir::binary(BinaryOp::Ge, to_expr(form), ir::int_const(0));
      result = ir::both(result, holds);
    }
    return result;
  }

 private:
  std::int64_t coefficient(const ir::LinearForm& form) const {
    for (const auto& term : form.terms) {
      auto* node = term.atom.as<ir::Var>();
      if (node && node->symbol == loop_.iterator) return term.coefficient;
    }
    return 0;
  }

  bool is_usable(const ir::LinearForm& form) const {
    for (const auto& term : form.terms) {
      auto* node = term.atom.as<ir::Var>();
      if (node && node->symbol == loop_.iterator) continue;
      if (ir::has_load(term.atom) || mentions(term.atom, loop_.iterator)) return false;
    }
    return true;
  }

  ir::LinearForm without_iterator(ir::LinearForm form) const {
    form.terms.erase(std::remove_if(form.terms.begin(), form.terms.end(),
                                    [&](const ir::LinearForm::Term& term) {
                                      auto* node = term.atom.as<ir::Var>();
                                      return node && node->symbol == loop_.iterator;
                                    }),
                     form.terms.end());
    return form;
  }

  static Expr divided(const ir::LinearForm& form, std::int64_t by) {
    return by == 1 ? to_expr(form) : ir::binary(BinaryOp::FloorDiv, to_expr(form), ir::int_const(by));
  }

  static ir::LinearForm scaled(ir::LinearForm form, std::int64_t factor) {
    for (auto& term : form.terms) term.coefficient *= factor;
    form.constant *= factor;
    return form;
  }

  const ir::For& loop_;
  std::vector<ir::LinearForm> lower_, upper_, outside_;
};

bool is_innermost(const ir::For& loop) {
  bool inner = false;
  std::size_t size = 0;
  ir::walk_stmts(loop.body, [&](const Stmt& s) {
    ++size;
    inner = inner || s.kind() == ir::Kind::For || s.kind() == ir::Kind::While;
  });
  return !inner && size <= large_body;
}

// What is known of a condition where those of the list hold: it is one of them, or denies one.
std::optional<bool> decided_by(const std::vector<Expr>& holding, const Expr& condition) {
  const auto holds = [&](const Expr& e) {
    return std::any_of(holding.begin(), holding.end(), [&](const Expr& other) { return ir::equal(e, other); });
  };
  if (holds(condition)) return true;
  const auto* node = condition.as<ir::Unary>();
  return node && node->op == ir::UnaryOp::Not && holds(node->a) ? std::optional(false) : std::nullopt;
}

// The body where all conditions that `guards` has taken in hold.
Stmt without_guards(const ir::For& loop, Guards& guards) {
  std::vector<Expr> taken;
  const auto take = [&](const Expr& condition) {
    const bool usable = guards.add(condition);
    if (usable) taken.push_back(condition);
    return usable;
  };
  const Stmt body = ir::rewrite(
      loop.body,
      [&](const Expr& e) -> std::optional<Expr> {
        auto* node = e.as<ir::Select>();
        if (!node || !mentions(node->condition, loop.iterator) || !take(node->condition)) return std::nullopt;
        return node->a;
      },
      [&](const Stmt& s) -> std::optional<Stmt> {
        auto* node = s.as<ir::If>();
        if (!node || node->else_body || !take(node->condition)) return std::nullopt;
        return node->then_body;
      });
  // Others ask for the same or the opposite.
  return ir::rewrite(
      body,
      [&](const Expr& e) -> std::optional<Expr> {
        auto* node = e.as<ir::Select>();
        const std::optional<bool> known = node ? decided_by(taken, node->condition) : std::nullopt;
        return known ? std::optional(*known ? node->a : node->b) : std::nullopt;
      },
      [&](const Stmt& s) -> std::optional<Stmt> {
        auto* node = s.as<ir::If>();
        const std::optional<bool> known = node ? decided_by(taken, node->condition) : std::nullopt;
        if (!known) return std::nullopt;
        return *known ? node->then_body : node->else_body ? node->else_body : ir::block({});
      });
}

// Those conjuncts that mention the iterator, or null.
Expr about_iterator(const Expr& condition, const ir::Symbol& iterator) {
  auto* both = condition.as<ir::Binary>();
  if (!both || both->op != BinaryOp::And) return mentions(condition, iterator) ? condition : Expr{};
  const Expr a = about_iterator(both->a, iterator), b = about_iterator(both->b, iterator);
  return ir::both(a, b);
}

// The body where of the conditions that `without_guards` takes in those hold that do not depend on the iterator.
Stmt with_guards_of_iterator(const ir::For& loop) {
  return ir::rewrite(loop.body, {}, [&](const Stmt& s) -> std::optional<Stmt> {
    auto* node = s.as<ir::If>();
    if (!node || node->else_body || !Guards(loop).add(node->condition)) return std::nullopt;
    const Expr rest = about_iterator(node->condition, loop.iterator);
    return rest ? ir::if_then(rest, node->then_body, {}, node->location) : node->then_body;
  });
}

Stmt split(const ir::Program& program, const Stmt& s, const ir::For& loop) {
  Guards guards(loop);
  Stmt clean = without_guards(loop, guards);
  if (!guards.restrict_iterator()) return s;
  Expr first = guards.first(), end = guards.end(), outside = guards.outside();
  auto* only = loop.body.as<ir::If>();
  if (only && !only->else_body && clean.same_as(only->then_body)) return with_tight_bounds(s);
  if (!bounds_stay(program, s).ok) return s;
  Expr middle = ir::binary(BinaryOp::Min, first, loop.upper);
  Expr rest = ir::binary(BinaryOp::Max, middle, end);
  const Stmt border = with_guards_of_iterator(loop);
  const Stmt result =
      in_pieces(loop, {{loop.lower, middle, border}, {middle, rest, clean}, {rest, loop.upper, border}});
  return outside ? ir::if_then(outside, result, in_pieces(loop, {{loop.lower, loop.upper, loop.body}}), loop.location)
                 : result;
}

/// The one branch around loops in a body whose other statements are free of loops and of conditions on the iterator.
const ir::If* only_guard(const ir::For& loop) {
  const ir::If* found = nullptr;
  bool simple = true;
  const auto look = [&](const Stmt& s, const auto& self) -> void {
    if (!s) return;
    if (const auto* block = s.as<ir::Block>()) {
      for (const Stmt& child : block->body) self(child, self);
    } else if (const auto* branch = s.as<ir::If>()) {
      simple = simple && !found && !branch->else_body;
      found = branch;
    } else if (const auto* local = s.as<ir::Allocate>()) {
      self(local->body, self);
    } else {
      simple = simple && (s.kind() == ir::Kind::Assign || s.kind() == ir::Kind::Reduce);
    }
  };
  look(loop.body, look);
  return simple ? found : nullptr;
}

/// A loop around loops, split where its one branch starts and ceases to be taken.
std::optional<Stmt> split_around_loops(const ir::Program& program, const Stmt& s) {
  const ir::For& loop = *s.as<ir::For>();
  const ir::If* branch = only_guard(loop);
  Guards guards(loop);
  if (!branch || !guards.add(branch->condition) || !guards.restrict_iterator() || guards.outside()) return std::nullopt;
  const auto body_with = [&](const Stmt& by) {
    return ir::rewrite(loop.body, {}, [&](const Stmt& child) -> std::optional<Stmt> {
      return child.as<ir::If>() == branch ? std::optional(by) : std::nullopt;
    });
  };
  const Expr middle = ir::binary(BinaryOp::Min, guards.first(), loop.upper);
  const Expr rest = ir::binary(BinaryOp::Max, middle, guards.end());
  const Stmt taken = body_with(branch->then_body), border = body_with(ir::block({}));
  const Piece inside = {guards.first(), guards.end(), taken};
  if (ir::is_empty(border)) return in_pieces(loop, {inside});
  if (!bounds_stay(program, s).ok) return std::nullopt;
  return in_pieces(loop, {{loop.lower, middle, border}, inside, {rest, loop.upper, border}});
}

}  // namespace

Stmt with_tight_bounds(const Stmt& s) {
  const auto& loop = *s.as<ir::For>();
  const auto* branch = loop.body.as<ir::If>();
  Guards guards(loop);
  if (!branch || branch->else_body || !guards.add(branch->condition) || !guards.restrict_iterator()) return s;
  const Expr outside = guards.outside();
  const Stmt tight = ir::for_loop(loop.iterator, simplify_indices(guards.first()), simplify_indices(guards.end()),
                                  branch->then_body, loop.mode, loop.location);
  return outside ? ir::if_then(outside, tight, {}, loop.location) : tight;
}

ir::Program split_outer_loops_at_guards(const ir::Program& program) {
  const ir::StmtRewrite split_inside = [&](const Stmt& s) -> std::optional<Stmt> {
    auto* loop = s.as<ir::For>();
    return loop && !is_innermost(*loop) ? split_around_loops(program, s) : std::nullopt;
  };
  const Stmt body = ir::rewrite(program.body, {}, [&](const Stmt& s) -> std::optional<Stmt> {
    auto* loop = s.as<ir::For>();
    if (!loop || !ir::is_parallel(loop->mode)) return std::nullopt;
    const Stmt inside = ir::rewrite(loop->body, {}, split_inside);
    return inside.same_as(loop->body) ? s : with_body(*loop, inside);
  });
  return ir::with_body(program, body);
}

ir::Program split_loops_at_guards(const ir::Program& program) {
  Stmt body = ir::rewrite(program.body, {}, [&](const Stmt& s) -> std::optional<Stmt> {
    auto* loop = s.as<ir::For>();
    if (!loop || !is_innermost(*loop)) return std::nullopt;
    return split(program, s, *loop);
  });
  return ir::with_body(program, body);
}

}  // namespace loopgrad::transforms

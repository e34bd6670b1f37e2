#include "transforms/sums/scans/recurrence.h"

#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/linear_form.h"
#include "dsl/symbolic/ranges.h"
#include "transforms/analysis/nest.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::BinaryOp;
using ir::Expr;

namespace {

/// a*previous + b; null: 0.
struct Form {
  Expr a, b;
};

bool is_zero(const Expr& e) { return !e || is_const(e, 0); }

Expr sum(const Expr& a, const Expr& b) {
  if (is_zero(a)) return b;
  return is_zero(b) ? a : a + b;
}
Expr difference(const Expr& a, const Expr& b) {
  if (is_zero(b)) return a;
  return is_zero(a) ? -b : a - b;
}
Expr product(const Expr& a, const Expr& b) {
  if (is_zero(a)) return {};
  return is_const(a, 1) ? b : a * b;
}
Expr quotient(const Expr& a, const Expr& b) { return is_zero(a) ? Expr() : ir::binary(BinaryOp::Div, a, b); }
Expr product_plus(const Expr& a, const Expr& b, const Expr& c) {
  if (is_zero(a)) return c;
  if (is_zero(c)) return product(a, b);
  return is_const(a, 1) ? b + c : ir::fma(a, b, c);
}
Expr or_zero(const Expr& e, ScalarType type) { return e ? e : ir::const_of(0, type); }

class Linear {
 public:
  explicit Linear(const IsPrevious& is_previous) : is_previous_(is_previous) {}

  mutable bool rearranged = false;

  bool depends(const Expr& e) const {
    bool found = false;
    const ir::ExprRewrite look = [&](const Expr& child) -> std::optional<Expr> {
      if (!found && !is_previous_(child)) return std::nullopt;
      found = true;
      return child;
    };
    ir::rewrite(e, look);
    return found;
  }

  std::optional<Form> form_of(const Expr& e) const {
    if (is_previous_(e)) return Form{ir::const_of(1, e.type()), {}};
    if (!depends(e)) return Form{{}, is_zero(e) ? Expr() : e};
    if (const auto* n = e.as<ir::Unary>(); n && n->op == ir::UnaryOp::Neg) {
      const auto f = form_of(n->a);
      return f ? std::optional(Form{difference({}, f->a), difference({}, f->b)}) : std::nullopt;
    }
    if (const auto* n = e.as<ir::Binary>()) return of_binary(*n);
    if (const auto* n = e.as<ir::Fma>()) {
      const bool first = depends(n->a);
      if (first && depends(n->b)) return std::nullopt;
      const auto x = form_of(first ? n->a : n->b), z = form_of(n->c);
      const Expr& y = first ? n->b : n->a;
      if (!x || !z) return std::nullopt;
      rearranged |= x->b || z->a;
      return Form{product_plus(x->a, y, z->a), product_plus(x->b, y, z->b)};
    }
    if (const auto* n = e.as<ir::Select>(); n && !depends(n->condition)) {
      const auto x = form_of(n->a), y = form_of(n->b);
      if (!x || !y) return std::nullopt;
      const auto chosen = [&](const Expr& a, const Expr& b) {
        if (!a && !b) return Expr();
        // As integers are not rounded, a branch that adds or does not is a sum.
        if (a && b && is_integer(e.type()) && ir::equal(a, b)) return a;
        return ir::select(n->condition, or_zero(a, e.type()), or_zero(b, e.type()));
      };
      return Form{chosen(x->a, y->a), chosen(x->b, y->b)};
    }
    return std::nullopt;
  }

 private:
  std::optional<Form> of_binary(const ir::Binary& n) const {
    const auto x = form_of(n.a), y = form_of(n.b);
    if (!x || !y) return std::nullopt;
    rearranged |= x->a && y->a;
    switch (n.op) {
      case BinaryOp::Add: return Form{sum(x->a, y->a), sum(x->b, y->b)};
      case BinaryOp::Sub: return Form{difference(x->a, y->a), difference(x->b, y->b)};
      case BinaryOp::Mul:
        if (depends(n.a) && depends(n.b)) return std::nullopt;
        rearranged |= x->a ? static_cast<bool>(x->b) : static_cast<bool>(y->b);
        if (depends(n.a)) return Form{product(x->a, n.b), product(x->b, n.b)};
        return Form{product(y->a, n.a), product(y->b, n.a)};
      case BinaryOp::Div:
        if (depends(n.b)) return std::nullopt;
        rearranged = true;
        return Form{quotient(x->a, n.b), quotient(x->b, n.b)};
      default: return std::nullopt;
    }
  }

  const IsPrevious& is_previous_;
};

/// Iterations below or from `e` on, where the condition says that of a loop's iterator.
struct Side {
  bool below;
  Expr bound;
};
std::optional<Side> side_of(const Expr& condition, const ir::Symbol& iterator) {
  const auto* n = condition.as<ir::Binary>();
  if (!n || !is_comparison(n->op) || n->a.type() != ScalarType::I64) return std::nullopt;
  if (n->op == BinaryOp::Eq || n->op == BinaryOp::Ne || ir::has_load(condition)) return std::nullopt;
  const Expr i = ir::var(iterator), one = ir::int_const(1), apart = n->a - n->b;  // compared with 0
  const auto step = coefficient_of(apart, iterator);
  if (!step || (*step != 1 && *step != -1)) return std::nullopt;
  const Expr at = simplify_indices(*step == 1 ? i - apart : i + apart);  // where it is 0
  const bool less = n->op == BinaryOp::Lt || n->op == BinaryOp::Le;
  const bool equal = n->op == BinaryOp::Le || n->op == BinaryOp::Ge;
  const bool below = less == (*step == 1);
  return Side{below, simplify_indices(below == equal ? at + one : at)};
}

/// for i in l..u: if i < v: body   ->   for i in l..min(u, v): body, and likewise from above.
ir::Stmt without_last(const ir::Stmt& s) {
  const auto* loop = s.as<ir::For>();
  const auto* branch = loop ? loop->body.as<ir::If>() : nullptr;
  if (!branch || branch->else_body) return s;
  const bool down = loop->mode == ir::LoopMode::Backward;
  const auto side = side_of(branch->condition, loop->iterator);
  if (!side || side->below == down) return s;
  const Expr lower = down ? simplify_indices(ir::larger(loop->lower, side->bound)) : loop->lower;
  const Expr upper = down ? loop->upper : simplify_indices(ir::smaller(loop->upper, side->bound));
  return ir::for_loop(loop->iterator, lower, upper, branch->then_body, loop->mode, loop->location);
}

}  // namespace

std::optional<Update> update_of(const Expr& value, const IsPrevious& is_previous) {
  const Linear linear(is_previous);
  const auto* n = value.as<ir::Binary>();
  if (n && (n->op == BinaryOp::Min || n->op == BinaryOp::Max)) {
    const bool first = is_previous(n->a);
    const Expr& term = first ? n->b : n->a;
    if ((!first && !is_previous(n->b)) || linear.depends(term)) return std::nullopt;
    return Update{
        .kind = n->op == BinaryOp::Min ? Update::Kind::Min : Update::Kind::Max, .term = term, .previous_first = first};
  }
  if (!linear.depends(value)) return std::nullopt;
  const auto form = linear.form_of(value);
  if (!form || is_zero(form->a)) return std::nullopt;
  Update result = {.factor = is_const(form->a, 1) ? Expr() : form->a, .term = is_zero(form->b) ? Expr() : form->b};
  if (!result.factor && !result.term) return std::nullopt;  // a copy
  ir::walk(form->a, [&](const Expr& e) {
    const auto* s = e.as<ir::Select>();
    result.forgets |= s && (is_zero(s->a) || is_zero(s->b));
  });
  result.rearranged = linear.rearranged;
  return result;
}

Expr extent_of(const ir::Program& program, const ir::For& loop) {
  const Expr extent = simplify_indices(loop.upper - loop.lower);
  return is_never_negative(program, extent) ? extent : ir::larger(extent, ir::int_const(0));
}

std::vector<Expr> indices_before(const ir::For& loop, const std::vector<Expr>& indices) {
  const Expr before = ir::var(loop.iterator) + ir::int_const(loop.mode == ir::LoopMode::Backward ? 1 : -1);
  std::vector<Expr> result;
  for (const Expr& e : indices) result.push_back(simplify_indices(ir::substitute(e, {{loop.iterator, before}})));
  return result;
}

bool is_element(const Expr& e, const ir::Array& array, const std::vector<Expr>& indices) {
  const auto* load = e.as<ir::Load>();
  if (!load || load->array != array) return false;
  for (std::size_t k = 0; k < indices.size(); ++k)
    if (!ir::same_value(load->indices[k], indices[k])) return false;
  return true;
}

bool runs_along(const ir::Stmt& loop, const std::vector<ir::Symbol>& around) {
  const ir::Symbol& own = loop.as<ir::For>()->iterator;
  int along = 0, across = 0;
  const auto look = [&](const std::vector<Expr>& indices) {
    if (indices.empty()) return;
    const Expr& last = indices.back();
    if (mentions(last, own)) ++along;
    else across += std::any_of(around.begin(), around.end(), [&](const ir::Symbol& i) { return mentions(last, i); });
  };
  ir::walk(
      loop,
      [&](const ir::Stmt& s) {
        if (const auto* n = s.as<ir::Assign>()) look(n->indices);
        if (const auto* n = s.as<ir::Reduce>()) look(n->indices);
      },
      [&](const Expr& e) {
        if (const auto* n = e.as<ir::Load>()) look(n->indices);
      });
  return along >= across;
}

namespace {

/// When `value` reads what `is_read` names: a condition that is null where it always does. `when` is that of `value`.
struct Needed {
  bool always = false;
  Expr when = {};  // null: never
};

void find_needed(const Expr& value, const Expr& when, const IsPrevious& is_read, Needed& needed) {
  ir::walk(value, [&](const Expr& e) {
    if (is_read(e)) {
      needed.always |= !when;
      if (when) needed.when = needed.when ? ir::binary(BinaryOp::Or, needed.when, when) : when;
      return false;
    }
    const auto* n = e.as<ir::Select>();
    if (!n) return true;
    const auto and_then = [&](const Expr& condition) { return ir::both(when, condition); };
    find_needed(n->condition, when, is_read, needed);
    find_needed(n->a, and_then(n->condition), is_read, needed);
    find_needed(n->b, and_then(ir::unary(ir::UnaryOp::Not, n->condition)), is_read, needed);
    return false;
  });
}

/// The start of `r` where its first iteration asks for the value before it, which may not exist, or have no value,
/// where it does not: 0 there. Nullopt where values of the recurrence decide.
std::optional<Expr> start_asked_for(const Expr& value, const IsPrevious& is_previous, const Recurrence& r,
                                    const Expr& first) {
  Needed needed;
  find_needed(value, {}, is_previous, needed);
  if (needed.always || !needed.when) return r.start;
  const Expr at_start = simplify_indices(ir::substitute(needed.when, {{r.loop->iterator, first}}));
  if (uses(at_start, r.array)) return std::nullopt;
  return ir::select(at_start, r.start, ir::const_of(0, r.array->type));
}

}  // namespace

std::optional<Recurrence> recurrence_of(const ir::Stmt& written) {
  const ir::Stmt s = without_last(written);
  const auto* loop = s.as<ir::For>();
  if (!loop || (loop->mode != ir::LoopMode::Forward && loop->mode != ir::LoopMode::Backward)) return std::nullopt;
  const auto* reduce = loop->body.as<ir::Reduce>();
  const auto* assign = loop->body.as<ir::Assign>();
  if ((!reduce && !assign) || (reduce && reduce->atomic) || ir::has_load(loop->lower) || ir::has_load(loop->upper))
    return std::nullopt;
  Recurrence r;
  r.statement = s;
  r.loop = loop;
  r.array = reduce ? reduce->array : assign->array;
  r.indices = reduce ? reduce->indices : assign->indices;
  r.where = loop->body->location;
  if (value_type(r.array->type) != r.array->type || r.array->type == ScalarType::Bool) return std::nullopt;
  bool moves = false;
  for (const Expr& e : r.indices) {
    const auto step = coefficient_of(e, loop->iterator);
    if (ir::has_load(e) || !step) return std::nullopt;
    moves |= *step != 0;
  }
  if (!moves) return std::nullopt;
  const std::vector<Expr> before = indices_before(*loop, r.indices);
  const bool down = loop->mode == ir::LoopMode::Backward;
  const Expr first = down ? loop->upper - ir::int_const(1) : loop->lower;
  std::vector<Expr> at_first;
  for (const Expr& e : before) at_first.push_back(simplify_indices(ir::substitute(e, {{loop->iterator, first}})));
  r.start = ir::load(r.array, at_first, r.where);
  const auto starts_at_first = [&](const ir::Select& n) {
    const auto* c = n.condition.as<ir::Binary>();
    return c && c->op == BinaryOp::Eq && c->a.type() == ScalarType::I64 &&
           ir::same_value(c->a - c->b, ir::var(loop->iterator) - first) && is_element(n.b, r.array, before);
  };
  const auto is_previous = [&](const Expr& e) {
    if (is_element(e, r.array, before)) return true;
    const auto* n = e.as<ir::Select>();
    return n && starts_at_first(*n);
  };
  const Expr value = reduce ? ir::combined(*reduce, ir::load(r.array, r.indices, r.where)) : assign->value;
  bool others = false, plain = false, selected = false;
  const ir::ExprRewrite look = [&](const Expr& e) -> std::optional<Expr> {
    if (const auto* n = e.as<ir::Select>(); n && starts_at_first(*n)) {
      others |= mentions(n->a, loop->iterator) || ir::may_read(n->a, r.array, r.indices);
      selected = true;
      r.start = n->a;
      return e;
    }
    plain |= is_element(e, r.array, before);
    const auto* load = e.as<ir::Load>();
    others |= load && load->array == r.array && !is_element(e, r.array, before) && !is_element(e, r.array, r.indices);
    return std::nullopt;
  };
  ir::rewrite(value, look);
  if (others || (plain && selected)) return std::nullopt;
  const auto start = start_asked_for(value, is_previous, r, first);
  if (!start && plain) return std::nullopt;
  r.start = start.value_or(r.start);
  r.previous = ir::make_array("previous", r.array->type, {}, ir::ArrayRole::Local, r.where);
  r.value = ir::rewrite(value, [&](const Expr& e) -> std::optional<Expr> {
    return is_previous(e) ? std::optional(ir::load(r.previous, {})) : std::nullopt;
  });
  const auto update = update_of(value, is_previous);
  if (!update) return std::nullopt;
  const bool is_sum = update->kind == Update::Kind::Linear && !update->factor;
  if (is_integer(r.array->type) && !is_sum) return std::nullopt;
  r.update = *update;
  return r;
}

}  // namespace loopgrad::transforms

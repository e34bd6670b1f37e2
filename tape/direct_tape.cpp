#include "tape/direct_tape.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "tape/custom_rules.h"
#include "tape/stores.h"
#include "tape/tape_plan.h"
#include "tape/unread_iterations.h"

#include <algorithm>

namespace loopgrad::tape {
namespace {

using ir::Array;
using ir::Expr;
using ir::LoopMode;
using ir::Stmt;

bool touches(const Expr& e, const Array& array) {
  bool found = false;
  ir::walk(e, [&](const Expr& inner) {
    const auto* load = inner.as<ir::Load>();
    found |= load && load->array == array;
    return !found;
  });
  return found;
}

bool touches(const Stmt& s, const Array& array) {
  const Array* stored = stored_array(s);
  bool found = stored && *stored == array;
  ir::for_each_child(s, ir::overloaded{[&](const Expr& e) { found = found || touches(e, array); },
                                       [&](const Stmt& child) { found = found || touches(child, array); }});
  return found;
}

/// `s` with the first term of the sum into a scalar assigned, so that it need not start from zero; null where the first
/// use is something else, or only happens in a branch or a loop.
Stmt with_first_term_assigned(const Stmt& s, const Array& scalar) {
  if (!scalar->shape.empty()) return {};
  if (const auto* sum = s.as<ir::Reduce>()) {
    const bool starts = sum->array == scalar && sum->op == ir::ReduceOp::Add && !touches(sum->value, scalar);
    return starts ? ir::assign(scalar, {}, sum->value, sum->location) : Stmt();
  }
  if (const auto* local = s.as<ir::Allocate>()) {
    const Stmt body = with_first_term_assigned(local->body, scalar);
    return body ? ir::allocate(local->array, body, local->location) : Stmt();
  }
  const auto* block = s.as<ir::Block>();
  if (!block) return {};
  std::vector<Stmt> list = block->body;
  const auto first = std::find_if(list.begin(), list.end(), [&](const Stmt& child) { return touches(child, scalar); });
  if (first == list.end()) return {};
  *first = with_first_term_assigned(*first, scalar);
  return *first ? ir::block(std::move(list)) : Stmt();
}

/// The same where arrays of the body that will be on the tape (`kept`) have indices by it.
Stmt with_lower_local(const Stmt& loop, const LoopExtent& extent, const std::map<Array, KeptArray>& kept) {
  const bool will_refer = extent.lower_local && std::any_of(kept.begin(), kept.end(), [&](const auto& one) {
                            const std::vector<Expr>& leading = one.second.leading;
                            const auto refers = [&](const Expr& e) { return touches(e, extent.lower_local); };
                            return std::any_of(leading.begin(), leading.end(), refers) && touches(loop, one.first);
                          });
  return tape::with_lower_local(loop, extent, will_refer);
}

class Backward {
 public:
  Backward(const Prepared& prepared, TapePlan& plan) : prepared_(prepared), plan_(plan) {}

  /// The sweep of a body of its own: of the program, a loop or a branch.
  Stmt body_of(const Stmt& body) {
    const Stmt sweep = generate(body);
    return plan_.with_computed_again(body, sweep);
  }

 private:
  Stmt generate(const Stmt& s) {
    return ir::visit(s, ir::overloaded{
                            [&](const ir::Block& n) {
                              std::vector<Stmt> reversed;
                              for (auto child = n.body.rbegin(); child != n.body.rend(); ++child)
                                reversed.push_back(generate(*child));
                              return ir::block(std::move(reversed));
                            },
                            [&](const ir::For& n) { return of_for(n, s); },
                            [&](const ir::While& n) { return of_while(n, s); },
                            [&](const ir::If& n) { return of_if(n, s); },
                            [&](const ir::Allocate& n) { return of_allocate(n); },
                            [&](const ir::CustomGradient& n) { return of_rule(n); },
                            [&](const auto&) { return of_store(s); },
                        });
  }

  Stmt of_for(const ir::For& n, const Stmt& self) {
    const Stmt body = body_of(n.body);
    if (ir::is_empty(body)) return body;
    const LoopMode mode = n.mode == LoopMode::Backward ? LoopMode::Forward : LoopMode::Backward;
    const Stmt loop = ir::for_loop(n.iterator, plan_.provide(n.lower, self), plan_.provide(n.upper, self), body, mode,
                                   n.location, n.at_most);
    return plan_.extents().knows(self) ? tape::with_lower_local(loop, plan_.extents().of(self)) : loop;
  }

  Stmt of_while(const ir::While& n, const Stmt& self) {
    const Stmt body = body_of(n.body);
    if (ir::is_empty(body)) return body;
    // What is known before the run bounds the trips that were counted.
    const Expr most = ir::has_load(n.max_trips) ? Expr() : n.max_trips;
    return ir::for_loop(n.iterator, ir::int_const(0), plan_.provide_trips(self), body, LoopMode::Backward, n.location,
                        most);
  }

  Stmt of_if(const ir::If& n, const Stmt& self) {
    const Stmt then_part = body_of(n.then_body);
    const Stmt else_part = n.else_body ? body_of(n.else_body) : Stmt{};
    if (ir::is_empty(then_part) && ir::is_empty(else_part)) return ir::block({});
    return ir::if_then(plan_.provide_condition(self), then_part, else_part, n.location);
  }

  Stmt of_allocate(const ir::Allocate& n) {
    const Stmt body = generate(n.body);
    const auto it = prepared_.adjoints.find(n.array);
    if (it == prepared_.adjoints.end() || ir::is_empty(body)) return body;
    if (const Stmt started = with_first_term_assigned(body, it->second))
      return ir::allocate(it->second, started, n.location);
    return ir::allocate(it->second, ir::block({zero_fill(it->second), body}), n.location);
  }

  /// The user's adjoint, in its own order, on values of the program as they were there.
  Stmt of_rule(const ir::CustomGradient& n) {
    const Stmt wanted = in_derivatives(n.adjoint, n, prepared_.adjoints);
    return ir::is_empty(wanted) ? wanted : in_derivatives(with_values(n.adjoint), n, prepared_.adjoints);
  }

  Stmt with_values(const Stmt& s) {
    return ir::visit(
        s, ir::overloaded{
               [&](const ir::Block& n) {
                 std::vector<Stmt> all;
                 for (const Stmt& child : n.body) all.push_back(with_values(child));
                 return ir::block(std::move(all));
               },
               [&](const ir::For& n) {
                 const Stmt loop = ir::for_loop(n.iterator, plan_.provide(n.lower, s), plan_.provide(n.upper, s),
                                                with_values(n.body), n.mode, n.location, n.at_most);
                 return plan_.extents().knows(s) ? tape::with_lower_local(loop, plan_.extents().of(s)) : loop;
               },
               [&](const ir::While& n) {
                 return ir::while_loop(n.iterator, n.max_trips, plan_.provide(n.condition, s), with_values(n.body),
                                       n.location);
               },
               [&](const ir::If& n) {
                 return ir::if_then(plan_.provide(n.condition, s), with_values(n.then_body),
                                    n.else_body ? with_values(n.else_body) : Stmt{}, n.location);
               },
               [&](const ir::Allocate& n) { return ir::allocate(n.array, with_values(n.body), n.location); },
               [&](const auto&) { return plan_.provide(s, s); },
           });
  }

  Stmt of_store(const Stmt& s) {
    const auto* a = s.as<ir::Assign>();
    AdjointOptions options;
    Array placeholder;  // stands for a value of the backward sweep in the adjoint, which is written in primal values
    Expr stored;
    const auto* r = s.as<ir::Reduce>();
    if (r && prepared_.adjoints.count(r->array) && (r->op == ir::ReduceOp::Min || r->op == ir::ReduceOp::Max))
      return of_extremum(s);
    if (a && prepared_.adjoints.count(a->array)) {
      options.clear = plan_.adjoint_is_read_later(s);
      const bool rounds = value_type(a->array->type) != a->array->type;  // f16 and bf16 hold less than was computed
      if (reuses_result(a->value) && !rounds) {
        if (const auto value = plan_.stored_value(s)) {
          stored = *value;
          placeholder = ir::make_array("result", a->array->type, {}, ir::ArrayRole::Local, s->location);
          options.result = ir::load(placeholder, {});
        }
      }
    }
    const Stmt adjoint = plan_.provide(adjoint_of(s, prepared_.adjoints, options), s);
    if (!placeholder) return adjoint;
    return ir::rewrite(adjoint, [&](const Expr& e) -> std::optional<Expr> {
      const auto* l = e.as<ir::Load>();
      return l && l->array == placeholder ? std::optional(stored) : std::nullopt;
    });
  }

  /// The adjoint is a branch on whether the operand was taken: a comparison with the old value in the forward sweep,
  /// and what the plan makes of it here.
  Stmt of_extremum(const Stmt& s) {
    AdjointOptions options;
    options.clear = plan_.adjoint_is_read_later(s);
    const Stmt adjoint = adjoint_of(s, prepared_.adjoints, options);
    const auto* branch = adjoint.as<ir::If>();
    if (!branch) return adjoint;
    const Expr taken = plan_.provide_taken(s);
    return ir::if_then(taken, plan_.provide(branch->then_body, s, branch->condition), {}, s->location);
  }

  const Prepared& prepared_;
  TapePlan& plan_;
};

/// The primal program with the plan's stores inserted and kept arrays expanded.
class Forward {
 public:
  explicit Forward(const TapePlan& plan) : plan_(plan) {}

  Stmt generate(const Stmt& body) {
    std::vector<Stmt> all;
    for (const auto& [array, saved] : plan_.additions().initial) all.push_back(copy_all(saved, array));
    all.push_back(insert(body));
    return expand_kept(ir::block(std::move(all)));
  }

 private:
  Stmt insert(const Stmt& s) const {
    std::vector<Stmt> all = list_at(plan_.additions().before, s);
    Stmt self = ir::visit(s, [&](const auto& node) { return with_children(node, s); });
    if (plan_.extents().knows(s)) self = with_lower_local(self, plan_.extents().of(s), plan_.additions().kept);
    all.push_back(self);
    for (const Stmt& after : list_at(plan_.additions().after, s)) all.push_back(after);
    return ir::block(std::move(all));
  }

  // The statement itself with its children treated; the statement's own additions are the caller's.
  Stmt with_children(const ir::Block& n, const Stmt&) const {
    std::vector<Stmt> all;
    for (const Stmt& child : n.body) all.push_back(insert(child));
    return ir::block(std::move(all));
  }
  Stmt with_children(const ir::For& n, const Stmt&) const {
    return ir::for_loop(n.iterator, n.lower, n.upper, insert(n.body), n.mode, n.location, n.at_most);
  }
  Stmt with_children(const ir::While& n, const Stmt& s) const {
    std::vector<Stmt> all = list_at(plan_.additions().at_body_start, s);
    all.push_back(insert(n.body));
    return ir::while_loop(n.iterator, n.max_trips, n.condition, ir::block(std::move(all)), n.location);
  }
  Stmt with_children(const ir::If& n, const Stmt&) const {
    return ir::if_then(n.condition, insert(n.then_body), n.else_body ? insert(n.else_body) : Stmt{}, n.location);
  }
  Stmt with_children(const ir::Allocate& n, const Stmt&) const {
    const auto kept = plan_.additions().kept.find(n.array);
    std::vector<Stmt> body{insert(n.body)};
    if (kept != plan_.additions().kept.end() && kept->second.at_scope_end)
      body.push_back(ir::assign(kept->second.tape, kept->second.leading, ir::load(n.array, {}), n.location));
    return ir::allocate(n.array, ir::block(std::move(body)), n.location);
  }
  Stmt with_children(const ir::CustomGradient& n, const Stmt&) const { return saved_for(n.adjoint); }

  /// What a rule is only there for: what it reads later is saved where it stands, loop by loop.
  Stmt saved_for(const Stmt& s) const {
    std::vector<Stmt> all = list_at(plan_.additions().before, s);
    const auto inside = [&](const Stmt& body) { return body ? saved_for(body) : ir::block({}); };
    Stmt self =
        ir::visit(s, ir::overloaded{
                         [&](const ir::Block& n) {
                           std::vector<Stmt> parts;
                           for (const Stmt& child : n.body) parts.push_back(saved_for(child));
                           return ir::block(std::move(parts));
                         },
                         [&](const ir::For& n) {
                           const Stmt body = inside(n.body);
                           if (ir::is_empty(body)) return body;
                           return ir::for_loop(n.iterator, n.lower, n.upper, body, n.mode, n.location, n.at_most);
                         },
                         [&](const ir::If& n) {
                           const Stmt then_part = inside(n.then_body), else_part = inside(n.else_body);
                           if (ir::is_empty(then_part) && ir::is_empty(else_part)) return ir::block({});
                           return ir::if_then(n.condition, then_part, else_part, n.location);
                         },
                         [&](const ir::Allocate& n) { return inside(n.body); },
                         [](const auto&) { return ir::block({}); },  // nothing is saved in a While
                     });
    if (plan_.extents().knows(s)) self = tape::with_lower_local(self, plan_.extents().of(s));
    all.push_back(self);
    return ir::block(std::move(all));
  }
  template <class Leaf>
  Stmt with_children(const Leaf&, const Stmt& s) const {
    return s;
  }

  static std::vector<Stmt> list_at(const std::map<const ir::StmtNode*, std::vector<Stmt>>& lists, const Stmt& s) {
    const auto it = lists.find(s.get());
    return it == lists.end() ? std::vector<Stmt>{} : it->second;
  }

  Stmt expand_kept(const Stmt& body) const {
    std::map<Array, KeptArray> kept;
    for (const auto& [array, how] : plan_.additions().kept)
      if (!how.at_scope_end) kept[array] = how;
    if (kept.empty()) return body;
    ir::ExprRewrite on_expr;
    ir::StmtRewrite on_stmt;
    auto index = [&](const KeptArray& k, const std::vector<Expr>& inner) {
      std::vector<Expr> all = k.leading;
      for (const Expr& e : inner) all.push_back(ir::rewrite(e, on_expr));
      return all;
    };
    on_expr = [&](const Expr& e) -> std::optional<Expr> {
      const auto* l = e.as<ir::Load>();
      const auto it = l ? kept.find(l->array) : kept.end();
      if (it == kept.end()) return std::nullopt;
      return ir::load(it->second.tape, index(it->second, l->indices), l->location);
    };
    on_stmt = [&](const Stmt& s) -> std::optional<Stmt> {
      auto entry = [&](const Array& array) { return kept.find(array); };
      if (const auto* n = s.as<ir::Allocate>(); n && entry(n->array) != kept.end())
        return ir::rewrite(n->body, on_expr, on_stmt);
      if (const auto* n = s.as<ir::Assign>(); n && entry(n->array) != kept.end()) {
        const KeptArray& k = entry(n->array)->second;
        return ir::assign(k.tape, index(k, n->indices), ir::rewrite(n->value, on_expr), n->location);
      }
      if (const auto* n = s.as<ir::Reduce>(); n && entry(n->array) != kept.end()) {
        const KeptArray& k = entry(n->array)->second;
        return ir::reduce_like(*n, k.tape, index(k, n->indices), ir::rewrite(n->value, on_expr));
      }
      return std::nullopt;
    };
    return ir::rewrite(body, on_expr, on_stmt);
  }

  const TapePlan& plan_;
};

/// Symbols in extents and sweeps, and of facts about rows.
std::set<ir::Symbol> mentioned(const std::vector<Array>& tape, const std::vector<Stmt>& sweeps,
                               const std::map<Array, ir::Symbol>& rows) {
  std::set<ir::Symbol> found;
  const auto on_expr = [&](const Expr& e) {
    if (const auto* n = e.as<ir::Var>()) found.insert(n->symbol);
  };
  for (const Array& array : tape)
    for (const Expr& extent : array->shape) ir::walk(extent, on_expr);
  for (const Stmt& sweep : sweeps)
    ir::walk(
        sweep, [](const Stmt&) {}, on_expr);
  for (const auto& [pointer, size] : rows) found.insert(size);
  return found;
}

}  // namespace

DirectGradient direct_gradient(const Prepared& prepared, Report& report) {
  TapePlan plan(prepared, report);
  plan.decide_for([&] { Backward(prepared, plan).body_of(prepared.program.body); });
  const Stmt backward = Backward(prepared, plan).body_of(prepared.program.body);
  const Stmt forward = Forward(plan).generate(prepared.program.body);
  const LoopExtents& extents = plan.extents();
  const std::set<ir::Symbol> used = mentioned(plan.tape(), {forward, backward}, extents.longest_rows());
  std::set<Array> copied;
  for (const auto& [array, saved] : plan.additions().initial) copied.insert(array);
  return without_unread_iterations({.forward = forward,
                                    .backward = backward,
                                    .tape = plan.tape(),
                                    .sizes = extents.symbols(used),
                                    .sizing = extents.sizing(used),
                                    .copied = copied,
                                    .longest_rows = extents.longest_rows()},
                                   report);
}

}  // namespace loopgrad::tape

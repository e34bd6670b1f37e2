#include "tape/naive_rules.h"

#include "dsl/ir/element_loops.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "tape/gradient_program.h"
#include "tape/guarded_loads.h"

namespace loopgrad::tape {

using ir::Array;
using ir::ArrayRole;
using ir::Expr;
using ir::Stmt;

namespace {

Array value_of(const std::string& name, ScalarType type, SourceLocation where) {
  return ir::make_array(name, type, {}, ArrayRole::Local, where);
}

ir::LoopMode reversed(ir::LoopMode mode) {
  return mode == ir::LoopMode::Backward ? ir::LoopMode::Forward : ir::LoopMode::Backward;
}

Stmt from_last_to_first(const Stmt& loops) {
  return ir::rewrite(loops, {}, [](const Stmt& s) -> std::optional<Stmt> {
    const auto* n = s.as<ir::For>();
    if (!n) return std::nullopt;
    return ir::for_loop(n->iterator, n->lower, n->upper, from_last_to_first(n->body), reversed(n->mode), n->location);
  });
}

}  // namespace

bool RuleOnStack::is_saved(const Array& array) const {
  return array->role != ArrayRole::Input && !sites_.of_rules().count(array);
}

bool RuleOnStack::reads_known_values(const Stmt& s) const {
  bool known = true;
  rewrite_loads(s, [&](const Expr& e, const Expr& guard) -> std::optional<Expr> {
    if (is_saved(e.as<ir::Load>()->array))
      known &= sites_.is_known_before_rules(e) && sites_.is_known_before_rules(guard);
    return std::nullopt;
  });
  return known;
}

Sweeps RuleOnStack::generate(const Stmt& s) const {
  return ir::visit(
      s, ir::overloaded{
             [&](const ir::Block& n) {
               std::vector<Stmt> forward, backward;
               for (const Stmt& child : n.body) {
                 const Sweeps part = generate(child);
                 forward.insert(forward.begin(), part.forward);
                 backward.push_back(part.backward);
               }
               return Sweeps{ir::block(std::move(forward)), ir::block(std::move(backward))};
             },
             [&](const ir::For& n) {
               return sites_.is_known_before_rules(n.lower) && sites_.is_known_before_rules(n.upper) ? of_loop(n)
                                                                                                     : with_copies(s);
             },
             [&](const ir::While&) { return with_copies(s); },
             [&](const ir::If& n) { return sites_.is_known_before_rules(n.condition) ? of_branch(n) : with_copies(s); },
             [&](const ir::Allocate& n) {
               const Sweeps body = generate(n.body);
               return Sweeps{body.forward, ir::allocate(n.array, body.backward, n.location)};
             },
             [&](const auto&) { return reads_known_values(s) ? with_values(s) : with_copies(s); },
         });
}

Sweeps RuleOnStack::of_loop(const ir::For& n) const {
  const Sweeps body = generate(n.body);
  const Stmt forward =
      ir::for_loop(n.iterator, n.lower, n.upper, body.forward, reversed(n.mode), n.location, n.at_most);
  const auto backward = [&](const Expr& lower, const Expr& upper) {
    return ir::for_loop(n.iterator, lower, upper, body.backward, n.mode, n.location, n.at_most);
  };
  if (!ir::has_load(n.lower) && !ir::has_load(n.upper)) return {forward, backward(n.lower, n.upper)};
  const Array lower = value_of(n.iterator.name + "_lower", ScalarType::I64, n.location);
  const Array upper = value_of(n.iterator.name + "_upper", ScalarType::I64, n.location);
  const Stmt popped = ir::block({ir::pop(upper, {}, n.location), ir::pop(lower, {}, n.location),
                                 backward(ir::load(lower, {}), ir::load(upper, {}))});
  return {ir::block({forward, ir::push(n.lower, n.location), ir::push(n.upper, n.location)}),
          ir::allocate(lower, ir::allocate(upper, popped, n.location), n.location)};
}

Sweeps RuleOnStack::of_branch(const ir::If& n) const {
  const Sweeps then_part = generate(n.then_body), else_part = n.else_body ? generate(n.else_body) : Sweeps{};
  const Stmt forward = ir::if_then(n.condition, then_part.forward, else_part.forward, n.location);
  if (!ir::has_load(n.condition))
    return {forward, ir::if_then(n.condition, then_part.backward, else_part.backward, n.location)};
  const Array taken = value_of("taken", ScalarType::Bool, n.location);
  const Stmt backward = ir::block({ir::pop(taken, {}, n.location), ir::if_then(ir::load(taken, {}), then_part.backward,
                                                                               else_part.backward, n.location)});
  return {ir::block({forward, ir::push(n.condition, n.location)}), ir::allocate(taken, backward, n.location)};
}

/// A store, whose values are known.
Sweeps RuleOnStack::with_values(const Stmt& s) const {
  std::vector<std::pair<Expr, Array>> saved;
  const Stmt from_stack = rewrite_loads(s, [&](const Expr& e, const Expr& guard) -> std::optional<Expr> {
    const auto* load = e.as<ir::Load>();
    if (!is_saved(load->array)) return std::nullopt;
    const Expr pushed = guard ? ir::select(guard, e, ir::const_of(0, load->type)) : e;
    for (const auto& [value, local] : saved)
      if (ir::equal(value, pushed)) return ir::load(local, {});
    saved.emplace_back(pushed, value_of(load->array->name + "_value", load->type, s->location));
    return ir::load(saved.back().second, {});
  });
  std::vector<Stmt> forward, backward;
  for (const auto& [value, local] : saved) {
    forward.push_back(ir::push(value, s->location));
    backward.insert(backward.begin(), ir::pop(local, {}, s->location));
  }
  backward.push_back(from_stack);
  Stmt all = ir::block(std::move(backward));
  for (const auto& [value, local] : saved) all = ir::allocate(local, all, s->location);
  return {ir::block(std::move(forward)), all};
}

Sweeps RuleOnStack::with_copies(const Stmt& s) const {
  std::map<Array, Array> copies;
  ir::walk(
      s, [](const Stmt&) {},
      [&](const Expr& e) {
        const auto* load = e.as<ir::Load>();
        if (!load || !is_saved(load->array) || copies.count(load->array)) return;
        copies[load->array] = ir::make_array(load->array->name + "_copy", value_type(load->array->type),
                                             load->array->shape, ArrayRole::Local, s->location);
      });
  std::vector<Stmt> forward, backward;
  for (const auto& [array, copy] : copies) {
    forward.push_back(
        ir::over_elements(array->shape, s->location, [&, &array = array](const std::vector<Expr>& indices) {
          return ir::push(ir::load(array, indices), s->location);
        }));
    const Stmt pops = ir::over_elements(copy->shape, s->location, [&, &copy = copy](const std::vector<Expr>& indices) {
      return ir::pop(copy, indices, s->location);
    });
    backward.insert(backward.begin(), from_last_to_first(pops));
  }
  backward.push_back(ir::replace_arrays(s, copies));
  Stmt all = ir::block(std::move(backward));
  for (const auto& [array, copy] : copies) all = ir::allocate(copy, all, s->location);
  return {ir::block(std::move(forward)), all};
}

}  // namespace loopgrad::tape

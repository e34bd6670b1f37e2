#include "tape/naive_tape.h"

#include "dsl/ir/printer.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "tape/custom_rules.h"
#include "tape/guarded_loads.h"
#include "tape/naive_rules.h"
#include "tape/sites.h"

namespace loopgrad::tape {
namespace {

using ir::Array;
using ir::ArrayRole;
using ir::Expr;
using ir::Stmt;

Array scalar(const std::string& name, ScalarType type, SourceLocation where) {
  return ir::make_array(name, type, {}, ArrayRole::Local, where);
}

class Generator {
 public:
  Generator(const Prepared& prepared, Report& report)
      : prepared_(prepared), report_(report), sites_(prepared.program.body) {}

  Sweeps generate(const Stmt& s) {
    return ir::visit(s, ir::overloaded{
                            [&](const ir::Block& n) { return of_block(n); },
                            [&](const ir::For& n) { return of_for(n); },
                            [&](const ir::While& n) { return of_while(n); },
                            [&](const ir::If& n) { return of_if(n); },
                            [&](const ir::Allocate& n) { return of_allocate(n); },
                            [&](const ir::CustomGradient& n) { return of_rule(n); },
                            [&](const auto&) { return of_store(s); },
                        });
  }

 private:
  Sweeps of_block(const ir::Block& n) {
    std::vector<Stmt> forward, backward;
    for (const Stmt& s : n.body) {
      Sweeps part = generate(s);
      forward.push_back(part.forward);
      backward.insert(backward.begin(), part.backward);
    }
    return {ir::block(std::move(forward)), ir::block(std::move(backward))};
  }

  Sweeps of_for(const ir::For& n) {
    Sweeps body = generate(n.body);
    if (ir::is_empty(body.backward) || (!ir::has_load(n.lower) && !ir::has_load(n.upper))) {
      return {ir::for_loop(n.iterator, n.lower, n.upper, body.forward, n.mode, n.location, n.at_most),
              ir::for_loop(n.iterator, n.lower, n.upper, body.backward, reversed(n.mode), n.location, n.at_most)};
    }
    const Array lower = scalar(n.iterator.name + "_lower", ScalarType::I64, n.location);
    const Array upper = scalar(n.iterator.name + "_upper", ScalarType::I64, n.location);
    const Expr lo = ir::load(lower, {}), hi = ir::load(upper, {});
    Stmt forward = ir::block({ir::assign(lower, {}, n.lower, n.location), ir::assign(upper, {}, n.upper, n.location),
                              ir::for_loop(n.iterator, lo, hi, body.forward, n.mode, n.location, n.at_most),
                              push(lo, n.location), push(hi, n.location)});
    Stmt backward =
        ir::block({ir::pop(upper, {}, n.location), ir::pop(lower, {}, n.location),
                   ir::for_loop(n.iterator, lo, hi, body.backward, reversed(n.mode), n.location, n.at_most)});
    auto with_locals = [&](Stmt s) { return ir::allocate(lower, ir::allocate(upper, std::move(s)), n.location); };
    report_value(ir::print(n.lower) + ", " + ir::print(n.upper), n.location,
                 "bounds of loop '" + n.iterator.name + "'");
    return {with_locals(forward), ir::with_fresh_names(with_locals(backward))};
  }

  Sweeps of_while(const ir::While& n) {
    Sweeps body = generate(n.body);
    if (ir::is_empty(body.backward))
      return {ir::while_loop(n.iterator, n.max_trips, n.condition, body.forward, n.location), {}};
    const Array trips = scalar(n.iterator.name + "_trips", ScalarType::I64, n.location);
    const Expr count = ir::var(n.iterator) + ir::int_const(1);
    Stmt loop_body = ir::block({ir::assign(trips, {}, count, n.location), body.forward});
    Stmt forward = ir::block({ir::assign(trips, {}, ir::int_const(0), n.location),
                              ir::while_loop(n.iterator, n.max_trips, n.condition, loop_body, n.location),
                              push(ir::load(trips, {}), n.location)});
    Stmt backward =
        ir::block({ir::pop(trips, {}, n.location), ir::for_loop(n.iterator, ir::int_const(0), ir::load(trips, {}),
                                                                body.backward, ir::LoopMode::Backward, n.location)});
    report_value("trip count", n.location, "while loop '" + n.iterator.name + "'");
    return {ir::allocate(trips, forward, n.location), ir::with_fresh_names(ir::allocate(trips, backward, n.location))};
  }

  Sweeps of_if(const ir::If& n) {
    Sweeps then_part = generate(n.then_body);
    Sweeps else_part = n.else_body ? generate(n.else_body) : Sweeps{};
    const bool no_backward = ir::is_empty(then_part.backward) && ir::is_empty(else_part.backward);
    if (no_backward || !ir::has_load(n.condition)) {
      return {ir::if_then(n.condition, then_part.forward, else_part.forward, n.location),
              ir::if_then(n.condition, then_part.backward, else_part.backward, n.location)};
    }
    const Array taken = scalar("taken", ScalarType::Bool, n.location);
    const Expr condition = ir::load(taken, {});
    Stmt forward = ir::block({ir::assign(taken, {}, n.condition, n.location),
                              ir::if_then(condition, then_part.forward, else_part.forward, n.location),
                              push(condition, n.location)});
    Stmt backward = ir::block(
        {ir::pop(taken, {}, n.location), ir::if_then(condition, then_part.backward, else_part.backward, n.location)});
    report_value(ir::print(n.condition), n.location, "branch");
    return {ir::allocate(taken, forward, n.location), ir::with_fresh_names(ir::allocate(taken, backward, n.location))};
  }

  Sweeps of_allocate(const ir::Allocate& n) {
    Sweeps body = generate(n.body);
    const auto it = prepared_.adjoints.find(n.array);
    Stmt backward = body.backward;
    if (it != prepared_.adjoints.end() && !ir::is_empty(backward))
      backward = ir::allocate(it->second, ir::block({zero_fill(it->second), backward}), n.location);
    return {ir::allocate(n.array, body.forward, n.location), backward};
  }

  Sweeps of_rule(const ir::CustomGradient& n) {
    if (ir::is_empty(in_derivatives(n.adjoint, n, prepared_.adjoints))) return {};
    Sweeps sweeps = RuleOnStack(sites_).generate(n.adjoint);
    report_value("values read by a custom gradient", n.location, "needed by the rule of this line");
    return {sweeps.forward, in_derivatives(sweeps.backward, n, prepared_.adjoints)};
  }

  Sweeps of_store(const Stmt& s) {
    const Stmt adjoint = adjoint_of(s, prepared_.adjoints);
    if (ir::is_empty(adjoint)) return {s, {}};
    std::vector<std::pair<Expr, Array>> saved;
    const Stmt from_stack = rewrite_loads(adjoint, [&](const Expr& e, const Expr& guard) -> std::optional<Expr> {
      const auto* load = e.as<ir::Load>();
      if (!is_primal(load->array)) return std::nullopt;
      const Expr pushed = guard ? ir::select(guard, e, ir::const_of(0, load->type)) : e;
      for (const auto& [value, local] : saved)
        if (ir::equal(value, e) || ir::equal(value, pushed)) return ir::load(local, {});
      saved.emplace_back(pushed, scalar(load->array->name + "_value", load->type, s->location));
      return ir::load(saved.back().second, {});
    });
    std::vector<Stmt> forward, backward;
    for (const auto& [value, local] : saved) {
      forward.push_back(push(value, s->location));
      backward.insert(backward.begin(), ir::pop(local, {}, s->location));
      report_value(ir::print(value), s->location, "needed by the adjoint of this line");
    }
    forward.push_back(s);
    backward.push_back(from_stack);
    Stmt all = ir::block(std::move(backward));
    for (const auto& [value, local] : saved) all = ir::allocate(local, all, s->location);
    return {ir::block(std::move(forward)), all};
  }

  static ir::LoopMode reversed(ir::LoopMode mode) {
    return mode == ir::LoopMode::Backward ? ir::LoopMode::Forward : ir::LoopMode::Backward;
  }
  static Stmt push(const Expr& value, SourceLocation where) { return ir::push(value, where); }

  /// Arrays of the primal program, as opposed to adjoints and the temporaries of an adjoint statement.
  bool is_primal(const Array& array) const {
    return array->role != ArrayRole::Local || sites_.allocations().count(array) != 0;
  }

  void report_value(const std::string& value, SourceLocation where, const std::string& reason) {
    report_.tape.push_back({value, where, "stack", "", "", reason});
  }

  const Prepared& prepared_;
  Report& report_;
  const Sites sites_;
};

}  // namespace

Sweeps naive_sweeps(const Prepared& prepared, Report& report) {
  Sweeps sweeps = Generator(prepared, report).generate(prepared.program.body);
  if (!sweeps.backward) sweeps.backward = ir::block({});
  return sweeps;
}

}  // namespace loopgrad::tape

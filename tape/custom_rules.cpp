#include "tape/custom_rules.h"

#include "dsl/ir/rewriter.h"
#include "dsl/ir/set_elements.h"
#include "tape/segment_state.h"
#include "tape/sites.h"
#include "tape/stores.h"

#include <loopgrad/error.h>

#include <algorithm>

namespace loopgrad::tape {
namespace {

using ir::Array;
using ir::Expr;
using ir::Stmt;

bool holds(const std::vector<Array>& list, const Array& array) {
  return std::find(list.begin(), list.end(), array) != list.end();
}

Expr constant(const Expr& e) { return ir::unary(ir::UnaryOp::Stop, e); }

/// A product that is added stays one, as it is not rounded before.
Expr constant_term(const Expr& value) {
  const auto factors = ir::product_of(value);
  if (!factors) return constant(value);
  return ir::binary(ir::BinaryOp::Mul, constant(factors->a), constant(factors->b));
}

/// The statements of a region, which compute the same from constants.
Stmt as_constants(const ir::CustomGradient& region) {
  return ir::rewrite(region.body, {}, [&](const Stmt& s) -> std::optional<Stmt> {
    if (const auto* n = s.as<ir::Assign>(); n && holds(region.outputs, n->array))
      return ir::assign(n->array, n->indices, constant(n->value), n->location);
    if (const auto* n = s.as<ir::Reduce>(); n && holds(region.outputs, n->array))
      return ir::reduce_like(*n, n->array, n->indices, n->fused ? constant_term(n->value) : constant(n->value));
    return std::nullopt;
  });
}

[[noreturn]] void refuse_read(const ir::Program& program, const Array& array, const Stmt& where, const char* what,
                              const char* hint) {
  throw DifferentiationError({.code = ErrorCode::NotDifferentiable,
                              .message = std::string("a region with a custom gradient computes something from ") + what,
                              .program = program.name,
                              .array = array->name,
                              .hint = hint,
                              .location = where->location});
}

std::vector<ir::Symbol> iterators_around(const Site& site) {
  std::vector<ir::Symbol> iterators;
  for (const Stmt& loop : site.loops) iterators.push_back(iterator_of(loop));
  return iterators;
}

/// Those of the arrays of which the region may read what they held before it. What is surely set is seen in the text
/// where data decide something, and by dataflow elsewhere.
std::set<Array> read_before_set(const ir::Program& program, const Stmt& region, const std::vector<ir::Symbol>& around,
                                const std::map<Array, Stmt>& candidates) {
  std::set<Array> arrays;
  for (const auto& [array, where] : candidates) arrays.insert(array);
  arrays = ir::read_before_set_in_text(region, arrays);
  return arrays.empty() ? arrays : found_at_start(program, around, region, arrays);
}

/// Null: there is none.
const ir::CustomGradient* first_rule(const Stmt& body) {
  const ir::CustomGradient* first = nullptr;
  ir::walk_stmts(body, [&](const Stmt& s) {
    if (!first) first = s.as<ir::CustomGradient>();
  });
  return first;
}

}  // namespace

Stmt rules_beside_bodies(const Stmt& body, RuleMode mode) {
  return ir::rewrite(body, {}, [&](const Stmt& s) -> std::optional<Stmt> {
    const auto* region = s.as<ir::CustomGradient>();
    if (!region) return std::nullopt;
    if (mode == RuleMode::Adjoint)
      return ir::block({as_constants(*region), ir::with_parts(*region, {}, region->adjoint, {})});
    if (!region->tangent) return region->body;
    return ir::block({as_constants(*region), ir::with_parts(*region, {}, {}, region->tangent)});
  });
}

void refuse_unnamed_inputs(const ir::Program& program, const Activity& activity, RuleMode mode) {
  const Sites sites(program.body);
  ir::walk_stmts(program.body, [&](const Stmt& s) {
    const auto* region = s.as<ir::CustomGradient>();
    if (!region || (mode == RuleMode::Tangent && !region->tangent)) return;
    std::set<Array> own;
    ir::walk_stmts(region->body, [&](const Stmt& inner) {
      if (const auto* local = inner.as<ir::Allocate>()) own.insert(local->array);
    });
    std::map<Array, Stmt> outputs_read;
    ir::walk_stmts(region->body, [&](const Stmt& inner) {
      const auto* a = inner.as<ir::Assign>();
      const auto* r = inner.as<ir::Reduce>();
      if (!stored_array(inner) || !is_float((*stored_array(inner))->type)) return;
      std::set<Array> read;
      differentiable_reads(a ? a->value : r->value, read);
      for (const Array& array : read) {
        if (!activity.varied.count(array)) continue;
        if (holds(region->outputs, array)) outputs_read.emplace(array, inner);
        else if (!holds(region->inputs, array) && !own.count(array))
          refuse_read(program, array, inner, "this array, which carries derivatives and is none of its inputs",
                      "name it as an input, and add to its derivative in `adjoint`; or read it through "
                      "stop_gradient()");
      }
    });
    for (const Array& array : read_before_set(program, region->body, iterators_around(sites.of(s)), outputs_read))
      refuse_read(program, array, outputs_read.at(array),
                  "what this array, one of its outputs, may have held before: the rule knows nothing of that",
                  "copy it to another array in front of the region, and name that as an input; or let the region set "
                  "each element before it reads it");
  });
}

Stmt in_derivatives(const Stmt& rule, const ir::CustomGradient& region, const ArrayMap& derivatives) {
  std::map<Array, Array> known;
  std::set<Array> zero;
  const auto note = [&](const std::vector<Array>& arrays, const std::vector<Array>& names) {
    bool any = false;
    for (std::size_t k = 0; k < arrays.size(); ++k) {
      const auto found = derivatives.find(arrays[k]);
      any |= found != derivatives.end();
      if (found == derivatives.end()) zero.insert(names[k]);
      else known[names[k]] = found->second;
    }
    return any;
  };
  const bool given = note(region.outputs, region.seeds), wanted = note(region.inputs, region.gradients);
  if (!given || !wanted) return ir::block({});
  const Stmt without_zeros = ir::rewrite(
      rule,
      [&](const Expr& e) -> std::optional<Expr> {
        const auto* load = e.as<ir::Load>();
        return load && zero.count(load->array) ? std::optional(ir::const_of(0, load->type)) : std::nullopt;
      },
      [&](const Stmt& s) -> std::optional<Stmt> {
        const Array* stored = stored_array(s);
        return stored && zero.count(*stored) ? std::optional(ir::block({})) : std::nullopt;
      });
  return ir::replace_arrays(without_zeros, known);
}

std::optional<SourceLocation> location_of_rule(const ir::Program& program) {
  const ir::CustomGradient* region = first_rule(program.body);
  return region ? std::optional(region->location) : std::nullopt;
}

void refuse_derivatives_of_rules(const ir::Program& program) {
  if (!program.from_rule) return;
  throw DifferentiationError({.code = ErrorCode::NotDifferentiable,
                              .message = "a custom gradient has taken part in this program, which has no derivatives: "
                                         "the rule says nothing of its own derivative",
                              .program = program.name,
                              .hint = "leave the custom gradient out where second derivatives are needed",
                              .location = *program.from_rule});
}

void refuse_rules(const ir::Program& program, const std::string& message, const std::string& hint) {
  const ir::CustomGradient* region = first_rule(program.body);
  if (!region) return;
  throw DifferentiationError({.code = ErrorCode::NotDifferentiable,
                              .message = message,
                              .program = program.name,
                              .array = region->outputs.front()->name,
                              .hint = hint,
                              .location = region->location});
}

}  // namespace loopgrad::tape

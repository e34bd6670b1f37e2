#include "transforms/gpu/keep_last_elements.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"
#include "transforms/gpu/accesses.h"
#include "transforms/nest.h"

namespace loopgrad::transforms {

using ir::Expr;
using ir::Stmt;

namespace {

/// The first statement that touches the array, if that assigns an element of it.
const ir::Assign* first_assignment(const Stmt& body, const ir::Array& array) {
  const auto* block = body.as<ir::Block>();
  for (const Stmt& s : block ? block->body : std::vector<Stmt>{body}) {
    if (!uses(s, array)) continue;
    if (s.kind() == ir::Kind::Block) return first_assignment(s, array);
    const auto* assign = s.as<ir::Assign>();
    return assign && assign->array == array ? assign : nullptr;
  }
  return nullptr;
}

bool loads(const Expr& e, const ir::Array& array, const std::vector<Expr>& element) {
  bool found = false;
  ir::walk(e, [&](const Expr& x) {
    const auto* load = x.as<ir::Load>();
    found |= load && load->array == array && ir::equal(load->indices, element);
  });
  return found;
}

/// The body of the last nest in the array's scope with a scalar in place of the elements that it assigns.
Stmt with_scalar(const Stmt& body, const std::vector<const ir::For*>& loops, const ir::Array& array) {
  if (ir::contains_loop(body)) return body;
  const ir::Assign* first = first_assignment(body, array);
  if (!first || first->indices.empty() || !is_own(first->indices, loops)) return body;
  const std::vector<Expr> element = first->indices;
  if (loads(first->value, array, element)) return body;
  for (const Access& x : accesses_of(body)) {
    if (x.array != array || ir::equal(x.indices, element)) continue;
    if (x.writes || !are_apart({array, element, true}, x, loops)) return body;
  }
  const ir::Array kept = ir::make_array(array->name + "_kept", array->type, {}, ir::ArrayRole::Local, array->location);
  return ir::allocate(kept, in_scalar(body, array, element, kept), array->location);
}

Stmt in_last_nest(const Stmt& s, const ir::Array& array, std::vector<const ir::For*>& loops) {
  if (is_parallel_loop(s)) {
    const ir::For& loop = *s.as<ir::For>();
    loops.push_back(&loop);
    return with_body(loop, in_last_nest(loop.body, array, loops));
  }
  if (!loops.empty()) return with_scalar(s, loops, array);
  if (const auto* local = s.as<ir::Allocate>())
    return ir::allocate(local->array, in_last_nest(local->body, array, loops), local->location);
  const auto* block = s.as<ir::Block>();
  if (!block || block->body.empty()) return s;
  std::vector<Stmt> list = block->body;
  list.back() = in_last_nest(list.back(), array, loops);
  return ir::block(std::move(list));
}

Stmt visit(const Stmt& s) {
  if (!s || is_parallel_loop(s)) return s;
  if (const auto* loop = s.as<ir::For>()) return with_body(*loop, visit(loop->body));
  if (const auto* n = s.as<ir::If>())
    return ir::if_then(n->condition, visit(n->then_body), visit(n->else_body), n->location);
  if (const auto* block = s.as<ir::Block>()) {
    std::vector<Stmt> list;
    for (const Stmt& child : block->body) list.push_back(visit(child));
    return ir::block(std::move(list));
  }
  const auto* local = s.as<ir::Allocate>();
  if (!local) return s;
  const ir::Array& array = local->array;
  Stmt body = visit(local->body);
  std::vector<const ir::For*> loops;
  const bool is_rounded = value_type(array->type) != array->type;
  if (!is_rounded && !array->shape.empty()) body = in_last_nest(body, array, loops);
  return ir::allocate(array, body, local->location);
}

}  // namespace

ir::Program keep_last_elements(const ir::Program& program) { return ir::with_body(program, visit(program.body)); }

}  // namespace loopgrad::transforms

#include "transforms/storage/keep_last_elements.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"
#include "transforms/analysis/accesses.h"
#include "transforms/analysis/nest.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::Expr;
using ir::Stmt;

namespace {

bool loads(const Expr& e, const ir::Array& array, const std::vector<Expr>& element) {
  bool found = false;
  ir::walk(e, [&](const Expr& x) {
    const auto* load = x.as<ir::Load>();
    found |= load && load->array == array && ir::equal(load->indices, element);
  });
  return found;
}

/// Where the first statement that touches the array touches it, if every iteration does so.
struct FirstUse {
  std::vector<Expr> element;
  bool reads = false;  // the value from before
};

std::optional<FirstUse> first_use(const Stmt& body, const ir::Array& array) {
  const auto* block = body.as<ir::Block>();
  for (const Stmt& s : block ? block->body : std::vector<Stmt>{body}) {
    if (!uses(s, array)) continue;
    if (s.kind() == ir::Kind::Block) return first_use(s, array);
    if (const auto* local = s.as<ir::Allocate>()) return first_use(local->body, array);
    const auto* sum = s.as<ir::Reduce>();
    if (sum && sum->array == array) return FirstUse{sum->indices, true};
    const auto* assign = s.as<ir::Assign>();
    if (assign && assign->array == array)
      return FirstUse{assign->indices, loads(assign->value, array, assign->indices)};
    return std::nullopt;
  }
  return std::nullopt;
}

/// The body of the last nest in the array's scope with a scalar in place of the elements that it assigns.
Stmt with_scalar(const Stmt& body, const std::vector<const ir::For*>& loops, const ir::Array& array) {
  if (ir::contains_loop(body)) return body;
  const std::optional<FirstUse> first = first_use(body, array);
  if (!first || first->element.empty() || !is_own(first->element, loops)) return body;
  const std::vector<Expr>& element = first->element;
  if (std::any_of(element.begin(), element.end(), [](const Expr& index) { return ir::has_load(index); })) return body;
  for (const Access& x : accesses_of(body)) {
    if (x.array != array || ir::equal(x.indices, element)) continue;
    if (x.writes || !are_apart({array, element, true}, x, loops)) return body;
  }
  const ir::Array kept = ir::make_array(array->name + "_kept", array->type, {}, ir::ArrayRole::Local, array->location);
  Stmt with_kept = in_scalar(body, array, element, kept);
  if (first->reads) with_kept = ir::block({ir::assign(kept, {}, ir::load(array, element)), with_kept});
  return ir::allocate(kept, with_kept, array->location);
}

Stmt in_last_nest(const Stmt& s, const ir::Array& array, const std::vector<const ir::For*>& loops = {}) {
  if (is_parallel_loop(s)) {
    const ir::For& loop = *s.as<ir::For>();
    std::vector<const ir::For*> inside = loops;
    inside.push_back(&loop);
    return with_body(loop, in_last_nest(loop.body, array, inside));
  }
  if (!loops.empty()) return with_scalar(s, loops, array);
  if (const auto* local = s.as<ir::Allocate>())
    return ir::allocate(local->array, in_last_nest(local->body, array, loops), local->location);
  if (const auto* n = s.as<ir::If>())
    return ir::if_then(n->condition, in_last_nest(n->then_body, array, loops), in_last_nest(n->else_body, array, loops),
                       n->location);
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
  const bool is_rounded = value_type(array->type) != array->type;
  if (!is_rounded && !array->shape.empty()) body = in_last_nest(body, array);
  return ir::allocate(array, body, local->location);
}

}  // namespace

ir::Program keep_last_elements(const ir::Program& program) { return ir::with_body(program, visit(program.body)); }

}  // namespace loopgrad::transforms

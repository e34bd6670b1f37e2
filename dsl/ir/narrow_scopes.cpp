#include "dsl/ir/narrow_scopes.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/set_elements.h"
#include "dsl/ir/visit.h"

#include <algorithm>

namespace loopgrad::ir {
namespace {

bool reads(const Expr& e, const Array& array) {
  bool found = false;
  walk(e, [&](const Expr& part) {
    const auto* load = part.as<Load>();
    found |= load && load->array == array;
    return !found;
  });
  return found;
}

/// In whatever way.
bool uses(const Stmt& s, const Array& array) {
  bool found = reads(s, array);
  walk_stmts(s, [&](const Stmt& child) {
    const auto* assign = child.as<Assign>();
    const auto* sum = child.as<Reduce>();
    found |= assign ? assign->array == array : sum ? sum->array == array : child.kind() == Kind::CustomGradient;
    found |= child.kind() == Kind::Push || child.kind() == Kind::Pop || child.kind() == Kind::Contraction;
  });
  return found;
}

/// Conditions, bounds or places of elements depend on it.
bool decides_in(const Stmt& s, const Array& array) {
  bool found = false;
  for_each_child(s, overloaded{[&](const Expr& e) {
                                 const auto* assign = s.as<Assign>();
                                 const auto* sum = s.as<Reduce>();
                                 const bool is_value =
                                     (assign && assign->value.same_as(e)) || (sum && sum->value.same_as(e));
                                 found |= !is_value && reads(e, array);
                               },
                               [&](const Stmt& child) { found |= decides_in(child, array); }});
  return found;
}

/// The iterator has a say in which elements are meant: iterations have elements of their own.
bool chooses_in(const Stmt& s, const Symbol& iterator, const Array& array) {
  bool found = false;
  const auto look = [&](const Array& accessed, const std::vector<Expr>& indices) {
    if (accessed != array) return;
    for (const Expr& index : indices) found |= mentions(index, iterator);
  };
  walk(
      s,
      [&](const Stmt& child) {
        if (const auto* assign = child.as<Assign>()) look(assign->array, assign->indices);
        if (const auto* sum = child.as<Reduce>()) look(sum->array, sum->indices);
      },
      [&](const Expr& e) {
        if (const auto* load = e.as<Load>()) look(load->array, load->indices);
      });
  return found;
}

const Symbol& iterator_of(const Stmt& loop) {
  const auto* counted = loop.as<For>();
  return counted ? counted->iterator : loop.as<While>()->iterator;
}

const Stmt& body_of(const Stmt& loop) {
  const auto* counted = loop.as<For>();
  return counted ? counted->body : loop.as<While>()->body;
}

/// The innermost such loop in `s`, or null.
Stmt loop_for(const Array& array, const Stmt& s) {
  if (const auto* block = s.as<Block>()) {
    Stmt only;
    for (const Stmt& child : block->body) {
      if (!uses(child, array)) continue;
      if (only) return {};
      only = child;
    }
    return only ? loop_for(array, only) : Stmt();
  }
  if (const auto* local = s.as<Allocate>()) return loop_for(array, local->body);
  if (s.kind() != Kind::For && s.kind() != Kind::While) return {};
  bool is_outside = true;  // of bounds and conditions
  for_each_child(s, overloaded{[&](const Expr& e) { is_outside &= !reads(e, array); }, [](const Stmt&) {}});
  const Stmt& body = body_of(s);
  if (!is_outside || chooses_in(body, iterator_of(s), array)) return {};
  if (decides_in(body, array) || !read_before_set_in_text(body, {array}).empty()) return {};
  const Stmt inner = loop_for(array, body);
  return inner ? inner : s;
}

Stmt with_local(const Stmt& loop, const Allocate& local) {
  return rewrite(loop, {}, [&](const Stmt& s) -> std::optional<Stmt> {
    return s.same_as(body_of(loop)) ? std::optional(allocate(local.array, s, local.location)) : std::nullopt;
  });
}

Stmt narrowed(const Allocate& local) {
  const bool is_plain = std::none_of(local.array->shape.begin(), local.array->shape.end(), has_load);
  const Stmt loop = is_plain ? loop_for(local.array, local.body) : Stmt();
  if (!loop) return {};
  const Stmt inside = with_local(loop, local);
  return rewrite(local.body, {}, [&](const Stmt& s) { return s.same_as(loop) ? std::optional(inside) : std::nullopt; });
}

Stmt narrowed(const Stmt& body) {
  return rewrite(body, {}, [](const Stmt& s) -> std::optional<Stmt> {
    const auto* local = s.as<Allocate>();
    const Stmt inside = local ? narrowed(*local) : Stmt();
    return inside ? std::optional(narrowed(inside)) : std::nullopt;
  });
}

}  // namespace

Program with_narrow_scopes(const Program& program) { return with_body(program, narrowed(program.body)); }

}  // namespace loopgrad::ir

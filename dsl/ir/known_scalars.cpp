#include "dsl/ir/known_scalars.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/visit.h"

namespace loopgrad::ir {

KnownScalars::KnownScalars(const Program& program) {
  const std::set<Array> aliased = aliased_arrays(program);
  for (const Array& array : program.arrays)
    if (array->role == ArrayRole::Input && !aliased.count(array)) constant_.insert(array);
  std::set<Array> seen, several;
  std::vector<const Assign*> once;
  const auto note = [&](const Array& array) {
    if (!seen.insert(array).second) several.insert(array);
  };
  walk_stmts(program.body, [&](const Stmt& s) {
    if (const auto* n = s.as<Reduce>()) several.insert(n->array);
    if (const auto* n = s.as<Pop>()) several.insert(n->array);
    const auto* n = s.as<Assign>();
    if (!n) return;
    note(n->array);
    // A value is rounded where it is stored, unless values of the type have the same.
    const bool exact = value_type(n->array->type) == n->array->type;
    if (n->array->role == ArrayRole::Local && n->array->shape.empty() && exact) once.push_back(n);
  });
  for (const Assign* n : once) {
    if (several.count(n->array)) continue;
    const Expr value = look_through(n->value);
    if (is_known(value)) values_[n->array] = value;
  }
}

Expr KnownScalars::look_through(const Expr& e) const {
  if (values_.empty()) return e;
  return rewrite(e, [&](const Expr& part) -> std::optional<Expr> {
    const auto* load = part.as<Load>();
    const auto found = load ? values_.find(load->array) : values_.end();
    return found == values_.end() ? std::nullopt : std::optional(found->second);
  });
}

bool KnownScalars::is_known(const Expr& e) const {
  bool known = true;
  walk(e, [&](const Expr& part) {
    const auto* load = part.as<Load>();
    known &= !load || constant_.count(load->array) > 0;
  });
  return known;
}

Program with_known_bounds(const Program& program) {
  const KnownScalars scalars(program);
  const std::function<Stmt(const Stmt&)> all = [&](const Stmt& root) {
    return rewrite(root, {}, [&](const Stmt& s) -> std::optional<Stmt> {
      const auto* n = s.as<For>();
      if (!n) return std::nullopt;
      const Expr lower = scalars.look_through(n->lower), upper = scalars.look_through(n->upper);
      if (lower.same_as(n->lower) && upper.same_as(n->upper)) return std::nullopt;
      return for_loop(n->iterator, lower, upper, all(n->body), n->mode, n->location, n->at_most);
    });
  };
  return program.body ? with_body(program, all(program.body)) : program;
}

}  // namespace loopgrad::ir

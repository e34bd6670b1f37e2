#include "dsl/ir/known_scalars.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/visit.h"

namespace loopgrad::ir {

namespace {

constexpr int largest_value = 64;  // nodes: a longer computation is no name for a value

bool is_small(const Expr& e) {
  int nodes = 0;
  walk(e, [&](const Expr&) { return ++nodes <= largest_value; });
  return nodes <= largest_value;
}

/// The scalars that are assigned by one statement, once for each time that they are declared: with no loop in between,
/// which could read what an earlier trip assigned. In textual order.
class AssignedOnce {
 public:
  explicit AssignedOnce(const Stmt& body) { visit_stmt(body); }

  std::vector<const Assign*> take() {
    std::erase_if(assigned_, [&](const Assign* n) { return others_.count(n->array) > 0; });
    return std::move(assigned_);
  }

 private:
  void visit_stmt(const Stmt& s) {
    if (!s) return;
    if (const auto* n = s.as<Reduce>()) others_.insert(n->array);
    if (const auto* n = s.as<Pop>()) others_.insert(n->array);
    if (const auto* n = s.as<Allocate>()) declared_in_[n->array] = loops_;
    if (const auto* n = s.as<Assign>()) note(*n);
    const bool is_loop = s.kind() == Kind::For || s.kind() == Kind::While;
    loops_ += is_loop;
    for_each_child(s, overloaded{[](const Expr&) {}, [&](const Stmt& child) { visit_stmt(child); }});
    loops_ -= is_loop;
  }

  void note(const Assign& n) {
    // A value is rounded where it is stored, unless values of the type have the same.
    const bool exact = value_type(n.array->type) == n.array->type;
    const bool is_scalar = n.array->role == ArrayRole::Local && n.array->shape.empty();
    const auto declared = declared_in_.find(n.array);
    const bool afresh = declared != declared_in_.end() && declared->second == loops_;
    if (!seen_.insert(n.array).second || !is_scalar || !exact || !afresh) others_.insert(n.array);
    else assigned_.push_back(&n);
  }

  int loops_ = 0;
  std::map<Array, int> declared_in_;
  std::set<Array> seen_, others_;
  std::vector<const Assign*> assigned_;
};

}  // namespace

KnownScalars::KnownScalars(const Program& program, const std::set<Array>& computed) {
  const std::set<Array> aliased = aliased_arrays(program);
  for (const Array& array : program.arrays)
    if (array->role == ArrayRole::Input && !aliased.count(array) && !computed.count(array)) constant_.insert(array);
  for (const Assign* n : AssignedOnce(program.body).take()) {
    if (!is_small(n->value)) continue;
    const Expr value = look_through(n->value);
    if (is_known(value) && is_small(value)) values_[n->array] = value;
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

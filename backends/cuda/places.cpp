#include "backends/cuda/places.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/ir/visit.h"
#include "dsl/symbolic/linear_form.h"

#include <algorithm>

namespace loopgrad::backend {

using namespace ir;

namespace {

template <class F>
void for_each_access_outside_loops(const Stmt& s, F&& note) {
  if (!s || s.kind() == Kind::For || s.kind() == Kind::While) return;
  if (const auto* n = s.as<Assign>()) note(n->array, n->indices);
  if (const auto* n = s.as<Reduce>()) note(n->array, n->indices);
  for_each_child(s, overloaded{[&](const Expr& e) {
                                 walk(e, [&](const Expr& x) {
                                   if (const auto* l = x.as<Load>()) note(l->array, l->indices);
                                 });
                               },
                               [&](const Stmt& child) { for_each_access_outside_loops(child, note); }});
}

}  // namespace

Places::Places(KernelScope& scope) : scope_(scope) {
  scope.state.position = [this](const Array& array, const std::vector<Expr>& indices) {
    return position(array, indices);
  };
}

/// How far from a place an element is, in sizes; null when that varies.
Expr Places::distance(const Place& from, const std::vector<Expr>& indices) {
  Expr distance = int_const(0);
  for (std::size_t d = 0; d < indices.size(); ++d) {
    const ir::LinearForm step = ir::linear_form(indices[d] - from.indices[d]);
    if (!step.terms.empty()) return {};
    Expr elements = int_const(step.constant);
    for (std::size_t inner = d + 1; inner < indices.size(); ++inner) elements = elements * from.array->shape[inner];
    distance = distance + elements;
  }
  return distance;
}

std::string Places::position(const Array& array, const std::vector<Expr>& indices) {
  for (const Place& place : in_scope_) {
    const Expr steps = place.array == array ? distance(place, indices) : Expr();
    if (steps) return scope_.text(var(place.position) + steps);
  }
  return "";
}

void Places::declare(const Stmt& body) {
  std::vector<Place> found;
  std::vector<int> used;  // how many different elements are addressed from each
  auto note = [&](const Array& array, const std::vector<Expr>& indices) {
    if (indices.size() < 2 || std::any_of(indices.begin(), indices.end(), has_load)) return;
    for (std::size_t k = 0; k < found.size(); ++k) {
      if (found[k].array != array || !distance(found[k], indices)) continue;
      used[k] += !equal(found[k].indices, indices);
      return;
    }
    found.push_back({array, indices, make_symbol(array->name + "_at")});
    used.push_back(0);
  };
  for_each_access_outside_loops(body, note);
  for (std::size_t k = 0; k < found.size(); ++k) {
    if (used[k] == 0) continue;
    const std::string element = scope_.element(found[k].array, found[k].indices);
    const std::size_t bracket = element.find('[') + 1;
    scope_.note_width(found[k].position, found[k].indices);
    scope_.code.line("const {} {} = {};", scope_.type_of(found[k].position), scope_.name_of(found[k].position),
                     element.substr(bracket, element.size() - bracket - 1));
    in_scope_.push_back(found[k]);
  }
}

}  // namespace loopgrad::backend

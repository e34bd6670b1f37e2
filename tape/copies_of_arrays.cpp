// Copies of whole arrays, from which all reads of one version of an array can be had.
//
//   for t in 0..T:                                        for t in 0..T:
//     for e in 0..edges:                                    for v in 0..n: h_tape[t, v] = h[v]
//       flow[e] = f(h[from[e]], h[to[e]])          ->       ...
//     for e in 0..edges: h[to[e]] += flow[e]              backward: h_tape[t, from[e]], h_tape[t, to[e]]
//
// in place of a tape over (t, e) for each of the two reads. What is less is decided together with all other values
// (value_plan.h).
#include "dsl/ir/element_loops.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/set_elements.h"
#include "tape/stores.h"
#include "tape/tape_plan.h"

namespace loopgrad::tape {

using ir::Array;
using ir::ArrayRole;
using ir::Expr;
using ir::Stmt;

namespace {

Stmt copy_of(const Array& array, const Array& copy, const std::vector<Expr>& leading, const Stmt& at) {
  return ir::over_elements(array->shape, {}, [&](const std::vector<Expr>& element) {
    return ir::assign(copy, concatenate(leading, element), ir::load(array, element), at->location);
  });
}

/// Those that make it larger: `min(n, 8)` is 8.
std::set<ir::Symbol> sizes_counted(const Expr& extent) {
  std::set<ir::Symbol> result;
  ir::walk(extent, [&](const Expr& e) {
    const auto* n = e.as<ir::Binary>();
    if (const auto* v = e.as<ir::Var>()) result.insert(v->symbol);
    return !n || n->op == ir::BinaryOp::Add || n->op == ir::BinaryOp::Sub || n->op == ir::BinaryOp::Mul ||
           n->op == ir::BinaryOp::Max;
  });
  return result;
}

}  // namespace

/// Whether every element has a value where the copy would be made, as far as the program's text tells.
bool TapePlan::can_be_copied(const Array& array, const Stmt& at) {
  if (array->role == ArrayRole::InOut || array->role == ArrayRole::Input) return true;
  const auto [known, is_new] = set_in_front_of_.try_emplace({at.get(), array}, false);
  if (!is_new) return known->second;
  const Stmt with_copy = ir::block({copy_of(array, array, {}, at), at});
  const Stmt body = ir::rewrite(prepared_.program.body, {},
                                [&](const Stmt& s) { return s.same_as(at) ? std::optional(with_copy) : std::nullopt; });
  return known->second = ir::read_before_set_in_text(body, {array}).empty();
}

/// Whether each iteration of the loop around `at` goes through as much in any case: how many elements there are is not
/// known here, so that a step which reads few of very many must not copy all.
bool TapePlan::goes_through_as_many(const Array& array, const Stmt& at) const {
  std::set<ir::Symbol> sizes;
  for (const Expr& extent : array->shape)
    ir::walk(extent, [&](const Expr& e) {
      if (const auto* v = e.as<ir::Var>()) sizes.insert(v->symbol);
    });
  const std::vector<Stmt>& around = site_of(at).loops;
  return around.empty() || covers(sizes, around.back());
}

/// Whether loops inside of `s`, one in the other, are as long as all of these sizes, as far as the text tells.
bool TapePlan::covers(std::set<ir::Symbol> sizes, const Stmt& s) const {
  if (sizes.empty()) return true;
  bool found = false;
  ir::for_each_child(s, ir::overloaded{[](const Expr&) {},
                                       [&](const Stmt& child) {
                                         std::set<ir::Symbol> left = sizes;
                                         if (child.kind() == ir::Kind::For && extents_.knows(child))
                                           for (const ir::Symbol& size : sizes_counted(extents_.of(child).extent))
                                             left.erase(size);
                                         found = found || covers(left, child);
                                       }});
  return found;
}

/// Where a copy would have to be made; null where there is no such place.
Stmt TapePlan::place_of_copy(const ir::Load& load, const Stmt& site) {
  const Stmt at = sites_.steady_from(load.array, site);
  if (!at || !can_index(extents_.dimensions(site_of(at).loops)) || !largest_shape(load.array)) return {};
  return goes_through_as_many(load.array, at) && can_be_copied(load.array, at) ? at : Stmt();
}

Array TapePlan::copy_in_front_of(const Stmt& at, const Array& array) {
  Array& copy = copies_[{at.get(), array}];
  if (copy) return copy;
  const std::vector<Stmt> loops = extents_.dimensions(site_of(at).loops);
  copy = new_tape(array->name + "_tape", array->type, loops, largest_shape(array).value(), at->location);
  additions_.before[at.get()].push_back(copy_of(array, copy, tape_index(loops), at));
  return copy;
}

/// The read from such a copy, where the plan for all values has it so.
std::optional<Expr> TapePlan::from_copy(const ir::Load& load, const Stmt& site, const Expr& guard,
                                        const std::string& why) {
  const Expr read = ir::load(load.array, load.indices);
  const auto earlier = reader_of(load, site);
  const Stmt reader = earlier ? earlier->read.site : place_to_save(read, site).at;
  if (!values_.is_had_from_whole(reader, earlier ? earlier->read.load : read)) return std::nullopt;
  const Stmt at = sites_.steady_from(load.array, earlier ? reader : site);
  const Array copy = copy_in_front_of(at, load.array);
  const ir::Substitution own = earlier ? earlier->iterators : ir::Substitution();
  const std::vector<Expr> leading = tape_index(extents_.dimensions(site_of(at).loops), own);
  const Expr result = ir::load(copy, concatenate(leading, provide_all(load.indices, site, guard)), load.location);
  note(read, site->location, "tape (whole array)", result, copy,
       why + "; a copy of all elements serves all that read them at that time, and is less than what they read");
  return result;
}

}  // namespace loopgrad::tape

// Regions with custom gradients: their parts are recorded as bodies, and what each may write is checked here.
#include "dsl/frontend/recorder.h"
#include "dsl/ir/visit.h"

#include <fmt/format.h>

#include <algorithm>

namespace loopgrad::ir {
namespace {

bool holds(const std::vector<Array>& list, const Array& array) {
  return std::find(list.begin(), list.end(), array) != list.end();
}

std::set<Array> locals_of(const Stmt& body) {
  std::set<Array> locals;
  walk_stmts(body, [&](const Stmt& s) {
    if (const auto* local = s.as<Allocate>()) locals.insert(local->array);
  });
  return locals;
}

/// Calls f(array, is a sum, line) for every store.
template <class F>
void for_each_store(const Stmt& body, const F& f) {
  walk_stmts(body, [&](const Stmt& s) {
    if (const auto* n = s.as<Assign>()) f(n->array, false, n->location);
    if (const auto* n = s.as<Reduce>()) f(n->array, n->op == ReduceOp::Add, n->location);
  });
}

}  // namespace

CustomGradient ProgramRecorder::new_region(const std::vector<Array>& outputs, const std::vector<Array>& inputs,
                                           SourceLocation where) const {
  require_recording(where);
  for (const Scope& scope : scopes_)
    if (scope.header.kind == Kind::CustomGradient)
      fail(where, "a custom gradient inside of another one", "state one gradient for all of the outer region");
  if (outputs.empty() || inputs.empty())
    fail(where, "a custom gradient without outputs or inputs",
         "name the arrays that the region computes, and those that they depend on");
  CustomGradient region(outputs, inputs, {}, {}, {}, {}, {}, where);
  std::vector<Array> seen;
  for (const auto* list : {&outputs, &inputs}) {
    auto& derivatives = list == &outputs ? region.seeds : region.gradients;
    for (const Array& array : *list) {
      if (!visible_.contains(array->id))
        fail(where, "the array is not in scope here", "a local lives until the end of the body that declares it",
             array->name);
      if (!is_float(array->type))
        fail(where, fmt::format("a custom gradient names an array of type {}", name_of(array->type)),
             "only floating-point arrays have derivatives; others are read and written without being named",
             array->name);
      if (holds(seen, array))
        fail(where, "a custom gradient names the array twice",
             "what a region reads it must not overwrite: write to another array, and copy", array->name);
      if (list == &outputs) check_write(array, where);
      seen.push_back(array);
      derivatives.push_back(
          make_array("d_" + array->name, value_type(array->type), array->shape, ArrayRole::Local, array->location));
    }
  }
  return region;
}

std::size_t ProgramRecorder::open_part(const CustomGradient& region, bool is_rule) {
  require_recording(region.location);
  if (is_rule)
    for (const auto* list : {&region.seeds, &region.gradients})
      for (const Array& array : *list) visible_.insert(array->id);
  ScopeHeader header;
  header.kind = Kind::CustomGradient;
  header.location = region.location;
  return open(std::move(header));
}

Stmt ProgramRecorder::take_part(const CustomGradient& region) {
  for (const auto* list : {&region.seeds, &region.gradients})
    for (const Array& array : *list) visible_.erase(array->id);
  return std::move(part_);
}

void ProgramRecorder::append_region(const CustomGradient& region) {
  check_forward(region);
  check_rule(region, region.adjoint, "adjoint");
  if (region.tangent) check_rule(region, region.tangent, "tangent");
  append({std::make_shared<CustomGradient>(region)});
}

void ProgramRecorder::check_forward(const CustomGradient& region) const {
  const std::set<Array> own = locals_of(region.body);
  for_each_store(region.body, [&](const Array& array, bool, const SourceLocation& where) {
    if (!is_float(array->type) || own.contains(array) || holds(region.outputs, array)) return;
    fail(where, "a region with a custom gradient writes an array that is none of its outputs",
         "name it as an output, or declare it in the region", array->name);
  });
}

/// An adjoint adds to the derivatives of inputs and reads those of outputs; a tangent writes the latter.
void ProgramRecorder::check_rule(const CustomGradient& region, const Stmt& rule, const std::string& name) const {
  const bool adjoint = name == "adjoint";
  const std::vector<Array>&from = adjoint ? region.seeds : region.gradients,
        &to = adjoint ? region.gradients : region.seeds;
  const std::set<Array> own = locals_of(rule);
  for_each_store(rule, [&](const Array& array, bool is_sum, const SourceLocation& where) {
    if (own.contains(array)) return;
    if (holds(from, array))
      fail(where, fmt::format("the {} of a custom gradient writes the derivative that it is given", name),
           "copy it to a local first", array->name);
    if (!holds(to, array))
      fail(where, fmt::format("the {} of a custom gradient writes an array that is no derivative", name),
           "write to d(..) and to locals of its own; what it needs is computed by `forward`, or in a local",
           array->name);
    if (adjoint && !is_sum)
      fail(where, "the adjoint of a custom gradient overwrites the derivative of an input",
           "add to it with +=: others may have added to it before", array->name);
  });
  if (!adjoint) return;
  walk(
      rule, [](const Stmt&) {},
      [&](const Expr& e) {
        const auto* load = e.as<Load>();
        if (load && holds(to, load->array))
          fail(load->location, "the adjoint of a custom gradient reads the derivative of an input",
               "it holds what other statements have added, too: compute in a local, and add that to it",
               load->array->name);
      });
}

}  // namespace loopgrad::ir

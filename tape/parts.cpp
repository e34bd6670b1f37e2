#include "tape/parts.h"

#include "dsl/ir/rewriter.h"
#include "tape/stores.h"

#include <algorithm>

namespace loopgrad::tape {

using ir::Array;
using ir::ArrayRole;
using ir::Stmt;

namespace {

void flatten(const Stmt& s, Parts& parts) {
  if (const auto* block = s.as<ir::Block>()) {
    for (const Stmt& child : block->body) flatten(child, parts);
  } else if (const auto* local = s.as<ir::Allocate>()) {
    parts.locals.push_back(local->array);
    flatten(local->body, parts);
  } else if (s) {
    parts.parts.push_back(s);
  }
}

}  // namespace

Parts parts_of(const Stmt& body) {
  Parts parts;
  flatten(body, parts);
  return parts;
}

OuterArrays outer_arrays(const Stmt& s) {
  OuterArrays result;
  std::set<Array> own;
  ir::walk(
      s,
      [&](const Stmt& child) {
        if (const auto* local = child.as<ir::Allocate>()) own.insert(local->array);
        if (const Array* stored = stored_array(child)) {
          result.written.insert(*stored);
          if (child.kind() == ir::Kind::Reduce) result.read.insert(*stored);
        }
      },
      [&](const ir::Expr& e) {
        if (const auto* load = e.as<ir::Load>()) result.read.insert(load->array);
      });
  for (const Array& array : own) {
    result.read.erase(array);
    result.written.erase(array);
  }
  return result;
}

std::string unique_name(std::string name, std::set<std::string>& taken) {
  while (!taken.insert(name).second) name += "_";
  return name;
}

DirectGradient gradient_of_part(const Prepared& whole, const Stmt& part, const std::vector<ir::Symbol>& extra,
                                std::set<std::string>& taken, Report& report) {
  const OuterArrays outer = outer_arrays(part);
  std::set<Array> used = outer.read;
  used.insert(outer.written.begin(), outer.written.end());

  Prepared own{whole.program, {}, whole.activity, whole.adjoints, whole.named, taken, true};
  own.program.sizes.insert(own.program.sizes.end(), extra.begin(), extra.end());
  own.program.arrays.clear();
  own.program.facts.clear();
  std::map<Array, Array> inside, outside;
  for (const Array& array : used) {
    const ArrayRole role = outer.written.count(array) ? ArrayRole::InOut : ArrayRole::Input;
    // Arguments are known by name, and a local may be called like one.
    const bool is_called_like_another = array->role == ArrayRole::Local && ir::find_array(whole.program, array->name);
    const std::string name = is_called_like_another ? unique_name(array->name, taken) : array->name;
    const Array argument = ir::make_array_like(array, name, array->type, role);
    own.program.arrays.push_back(argument);
    inside[array] = argument;
    outside[argument] = array;
    const auto adjoint = whole.adjoints.find(array);
    if (adjoint == whole.adjoints.end()) continue;
    own.adjoints[argument] = adjoint->second;
    own.request.wrt.push_back(argument);
    if (role == ArrayRole::InOut) own.request.of.push_back(argument);
  }
  for (ir::Fact fact : whole.program.facts) {
    if (!inside.count(fact.array) || fact.kind == ir::FactKind::MayAlias) continue;
    fact.array = inside.at(fact.array);
    own.program.facts.push_back(fact);
  }
  own.program.body = ir::replace_arrays(part, inside);
  DirectGradient result = direct_gradient(own, report);
  result.forward = ir::replace_arrays(result.forward, outside);
  result.backward = ir::replace_arrays(result.backward, outside);
  std::set<Array> copied;
  for (const Array& argument : result.copied) copied.insert(outside.at(argument));
  result.copied = std::move(copied);
  for (const Array& tape : result.tape) taken.insert(tape->name);
  for (const ir::Symbol& size : result.sizes) taken.insert(size.name);
  return result;
}

}  // namespace loopgrad::tape

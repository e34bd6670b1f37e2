#include "tools/fuzz/second_order.h"

#include "dsl/ir/rewriter.h"
#include "dsl/ir/verifier.h"

namespace loopgrad::fuzz {

std::string gradient_name(const std::string& name) { return "g_" + name.substr(2); }

Program joined(const Gradient& gradient) {
  const ir::Program &forward = gradient.forward.ir(), &backward = gradient.backward.ir();
  ir::Program result;
  result.name = forward.name + "_gradient";
  result.sizes = forward.sizes;
  result.location = forward.location;
  std::map<std::string, ir::Array> by_name;
  std::map<ir::Array, ir::Array> replaced;
  std::vector<ir::Array> tapes;
  const auto add = [&](const ir::Array& array) {
    const auto [known, is_new] = by_name.try_emplace(array->name, array);
    if (is_new && array->role == ir::ArrayRole::Tape) {
      known->second = ir::make_array(array->name, array->type, array->shape, ir::ArrayRole::Local, array->location);
      tapes.push_back(known->second);
    } else if (is_new) {
      if (array->name.starts_with("d_"))
        known->second = ir::make_array_like(array, gradient_name(array->name), array->type, array->role);
      result.arrays.push_back(known->second);
    }
    if (known->second != array) replaced[array] = known->second;
  };
  for (const ir::Array& array : forward.arrays) add(array);
  for (const ir::Array& array : backward.arrays) add(array);
  for (const ir::Fact& fact : forward.facts)
    if (fact.kind != ir::FactKind::ReadUpTo && fact.kind != ir::FactKind::MayAlias) result.facts.push_back(fact);
  ir::Substitution sizes;
  for (const ir::Symbol& theirs : backward.sizes) {
    for (const ir::Symbol& ours : forward.sizes)
      if (theirs.name == ours.name && !(theirs == ours)) sizes[theirs] = ir::var(ours);
  }
  result.body = ir::replace_arrays(ir::block({forward.body, ir::substitute(backward.body, sizes)}), replaced);
  for (const ir::Array& tape : tapes) result.body = ir::allocate(tape, result.body);
  result.body = ir::with_fresh_names(result.body);
  ir::verify(result, "joined");
  return Program(std::make_shared<const ir::Program>(std::move(result)));
}

}  // namespace loopgrad::fuzz

#include <loopgrad/autodiff.h>

#include "dsl/ir/rewriter.h"
#include "dsl/ir/verifier.h"

#include <loopgrad/error.h>

#include <algorithm>
#include <set>
#include <string_view>

namespace loopgrad {
namespace {

[[noreturn]] void refuse(const ir::Program& program, std::string message, std::string hint, std::string array = {}) {
  throw DifferentiationError({.code = ErrorCode::NotDifferentiable,
                              .message = std::move(message),
                              .program = program.name,
                              .array = std::move(array),
                              .hint = std::move(hint),
                              .location = program.location});
}

void check(const Gradient& gradient) {
  const ir::Program& forward = gradient.forward.ir();
  if (gradient.variant == Variant::NaiveTape)
    refuse(forward, "a gradient with a run-time stack is no ordinary program",
           "use Variant::Restructured, whose gradient can be differentiated again");
  if (gradient.max_tape_bytes > 0)
    refuse(forward, "the lengths of this gradient's segments are found before each run, which is no ordinary program",
           "leave max_tape_bytes out");
  if (!ir::is_empty(gradient.sizing.ir().body))
    refuse(forward, "the extents of this gradient's tape depend on data, which those of no local array may",
           "promise a largest trip count with at_most, so that the tape has extents in sizes");
}

/// The name that the user gave to the program of this forward program.
std::string of_primal(const std::string& forward) {
  const std::string_view suffix = "_forward";
  return forward.ends_with(suffix) ? forward.substr(0, forward.size() - suffix.size()) : forward;
}

/// The arrays of both programs, each once: tapes become locals, gradients get names of their own.
class Arrays {
 public:
  Arrays(const Gradient& gradient, const std::string& prefix) : prefix_(prefix) {
    for (const ir::Array& array : gradient.forward.ir().arrays) taken_.insert(array->name);
    for (const ir::Array& array : gradient.forward.ir().arrays) add(array, array->name);
    for (const ir::Array& array : gradient.backward.ir().arrays) {
      const bool is_gradient = !taken_.count(array->name) && array->name.starts_with("d_");
      add(array, is_gradient ? free_name(gradient.forward.ir(), array->name) : array->name);
    }
  }

  std::vector<ir::Array> of_program, tapes;
  std::map<ir::Array, ir::Array> replaced;

 private:
  std::string free_name(const ir::Program& program, const std::string& gradient) const {
    const std::string name = prefix_ + gradient.substr(2);
    if (taken_.count(name) == 0) return name;
    refuse(program, "the gradient '" + gradient + "' cannot be called '" + name + "': there is such an array",
           "give joined() another prefix", name);
  }

  void add(const ir::Array& array, const std::string& name) {
    const auto [known, is_new] = by_name_.try_emplace(name, array);
    if (is_new && array->role == ir::ArrayRole::Tape) {
      known->second = ir::make_array(name, array->type, array->shape, ir::ArrayRole::Local, array->location);
      tapes.push_back(known->second);
    } else if (is_new) {
      if (name != array->name) known->second = ir::make_array_like(array, name, array->type, array->role);
      of_program.push_back(known->second);
    }
    if (known->second != array) replaced[array] = known->second;
  }

  const std::string& prefix_;
  std::set<std::string> taken_;
  std::map<std::string, ir::Array> by_name_;
};

}  // namespace

Program joined(const Gradient& gradient, const std::string& prefix) {
  check(gradient);
  const ir::Program &forward = gradient.forward.ir(), &backward = gradient.backward.ir();
  const Arrays arrays(gradient, prefix);
  ir::Program result;
  result.name = of_primal(forward.name) + "_gradient";
  result.sizes = forward.sizes;
  result.location = forward.location;
  result.arrays = arrays.of_program;
  for (const ir::Fact& fact : forward.facts)
    if (fact.kind != ir::FactKind::ReadUpTo && fact.kind != ir::FactKind::MayAlias) result.facts.push_back(fact);
  ir::Substitution sizes;
  for (const ir::Symbol& theirs : backward.sizes) {
    for (const ir::Symbol& ours : forward.sizes)
      if (theirs.name == ours.name && !(theirs == ours)) sizes[theirs] = ir::var(ours);
    // The number of incoming gradients is one of the backward program's alone.
    if (std::none_of(forward.sizes.begin(), forward.sizes.end(),
                     [&](const ir::Symbol& ours) { return ours.name == theirs.name; }))
      result.sizes.push_back(theirs);
  }
  result.body = ir::replace_arrays(ir::block({forward.body, ir::substitute(backward.body, sizes)}), arrays.replaced);
  for (const ir::Array& tape : arrays.tapes) result.body = ir::allocate(tape, result.body);
  result.body = ir::with_fresh_names(result.body);
  ir::verify(result, "joined");
  return Program(std::make_shared<const ir::Program>(std::move(result)));
}

}  // namespace loopgrad

#include <loopgrad/autodiff.h>

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/verifier.h"

#include <loopgrad/error.h>

#include <algorithm>
#include <map>
#include <optional>
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

/// What no size that is found before a run can exceed, by its name; nullopt where one has no such bound.
std::optional<std::map<std::string, ir::Expr>> largest_sizes(const Gradient& gradient) {
  std::map<std::string, ir::Expr> largest;
  const std::vector<ir::Array>& arrays = gradient.sizing.ir().arrays;  // a local of the program may have the same name
  ir::walk_stmts(gradient.sizing.ir().body, [&](const ir::Stmt& s) {
    const auto* n = s.as<ir::Reduce>();
    if (n && std::find(arrays.begin(), arrays.end(), n->array) == arrays.end()) return;
    if (n && n->op == ir::ReduceOp::Min && !ir::has_load(n->value)) largest[n->array->name] = n->value;
  });
  for (const ir::Array& array : gradient.sizing.ir().arrays)
    if (array->role == ir::ArrayRole::Output && !largest.count(array->name)) return std::nullopt;
  return largest;
}

/// The program with these in place of the sizes.
ir::Program with_sizes(const ir::Program& program, const std::map<std::string, ir::Expr>& values) {
  ir::Program result = program;
  result.sizes.clear();
  ir::Substitution sizes;
  for (const ir::Symbol& size : program.sizes) {
    const auto value = values.find(size.name);
    if (value == values.end()) result.sizes.push_back(size);
    else sizes[size] = value->second;
  }
  if (sizes.empty()) return result;
  std::map<ir::Array, ir::Array> replaced;
  for (ir::Array& array : result.arrays) {
    std::vector<ir::Expr> shape;
    for (const ir::Expr& extent : array->shape) shape.push_back(ir::substitute(extent, sizes));
    if (array->role != ir::ArrayRole::Tape) continue;
    const ir::Array own = ir::make_array(array->name, array->type, shape, array->role, array->location);
    replaced[array] = own;
    array = own;
  }
  for (ir::Fact& fact : result.facts) fact.longest = {};
  result.body = ir::replace_arrays(ir::substitute(program.body, sizes), replaced);
  return result;
}

void check(const Gradient& gradient) {
  const ir::Program& forward = gradient.forward.ir();
  if (gradient.variant == Variant::NaiveTape)
    refuse(forward, "a gradient with a run-time stack is no ordinary program",
           "use Variant::Restructured, whose gradient can be differentiated again");
  if (gradient.max_tape_bytes > 0)
    refuse(forward, "the lengths of this gradient's segments are found before each run, which is no ordinary program",
           "leave max_tape_bytes out");
  if (!largest_sizes(gradient))
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
  Arrays(const ir::Program& forward, const ir::Program& backward, const std::string& prefix) : prefix_(prefix) {
    for (const ir::Array& array : forward.arrays) taken_.insert(array->name);
    for (const ir::Array& array : forward.arrays) add(array, array->name);
    for (const ir::Array& array : backward.arrays) {
      const bool is_gradient = !taken_.count(array->name) && array->name.starts_with("d_");
      add(array, is_gradient ? free_name(forward, array->name) : array->name);
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
  if (!ir::is_identifier(prefix + "x"))
    throw UsageError({.code = ErrorCode::BadArgument,
                      .message = "gradients cannot have names that start with '" + prefix + "'",
                      .program = gradient.forward.name(),
                      .hint = "names have letters, digits and '_', no digit first: joined(gradient, \"d2_\")"});
  const std::map<std::string, ir::Expr> largest = *largest_sizes(gradient);
  const ir::Program forward = with_sizes(gradient.forward.ir(), largest),
                    backward = with_sizes(gradient.backward.ir(), largest);
  const Arrays arrays(forward, backward, prefix);
  ir::Program result;
  result.name = of_primal(forward.name) + "_gradient";
  result.sizes = forward.sizes;
  result.location = forward.location;
  result.from_rule = forward.from_rule;
  result.arrays = arrays.of_program;
  for (const ir::Fact& fact : forward.facts)
    if (ir::is_about_data(fact.kind)) result.facts.push_back(fact);
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

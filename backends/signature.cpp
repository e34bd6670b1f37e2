#include <loopgrad/signature.h>

#include "backends/runtime/solve_sizes.h"
#include "dsl/ir/printer.h"
#include "dsl/ir/program.h"
#include "dsl/ir/visit.h"

#include <loopgrad/error.h>

#include <fmt/format.h>

#include <set>

namespace loopgrad {
namespace {

Role role_of(const ir::Array& array) {
  switch (array->role) {
    case ir::ArrayRole::Input: return Role::Input;
    case ir::ArrayRole::Output: return Role::Output;
    default: return Role::InOut;
  }
}

void check_rank(const ir::Program& program, const ir::Array& array, std::size_t rank) {
  const std::size_t expected = array->callers_shape().size();
  if (rank == expected) return;
  throw UsageError({ErrorCode::BadShape, fmt::format("the argument has {} dimensions, expected {}", rank, expected),
                    program.name, "", array->name, "give one extent for each declared dimension", array->location});
}

/// The program without its tapes, and without the sizes that no extent mentions: nothing here depends on them, and
/// those of tapes may follow from data.
ir::Program callers_part(const ir::Program& program) {
  ir::Program part{program.name, {}, {}, {}, {}, program.location};
  std::set<ir::Symbol> mentioned;
  for (const ir::Array& array : program.arrays) {
    if (array->role == ir::ArrayRole::Tape) continue;
    part.arrays.push_back(array);
    for (const ir::Expr& extent : array->callers_shape())
      ir::walk(extent, [&](const ir::Expr& e) {
        if (const auto* size = e.as<ir::Var>()) mentioned.insert(size->symbol);
      });
  }
  for (const ir::Symbol& size : program.sizes)
    if (mentioned.count(size)) part.sizes.push_back(size);
  return part;
}

}  // namespace

const char* name_of(Role role) {
  switch (role) {
    case Role::Input: return "input";
    case Role::Output: return "output";
    case Role::InOut: return "in-out";
  }
  return "?";
}

std::vector<ArgumentInfo> arguments_of(const Program& program) {
  std::vector<ArgumentInfo> arguments;
  for (const ir::Array& array : program.ir().arrays) {
    if (array->role == ir::ArrayRole::Tape) continue;
    ArgumentInfo info{array->name, role_of(array), array->type, {}, array->location};
    for (const ir::Expr& extent : array->callers_shape()) info.shape.push_back(ir::print(extent));
    arguments.push_back(std::move(info));
  }
  return arguments;
}

std::vector<std::string> size_names(const Program& program) {
  std::vector<std::string> names;
  for (const ir::Symbol& symbol : program.ir().sizes) names.push_back(symbol.name);
  return names;
}

Extents extents_of(const Program& program, const Shapes& known, const Sizes& given) {
  const ir::Program ir = callers_part(program.ir());
  std::vector<View> views;  // of rank 0, from which nothing follows, where the shape is not known
  for (const ir::Array& array : ir.arrays) {
    const auto found = known.find(array->name);
    if (found != known.end()) check_rank(ir, array, found->second.size());
    views.push_back({.shape = found != known.end() ? found->second : std::vector<std::int64_t>(), .strides = {}});
  }
  Sizes own;
  for (const ir::Symbol& symbol : ir.sizes)
    if (const auto found = given.find(symbol.name); found != given.end()) own.insert(*found);
  const backend::SizeValues values = backend::solve_sizes(ir, views, own);
  Extents extents;
  for (const auto& [symbol, value] : values) extents.sizes[symbol.name] = value;
  for (const ir::Array& array : ir.arrays) extents.shapes[array->name] = backend::shape_of(array, values);
  return extents;
}

}  // namespace loopgrad

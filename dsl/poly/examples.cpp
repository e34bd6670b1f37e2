#include "dsl/poly/examples.h"

#include "dsl/ir/printer.h"

#include <fmt/format.h>

namespace loopgrad::poly {

namespace {

std::int64_t coordinate(const isl::point& point, isl_dim_type type, unsigned k) {
  isl::val value = isl::manage(isl_point_get_coordinate_val(point.get(), type, static_cast<int>(k)));
  return value.num_si();
}

bool depends_on(const isl::set& domain, const isl::id& id) {
  int position = isl_set_find_dim_by_id(domain.get(), isl_dim_param, id.get());
  return position >= 0 &&
         isl_set_involves_dims(domain.get(), isl_dim_param, static_cast<unsigned>(position), 1) == isl_bool_true;
}

// The values of the parameters that matter to the two statements.
std::string sizes_at(const Model& model, const isl::space& space, const isl::point& point, const Statement& s,
                     const Statement& t) {
  std::string text;
  auto count = static_cast<unsigned>(isl_space_dim(space.get(), isl_dim_param));
  for (unsigned k = 0; k < count; ++k) {
    isl::id id = isl::manage(isl_space_get_dim_id(space.get(), isl_dim_param, k));
    if (!depends_on(s.domain, id) && !depends_on(t.domain, id)) continue;
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", model.context->symbol_of(id).name,
                        coordinate(point, isl_dim_param, k));
  }
  return text;
}

}  // namespace

Example example_at(const Model& model, const Conflict& conflict, const isl::point& point) {
  const Statement& s = model.statements[static_cast<std::size_t>(conflict.first)];
  const Statement& t = model.statements[static_cast<std::size_t>(conflict.second)];
  Example result;
  auto split = static_cast<unsigned>(s.iterators.size());
  for (unsigned k = 0; k < split; ++k) result.first.push_back(coordinate(point, isl_dim_set, k));
  for (unsigned k = 0; k < t.iterators.size(); ++k) {
    result.second.push_back(coordinate(point, isl_dim_set, split + k));
  }
  result.sizes = sizes_at(model, conflict.pairs.wrap().space(), point, s, t);
  return result;
}

std::string element_text(const Access* access) {
  if (!access) return "the run-time stack";
  std::string text = access->array->name;
  for (std::size_t k = 0; k < access->indices.size(); ++k) text += (k ? ", " : "[") + ir::print(access->indices[k]);
  return access->indices.empty() ? text : text + "]";
}

std::string line_of(const Statement& s, const Access* access) {
  SourceLocation where = s.stmt->location;
  if (access && access->load && access->load.as<ir::Load>()->location.known()) {
    where = access->load.as<ir::Load>()->location;
  }
  return where.known() ? " at " + where.str() : "";
}

}  // namespace loopgrad::poly

#include "backends/openmp/region.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/visit.h"

#include <algorithm>
#include <map>

namespace loopgrad::backend {

using namespace ir;

Region region_of(const For& loop, const std::set<Array>& in_place) {
  std::map<Array, bool> written;
  auto on_stmt = [&](const Stmt& s) {
    if (const auto* n = s.as<Assign>()) written[n->array] = true;
    if (const auto* n = s.as<Reduce>()) written[n->array] = true;
  };
  auto on_expr = [&](const Expr& e) {
    if (const auto* l = e.as<Load>()) written.emplace(l->array, false);
  };
  walk(loop.body, on_stmt, on_expr);

  Region region;
  for (const auto& [array, is_written] : written) {
    if (in_place.count(array)) continue;
    const bool variable = array->role == ArrayRole::Local && array->shape.empty();
    if (!variable) region.arrays.push_back({array, is_written});
    else if (is_written) region.shared.push_back(array);
  }
  auto by_id = [](const Array& a, const Array& b) { return a->id < b->id; };
  std::sort(region.arrays.begin(), region.arrays.end(),
            [&](const Region::Use& a, const Region::Use& b) { return by_id(a.array, b.array); });
  std::sort(region.shared.begin(), region.shared.end(), by_id);
  return region;
}

}  // namespace loopgrad::backend

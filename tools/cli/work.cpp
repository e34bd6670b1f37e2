#include "tools/cli/work.h"

#include "dsl/ir/visit.h"

#include <algorithm>

namespace loopgrad::cli {
namespace {

using ir::Array, ir::ArrayRole, ir::Expr;

double bytes_moved(const Array& array, const backend::SizeValues& sizes, const Cost& cost) {
  const auto shape = backend::shape_of(array, sizes);
  const auto size = static_cast<double>(bytes_of(array->type));
  const double all = static_cast<double>(element_count(shape, array->type, array->name)) * size;
  if (array->role == ArrayRole::InOut) return 2 * all;
  if (array->role != ArrayRole::Input) return all;
  const auto it = cost.loads.find(array->id);
  return it == cost.loads.end() ? 0 : std::min(all, it->second * size);
}

bool sized_by(const Array& array, const backend::SizeValues& sizes) {
  bool known = true;
  for (const Expr& extent : array->shape)
    ir::walk(extent, [&](const Expr& e) {
      if (const auto* v = e.as<ir::Var>()) known = known && sizes.contains(v->symbol);
    });
  return known;
}

}  // namespace

Work count_work(const Program& program, const Sizes& sizes, const Arrays& inputs, WorkCounter::Unknown unknown) {
  const ir::Program& ir = program.ir();
  WorkCounter counter(ir, sizes, inputs, unknown);
  const Cost cost = counter.cost(ir.body);
  backend::SizeValues values;
  for (const ir::Symbol& s : ir.sizes)
    if (const auto it = sizes.find(s.name); it != sizes.end()) values[s] = it->second;
  Work work;
  work.flops = cost.flops;
  work.exact = counter.exact();
  for (const Array& array : ir.arrays) {
    if (!sized_by(array, values)) {
      work.exact = false;
      continue;
    }
    (array->role == ArrayRole::Tape ? work.tape_bytes : work.bytes) += bytes_moved(array, values, cost);
  }
  return work;
}

}  // namespace loopgrad::cli

#include "transforms/analysis/average_row.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/ir/visit.h"
#include "dsl/symbolic/csr_rows.h"
#include "dsl/symbolic/linear_form.h"
#include "dsl/symbolic/ranges.h"

namespace loopgrad::transforms {

using ir::Expr;

namespace {

/// Of an array that the loop goes through one by one; null where there is none.
Expr elements_gone_through(const ir::For& loop) {
  Expr result;
  ir::walk(
      loop.body, [](const ir::Stmt&) {},
      [&](const Expr& e) {
        const auto* load = e.as<ir::Load>();
        if (load && load->indices.size() == 1 && ir::equal(load->indices[0], ir::var(loop.iterator)))
          result = load->array->shape[0];
      });
  return result;
}

}  // namespace

Expr average_row(const ir::Program& program, const ir::For& loop) {
  const Expr from = ir::entry_of(loop.lower).base, to = ir::entry_of(loop.upper).base;
  const auto* end = to.as<ir::Load>();
  if (!from.as<ir::Load>() || !end || end->indices.size() != 1) return {};
  Expr entries, rows = end->array->shape[0];
  if (ir::pointer_bounds(loop.lower, loop.upper).end) {
    const ir::Fact* const fact = ir::csr_fact(program, end->array);
    if (fact) entries = ir::cast(ScalarType::I64, fact->upper);
    rows = rows - ir::int_const(1);
  } else {
    entries = elements_gone_through(loop);
  }
  if (!entries || !ir::is_of_sizes(entries, program) || !ir::is_of_sizes(rows, program)) return {};
  return ir::binary(ir::BinaryOp::FloorDiv, entries, ir::larger(rows, ir::int_const(1))) + ir::int_const(1);
}

}  // namespace loopgrad::transforms

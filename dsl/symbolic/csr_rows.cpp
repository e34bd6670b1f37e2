#include "dsl/symbolic/csr_rows.h"

#include "dsl/symbolic/linear_form.h"
#include "dsl/symbolic/ranges.h"

namespace loopgrad::ir {

const Fact* csr_fact(const Program& program, const Array& pointer) {
  for (const Fact& fact : program.facts)
    if (fact.kind == FactKind::CsrPointer && fact.array == pointer) return &fact;
  return nullptr;
}

Entry entry_of(const Expr& bound) {
  if (const auto* cast = bound.as<Cast>(); cast && cast->a.type() == ScalarType::I32) return entry_of(cast->a);
  const auto* sum = bound.as<Binary>();
  if (!sum || (sum->op != BinaryOp::Add && sum->op != BinaryOp::Sub)) return {bound, 0};
  const bool adds = sum->op == BinaryOp::Add;
  const auto a = as_int(sum->a), b = as_int(sum->b);
  if (!b && !(a && adds)) return {bound, 0};
  Entry result = entry_of(b ? sum->a : sum->b);
  result.offset += b ? (adds ? *b : -*b) : *a;
  return result;
}

bool is_next_row(const Expr& row, const Expr& next) {
  const Entry from = entry_of(row), to = entry_of(next);
  if (from.base.type() != to.base.type()) return false;
  const auto between = distance(to.base, from.base);
  return between && *between + to.offset - from.offset == 1;
}

PointerBounds pointer_bounds(const Expr& lower, const Expr& upper) {
  const Entry first = entry_of(lower), last = entry_of(upper);
  const auto *start = first.base.as<Load>(), *end = last.base.as<Load>();
  const bool fits = start && end && start->array == end->array && is_integer(start->type) &&
                    start->indices.size() == 1 && end->indices.size() == 1 && first.offset >= 0 && last.offset <= 0;
  if (!fits) return {};
  return {start, end, first.offset == 0 && last.offset == 0};
}

RowLength row_length(const Expr& e) {
  const auto* difference = e.as<Binary>();
  if (!difference || difference->op != BinaryOp::Sub) return {};
  const Entry end = entry_of(difference->a), start = entry_of(difference->b);
  const auto *next = end.base.as<Load>(), *first = start.base.as<Load>();
  const bool fits = next && first && end.offset == 0 && start.offset == 0 && next->array == first->array &&
                    first->indices.size() == 1 && is_next_row(first->indices[0], next->indices[0]);
  return fits ? RowLength{first, next} : RowLength{};
}

Expr average_row(const Program& program, const Expr& lower, const Expr& upper) {
  const PointerBounds row = pointer_bounds(lower, upper);
  if (!row.start || !row.end || row.start->array != row.end->array) return {};
  const Fact* const csr = csr_fact(program, row.start->array);
  if (!csr || has_load(csr->upper)) return {};
  const Expr rows = larger(csr->array->shape[0] - int_const(1), int_const(1));
  return larger(binary(BinaryOp::FloorDiv, csr->upper, rows), int_const(1));
}

}  // namespace loopgrad::ir

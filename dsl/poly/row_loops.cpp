#include "dsl/poly/row_loops.h"

#include "dsl/poly/intersections.h"
#include "dsl/poly/relations.h"
#include "dsl/symbolic/csr_rows.h"

namespace loopgrad::poly {

using ir::Expr;

bool RowLoops::note(Place& place, const ir::For& node) const {
  const auto [lower, upper, whole] = ir::pointer_bounds(node.lower, node.upper);
  if (!lower) note_rest_of_row(place, node);
  if (!lower || !facts_.is_csr_pointer(lower->array)) return false;
  if (note_row_of_grid(place, *lower, *upper)) return whole;
  Abstraction abstraction(facts_);
  Expr row = abstraction.value(lower->indices[0]), next = abstraction.value(upper->indices[0]);
  if (!abstraction.exact()) return false;
  const Scope here = Scope{context_, place.iterators, ""};
  auto row_value = to_pw_aff(row, here), next_value = to_pw_aff(next - ir::int_const(1), here);
  if (!row_value || !next_value) return false;
  if (!checked(*context_, isl_pw_aff_is_equal(row_value->get(), next_value->get()))) return false;
  place.csr.push_back(
      {lower->array, static_cast<int>(place.iterators.size()) - 1, {row}, {}, !abstraction.symbols().empty()});
  return whole;
}

/// A loop from an entry that a loop around is at to the end of its row, or from the beginning of a row up to there.
void RowLoops::note_rest_of_row(Place& place, const ir::For& node) const {
  const ir::Entry first = ir::entry_of(node.lower), last = ir::entry_of(node.upper);
  const CsrLoop *from = row_at(place, first.base), *to = row_at(place, last.base);
  const bool starts = from ? first.offset >= 0 : to && first.offset >= 0 && is_end(place, first.base, *to, 0);
  const bool ends = to ? last.offset <= 1 : from && last.offset <= 0 && is_end(place, last.base, *from, 1);
  if (!starts || !ends) return;
  if (from && to && !(from->pointer == to->pointer && from->dim == to->dim)) return;
  CsrLoop part = from ? *from : *to;
  part.dim = static_cast<int>(place.iterators.size()) - 1;
  place.csr.push_back(std::move(part));
}

/// The loop over entries whose iterator this is, or null.
const CsrLoop* RowLoops::row_at(const Place& place, const Expr& entry) {
  const auto* variable = entry.as<ir::Var>();
  if (!variable) return nullptr;
  for (const CsrLoop& loop : place.csr)
    if (place.iterators[static_cast<std::size_t>(loop.dim)] == variable->symbol) return &loop;
  return nullptr;
}

/// Whether it is where a row begins (`after` is 0) or the next one does (1).
bool RowLoops::is_end(const Place& place, const Expr& bound, const CsrLoop& row, std::int64_t after) const {
  const auto* load = bound.as<ir::Load>();
  if (!load || load->array != row.pointer || row.row.size() != 1 || row.of_data) return false;
  Abstraction abstraction(facts_);
  const Expr found = abstraction.value(load->indices[0]);
  if (!abstraction.exact() || !abstraction.symbols().empty()) return false;
  const Scope here = Scope{context_, place.iterators, ""};
  const auto a = to_pw_aff(found, here), b = to_pw_aff(row.row[0] + ir::int_const(after), here);
  return a && b && checked(*context_, isl_pw_aff_is_equal(a->get(), b->get()));
}

/// The same where rows are numbered by hand as elements of a matrix are.
bool RowLoops::note_row_of_grid(Place& place, const ir::Load& lower, const ir::Load& upper) const {
  const Expr& position = lower.indices[0];
  if (!ir::is_next_row(position, upper.indices[0])) return false;
  ir::FlatIndices flat = numbering_;
  const ir::StridedTerms terms = flat.terms(position);
  std::set<ir::Stride> found = {ir::Stride()};
  for (const auto& [stride, rest] : terms.rests) found.insert(stride);
  const auto strides = ir::as_chain(found);
  if (!strides || strides->size() < 2) return false;
  std::vector<Expr> row = flat.indices(terms, *strides);
  for (std::size_t k = 0; k < row.size(); ++k) {
    Abstraction abstraction(facts_);
    row[k] = abstraction.value(row[k]);
    const Expr extent =
        k == 0 ? Expr() : abstraction.value(flat.product(*ir::quotient((*strides)[k - 1], (*strides)[k])));
    if (!abstraction.exact() || !abstraction.symbols().empty()) return false;
    if (extent && !stays_within(place, row[k], extent)) return false;
  }
  place.csr.push_back({lower.array,
                       static_cast<int>(place.iterators.size()) - 1,
                       std::move(row),
                       {strides->begin(), std::prev(strides->end())}});
  return true;
}

/// Whether a digit is one: in 0..extent wherever the loop starts.
bool RowLoops::stays_within(const Place& place, const Expr& digit, const Expr& extent) const {
  const Expr leaves = ir::binary(ir::BinaryOp::Or, ir::binary(ir::BinaryOp::Lt, digit, ir::int_const(0)),
                                 ir::binary(ir::BinaryOp::Ge, digit, extent));
  const isl::set points = points_of(Scope{context_, place.iterators, ""}, leaves, Abstraction(facts_));
  return intersection(place.domain, points).is_empty();  // places are of any program: without its assumptions
}

}  // namespace loopgrad::poly

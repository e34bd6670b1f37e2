#include "transforms/scatters.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/ranges.h"
#include "dsl/ir/structural_equal.h"
#include "transforms/linear_form.h"
#include "transforms/nest.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

namespace {

bool mentions_any(const Expr& e, const Loops& loops) {
  return std::any_of(loops.begin(), loops.end(), [&](const ir::For* loop) { return mentions(e, loop->iterator); });
}

bool bounds_mention(const ir::For& loop, const Loops& loops) {
  return mentions_any(loop.lower, loops) || mentions_any(loop.upper, loops);
}

bool bounds_load(const ir::For& loop) { return ir::has_load(loop.lower) || ir::has_load(loop.upper); }

/// The total of a CSR structure whose rows the loop runs over, one for each iteration of `rows`; null for other loops.
Expr entries_of(const ir::Program& program, const ir::For& loop, const ir::For& rows) {
  const auto entry = [](const Expr& bound) {
    const auto* cast = bound.as<ir::Cast>();
    return (cast ? cast->a : bound).as<ir::Load>();
  };
  const auto *first = entry(loop.lower), *last = entry(loop.upper);
  if (!first || !last || first->array != last->array || first->array->role != ir::ArrayRole::Input) return {};
  if (first->indices.size() != 1 || last->indices.size() != 1) return {};
  const Expr row = ir::var(rows.iterator);
  if (!same_value(first->indices[0], row) || !same_value(last->indices[0], row + ir::int_const(1))) return {};
  for (const ir::Fact& fact : program.facts)
    if (fact.kind == ir::FactKind::CsrPointer && fact.array == first->array)
      return ir::cast(ScalarType::I64, fact.upper);
  return {};
}

/// What the sequential loops are; nullopt where only data tells how often one runs.
std::optional<std::vector<ScatterFactor>> factors_of(const ir::Program& program, const Loops& loops) {
  std::vector<ScatterFactor> factors;
  for (std::size_t k = 0; k < loops.size(); ++k) {
    const ir::For& loop = *loops[k];
    if (const Expr entries = k > 0 ? entries_of(program, loop, *loops[k - 1]) : Expr{}) {
      factors.back() = {&loop, loops[k - 1], entries};
    } else if (bounds_load(loop) || bounds_mention(loop, loops)) {
      return std::nullopt;
    } else {
      const Expr trips = simplify_indices(loop.upper - loop.lower);
      const bool known = is_never_negative(program, trips);
      factors.push_back({&loop, nullptr, known ? trips : ir::larger(trips, ir::int_const(0))});
    }
  }
  return factors;
}

/// The loops of a perfect nest by what they are; false where they come in another order.
bool take_loops(const Stmt& nest, Scatter& scatter) {
  Stmt at = nest;
  for (const auto* loop = at.as<ir::For>(); loop; loop = at.as<ir::For>()) {
    const bool parallel = ir::is_parallel(loop->mode);
    if (!parallel && !scatter.inner.empty()) return false;
    if (!parallel) scatter.sequential.push_back(loop);
    else (scatter.sequential.empty() ? scatter.outer : scatter.inner).push_back(loop);
    at = loop->body;
  }
  scatter.leaf = at;
  scatter.sum = at.as<ir::Reduce>();
  return scatter.sum && !scatter.sequential.empty();
}

/// Whether the targets are the same for all iterations of the parallel loops, and nothing but the sum depends on it.
bool is_separable(const ir::Program& program, const Scatter& s) {
  const ir::Reduce& sum = *s.sum;
  if (sum.atomic || uses(sum.value, sum.array) || ir::aliased_arrays(program).count(sum.array)) return false;
  for (const Expr& index : sum.indices)
    if (uses(index, sum.array) || (ir::has_load(index) && !index.same_as(s.key()))) return false;
  if (mentions_any(s.key(), s.outer) || mentions_any(s.key(), s.inner)) return false;
  for (const ir::For* loop : s.sequential)
    if (bounds_mention(*loop, s.outer) || uses(loop->lower, sum.array) || uses(loop->upper, sum.array)) return false;
  for (const Loops* row : {&s.outer, &s.inner})
    for (const ir::For* loop : *row)
      if (bounds_load(*loop) || bounds_mention(*loop, s.sequential)) return false;
  return true;
}

}  // namespace

Expr Scatter::iterations() const {
  Expr product = ir::int_const(1);
  for (const ScatterFactor& factor : factors) product = product * factor.extent;
  return product;
}

Stmt Scatter::sum_into(const Expr& target, const std::vector<Expr>& iteration) const {
  const Stmt one = ir::rewrite(leaf, [&](const Expr& e) -> std::optional<Expr> {
    return ir::equal(e, key()) ? std::optional(ir::cast(e.type(), target)) : std::nullopt;
  });
  ir::Substitution values;
  for (std::size_t k = 0; k < sequential.size(); ++k) values[sequential[k]->iterator] = iteration[k];
  return ir::substitute(one, values);
}

std::optional<Scatter> scatter_in(const ir::Program& program, const Stmt& nest) {
  Scatter result;
  if (!take_loops(nest, result)) return std::nullopt;
  const auto& indices = result.sum->indices;
  const auto from_data = std::find_if(indices.begin(), indices.end(), ir::has_load);
  if (from_data == indices.end()) return std::nullopt;
  result.dimension = static_cast<std::size_t>(from_data - indices.begin());
  if (!is_separable(program, result)) return std::nullopt;
  auto factors = factors_of(program, result.sequential);
  if (!factors) return std::nullopt;
  result.factors = std::move(*factors);
  return result;
}

Stmt around(const Loops& loops, Stmt body) {
  for (auto loop = loops.rbegin(); loop != loops.rend(); ++loop) body = with_body(**loop, body);
  return body;
}

Stmt whole_loop(const ir::For& blocks, const ir::For& columns, const Stmt& body) {
  const auto width = coefficient_of(columns.lower, blocks.iterator);
  const auto* end = columns.upper.as<ir::Binary>();
  const auto* count = blocks.upper.as<ir::Binary>();
  if (!width || *width < 1 || !end || end->op != BinaryOp::Min || !count || count->op != BinaryOp::FloorDiv) return {};
  const Expr size = ir::int_const(*width), first = ir::substitute(columns.lower, {{blocks.iterator, ir::int_const(0)}});
  const bool a_is_last = !mentions(end->a, blocks.iterator);
  const Expr &last = a_is_last ? end->a : end->b, &block_end = a_is_last ? end->b : end->a;
  const bool covers = !mentions(last, blocks.iterator) && same_value(block_end, columns.lower + size) &&
                      ir::as_int(blocks.lower) == 0 && ir::as_int(count->b) == *width &&
                      same_value(count->a, last - first + size - ir::int_const(1));
  bool elsewhere = false;
  ir::walk(
      body, [](const Stmt&) {}, [&](const Expr& e) { elsewhere |= mentions(e, blocks.iterator); });
  if (!covers || elsewhere) return {};
  return ir::for_loop(columns.iterator, simplify_indices(first), last, body, ir::LoopMode::Parallel, columns.location);
}

}  // namespace loopgrad::transforms

#include "transforms/gpu/own_scatters.h"

#include "dsl/ir/rewriter.h"
#include "transforms/gpu/strides.h"
#include "transforms/nest.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

namespace {

constexpr std::int64_t most_owners = 512;  // warps that keep a large device busy without reading the indices too often

/// The sum that is all there is in a nest of parallel loops around sequential ones, and which index it scatters by.
struct Scatter {
  const ir::Reduce* sum = nullptr;
  Stmt leaf;
  std::size_t dimension = 0;
};

std::optional<Scatter> scatter_in(const ir::Program& program, const Stmt& nest) {
  bool sequential = false;
  std::vector<Expr> bounds;
  Stmt inner = nest;
  for (const auto* loop = inner.as<ir::For>(); loop; loop = inner.as<ir::For>()) {
    const bool parallel = is_parallel_loop(inner);
    if (parallel && (sequential || has_load(loop->lower) || has_load(loop->upper))) return std::nullopt;
    sequential |= !parallel;
    bounds.insert(bounds.end(), {loop->lower, loop->upper});
    inner = loop->body;
  }
  const auto* sum = inner.as<ir::Reduce>();
  if (!sequential || !sum || sum->atomic || uses(sum->value, sum->array)) return std::nullopt;
  for (const Expr& bound : bounds)
    if (uses(bound, sum->array)) return std::nullopt;
  for (const ir::Fact& fact : program.facts)
    if (fact.kind == ir::FactKind::MayAlias && (fact.array == sum->array || fact.other == sum->array))
      return std::nullopt;
  Scatter result{sum, inner, sum->indices.size()};
  for (std::size_t d = 0; d < sum->indices.size(); ++d) {
    if (uses(sum->indices[d], sum->array)) return std::nullopt;
    if (has_load(sum->indices[d])) result.dimension = std::min(result.dimension, d);
  }
  return result.dimension < sum->indices.size() ? std::optional(result) : std::nullopt;
}

Stmt owned(const Stmt& nest, const Scatter& scatter) {
  const ir::Symbol owner = ir::make_symbol("owner");
  const Expr extent = scatter.sum->array->shape[scatter.dimension], one = ir::int_const(1);
  const Expr owners = ir::binary(BinaryOp::Max, ir::binary(BinaryOp::Min, extent, ir::int_const(most_owners)), one);
  const Expr share = ir::binary(BinaryOp::FloorDiv, extent + (owners - one), owners);
  const Expr first = ir::var(owner) * share, index = scatter.sum->indices[scatter.dimension];
  const Expr mine =
      ir::binary(BinaryOp::And, ir::binary(BinaryOp::Le, first, index), ir::binary(BinaryOp::Lt, index, first + share));
  const Stmt guarded = ir::if_then(mine, scatter.leaf, {}, scatter.leaf->location);
  return ir::for_loop(owner, ir::int_const(0), owners, replace(nest, scatter.leaf, guarded), ir::LoopMode::Parallel,
                      nest->location);
}

}  // namespace

ir::Program own_scatters(const ir::Program& program) {
  return ir::with_body(program, ir::rewrite(program.body, {}, [&](const Stmt& s) -> std::optional<Stmt> {
                         const auto* loop = s.as<ir::For>();
                         if (!loop) return std::nullopt;
                         if (const auto scatter = scatter_in(program, s)) return owned(s, *scatter);
                         // Inside a parallel loop there are owners enough.
                         return is_parallel_loop(s) ? std::optional(s) : std::nullopt;
                       }));
}

}  // namespace loopgrad::transforms

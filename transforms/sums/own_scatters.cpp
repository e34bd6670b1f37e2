#include "transforms/sums/own_scatters.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/nest.h"
#include "transforms/analysis/strides.h"
#include "transforms/sums/keyed_loops.h"
#include "transforms/sums/scatters.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

namespace {

constexpr std::int64_t most_owners = 512;  // blocks that keep a large device busy without reading the indices too often
constexpr std::int64_t segments = 1024;    // of the indices, that a block looks through together
constexpr std::int64_t segment_width = 16;  // iterations in each, where they are not loops themselves

/// The sum that is all there is in a nest of parallel loops around sequential ones, and which index it scatters by.
struct OwnedSum {
  const ir::Reduce* sum = nullptr;
  Stmt leaf;
  std::size_t dimension = 0;
};

std::optional<OwnedSum> sum_in(const ir::Program& program, const Stmt& nest) {
  bool sequential = false;
  std::vector<Expr> bounds;
  std::vector<ir::Symbol> iterators;
  Stmt inner = nest;
  for (const auto* loop = inner.as<ir::For>(); loop; loop = inner.as<ir::For>()) {
    const bool parallel = is_parallel_loop(inner);
    if (parallel && (sequential || has_load(loop->lower) || has_load(loop->upper))) return std::nullopt;
    sequential |= !parallel;
    bounds.insert(bounds.end(), {loop->lower, loop->upper});
    iterators.push_back(loop->iterator);
    inner = loop->body;
  }
  const auto* sum = inner.as<ir::Reduce>();
  if (!sequential || !sum || sum->atomic || may_read_target(sum->value, *sum, iterators)) return std::nullopt;
  for (const Expr& bound : bounds)
    if (may_read_target(bound, *sum, iterators)) return std::nullopt;
  if (ir::aliased_arrays(program).count(sum->array)) return std::nullopt;
  OwnedSum result{sum, inner, sum->indices.size()};
  for (std::size_t d = 0; d < sum->indices.size(); ++d) {
    if (may_read_target(sum->indices[d], *sum, iterators)) return std::nullopt;
    if (has_load(sum->indices[d])) result.dimension = std::min(result.dimension, d);
  }
  return result.dimension < sum->indices.size() ? std::optional(result) : std::nullopt;
}

/// The range of targets of one owner, and what it does.
struct Owner {
  ir::Symbol number = ir::make_symbol("owner");
  Expr count, share;

  explicit Owner(const OwnedSum& scatter) {
    const Expr extent = scatter.sum->array->shape[scatter.dimension], one = ir::int_const(1);
    count = ir::binary(BinaryOp::Max, ir::binary(BinaryOp::Min, extent, ir::int_const(most_owners)), one);
    share = ir::binary(BinaryOp::FloorDiv, extent + (count - one), count);
  }
  /// then, if the element is among the owner's.
  Stmt guarded(const OwnedSum& scatter, const Stmt& then) const {
    const Expr first = ir::var(number) * share, index = scatter.sum->indices[scatter.dimension];
    const Expr mine = ir::binary(BinaryOp::And, ir::binary(BinaryOp::Le, first, index),
                                 ir::binary(BinaryOp::Lt, index, first + share));
    return ir::if_then(mine, then, {}, scatter.leaf->location);
  }
  Stmt loop(Stmt body, const SourceLocation& where) const {
    return ir::for_loop(number, ir::int_const(0), count, std::move(body), ir::LoopMode::Parallel, where);
  }
};

/// The iterations of segment `place` of the loop, `width` in each.
Stmt segment_of(const ir::For& loop, const Expr& place, std::int64_t width, const Stmt& body) {
  const Expr distance = place * ir::int_const(width);
  Expr lower = loop.lower + distance, upper = lower + ir::int_const(width);
  if (loop.mode == ir::LoopMode::Backward) {
    upper = loop.upper - distance;
    lower = ir::binary(BinaryOp::Max, upper - ir::int_const(width), loop.lower);
  } else {
    upper = ir::binary(BinaryOp::Min, upper, loop.upper);
  }
  return ir::for_loop(loop.iterator, lower, upper, body, loop.mode, loop.location);
}

/// With parallel loops around the sequential ones: a block looks for the segments in which there is something of its
/// own, all threads together, before the threads of the parallel loops go through these.
Stmt owned_in_segments(const OwnedSum& scatter, const std::vector<const ir::For*>& parallel, const ir::For& loop) {
  const Owner owner(scatter);
  const SourceLocation& where = loop.location;
  const Expr zero = ir::int_const(0), one = ir::int_const(1), all = ir::int_const(segments);
  const std::int64_t width = loop.body.same_as(scatter.leaf) ? segment_width : 1;
  const Expr trips = loop.upper - loop.lower;
  const auto pieces = [&](std::int64_t size) {
    return ir::binary(BinaryOp::FloorDiv, trips + ir::int_const(size - 1), ir::int_const(size));
  };
  const Expr used = ir::binary(BinaryOp::Min, pieces(width), all);
  const ir::Array any = ir::make_array("any", ScalarType::I64, {all}, ir::ArrayRole::Local, where);
  const ir::Symbol round = ir::make_symbol("round"), look = ir::make_symbol("segment"), s = ir::make_symbol("segment");
  auto segment = [&](const ir::Symbol& place, const Stmt& then) {
    const Stmt body = replace(loop.body, scatter.leaf, owner.guarded(scatter, then));
    return ir::with_fresh_names(segment_of(loop, ir::var(round) * all + ir::var(place), width, body));
  };
  const Stmt found = segment(look, ir::assign(any, {ir::var(look)}, one, where));
  const Stmt search = ir::for_loop(look, zero, used, ir::block({ir::assign(any, {ir::var(look)}, zero, where), found}),
                                   ir::LoopMode::Parallel, where);
  const Expr has = ir::binary(BinaryOp::Ne, ir::load(any, {ir::var(s)}), zero);
  Stmt sums = ir::for_loop(s, zero, used, ir::if_then(has, segment(s, scatter.leaf)), ir::LoopMode::Forward, where);
  for (auto it = parallel.rbegin(); it != parallel.rend(); ++it) sums = with_body(**it, sums);
  const Stmt body =
      ir::for_loop(round, zero, pieces(segments * width), ir::block({search, sums}), ir::LoopMode::Forward, where);
  return owner.loop(ir::allocate(any, body, where), where);
}

Stmt owned(const ir::Program& program, const Stmt& nest, const OwnedSum& scatter) {
  std::vector<const ir::For*> parallel;
  const auto* loop = nest.as<ir::For>();
  for (; loop->mode == ir::LoopMode::Parallel; loop = loop->body.as<ir::For>()) parallel.push_back(loop);
  const bool bounds_known = !has_load(loop->lower) && !has_load(loop->upper);
  bool same_for_all = true;  // which targets there are does not depend on the parallel loops
  for (const ir::For* outer : parallel) {
    same_for_all &= !mentions(scatter.sum->indices[scatter.dimension], outer->iterator);
    ir::walk_stmts(nest, [&](const Stmt& s) {
      if (const auto* f = s.as<ir::For>())
        same_for_all &= !mentions(f->lower, outer->iterator) && !mentions(f->upper, outer->iterator);
    });
  }
  if (!parallel.empty() && bounds_known && same_for_all) {
    const Stmt in_segments = owned_in_segments(scatter, parallel, *loop);
    std::vector<Expr> asked = {scatter.sum->indices[scatter.dimension]};
    ir::walk_stmts(loop->body, [&](const Stmt& s) {
      if (const auto* inner = s.as<ir::For>()) asked.insert(asked.end(), {inner->lower, inner->upper});
    });
    const IndexRanges ranges = ranges_in(program);
    if (can_be_asked_for(program, ranges, asked) && !divides_by_no_zero(program, ranges, asked)) return in_segments;
    // What is looked for outside of these loops need not exist where they make no trip.
    if (const Expr run = all_run(program, parallel)) return ir::if_then(run, in_segments, {}, nest->location);
  }
  const Owner owner(scatter);
  return owner.loop(replace(nest, scatter.leaf, owner.guarded(scatter, scatter.leaf)), nest->location);
}

}  // namespace

std::optional<Stmt> owned_scatter(const ir::Program& program, const Stmt& nest) {
  const auto scatter = sum_in(program, nest);
  return scatter ? std::optional(owned(program, nest, *scatter)) : std::nullopt;
}

}  // namespace loopgrad::transforms

#include "transforms/map/gpu/shared_nest.h"

#include "dsl/ir/queries.h"
#include "transforms/analysis/contiguous.h"
#include "transforms/analysis/nest.h"
#include "transforms/analysis/strides.h"
#include "transforms/loops/loop_builder.h"

#include <algorithm>
#include <set>
#include <vector>

namespace loopgrad::transforms {

using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

namespace {

constexpr std::int64_t least_lanes = 8, most_lanes = 256;

/// As long as a size is: no band, nor a row whose length data say.
bool is_long(const ir::For& loop) { return ir::as_int(loop.lower) && loop.upper.as<ir::Var>(); }

/// A loop inside touches memory in a better order, and is no row of data's length where this one is long: few threads
/// would have a part in one.
bool prefers_inner(const Analysed& program, const ir::For& loop) {
  bool better = false;
  ir::walk_stmts(loop.body, [&](const Stmt& s) {
    const auto* inner = s.as<ir::For>();
    if (better || !inner || has_few_trips(*inner)) return;
    if (is_long(loop) && (has_load(inner->lower) || has_load(inner->upper))) return;
    const int own = coalescing_score(inner->body, loop.iterator);
    const int other = coalescing_score(loop.body, inner->iterator);
    better = other > 0 && other > own && shared_sums(program, s);
  });
  return better;
}

/// Whether the loop is as long in all iterations of these around it.
bool is_fixed_in(const std::vector<const ir::For*>& around, const ir::For& inner) {
  return !has_load(inner.lower) && !has_load(inner.upper) &&
         std::none_of(around.begin(), around.end(), [&](const ir::For* loop) {
           return mentions(inner.lower, loop->iterator) || mentions(inner.upper, loop->iterator);
         });
}

}  // namespace

bool has_few_trips(const ir::For& loop) {
  const auto trips = ir::as_int(loop.upper - loop.lower);
  return trips && *trips <= 4;
}

SharedNest nest_to_share(const Analysed& program, const Stmt& s, const std::vector<SharedSum>& sums) {
  const auto& loop = *s.as<ir::For>();
  if (!prefers_inner(program, loop)) return {s};
  SharedNest best;
  int best_score = 0;
  std::vector<const ir::For*> around = {&loop};
  for (Stmt inner = loop.body; inner.as<ir::For>(); inner = around.back()->body) {
    const ir::For* const outer = around.back();
    const auto& n = *inner.as<ir::For>();
    const bool is_fixed = is_fixed_in(around, n);
    around.push_back(&n);
    const int score = coalescing_score(loop.body, n.iterator);
    if (score <= best_score || has_few_trips(n)) continue;
    const auto own = shared_sums(program, inner);
    auto is_known = [&](const SharedSum& sum) {
      return std::any_of(sums.begin(), sums.end(), [&](const SharedSum& other) { return other.array == sum.array; });
    };
    if (!own || own->empty() || !std::all_of(own->begin(), own->end(), is_known)) continue;
    best = {inner, is_fixed ? outer : nullptr};
    best_score = score;
  }
  return best;
}

Stmt parallel_loop_inside(const ir::For& loop) {
  std::set<ir::Array> scalars, read;
  Stmt s = loop.body;
  for (const auto* local = s.as<ir::Allocate>(); local; local = s.as<ir::Allocate>()) {
    if (!local->array->shape.empty()) return {};
    scalars.insert(local->array);
    s = local->body;
  }
  std::vector<Stmt> list = {s};
  if (const auto* block = s.as<ir::Block>()) list = block->body;
  const Stmt inner = list.back();
  if (!is_parallel_loop(inner) || has_few_trips(*inner.as<ir::For>()) || !is_fixed_in({&loop}, *inner.as<ir::For>()))
    return {};
  list.pop_back();
  for (const Stmt& one : list) {
    const auto* assign = one.as<ir::Assign>();
    if (!assign || !scalars.count(assign->array)) return {};
    ir::walk(assign->value, [&](const Expr& e) {
      if (const auto* load = e.as<ir::Load>()) read.insert(load->array);
    });
  }
  // What one thread stores in the loop another one may not have read yet.
  bool changes = false;
  ir::walk_stmts(inner, [&](const Stmt& child) {
    for_each_store(child, [&](const ir::Array& array, const auto&) { changes |= read.count(array) > 0; });
  });
  return changes ? Stmt() : inner;
}

Expr lanes_along(const ir::For& shared, const Expr& threads) {
  const bool chunks = shift_for_chunks(shared.body, shared.iterator, shared.lower).has_value();
  const Expr extent = ceil_div(shared.upper - shared.lower, number(chunks ? chunk_width : 1));
  return ir::binary(BinaryOp::Min, threads_for(extent, least_lanes, most_lanes), threads);
}

}  // namespace loopgrad::transforms

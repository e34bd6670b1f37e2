#include "transforms/map/gpu/row_classes.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "transforms/analysis/nest.h"
#include "transforms/loops/loop_builder.h"
#include "transforms/map/gpu/lane_groups.h"
#include "transforms/map/gpu/spread_loops.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

namespace {

constexpr std::int64_t short_row = 256;  // iterations that a warp does while others wait for nothing
constexpr std::int64_t few_threads = 32, many_threads = 512;
constexpr std::int64_t most_groups = 1024;  // blocks that look for long rows

/// Calls f(loop) for the outermost loops of a length from data in `s`. False where one stands behind a condition, or
/// where there are loops of data's length inside of it, or while loops.
template <class F>
bool for_each_row_loop(const Stmt& s, F&& f) {
  if (!s || !ir::contains_loop(s)) return true;
  if (const auto* n = s.as<ir::Block>())
    return std::all_of(n->body.begin(), n->body.end(), [&](const Stmt& child) { return for_each_row_loop(child, f); });
  if (const auto* n = s.as<ir::Allocate>()) return for_each_row_loop(n->body, f);
  const auto* loop = s.as<ir::For>();
  if (!loop) return false;
  if (!has_load(loop->lower) && !has_load(loop->upper)) return for_each_row_loop(loop->body, f);
  if (!has_length_from_data(*loop)) return false;
  f(*loop);
  bool fits = true;
  ir::walk_stmts(loop->body, [&](const Stmt& inner) {
    const auto* n = inner.as<ir::For>();
    fits &= inner.kind() != ir::Kind::While && (!n || (!has_load(n->lower) && !has_load(n->upper)));
  });
  return fits;
}

Stmt long_rows(const ParallelNest& nest, const RaggedRows& ragged, const Stmt& body, std::int64_t limit,
               std::int64_t count) {
  const ir::For& rows = *ragged.rows;
  const SourceLocation& where = rows.location;
  const ir::Symbol groups = ir::make_symbol("groups"), group = ir::make_symbol("group");
  const ir::Symbol each = ir::make_symbol("rows_of_each"), k = ir::make_symbol("row"), t = ir::make_symbol("t");
  const ir::Array longest = ir::make_array("longest", ScalarType::I64, {}, ir::ArrayRole::Local, where);
  const ir::Array part = ir::make_array("longest_part", ScalarType::I64, {}, ir::ArrayRole::Local, where);
  const Expr zero = number(0), most = number(limit);
  const Expr length = ir::cast(ScalarType::I64, ragged.length);
  // The iteration of the loop over rows, under the name `own`, that is number `i` of the group's.
  auto row = [&](const ir::Symbol& own, const ir::Symbol& i, const Stmt& s) {
    const Expr first = rows.lower + ir::var(group) + ir::var(i) * ir::var(groups);
    return ir::chunk_loop(own, {first, {}, rows.upper}, 1, s, where);
  };
  const ir::Symbol mine = ir::make_symbol("row"), seen = ir::make_symbol(rows.iterator.name);
  const Expr its_length = ir::substitute(length, {{rows.iterator, ir::var(seen)}});
  const Stmt look = every_nth(mine, ir::var(t), ir::var(each), number(count),
                              row(seen, mine, ir::reduce(part, {}, ir::ReduceOp::Max, its_length, where)), where);
  const Stmt share =
      ir::allocate(part,
                   ir::block({ir::assign(part, {}, zero, where), look,
                              ir::reduce(longest, {}, ir::ReduceOp::Max, ir::load(part, {}), where, true)}),
                   where);
  const Stmt all =
      ir::for_loop(k, zero, ir::var(each),
                   row(rows.iterator, k, ir::if_then(ir::binary(BinaryOp::Lt, most, length), body, {}, where)),
                   ir::LoopMode::Forward, where);
  Stmt block = ir::block({ir::assign(longest, {}, zero, where), threads_loop(t, number(count), share, where),
                          ir::if_then(ir::binary(BinaryOp::Lt, most, ir::load(longest, {})), all, {}, where)});
  block = ir::allocate(longest, block, where);
  block = grid_loop(group, zero, ir::var(groups), block, where);
  std::vector<const ir::For*> others = nest.loops;
  others.erase(std::find(others.begin(), others.end(), &rows));
  const Expr extent = rows.upper - rows.lower;
  block = let(each, ceil_div(extent, ir::binary(BinaryOp::Max, ir::var(groups), number(1))), in_grid(others, block));
  return let(groups, ir::binary(BinaryOp::Min, extent, number(most_groups)), block);
}

}  // namespace

std::optional<RaggedRows> ragged_rows(const ir::Program& program, const ParallelNest& nest) {
  RaggedRows result;
  Expr lower, upper;
  bool same = true;
  const bool fits = for_each_row_loop(nest.body, [&](const ir::For& loop) {
    same &= !lower || (ir::equal(loop.lower, lower) && ir::equal(loop.upper, upper));
    lower = loop.lower;
    upper = loop.upper;
    std::vector<ir::Symbol> inside = {loop.iterator};
    ir::walk_stmts(loop.body, [&](const Stmt& s) {
      const auto* inner = s.as<ir::For>();
      if (!inner) return;
      const Expr trips = inner->upper - inner->lower;
      same &= nest.fits(*inner) &&
              std::none_of(inside.begin(), inside.end(), [&](const ir::Symbol& i) { return mentions(trips, i); });
      inside.push_back(inner->iterator);
      result.inside = result.inside ? ir::binary(BinaryOp::Max, result.inside, trips) : trips;
    });
  });
  if (!fits || !same || !lower) return std::nullopt;
  // Nothing inside the nest may decide about the length.
  bool known = true;
  const std::set<ir::Array> aliases = ir::aliased_arrays(program);
  ir::walk_stmts(nest.body, [&](const Stmt& s) {
    if (const auto* loop = s.as<ir::For>())
      known &= !mentions(lower, loop->iterator) && !mentions(upper, loop->iterator);
    for_each_store(s, [&](const ir::Array& array, const std::vector<Expr>&) {
      known &= !uses(lower, array) && !uses(upper, array) && !aliases.count(array);
    });
  });
  for (const ir::For* loop : nest.loops) {
    if (!mentions(lower, loop->iterator) && !mentions(upper, loop->iterator)) continue;
    known &= !result.rows;
    result.rows = loop;
  }
  if (!known || !result.rows) return std::nullopt;
  result.length = upper - lower;
  return result;
}

Stmt row_classes(const Analysed& program, const ParallelNest& nest, const RaggedRows& ragged,
                 std::int64_t fixed_threads, std::int64_t enough_threads) {
  // A test that takes a small device has small rows.
  const std::int64_t limit = std::min(short_row, std::max<std::int64_t>(enough_threads / short_row, 2));
  const std::int64_t few = fixed_threads ? fixed_threads : few_threads;
  const std::int64_t many = fixed_threads ? fixed_threads : many_threads;
  const Expr is_short = ir::binary(BinaryOp::Le, ragged.length, number(limit));
  const Stmt by_few = ir::if_then(is_short, spread_ragged(program, nest.body, few));
  const Stmt by_many = spread_ragged(program, nest.body, many);
  return ir::block({long_rows(nest, ragged, by_many, limit, many), ir::with_fresh_names(in_grid(nest.loops, by_few))});
}

}  // namespace loopgrad::transforms

#include "transforms/map/gpu/lane_groups.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/contiguous.h"
#include "transforms/analysis/nest.h"
#include "transforms/analysis/strides.h"
#include "transforms/loops/loop_builder.h"
#include "transforms/map/gpu/lockstep.h"
#include "transforms/map/gpu/shared_sums.h"
#include "transforms/map/gpu/spread_loops.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

namespace {

constexpr std::int64_t most_lanes = 32;

std::vector<Stmt> children_of(const Stmt& body) {
  const auto* block = body.as<ir::Block>();
  return block ? block->body : std::vector<Stmt>{body};
}

/// The loop sums into elements that only depend on what is around it, by statements without loops, and does nothing
/// else.
bool only_sums(const Analysed& program, const Stmt& s, const ir::For& loop) {
  if (is_parallel_loop(s) || contains_loop(loop.body)) return false;
  const auto sums = shared_sums(program, s);
  if (!sums || sums->empty()) return false;
  bool only = true;
  ir::walk_stmts(loop.body, [&](const Stmt& child) {
    only &= child.kind() != ir::Kind::Allocate;
    for_each_store(child, [&](const ir::Array& array, const std::vector<Expr>& indices) {
      only &= !indices.empty();
      only &= std::any_of(sums->begin(), sums->end(), [&](const SharedSum& sum) { return sum.array == array; });
    });
  });
  return only;
}

class LaneGroups {
 public:
  LaneGroups(const Analysed& program, const ir::For& loop, std::int64_t threads)
      : program_(program), loop_(loop), threads_(number(threads)), all_threads_(threads) {
    width_ = chunk_width;
    for (const Stmt& child : children_of(loop.body)) {
      const auto* sums = child.as<ir::For>();
      if (!sums || ir::as_int(loop.lower) != 0 || shift_for_chunks(sums->body, loop.iterator, loop.lower) != 0)
        width_ = sums ? 1 : width_;
    }
    start_ = loop.lower + ir::var(piece_) * at_once();
  }

  Stmt code() {
    std::vector<Stmt> sums, after;
    for (const Stmt& child : children_of(loop_.body)) {
      const auto* loop = child.as<ir::For>();
      if (loop) take(child, *loop, sums, after);
      else after.push_back(child);
    }
    Stmt body = ir::block({ir::block(std::move(sums)), combined(ir::block(std::move(after)))});
    body = ir::for_loop(piece_, number(0), ceil_div(loop_.upper - loop_.lower, at_once()), body, ir::LoopMode::Forward,
                        loop_.location);
    const Expr lanes = threads_for(ceil_div(loop_.upper - loop_.lower, number(width_)), 1, most_lanes);
    body = let(lanes_, lanes, let(groups_, div(threads_, lanes), body));
    for (const ir::Array& part : parts_) body = ir::allocate(part, body, part->location);
    return body;
  }

 private:
  /// Iterations that the lanes take in one go.
  Expr at_once() const { return ir::var(lanes_) * number(width_); }

  /// Adds the loop's share of all threads to `sums`, and what makes the shares one to `after`.
  void take(const Stmt& s, const ir::For& loop, std::vector<Stmt>& sums, std::vector<Stmt>& after) {
    const std::vector<SharedSum> shared = *shared_sums(program_, s);
    const PartialSums partial = redirect_sums(shared, loop.body, "_part");
    const ir::Symbol t = ir::make_symbol("t");
    const Expr lane = mod(ir::var(t), ir::var(lanes_)), group = div(ir::var(t), ir::var(lanes_));
    const Chunk own = {start_ + lane * number(width_), {}, loop_.upper};

    std::vector<Stmt> begin, end, groups, add, finish;
    std::vector<ir::Array> totals;
    const ir::Symbol g = ir::make_symbol("group");
    for (std::size_t k = 0; k < shared.size(); ++k) {
      const SharedSum& sum = shared[k];
      const ir::Array part = ir::make_array(sum.array->name + "_parts", sum.array->type,
                                            {number(all_threads_ * width_)}, ir::ArrayRole::Local, sum.location);
      parts_.push_back(part);
      begin.push_back(ir::assign(partial.parts[k], {}, ir::identity_of(sum.op, sum.array->type), sum.location));
      const Expr place = ir::var(t) * number(width_) + (ir::var(loop_.iterator) - own.start);
      end.push_back(ir::assign(part, {place}, ir::load(partial.parts[k], {}), sum.location));
      const Expr from = ir::var(g) * at_once() + (ir::var(loop_.iterator) - start_);
      const ir::Array total =
          ir::make_array(sum.array->name + "_all", sum.array->type, {}, ir::ArrayRole::Local, sum.location);
      totals.push_back(total);
      groups.push_back(ir::assign(total, {}, ir::identity_of(sum.op, sum.array->type), sum.location));
      add.push_back(ir::reduce(total, {}, sum.op, ir::load(part, {from}), sum.location));
      finish.push_back(ir::reduce(sum.array, sum.indices, sum.op, ir::load(total, {}), sum.location));
    }
    begin.push_back(
        every_nth(loop.iterator, loop.lower + group, loop.upper, ir::var(groups_), partial.body, loop.location));
    begin.insert(begin.end(), end.begin(), end.end());
    Stmt body = ir::block(std::move(begin));
    for (const ir::Array& part : partial.parts) body = ir::allocate(part, body, part->location);
    body = width_ > 1 ? lockstep(loop_.iterator, own, width_, body, loop_.location)
                      : chunk_loop(loop_.iterator, own, 1, body, loop_.location);
    sums.push_back(ir::with_fresh_names(threads_loop(t, threads_, body, loop.location)));
    // What has not been assigned need not exist, or have a value, when the loop is empty.
    groups.push_back(
        ir::for_loop(g, number(0), ir::var(groups_), ir::block(std::move(add)), ir::LoopMode::Forward, loop.location));
    groups.insert(groups.end(), finish.begin(), finish.end());
    Stmt all = ir::block(std::move(groups));
    for (const ir::Array& total : totals) all = ir::allocate(total, all, total->location);
    after.push_back(ir::if_then(ir::binary(BinaryOp::Lt, loop.lower, loop.upper), all, {}, loop.location));
  }

  /// Everything but the long loops, each iteration by a thread.
  Stmt combined(const Stmt& body) const {
    const ir::Symbol t = ir::make_symbol("t"), j = ir::make_symbol(loop_.iterator.name);
    const Expr end = ir::binary(BinaryOp::Min, start_ + at_once(), loop_.upper);
    const Stmt own = ir::substitute(body, {{loop_.iterator, ir::var(j)}});
    return ir::with_fresh_names(
        threads_loop(t, threads_, every_nth(j, start_ + ir::var(t), end, threads_, own, loop_.location)));
  }

  const Analysed program_;
  const ir::For& loop_;
  const Expr threads_;
  const std::int64_t all_threads_;
  const ir::Symbol piece_ = ir::make_symbol("piece"), lanes_ = ir::make_symbol("lanes");
  const ir::Symbol groups_ = ir::make_symbol("lane_groups");  // of as many threads
  std::int64_t width_ = 1;
  Expr start_;
  std::vector<ir::Array> parts_;
};

}  // namespace

bool has_length_from_data(const ir::For& loop) { return has_load(loop.lower) && has_load(loop.upper); }

bool fits_lane_groups(const Analysed& program, const ir::For& loop) {
  if (loop.mode != ir::LoopMode::Parallel || has_load(loop.lower) || has_load(loop.upper)) return false;
  const int own_score = coalescing_score(loop.body, loop.iterator);
  bool any = false;
  std::set<ir::Array> stored;
  const std::set<ir::Array> aliases = ir::aliased_arrays(program);
  for (const Stmt& child : children_of(loop.body)) {
    const auto* sums = child.as<ir::For>();
    if (!sums) {
      if (contains_loop(child) || child.kind() == ir::Kind::Allocate || child.kind() == ir::Kind::While) return false;
    } else {
      if (!has_length_from_data(*sums) || mentions(sums->lower, loop.iterator) || mentions(sums->upper, loop.iterator))
        return false;
      if (own_score <= 0 || coalescing_score(loop.body, sums->iterator) > own_score) return false;
      if (!only_sums(program, child, *sums)) return false;
      // All long loops come first: they may not need what other statements give.
      for (const ir::Array& array : stored)
        if (ir::reads(child, array) || aliases.count(array)) return false;
      any = true;
    }
    stored.merge(stored_in(child));
  }
  return any;
}

Stmt lane_groups(const Analysed& program, const ir::For& loop, std::int64_t threads) {
  return LaneGroups(program, loop, threads).code();
}

}  // namespace loopgrad::transforms

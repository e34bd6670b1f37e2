#include "transforms/gpu/map_to_gpu.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "transforms/gpu/contiguous.h"
#include "transforms/gpu/forward_elements.h"
#include "transforms/gpu/fuse_nests.h"
#include "transforms/gpu/hoist_parallel_loops.h"
#include "transforms/gpu/join_scalars.h"
#include "transforms/gpu/keep_last_elements.h"
#include "transforms/gpu/keep_rows.h"
#include "transforms/gpu/launch_loops.h"
#include "transforms/gpu/lockstep.h"
#include "transforms/gpu/long_sums.h"
#include "transforms/gpu/name_constants.h"
#include "transforms/gpu/parallel_nest.h"
#include "transforms/gpu/repeat_scalars.h"
#include "transforms/gpu/sort_scatters.h"
#include "transforms/gpu/split_kernels.h"
#include "transforms/gpu/spread_loops.h"
#include "transforms/gpu/strides.h"
#include "transforms/gpu/unroll_short_loops.h"
#include "transforms/gpu/update_once.h"
#include "transforms/linear_form.h"
#include "transforms/nest.h"
#include "transforms/search_loops.h"
#include "transforms/unswitch.h"

#include <algorithm>
#include <limits>
#include <map>

namespace loopgrad::transforms {

using ir::BinaryOp;
using ir::Expr;
using ir::LoopMode;
using ir::Stmt;

namespace {

constexpr std::int64_t usual_threads = 256;     // of a block in which each thread works on its own
constexpr std::int64_t stencil_threads_x = 64;  // along x when threads take columns: neighbours along y share a block
constexpr std::int64_t tile_threads_x = 8;      // along x when threads take tiles: 128 bytes in one access
constexpr std::int64_t most_row_threads = 512;  // of a block that keeps rows: more leave each too few registers
constexpr std::int64_t usual_row = 1024;        // trips of a loop whose bounds depend on loops around it
constexpr std::int64_t most_host_trips = 4096;  // more launches in a row cost more than one block working alone
constexpr std::int64_t most_repeating = 64;     // iterations that may compute for themselves what all need
constexpr std::int64_t short_sum = 4096;        // trips that one block has done before two kernels have started

/// Iterations for which blocks may read elements far apart.
std::int64_t most_rows(std::int64_t enough_threads) { return std::max<std::int64_t>(enough_threads / 8, 1); }

Expr at_least(const Expr& a, std::int64_t b) { return ir::binary(BinaryOp::Ge, a, number(b)); }

/// A power of two near `extent`, within bounds.
Expr threads_for(const Expr& extent, std::int64_t least, std::int64_t most) {
  Expr result = number(least);
  for (std::int64_t t = 2 * least; t <= most; t *= 2)
    result = ir::select(ir::binary(BinaryOp::Gt, extent, number(t / 2)), number(t), result);
  return result;
}

using Nest = ParallelNest;

class Mapper {
 public:
  Mapper(const ir::Program& program, const GpuMapping& options)
      : program_(program),
        options_(options),
        enough_threads_(options.enough_threads),
        fixed_threads_(options.threads_per_block),
        flat_threads_(fixed_threads_ ? fixed_threads_ : usual_threads) {}

  /// Code that the host runs: a sequence of launches.
  Stmt host(const Stmt& s) {
    if (ir::is_empty(s)) return s;
    if (const auto* n = s.as<ir::Block>()) return host_block(*n);
    if (const auto* n = s.as<ir::Allocate>()) return ir::allocate(n->array, host(n->body), n->location);
    if (const auto* n = s.as<ir::If>(); n && !has_load(n->condition)) return host_branch(*n);
    if (const auto* n = s.as<ir::Contraction>()) return ir::with_loops(*n, host(n->loops));
    const auto* loop = s.as<ir::For>();
    if (!loop || has_load(loop->lower) || has_load(loop->upper)) return one_block(s);
    if (loop->mode == LoopMode::Parallel) return map_nest(without_contractions(s));
    return host_loop(s, *loop);
  }

 private:
  static bool is_scalar_work(const Stmt& s) { return s.kind() == ir::Kind::Assign || s.kind() == ir::Kind::Reduce; }

  /// `shared_sums` of a loop, which takes dependence analysis, found once.
  const std::optional<std::vector<SharedSum>>& sums_of(const Stmt& loop) const {
    const auto [found, is_new] = sums_.try_emplace(loop.get());
    if (is_new) found->second = {loop, shared_sums(program_, loop)};
    return found->second.second;
  }

  /// A sequential loop that only sums into one element or a few.
  bool is_lone_sum(const Stmt& s) const {
    const auto* loop = s.as<ir::For>();
    if (!loop || loop->mode == LoopMode::Parallel || has_load(loop->lower) || has_load(loop->upper)) return false;
    if (contains_parallel_loop(loop->body) || has_contraction(s)) return false;
    const auto& sums = sums_of(s);
    return sums && !sums->empty();
  }

  Stmt host_branch(const ir::If& n) {
    const std::size_t before = below_.size();
    note_below(n.condition);
    const Stmt taken = host(n.then_body);
    below_.resize(before);
    return ir::if_then(n.condition, taken, host(n.else_body), n.location);
  }

  void note_below(const Expr& condition) {
    const auto* n = condition.as<ir::Binary>();
    if (!n) return;
    if (n->op == BinaryOp::And) {
      note_below(n->a);
      note_below(n->b);
    } else if (const auto limit = ir::as_int(n->b); limit && n->op == BinaryOp::Lt) {
      below_.emplace_back(n->a, *limit);
    }
  }

  /// Whether a condition around says so.
  bool is_below(const Expr& value, std::int64_t limit) const {
    return std::any_of(below_.begin(), below_.end(),
                       [&](const auto& known) { return known.second <= limit && same_value(known.first, value); });
  }

  /// Single assignments in a row share a kernel, with short sums among them too.
  Stmt host_block(const ir::Block& n) {
    std::vector<Stmt> result;
    for (std::size_t i = 0; i < n.body.size();) {
      std::vector<Stmt> run;
      bool sums = false;
      for (; i < n.body.size() && (is_scalar_work(n.body[i]) || is_lone_sum(n.body[i])); ++i) {
        run.push_back(n.body[i]);
        sums |= !is_scalar_work(n.body[i]);
      }
      if (sums) result.push_back(summed(run));
      else if (!run.empty()) result.push_back(one_block(ir::block(run)));
      if (i < n.body.size() && run.empty()) result.push_back(host(n.body[i++]));
    }
    return ir::block(std::move(result));
  }

  /// Single assignments and sums in a row: by one block while all the sums are short, else each sum by many.
  Stmt summed(const std::vector<Stmt>& run) {
    Expr is_short;
    std::vector<Stmt> apart;
    for (const Stmt& s : run) {
      if (is_scalar_work(s)) {
        apart.push_back(one_block(s));
        continue;
      }
      const auto& loop = *s.as<ir::For>();
      const Expr own = ir::binary(BinaryOp::Le, loop.upper - loop.lower, number(short_sum));
      is_short = is_short ? ir::binary(BinaryOp::And, is_short, own) : own;
      apart.push_back(long_sum(loop, *sums_of(s), flat_threads_));
    }
    return ir::if_then(is_short, one_block(ir::block(run)), ir::with_fresh_names(ir::block(std::move(apart))));
  }

  /// for i: if c: body, where c is known before the loop: the host asks once. Null where it is not that.
  Stmt unswitched(const Stmt& s, const ir::For& loop) const {
    const auto* branch = loop.body.as<ir::If>();
    if (!branch || branch->else_body || has_load(branch->condition) || mentions(branch->condition, loop.iterator))
      return {};
    const Stmt once = ir::if_then(branch->condition, with_body(loop, branch->then_body), {}, branch->location);
    const ir::Program candidate = ir::with_body(program_, replace(program_.body, s, once));
    return Mapper(candidate, options_).host(once);
  }

  Stmt host_loop(const Stmt& s, const ir::For& loop) {
    if (const Stmt once = unswitched(s, loop)) return once;
    if (!contains_parallel_loop(loop.body)) {
      if (has_contraction(s)) return host(without_contractions(s));
      if (const auto& sums = sums_of(s)) return sums->empty() ? map_nest(s) : summed({s});
      return one_block(s);
    }
    const Stmt launches =
        ir::for_loop(loop.iterator, loop.lower, loop.upper, host(loop.body), loop.mode, loop.location);
    const Expr trips = loop.upper - loop.lower;
    const auto known = loop.at_most ? ir::as_int(loop.at_most) : distance(loop.upper, loop.lower);
    if (known && *known <= most_host_trips) return launches;
    return ir::if_then(ir::binary(BinaryOp::Le, trips, number(most_host_trips)), launches,
                       ir::with_fresh_names(one_block(s)), loop.location);
  }

  /// Everything at or below `s` by the threads of one block.
  Stmt one_block(const Stmt& s) {
    const Stmt own = without_contractions(s);
    const Expr threads = number(can_spread(program_, own) ? flat_threads_ : 1);
    return grid_loop(ir::make_symbol("b"), number(0), number(1), spread_loops(program_, own, threads), s->location);
  }

  // Parallel nests.

  Stmt map_nest(const Stmt& s) {
    const Nest nest = parallel_nest(s);
    Expr total = number(1);
    for (const ir::For* loop : nest.loops) total = total * (loop->upper - loop->lower);
    if (!can_spread(program_, nest.body)) return flat(nest, total);
    int own = std::numeric_limits<int>::min(), inside = own;
    for (const ir::For* loop : nest.loops) own = std::max(own, coalescing_score(nest.body, loop->iterator));
    ir::walk_stmts(nest.body, [&](const Stmt& child) {
      const auto* loop = child.as<ir::For>();
      if (loop && (loop->mode == LoopMode::Parallel || sums_of(child)))
        inside = std::max(inside, coalescing_score(nest.body, loop->iterator));
    });
    // Neighbouring threads of the nest itself meet neighbouring elements: rows only help where they do not.
    if (inside > own && own <= 0) return rows(s, nest);
    // A block for each iteration would read elements far apart: worth it only when there are few.
    const std::int64_t enough = inside < own ? most_rows(enough_threads_) : enough_threads_;
    if (is_below(total, enough)) return rows(s, nest);
    return ir::if_then(at_least(total, enough), flat(nest, total), ir::with_fresh_names(rows(s, nest)));
  }

  /// One thread for each iteration, or for a few of them. Where these few share the loops inside, only if there are
  /// threads enough without them.
  Stmt flat(Nest nest, const Expr& total) {
    nest.body = update_once(program_, nest.body);
    const auto shared = one_each(nest, true);
    if (!shared.uses_lockstep || !contains_loop(nest.body)) return shared.kernel;
    return ir::if_then(at_least(total, chunk_width * enough_threads_), shared.kernel,
                       ir::with_fresh_names(one_each(nest, false).kernel));
  }

  /// How many iterations one thread takes along x and y.
  struct Tile {
    std::int64_t x = 1, y = 1;
    std::int64_t shift = 0;  // how far before the loop along x the first chunk begins
    bool lockstep = false;   // see lockstep.h
    std::optional<std::vector<const ir::For*>::iterator> rows;  // the loop along y when that is more than one
    const ir::For* column = nullptr;  // a loop of which each thread takes a few iterations, one of x
  };

  static Tile tile_of(Nest& nest, const ir::For& x, bool share_loops) {
    for (auto it = nest.loops.begin(); it + 1 != nest.loops.end(); ++it)
      if (gains_from_tiles(nest.body, (*it)->iterator, x.iterator)) return {chunk_width, chunk_width, 0, false, it};
    if (const auto shift = shift_for_chunks(nest.body, x.iterator, x.lower)) return {chunk_width, 1, *shift, false, {}};
    const auto shift = share_loops ? shift_for_lockstep(nest.body, x.iterator, x.lower) : std::nullopt;
    if (shift) return {chunk_width, 1, *shift, true, {}};
    if (nest.loops.size() < 2) return {};
    if (gains_from_more_loads(nest.body)) return {1, 1, 0, true, {}, column_of(nest)};
    const ir::For* y = nest.loops.end()[-2];
    return {1, 1, 0, false, {}, is_stencil(nest.body, y->iterator) ? y : nullptr};
  }

  /// The outermost loop along which neighbours are read, as blocks of threads hold those along the others; else that
  /// of y.
  static const ir::For* column_of(const Nest& nest) {
    for (auto it = nest.loops.begin(); it + 1 != nest.loops.end(); ++it)
      if (reads_neighbours(nest.body, (*it)->iterator)) return *it;
    return nest.loops.end()[-2];
  }

  struct FlatKernel {
    Stmt kernel;
    bool uses_lockstep = false;
  };

  FlatKernel one_each(Nest nest, bool share_loops) {
    // Along x runs the loop with the best order, the innermost of equals.
    const auto best = nest.loops.begin() + static_cast<std::ptrdiff_t>(best_along_threads(nest.body, nest.loops));
    std::rotate(best, best + 1, nest.loops.end());

    Tile tile = tile_of(nest, *nest.loops.back(), share_loops);
    if (tile.rows && writes_along_outer(nest.body, (**tile.rows)->iterator, nest.loops.back()->iterator)) {
      std::iter_swap(*tile.rows, nest.loops.end() - 1);
      tile = tile_of(nest, *nest.loops.back(), share_loops);
    }
    const ir::For& x = *nest.loops.back();
    if (tile.rows) std::rotate(*tile.rows, *tile.rows + 1, nest.loops.end() - 1);
    const ir::For* y = nest.loops.size() > 1 ? nest.loops[nest.loops.size() - 2] : nullptr;
    const ir::For* column = tile.column;
    const ir::Symbol tx = ir::make_symbol("threads_x"), ty = ir::make_symbol("threads_y");
    const Expr threads_x = y ? ir::var(tx) : number(flat_threads_);
    const ir::Symbol block_x = ir::make_symbol("block_x"), thread_x = ir::make_symbol("thread_x");
    const ir::Symbol block_y = ir::make_symbol("block_y"), thread_y = ir::make_symbol("thread_y");
    const ir::Symbol block_c = ir::make_symbol("chunk"), blocks_c = ir::make_symbol("chunks");
    Stmt body = nest.body;
    auto take = [&](const ir::For& loop, const Expr& which, std::int64_t width, std::int64_t shift) {
      const Expr start = loop.lower - number(shift) + which * number(width);
      const Chunk own = {start, shift > 0 ? loop.lower : Expr(), loop.upper};
      body = tile.lockstep && width > 1 ? lockstep(loop.iterator, own, width, body, loop.location)
                                        : chunk_loop(loop.iterator, own, width, body, loop.location);
    };
    const Expr which_y = ir::var(block_y) * ir::var(ty) + ir::var(thread_y);
    // A column is inside x, which its iterations share.
    const std::int64_t few = column_width(nest.body);
    if (column) take(*column, column == y ? which_y : ir::var(block_c), few, 0);
    take(x, ir::var(block_x) * threads_x + ir::var(thread_x), tile.x, tile.shift);
    if (y && column != y) take(*y, which_y, tile.y, 0);
    body = threads_loop(thread_x, threads_x, body);
    if (y) body = threads_loop(thread_y, ir::var(ty), body);
    // The host divides, once, and not every thread.
    const ir::Symbol blocks_x = ir::make_symbol("blocks_x"), blocks_y = ir::make_symbol("blocks_y");
    body = grid_loop(block_x, number(0), ir::var(blocks_x), body, x.location);
    if (y) body = grid_loop(block_y, number(0), ir::var(blocks_y), body, y->location);
    for (std::size_t k = nest.loops.size() - (y ? 2 : 1); k-- > 0;) {
      const ir::For& loop = *nest.loops[k];
      body = &loop == column ? grid_loop(block_c, number(0), ir::var(blocks_c), body, loop.location)
                             : grid_loop(loop.iterator, loop.lower, loop.upper, body, loop.location);
    }
    body = let(blocks_x, ceil_div(x.upper - x.lower + number(tile.shift), threads_x * number(tile.x)), body);
    if (!y) return {body, tile.lockstep};
    const std::int64_t width_y = column == y ? few : tile.y;
    body = let(blocks_y, ceil_div(y->upper - y->lower, ir::var(ty) * number(width_y)), body);
    if (column && column != y) body = let(blocks_c, ceil_div(column->upper - column->lower, number(few)), body);
    body = let(ty, ir::binary(BinaryOp::FloorDiv, number(flat_threads_), ir::var(tx)), body);
    const std::int64_t most_x = column && column != y ? std::min(stencil_threads_x, flat_threads_) : flat_threads_;
    const Expr wanted =
        tile.y > 1 ? number(tile_threads_x) : threads_for(ceil_div(x.upper - x.lower, number(tile.x)), 4, most_x);
    return {let(tx, wanted, body), tile.lockstep};
  }

  /// The longest extent of a loop inside that threads can share; null when data decides about all of them.
  Expr inner_extent(const Nest& nest) const {
    Expr extent;
    bool some_unknown = false;
    std::vector<ir::Symbol> inner;
    ir::walk_stmts(nest.body, [&](const Stmt& s) {
      const auto* loop = s.as<ir::For>();
      if (!loop) return;
      bool known = nest.fits(*loop);
      for (const ir::Symbol& symbol : inner) known &= !mentions(loop->lower, symbol) && !mentions(loop->upper, symbol);
      inner.push_back(loop->iterator);
      if (!sums_of(s) || has_load(loop->lower) || has_load(loop->upper)) return;
      some_unknown |= !known;
      if (!known) return;
      const Expr trips = loop->upper - loop->lower;
      extent = extent ? ir::binary(BinaryOp::Max, extent, trips) : trips;
    });
    return extent || !some_unknown ? extent : number(usual_row);
  }

  /// One block for each iteration of the nest `s`, its threads on the loops inside. What it adds to one element goes to
  /// memory once.
  Stmt rows(const Stmt& s, const Nest& nest) {
    const Stmt once = update_once(program_, nest.body);
    if (once.same_as(nest.body)) return rows(nest);
    const Stmt updated = replace(s, nest.body, once);
    const ir::Program candidate = ir::with_body(program_, replace(program_.body, s, updated));
    return Mapper(candidate, options_).rows(parallel_nest(updated));
  }

  Stmt rows(const Nest& nest) {
    const ir::Symbol threads = ir::make_symbol("threads");
    const Expr extent = inner_extent(nest);
    // About four elements for each thread.
    const Expr count = fixed_threads_ ? number(fixed_threads_)
                       : extent       ? threads_for(ceil_div(extent, number(4)), 32, usual_threads)
                                      : number(64);
    const Stmt body = in_grid(nest, spread_loops(program_, nest.body, ir::var(threads)));
    const Stmt plain = let(threads, count, body);
    const std::optional<KeptRows> kept = keep_rows(program_, nest);
    if (!kept) return plain;

    const ir::Symbol keepers = ir::make_symbol("threads");
    const Expr share = ceil_div(kept->rows.length, number(kept_per_thread));
    const Expr few = fixed_threads_ ? number(fixed_threads_) : threads_for(share, 32, most_row_threads);
    const Stmt keeping = spread_rows(kept->program, kept->body, ir::var(keepers), kept->rows);
    const std::int64_t most = kept_per_thread * (fixed_threads_ ? fixed_threads_ : most_row_threads);
    return ir::if_then(ir::binary(BinaryOp::Le, kept->rows.length, number(most)),
                       let(keepers, few, in_grid(nest, keeping)), ir::with_fresh_names(plain));
  }

  static Stmt in_grid(const Nest& nest, Stmt body) {
    for (auto it = nest.loops.rbegin(); it != nest.loops.rend(); ++it)
      body = grid_loop((*it)->iterator, (*it)->lower, (*it)->upper, body, (*it)->location);
    return body;
  }

  const ir::Program& program_;
  std::vector<std::pair<Expr, std::int64_t>> below_;  // values and what the host knows them to be less than
  mutable std::map<const ir::StmtNode*, std::pair<Stmt, std::optional<std::vector<SharedSum>>>> sums_;
  const GpuMapping options_;
  const std::int64_t enough_threads_;
  const std::int64_t fixed_threads_;  // of each block, by the user; 0: as fits the loops
  const std::int64_t flat_threads_;
};

}  // namespace

ir::Program map_to_gpu(const ir::Program& program, const GpuMapping& options) {
  if (ir::is_empty(program.body) || ir::uses_stack(program.body)) return program;
  const ir::Program split = join_scalars(split_kernels(hoist_parallel_loops(search_loops(program))));
  const ir::Program fused = keep_last_elements(fuse_nests(unroll_short_loops(split)));
  const ir::Program repeated = repeat_scalars(fused, std::max(most_rows(options.enough_threads), most_repeating));
  const ir::Program chosen = unswitch_kernels(forward_elements(repeated));
  const ir::Program sorted = sort_scatters(chosen, options.enough_threads);
  return ir::with_body(sorted, name_constants(Mapper(sorted, options).host(sorted.body)));
}

}  // namespace loopgrad::transforms

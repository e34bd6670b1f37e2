#include "transforms/map/gpu/thread_kernels.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/contiguous.h"
#include "transforms/analysis/strides.h"
#include "transforms/loops/loop_builder.h"
#include "transforms/map/gpu/lockstep.h"
#include "transforms/map/gpu/register_tile.h"
#include "transforms/storage/update_once.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::Expr;
using ir::Stmt;

namespace {

constexpr std::int64_t stencil_threads_x = 64;  // along x when threads take columns: neighbours along y share a block
constexpr std::int64_t tile_threads_x = 8;      // along x when threads take tiles: 128 bytes in one access
constexpr std::int64_t shared_threads_x = 32;   // along x when threads along y load the same elements

constexpr std::int64_t least_along_y = 16;  // with fewer iterations threads of a block are left over

// Statements of a thread that take longer than a wide access saves, where few threads have them to do.
constexpr std::size_t many_leaves = 24;

constexpr std::int64_t wide_tile = 16, narrow_tile = 32;  // sums of a thread, with wide accesses and without

/// What a thread may take.
struct Wanted {
  bool shares_loops;   // iterations that share the loops inside, with wide accesses
  bool copies;         // and such that share what they load
  bool chunks = true;  // neighbours, with wide accesses
};

/// How many iterations one thread takes.
struct Tile {
  std::int64_t x = 1, y = 1;
  std::int64_t shift = 0;                                     // how far before the loop along x the first chunk begins
  bool lockstep = false;                                      // see lockstep.h
  std::optional<std::vector<const ir::For*>::iterator> rows;  // the loop along y when that is more than one
  const ir::For* column = nullptr;  // a loop of which each thread takes a few iterations, one of x
};

/// The outermost loop along which neighbours are read, as blocks of threads hold those along the others; else that
/// of y.
const ir::For* column_of(const ParallelNest& nest) {
  for (auto it = nest.loops.begin(); it + 1 != nest.loops.end(); ++it)
    if (reads_neighbours(nest.body, (*it)->iterator)) return *it;
  return nest.loops.end()[-2];
}

Tile tile_of(ParallelNest& nest, const ir::For& x, const Wanted& wanted) {
  if (!wanted.chunks) return {};
  for (auto it = nest.loops.begin(); it + 1 != nest.loops.end(); ++it)
    if (gains_from_tiles(nest.body, (*it)->iterator, x.iterator)) return {chunk_width, chunk_width, 0, false, it};
  if (const auto shift = shift_for_chunks(nest.body, x.iterator, x.lower)) return {chunk_width, 1, *shift, false, {}};
  const auto shift = wanted.shares_loops ? shift_for_lockstep(nest.body, x.iterator, x.lower) : std::nullopt;
  if (shift) return {chunk_width, 1, *shift, true, {}};
  if (nest.loops.size() < 2) return {};
  if (gains_from_more_loads(nest.body)) return {1, 1, 0, true, {}, column_of(nest)};
  const ir::For* y = nest.loops.end()[-2];
  return {1, 1, 0, false, {}, is_stencil(nest.body, y->iterator) ? y : nullptr};
}

/// One kernel.
class ThreadKernel {
 public:
  ThreadKernel(ParallelNest nest, const Wanted& wanted, std::int64_t block) : nest_(std::move(nest)), block_(block) {
    // Along x runs the loop with the best order, the innermost of equals.
    auto& loops = nest_.loops;
    const auto best = loops.begin() + static_cast<std::ptrdiff_t>(best_along_threads(nest_.body, loops));
    std::rotate(best, best + 1, loops.end());
    tile_ = tile_of(nest_, *loops.back(), wanted);
    if (tile_.rows && writes_along_outer(nest_.body, (**tile_.rows)->iterator, loops.back()->iterator)) {
      std::iter_swap(*tile_.rows, loops.end() - 1);
      tile_ = tile_of(nest_, *loops.back(), wanted);
    }
    if (wanted.copies && contains_loop(nest_.body)) {
      const bool wide_x = tile_.lockstep && tile_.x > 1;
      copies_ = register_tile(nest_.body, {loops, loops, loops.back(), wide_x, wide_x ? wide_tile : narrow_tile});
    }
    if (tile_.rows) std::rotate(*tile_.rows, *tile_.rows + 1, loops.end() - 1);
    else if (!tile_.column) take_long_y();
  }

  bool takes_chunks() const { return tile_.x * tile_.y > 1; }
  bool shares_loops() const { return tile_.lockstep && contains_loop(nest_.body); }
  const std::vector<TiledLoop>& copies() const { return copies_; }
  /// Of the nest's iterations, those that one thread takes.
  std::int64_t iterations() const { return iterations_of(copies_) * (shares_loops() ? tile_.x : 1); }

  Stmt kernel() const {
    const ir::For& x = *nest_.loops.back();
    const ir::For* y = nest_.loops.size() > 1 ? nest_.loops[nest_.loops.size() - 2] : nullptr;
    const ir::For* column = tile_.column;
    const ir::Symbol tx = ir::make_symbol("threads_x"), ty = ir::make_symbol("threads_y");
    const Expr threads_x = y ? ir::var(tx) : number(block_);
    const ir::Symbol block_x = ir::make_symbol("block_x"), thread_x = ir::make_symbol("thread_x");
    const ir::Symbol block_y = ir::make_symbol("block_y"), thread_y = ir::make_symbol("thread_y");
    const Expr which_y = ir::var(block_y) * ir::var(ty) + ir::var(thread_y);
    // What blocks take several iterations of, apart from x and y: which chunk, of how many.
    std::map<const ir::For*, Chunks> chunks;
    Stmt body = nest_.body;
    // A column is inside x, which its iterations share, as are copies.
    for (const TiledLoop& t : copies_)
      body = copied(t, t.loop == y ? which_y : ir::var(chunks_of(*t.loop, chunks).which), body);
    if (column)
      body =
          taken(*column, column == y ? which_y : ir::var(chunks_of(*column, chunks).which), width_of(*column), 0, body);
    body = taken(x, ir::var(block_x) * threads_x + ir::var(thread_x), tile_.x, tile_.shift, body);
    if (y && column != y && width_of(*y) == tile_.y) body = taken(*y, which_y, tile_.y, 0, body);
    body = threads_loop(thread_x, threads_x, body);
    if (y) body = threads_loop(thread_y, ir::var(ty), body);
    // The host divides, once, and not every thread.
    const ir::Symbol blocks_x = ir::make_symbol("blocks_x"), blocks_y = ir::make_symbol("blocks_y");
    body = grid_loop(block_x, number(0), ir::var(blocks_x), body, x.location);
    if (y) body = grid_loop(block_y, number(0), ir::var(blocks_y), body, y->location);
    for (std::size_t k = nest_.loops.size() - (y ? 2 : 1); k-- > 0;) {
      const ir::For& loop = *nest_.loops[k];
      const auto own = chunks.find(&loop);
      body = own == chunks.end()
                 ? grid_loop(loop.iterator, loop.lower, loop.upper, body, loop.location)
                 : grid_loop(own->second.which, number(0), ir::var(own->second.count), body, loop.location);
    }
    body = let(blocks_x, ceil_div(x.upper - x.lower + number(tile_.shift), threads_x * number(tile_.x)), body);
    if (!y) return body;
    body = let(blocks_y, ceil_div(y->upper - y->lower, ir::var(ty) * number(width_of(*y))), body);
    for (const ir::For* loop : nest_.loops)
      if (const auto own = chunks.find(loop); own != chunks.end())
        body = let(own->second.count, ceil_div(loop->upper - loop->lower, number(width_of(*loop))), body);
    body = let(ty, ir::binary(ir::BinaryOp::FloorDiv, number(block_), ir::var(tx)), body);
    return let(tx, wanted_along_x(x, y), body);
  }

 private:
  /// Where the loop next to x is known to be too short for the threads along y, another one takes its place.
  void take_long_y() {
    auto& loops = nest_.loops;
    const auto is_short = [](const ir::For* loop) {
      const auto trips = distance(loop->upper, loop->lower);
      return trips && *trips < least_along_y;
    };
    if (loops.size() < 3 || !is_short(loops.end()[-2])) return;
    for (auto it = loops.end() - 2; it-- != loops.begin();) {
      if (is_short(*it)) continue;
      std::rotate(it, it + 1, loops.end() - 1);
      return;
    }
  }

  struct Chunks {
    ir::Symbol which, count;
  };

  /// Of a loop that is not x: iterations that a thread takes.
  std::int64_t width_of(const ir::For& loop) const {
    for (const TiledLoop& t : copies_)
      if (t.loop == &loop) return t.width;
    if (&loop == tile_.column) return column_width(nest_.body);
    return &loop == nest_.loops[nest_.loops.size() - 2] ? tile_.y : 1;
  }

  static const Chunks& chunks_of(const ir::For& loop, std::map<const ir::For*, Chunks>& chunks) {
    return chunks.try_emplace(&loop, Chunks{ir::make_symbol("chunk"), ir::make_symbol("chunks")}).first->second;
  }

  Stmt taken(const ir::For& loop, const Expr& which, std::int64_t width, std::int64_t shift, const Stmt& body) const {
    const Expr start = loop.lower - number(shift) + which * number(width);
    const Chunk own = {start, shift > 0 ? loop.lower : Expr(), loop.upper};
    return tile_.lockstep && width > 1 ? lockstep(loop.iterator, own, width, body, loop.location)
                                       : chunk_loop(loop.iterator, own, width, body, loop.location);
  }

  static Stmt copied(const TiledLoop& t, const Expr& which, const Stmt& body) {
    const ir::For& loop = *t.loop;
    const Chunk first = {loop.lower + which * number(t.width), {}, loop.upper};
    return chunk_loop(loop.iterator, first, 1, lockstep_copies(loop.iterator, loop.upper, t.width, body),
                      loop.location);
  }

  Expr wanted_along_x(const ir::For& x, const ir::For* y) const {
    if (tile_.y > 1) return number(tile_threads_x);
    const bool share = tile_.x > 1 && !copies_.empty();
    const std::int64_t most = share ? shared_threads_x : tile_.column && tile_.column != y ? stencil_threads_x : block_;
    return threads_for(ceil_div(x.upper - x.lower, number(tile_.x)), 4, std::min(most, block_));
  }

  ParallelNest nest_;
  const std::int64_t block_;
  Tile tile_;
  std::vector<TiledLoop> copies_;
};

}  // namespace

Stmt thread_kernels(const ir::Program& program, ParallelNest nest, const Expr& total, const ThreadShape& shape) {
  nest.body = update_once(program, nest.body);
  const ThreadKernel shared(nest, {true, false}, shape.block), tiled(nest, {true, true}, shape.block);
  Stmt result = shared.kernel();
  if (shared.shares_loops())
    result = ir::if_then(at_least(total, shared.iterations() * shape.enough), result,
                         ir::with_fresh_names(ThreadKernel(nest, {false, false}, shape.block).kernel()));
  else if (shared.takes_chunks() && leaves(nest.body).size() >= many_leaves)
    result = ir::if_then(at_least(total, shape.enough), result,
                         ir::with_fresh_names(ThreadKernel(nest, {false, false, false}, shape.block).kernel()));
  if (tiled.copies().empty()) return result;
  // Threads with many sums need not be as many: each has more under way.
  const std::int64_t enough = std::max<std::int64_t>(shape.enough / 2, 1) * (tiled.shares_loops() ? chunk_width : 1);
  const Expr fits = fill_device(tiled.copies(), total, enough);
  return ir::if_then(fits, tiled.kernel(), ir::with_fresh_names(result));
}

}  // namespace loopgrad::transforms

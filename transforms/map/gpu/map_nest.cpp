#include "transforms/map/gpu/map_nest.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/csr_rows.h"
#include "dsl/symbolic/linear_form.h"
#include "dsl/symbolic/ranges.h"
#include "transforms/analysis/analyses.h"
#include "transforms/analysis/average_row.h"
#include "transforms/analysis/nest.h"
#include "transforms/analysis/strides.h"
#include "transforms/loops/loop_builder.h"
#include "transforms/map/gpu/inner_work.h"
#include "transforms/map/gpu/keep_rows.h"
#include "transforms/map/gpu/lockstep.h"
#include "transforms/map/gpu/parallel_nest.h"
#include "transforms/map/gpu/register_tile.h"
#include "transforms/map/gpu/row_classes.h"
#include "transforms/map/gpu/row_pieces.h"
#include "transforms/map/gpu/shared_nest.h"
#include "transforms/map/gpu/spread_loops.h"
#include "transforms/map/gpu/thread_kernels.h"
#include "transforms/map/gpu/tile_dense_sums.h"
#include "transforms/storage/update_once.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

namespace loopgrad::transforms {

using ir::BinaryOp;
using ir::Expr;
using ir::LoopMode;
using ir::Stmt;

namespace {

constexpr std::int64_t usual_threads = 256;     // of a block in which each thread works on its own
constexpr std::int64_t most_row_threads = 512;  // of a block that keeps rows: more leave each too few registers
constexpr std::int64_t warp_threads = 32;
constexpr std::int64_t tile_trips = 16;       // of a loop that threads share, for each: they meet once for each sum
constexpr std::int64_t usual_row = 1024;      // trips of a loop whose bounds depend on loops around it
constexpr std::int64_t few_to_share = 16;     // trips of the longest loop inside, for which half of a warp is idle
constexpr std::int64_t threads_of_data = 64;  // of a block whose loops are as long as data make them
constexpr std::int64_t few_to_read = 64;      // the same where threads only read in it, which a cache serves: 33
                                              // terms of each of 6.6 million sums take 0.4 ms on an H100, by warps 2
constexpr std::int64_t few_rows = 16;         // where they are fewer than this part of the blocks that are enough,
                                              // blocks take pieces of them
constexpr std::int64_t most_inside = 128;     // trips that one thread does in each iteration over a ragged row

/// Iterations for which blocks may read elements far apart.
std::int64_t most_rows(std::int64_t enough_threads) { return std::max<std::int64_t>(enough_threads / 8, 1); }

using Nest = ParallelNest;

SourceLocation location_of(const Stmt& s) {
  const auto* block = s.as<ir::Block>();
  return block && !block->body.empty() ? location_of(block->body.front()) : s->location;
}

class NestMapper {
 public:
  NestMapper(const Analysed& program, PassContext& context, KnownLimits below)
      : program_(program),
        below_(std::move(below)),
        sums_(program),
        context_(context),
        enough_threads_(context.options.machine.enough_threads),
        fixed_threads_(context.options.threads_per_block),
        flat_threads_(flat_threads(context)) {}

  Stmt run(const Stmt& s) {
    const Nest nest = parallel_nest(s);
    const Expr rows = iterations_of(nest);
    const std::int64_t enough = most_rows(enough_threads_), few = std::max<std::int64_t>(enough / few_rows, 2);
    const ir::Symbol pieces = ir::make_symbol("pieces");
    const Stmt cut = ir::as_int(at_least(rows, few)) == 1 ? Stmt() : row_pieces(nest, ir::var(pieces));
    if (!cut) return map_whole(s);
    note(s, "row pieces",
         fmt::format("blocks for pieces of what data give a length, where there are fewer than {}", few));
    const ir::Program candidate = ir::with_body(program_, replace(program_->body, s, cut));
    const Stmt by_pieces = let(pieces, ceil_div(number(enough), ir::larger(rows, number(1))),
                               NestMapper({candidate, program_.analyses}, context_, {}).pieces_of_rows(cut));
    return ir::if_then(at_least(rows, few), map_whole(s), ir::with_fresh_names(by_pieces), s->location);
  }

 private:
  void note(const Stmt& s, const char* shape, const std::string& reason) { note_kernel(context_, s, shape, reason); }

  /// Whether a condition around says so.
  bool is_below(const Expr& value, std::int64_t limit) const {
    return std::any_of(below_.begin(), below_.end(),
                       [&](const auto& known) { return known.second <= limit && same_value(known.first, value); });
  }

  /// Nests that follow each other, with a block for each piece of a row.
  Stmt pieces_of_rows(const Stmt& s) {
    std::vector<Stmt> result;
    for (const Stmt& one : top_level(s)) {
      const Nest nest = parallel_nest(one);
      result.push_back(is_parallel_loop(nest.body) ? rows(one, nest) : map_whole(one));
    }
    return ir::block(std::move(result));
  }

  Stmt map_whole(const Stmt& s) {
    const Stmt otherwise = map_apart(s);
    return updated_once(s, parallel_nest(s),
                        [&](NestMapper& mapper, const Nest& nest) { return mapper.shared_tiles(s, nest, otherwise); });
  }

  Stmt shared_tiles(const Stmt& s, const Nest& nest, const Stmt& otherwise) {
    const std::int64_t usual = context_.options.machine.tile_threads;
    if (usual == 0 || !ir::contains_loop(nest.body) || nest.loops.size() < 2) return otherwise;
    const auto plain = [&](const Stmt& other) {
      const Nest own = parallel_nest(other);
      return thread_kernels(program_, own, iterations_of(own), {flat_threads_, enough_threads_});
    };
    const TiledSums tiled = tile_dense_sums(
        program_, nest, otherwise,
        {context_.options.expected_sizes, enough_threads_, fixed_threads_ ? fixed_threads_ : usual, plain});
    note(s, tiled.kernels ? "shared tiles" : "no shared tiles", tiled.reason);
    return tiled.kernels ? tiled.kernels : otherwise;
  }

  static Expr iterations_of(const Nest& nest) {
    Expr total = number(1);
    for (const ir::For* loop : nest.loops) total = total * (loop->upper - loop->lower);
    return total;
  }

  Stmt map_apart(const Stmt& s) {
    const Nest nest = parallel_nest(s);
    if (const auto team = team_of(nest.body); team && (!fixed_threads_ || fixed_threads_ == *team)) {
      note(s, "rows", fmt::format("a block of {} threads for each iteration, as its loops are written for", *team));
      return in_grid(nest.loops, spread_loops(program_, nest.body, number(*team)));
    }
    const Expr total = iterations_of(nest);
    const ThreadShape shape = {flat_threads_, enough_threads_};
    if (!can_spread(program_, nest.body)) {
      note(s, "threads", "a thread for each iteration: nothing in it can be shared out");
      return thread_kernels(program_, nest, total, shape);
    }
    int own = std::numeric_limits<int>::min(), inside = own;
    for (const ir::For* loop : nest.loops) own = std::max(own, coalescing_score(nest.body, loop->iterator));
    ir::walk_stmts(nest.body, [&](const Stmt& child) {
      const auto* loop = child.as<ir::For>();
      if (loop && (loop->mode == LoopMode::Parallel || sums_.of(child)))
        inside = std::max(inside, coalescing_score(nest.body, loop->iterator));
    });
    // Neighbouring threads of the nest itself meet neighbouring elements: rows only help where they do not, or where
    // some are much longer than others.
    const bool ragged = ragged_rows(program_, nest).has_value();
    if (inside > own && (own <= 0 || ragged)) {
      note(s, "rows",
           "a block for each iteration: neighbouring threads meet neighbouring elements in the loops inside");
      const Stmt by_rows = row_tiles(s, nest, total, rows(s, nest));
      return ragged ? by_rows : unless_few(s, nest, total, by_rows);
    }
    // A block for each iteration would read elements far apart: worth it only when there are few.
    const std::int64_t enough = inside < own ? most_rows(enough_threads_) : enough_threads_;
    note(s, "rows", fmt::format("a block for each iteration, where there are fewer than {}", enough));
    const std::int64_t some = most_rows(enough_threads_);
    const Expr lone =
        some < enough ? ir::binary(BinaryOp::And, at_least(total, some), little_to_share(nest)) : ir::bool_const(false);
    const bool never = ir::as_int(lone) == 0;
    if (is_below(total, enough) && never) return rows(s, nest);
    note(s, "threads",
         fmt::format("a thread for each iteration, where there are {} or more{}", enough,
                     never ? "" : fmt::format(", or {} with fewer than {} to share in each", some, few_to_share)));
    const Expr alone = ir::binary(BinaryOp::Or, at_least(total, enough), lone);
    const Stmt both =
        ir::if_then(alone, thread_kernels(program_, nest, total, shape), ir::with_fresh_names(rows(s, nest)));
    if (inside <= own) return both;
    const ir::For& x = *nest.loops[best_along_threads(nest.body, nest.loops)];
    return row_tiles(s, nest, total, both, x.upper - x.lower);
  }

  /// A condition of sizes: false where nothing is known of the loops inside.
  Expr little_to_share(const Nest& nest) const {
    Expr extent = inner_extent(nest);
    if (const Expr row = average_row_in(nest.body)) extent = extent ? ir::larger(extent, row) : row;
    return extent ? ir::binary(BinaryOp::Lt, extent, number(few_to_share)) : ir::bool_const(false);
  }

  /// Of the loops inside whose bounds data are; null where there are none of which it is known.
  Expr average_row_in(const Stmt& body) const {
    Expr longest;
    ir::walk_stmts(body, [&](const Stmt& s) {
      const auto* loop = s.as<ir::For>();
      const Expr row = loop ? average_row(program_, *loop) : Expr();
      if (row && host_knows(row)) longest = longest ? ir::larger(longest, row) : row;
    });
    return longest;
  }

  /// Where there is little to share in each of many iterations most threads of a block would have nothing to do.
  Stmt unless_few(const Stmt& s, const Nest& nest, const Expr& total, const Stmt& by_rows) {
    Expr extent = inner_extent(nest);
    if (!extent) extent = average_row_in(nest.body);
    const std::int64_t most = stores_along(nest.body) ? few_to_share : few_to_read;
    const Expr few = extent ? ir::binary(BinaryOp::Lt, extent, number(most)) : ir::bool_const(false);
    if (ir::as_int(few) == 0) return by_rows;
    note(s, "threads",
         fmt::format("a thread for each iteration, where fewer than {} are to share in each, and there are {} times as "
                     "many iterations",
                     most, std::max<std::int64_t>(enough_threads_ / few_to_share, 1)));
    const Stmt by_threads = thread_kernels(program_, nest, total, {flat_threads_, enough_threads_});
    // The fewer there are to share, the fewer iterations are enough.
    const Expr many =
        ir::binary(BinaryOp::Ge, total * number(few_to_share), ir::larger(extent, number(1)) * number(enough_threads_));
    return ir::if_then(ir::binary(BinaryOp::And, few, many), ir::with_fresh_names(by_threads), by_rows);
  }

  /// Whether iterations of a loop inside store to elements of their own.
  static bool stores_along(const Stmt& body) {
    bool found = false;
    const auto around = surroundings(body);
    for (const Stmt& leaf : leaves(body)) {
      for_each_store(leaf, [&](const ir::Array&, const std::vector<Expr>& indices) {
        for (const Stmt& s : around.at(leaf.get()))
          if (const auto* loop = s.as<ir::For>())
            for (const Expr& index : indices) found |= mentions(index, loop->iterator);
      });
    }
    return found;
  }

  /// The longest extent of a loop inside that threads can share, or a bound of it; null when data decides about all of
  /// them.
  Expr inner_extent(const Nest& nest) const {
    Expr extent;
    bool some_unknown = false;
    std::set<ir::Symbol> inside;  // iterators of the nest and of loops in it
    for (const ir::For* loop : nest.loops) inside.insert(loop->iterator);
    ir::walk_stmts(nest.body, [&](const Stmt& s) {
      const auto* loop = s.as<ir::For>();
      if (!loop) return;
      const auto is_fixed = [&](const Expr& e) {
        return std::none_of(inside.begin(), inside.end(),
                            [&](const ir::Symbol& symbol) { return mentions(e, symbol); });
      };
      const bool known = is_fixed(loop->lower) && is_fixed(loop->upper);
      // A block of iterations has no more than its share: block*share..min(block*share + share, n).
      const std::optional<Expr> width = ir::band_width(loop->lower, loop->upper, is_fixed);
      inside.insert(loop->iterator);
      if (!sums_.of(s)) return;
      if (!host_knows(loop->lower) || !host_knows(loop->upper)) {
        if (const Expr most = loop->at_most; most && is_fixed(most) && host_knows(most))
          extent = extent ? ir::larger(extent, most) : most;
        return;
      }
      some_unknown |= !known && !width;
      if (!known && !width) return;
      Expr trips = known ? number(1) : *width;
      std::vector<const ir::For*> as_one = {loop};
      if (known && is_parallel_loop(s)) as_one = short_nest(s);
      if (known)
        for (const ir::For* one : as_one) trips = trips * (one->upper - one->lower);
      const Expr groups = known && as_one.size() == 1 ? groups_of(s) : number(1);
      if (is_fixed(groups)) trips = trips * groups;
      extent = extent ? ir::larger(extent, trips) : trips;
    });
    return extent || !some_unknown ? extent : number(usual_row);
  }

  /// Trips of the loop inside `s` that neighbouring threads share, where groups of them share `s`.
  Expr groups_of(const Stmt& s) const {
    if (is_parallel_loop(s))
      if (const Stmt inner = parallel_loop_inside(*s.as<ir::For>()))
        return inner.as<ir::For>()->upper - inner.as<ir::For>()->lower;
    if (!s.as<ir::For>()->body.as<ir::For>()) return number(1);
    const SharedNest nest = nest_to_share(program_, s, *sums_.of(s));
    if (!nest.around || nest.around != s.as<ir::For>()) return number(1);
    const auto& shared = *nest.shared.as<ir::For>();
    return shared.upper - shared.lower;
  }

  /// The nest `s` with what it adds to one element going to memory once, made into a kernel by make(mapper, nest).
  template <class Make>
  Stmt updated_once(const Stmt& s, const Nest& nest, const Make& make) {
    const Stmt once = update_once(program_, nest.body);
    if (once.same_as(nest.body)) return make(*this, nest);
    const Stmt updated = replace(s, nest.body, once);
    const ir::Program candidate = ir::with_body(program_, replace(program_->body, s, updated));
    NestMapper mapper({candidate, program_.analyses}, context_, {});
    return make(mapper, parallel_nest(updated));
  }

  /// One block for each iteration of the nest `s`, its threads on the loops inside.
  Stmt rows(const Stmt& s, const Nest& nest) {
    return updated_once(s, nest, [](NestMapper& mapper, const Nest& updated) { return mapper.rows(updated); });
  }

  Stmt rows(const Nest& nest) {
    const auto ragged = ragged_rows(program_, nest);
    if (!ragged || keep_rows(program_, nest)) return even_rows(nest);
    const Stmt classes = row_classes(program_, nest, *ragged, fixed_threads_, enough_threads_);
    if (!ragged->inside) return classes;
    return ir::if_then(ir::binary(BinaryOp::Le, ragged->inside, number(most_inside)), classes,
                       ir::with_fresh_names(even_rows(nest)));
  }

  Stmt even_rows(const Nest& nest) {
    const ir::Symbol threads = ir::make_symbol("threads");
    const Expr extent = inner_extent(nest), row = extent ? Expr() : average_row_in(nest.body);
    // About four elements for each thread.
    const Expr count = fixed_threads_ ? number(fixed_threads_)
                       : extent       ? threads_for(ceil_div(extent, number(4)), 32, usual_threads)
                       : row          ? threads_for(ceil_div(row, number(4)), 32, threads_of_data)
                                      : number(threads_of_data);
    const Stmt body = in_grid(nest.loops, spread_loops(program_, nest.body, ir::var(threads)));
    const Stmt plain = let(threads, count, body);
    const std::optional<KeptRows> kept = keep_rows(program_, nest);
    if (!kept) return plain;

    const ir::Symbol keepers = ir::make_symbol("threads");
    const Expr share = ceil_div(kept->rows.length, number(kept_per_thread));
    const Expr few = fixed_threads_ ? number(fixed_threads_) : threads_for(share, 32, most_row_threads);
    const Stmt keeping = spread_rows({kept->program, program_.analyses}, kept->body, ir::var(keepers), kept->rows);
    const std::int64_t most = kept_per_thread * (fixed_threads_ ? fixed_threads_ : most_row_threads);
    Expr fits = ir::binary(BinaryOp::Le, kept->rows.length, number(most));
    if (const Expr alone = short_rows_alone(nest, kept->rows.length))
      fits = ir::binary(BinaryOp::And, fits, ir::unary(ir::UnaryOp::Not, alone));
    return ir::if_then(fits, let(keepers, few, in_grid(nest.loops, keeping)), ir::with_fresh_names(plain));
  }

  /// Where rows are so short that a warp has all of them, and a parallel loop inside is better done by a thread for
  /// each of its iterations, as a product of a matrix and the row: a condition; null: there is no such loop.
  Expr short_rows_alone(const Nest& nest, const Expr& length) const {
    Expr result;
    std::vector<ir::Symbol> inside;  // of whose values the host knows nothing
    for (const ir::For* loop : nest.loops) inside.push_back(loop->iterator);
    ir::walk_stmts(nest.body, [&](const Stmt& s) {
      if (const auto* loop = s.as<ir::For>()) inside.push_back(loop->iterator);
      if (const auto* loop = s.as<ir::While>()) inside.push_back(loop->iterator);
      const auto work = is_parallel_loop(s) ? inner_work(program_, *s.as<ir::For>()) : std::nullopt;
      if (!work) return;
      const Expr pays = own_iterations_pay(*s.as<ir::For>(), *work, number(warp_threads));
      if (std::any_of(inside.begin(), inside.end(), [&](const ir::Symbol& i) { return mentions(pays, i); })) return;
      result = result ? ir::binary(BinaryOp::Or, result, pays) : pays;
    });
    const Expr is_short = ir::binary(BinaryOp::Le, length, number(kept_per_thread * warp_threads));
    return result ? ir::binary(BinaryOp::And, is_short, result) : result;
  }

  /// The loop inside that threads share in a good order, and a bound of its trips; null: none.
  Expr trips_to_share(const Nest& nest) const {
    Expr trips;
    int best = 0;
    std::vector<ir::Symbol> around;
    for (const ir::For* loop : nest.loops) around.push_back(loop->iterator);
    ir::walk_stmts(nest.body, [&](const Stmt& s) {
      const auto* loop = s.as<ir::For>();
      if (!loop) return;
      const int score = coalescing_score(nest.body, loop->iterator);
      if (score > best && sums_.of(s)) {
        best = score;
        trips = most_trips(*loop, around);
      }
      around.push_back(loop->iterator);
    });
    return trips;
  }

  /// a > b, "0" where b is one of the values that a is the least of.
  static Expr is_greater(const Expr& a, const Expr& b) {
    if (ir::equal(a, b)) return number(0);
    const auto* n = a.as<ir::Binary>();
    if (n && n->op == BinaryOp::Min)
      for (const Expr& operand : {n->a, n->b})
        if (ir::as_int(is_greater(operand, b)) == 0) return number(0);
    return ir::binary(BinaryOp::Gt, a, b);
  }

  /// Where sums of the nest share what they load, a block for each tile of iterations, if there are blocks enough; else
  /// `otherwise`. `along_x`: trips that threads share there, of which those of a tile must share more; null: rows, too.
  Stmt row_tiles(const Stmt& s, const Nest& nest, const Expr& total, const Stmt& otherwise, const Expr& along_x = {}) {
    return updated_once(s, nest, [&](NestMapper& mapper, const Nest& updated) {
      return mapper.row_tiles(updated, total, otherwise, along_x);
    });
  }

  Stmt row_tiles(const Nest& nest, const Expr& total, const Stmt& otherwise, const Expr& along_x) {
    const std::vector<TiledLoop> tile = register_tile(nest.body, {nest.loops, nest.loops});
    const Expr trips = tile.empty() ? Expr() : trips_to_share(nest);
    if (!trips || keep_rows(program_, nest)) return otherwise;
    for (const TiledLoop& t : tile)
      context_.report.kernels.push_back(
          {t.loop->iterator.name, t.loop->location, "row tiles",
           fmt::format("{} iterations share what their sums load, where blocks are enough", t.width)});
    Expr fits = fill_device(tile, total, std::max<std::int64_t>(enough_threads_ / warp_threads, 1));
    if (along_x) {
      const Expr more = is_greater(trips, along_x);
      if (ir::as_int(more) == 0) return otherwise;
      const Expr for_all = at_least(trips, std::min(warp_threads / 2, enough_threads_));
      fits = ir::binary(BinaryOp::And, fits, ir::binary(BinaryOp::And, for_all, more));
    }
    const ir::Symbol threads = ir::make_symbol("threads");
    Stmt body = spread_loops(program_, nest.body, ir::var(threads));
    std::map<const ir::For*, std::pair<ir::Symbol, ir::Symbol>> chunks;  // for loops with tiles: which, and how many
    for (const TiledLoop& t : tile) {
      const ir::For& loop = *t.loop;
      const ir::Symbol chunk = ir::make_symbol("chunk");
      const Expr first = loop.lower + ir::var(chunk) * number(t.width);
      body = let(loop.iterator, first, lockstep_copies(loop.iterator, loop.upper, t.width, body));
      chunks[&loop] = {chunk, ir::make_symbol("chunks")};
    }
    for (auto it = nest.loops.rbegin(); it != nest.loops.rend(); ++it) {
      const ir::For& n = **it;
      const auto chunk = chunks.find(&n);
      if (chunk == chunks.end()) body = grid_loop(n.iterator, n.lower, n.upper, body, n.location);
      else body = grid_loop(chunk->second.first, number(0), ir::var(chunk->second.second), body, n.location);
    }
    for (const TiledLoop& t : tile)
      body = let(chunks[t.loop].second, ceil_div(t.loop->upper - t.loop->lower, number(t.width)), body);
    // Two warps where there is work for them: they wait for memory in turn.
    const Expr all = ir::binary(BinaryOp::Min, trips, number(2 * warp_threads));
    const Expr share = ir::binary(BinaryOp::Max, ceil_div(trips, number(tile_trips)), all);
    const Expr count = fixed_threads_ ? number(fixed_threads_) : threads_for(share, warp_threads, usual_threads);
    return ir::if_then(fits, let(threads, count, body), ir::with_fresh_names(otherwise));
  }

  const Analysed program_;
  const KnownLimits below_;
  const KnownSums sums_;
  PassContext& context_;
  const std::int64_t enough_threads_;
  const std::int64_t fixed_threads_;  // of each block, by the user; 0: as fits the loops
  const std::int64_t flat_threads_;
};

}  // namespace

Stmt map_nest(const Analysed& program, const Stmt& nest, PassContext& context, const KnownLimits& below) {
  return NestMapper(program, context, below).run(nest);
}

std::int64_t flat_threads(const PassContext& context) {
  return context.options.threads_per_block ? context.options.threads_per_block : usual_threads;
}

void note_kernel(PassContext& context, const Stmt& s, const char* shape, const std::string& reason) {
  std::string loops;
  if (const auto* loop = s.as<ir::While>()) loops = loop->iterator.name;
  if (const auto* loop = s.as<ir::For>()) {
    loops = loop->iterator.name;
    if (loop->mode == LoopMode::Parallel) {
      const ParallelNest nest = parallel_nest(s);
      loops.clear();
      for (const ir::For* one : nest.loops) loops += (loops.empty() ? "" : ", ") + one->iterator.name;
    }
  }
  context.report.kernels.push_back({loops, location_of(s), shape, reason});
}

}  // namespace loopgrad::transforms

#include "transforms/map/gpu/shape_blocks.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/visit.h"

#include <algorithm>

namespace loopgrad::transforms {
namespace {

using namespace ir;

constexpr std::int64_t most_block_threads = 1024;
constexpr std::int64_t usual_threads = 256;  // of blocks for which the number of many blocks was measured
constexpr std::int64_t warp_threads = 32, usual_teams = usual_threads / warp_threads;
constexpr std::int64_t most_team_bytes = 1024;   // of local arrays: eight teams then have no more than 8 KiB
constexpr std::int64_t teams_of_a_thread = 4;    // threads that are enough, for each row from which on teams pay
constexpr int most_loads_of_short_columns = 12;  // in one of their iterations

/// Extents of the first loops over threads that are more than one, x first.
std::vector<Expr> threads_of(const Stmt& kernel) {
  std::vector<Expr> found;
  walk_stmts(kernel, [&](const Stmt& t) {
    if (!found.empty() || !has_mode(t, LoopMode::Threads) || as_int(t.as<For>()->upper) == 1) return;
    for (Stmt inner = t; has_mode(inner, LoopMode::Threads); inner = inner.as<For>()->body)
      found.insert(found.begin(), inner.as<For>()->upper);
  });
  return found;
}

/// Of constants and choices between them.
std::optional<std::int64_t> largest(const Expr& e) {
  if (const auto* n = e.as<Binary>(); n && n->op == BinaryOp::FloorDiv) return largest(n->a);
  const auto* choice = e.as<Select>();
  if (!choice) return as_int(e);
  const auto a = largest(choice->a), b = largest(choice->b);
  return a && b ? std::optional(std::max(*a, *b)) : std::nullopt;
}

/// Of such an expression: whether it can have that value.
bool may_be(const Expr& e, std::int64_t value) {
  const auto* choice = e.as<Select>();
  return choice ? may_be(choice->a, value) || may_be(choice->b, value) : as_int(e) == value;
}

/// The most threads that a block can have, as far as the values of names around the kernel tell.
std::int64_t most_threads(const std::map<Symbol, Expr>& names, const std::vector<Expr>& extents) {
  std::int64_t most = 1;
  for (const Expr& extent : extents) {
    const auto* v = extent.as<Var>();
    const auto value = v ? names.find(v->symbol) : names.end();
    const auto bound = largest(value == names.end() ? extent : value->second);
    if (!bound) return most_block_threads;
    // y = all / x: then x and y together are all threads.
    const auto* quotient = value == names.end() ? nullptr : value->second.as<Binary>();
    most = quotient && quotient->op == BinaryOp::FloorDiv ? *bound : most * *bound;
  }
  return std::min(most, most_block_threads);
}

/// Whether threads take columns with many loads: chunks, no parts of a tile, of which nothing is wide.
bool has_long_columns(const Stmt& s, const For* around = nullptr) {
  if (!s) return false;
  const auto* loop = s.as<For>();
  const auto chunk = loop ? chunk_of(*loop) : std::nullopt;
  const auto* inner = chunk ? loop->body.as<For>() : nullptr;
  const bool single = chunk && loop->shape.chunk == 1 && !chunk->lowest;
  const bool tile = (inner && inner->shape == loop->shape) || (around && chunk && around->shape == loop->shape);
  if (chunk && !single && !tile && loop->wide.empty()) {
    int loads = 0;
    walk(
        loop->body, [](const Stmt&) {}, [&](const Expr& e) { loads += e.as<Load>() != nullptr; });
    if (loads > most_loads_of_short_columns) return true;
  }
  bool found = false;
  for_each_child(
      s, overloaded{[](const Expr&) {}, [&](const Stmt& child) { found = found || has_long_columns(child, loop); }});
  return found;
}

/// Whether blocks of `kernel` could be teams: what they share is little, and all of it is declared in the kernel.
bool may_be_teams(const Stmt& kernel) {
  std::int64_t bytes = 0;
  bool fits = !uses_stack(kernel);
  walk_stmts(kernel, [&](const Stmt& s) {
    const auto* n = s.as<Allocate>();
    if (!n) return;
    fits &= n->largest.empty();
    if (n->home == Home::Block) bytes += constant_bytes(n->array).value_or(most_team_bytes + 1);
  });
  return fits && bytes <= most_team_bytes;
}

class BlockShaper final : public Rewriter {
 public:
  using Rewriter::rewrite;

  explicit BlockShaper(std::int64_t enough_threads)
      : least_rows_(std::max<std::int64_t>(enough_threads / teams_of_a_thread, 1)) {}

  Stmt rewrite(const Stmt& s) override {
    const auto* loop = s.as<For>();
    if (loop && has_one_trip(*loop)) names_[loop->iterator] = loop->lower;
    if (!has_mode(s, LoopMode::Grid)) return rewrite_children(s);
    const std::vector<Expr> threads = threads_of(s);
    if (threads.empty()) return s;
    return with_mapping(s, [&](For& kernel) {
      kernel.block = threads;
      kernel.run.most_threads = most_threads(names_, threads);
      kernel.run.many_blocks = kernel.run.most_threads == usual_threads && has_long_columns(s);
      if (const Expr teams = teams_of(s, threads)) {
        kernel.block.push_back(teams);
        kernel.run.teams = true;
        kernel.run.most_threads = std::max(kernel.run.most_threads, usual_threads);
      }
    });
  }

 private:
  /// How many share a block; null: each has its own, whatever the sizes.
  Expr teams_of(const Stmt& kernel, const std::vector<Expr>& threads) const {
    if (threads.size() != 1 || !may_be_teams(kernel)) return {};
    const auto* named = threads.front().as<Var>();
    const auto found = named ? names_.find(named->symbol) : names_.end();
    if (!may_be(found == names_.end() ? threads.front() : found->second, warp_threads)) return {};
    const For* rows = nullptr;  // along x
    for (Stmt inner = kernel; has_mode(inner, LoopMode::Grid); inner = rows->body) rows = inner.as<For>();
    const Expr is_warp = binary(BinaryOp::Eq, threads.front(), int_const(warp_threads));
    const Expr many = binary(BinaryOp::Le, int_const(least_rows_), rows->upper - rows->lower);
    const Expr teams = select(binary(BinaryOp::And, is_warp, many), int_const(usual_teams), int_const(1));
    return as_int(teams) == 1 ? Expr() : teams;
  }

  const std::int64_t least_rows_;
  std::map<Symbol, Expr> names_;  // loops of one trip around
};

}  // namespace

Program shape_blocks(const Program& program, std::int64_t enough_threads) {
  return with_body(program, BlockShaper(enough_threads).rewrite(program.body));
}

}  // namespace loopgrad::transforms

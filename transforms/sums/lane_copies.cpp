#include "transforms/sums/lane_copies.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "transforms/analysis/nest.h"
#include "transforms/loops/loop_builder.h"

#include <algorithm>
#include <optional>

namespace loopgrad::transforms {

using ir::Array;
using ir::BinaryOp;
using ir::Expr;
using ir::LoopMode;
using ir::Stmt;

namespace {

constexpr std::int64_t usual_lanes = 32;  // a warp
constexpr std::int64_t trips_at_once = 4;
constexpr std::int64_t most_copied_bytes = 48 * 1024;  // of a block: several fit into a multiprocessor

/// A row that is filled, then added to by the iterations of a loop.
struct FilledSums {
  std::vector<const ir::For*> blocks;  // the parallel loops around
  const ir::For* fill = nullptr;
  const ir::Assign* filled = nullptr;
  std::size_t dimension = 0;  // along which it is filled
  const ir::For* loop = nullptr;
  ir::ReduceOp op = ir::ReduceOp::Add;

  const Array& array() const { return filled->array; }
  bool is_row(const std::vector<Expr>& indices) const {
    for (std::size_t d = 0; d < indices.size(); ++d)
      if (d != dimension && !ir::equal(indices[d], filled->indices[d])) return false;
    return true;
  }
};

/// Takes `s` for the loop that fills a row of each block.
bool take_fill(const Stmt& s, FilledSums& sums) {
  sums.fill = s.as<ir::For>();
  if (!is_parallel_loop(s) || ir::as_int(sums.fill->lower) != 0) return false;
  sums.filled = sums.fill->body.as<ir::Assign>();
  if (!sums.filled || sums.array()->role != ir::ArrayRole::Local || has_load(sums.filled->value)) return false;
  const Expr z = ir::var(sums.fill->iterator);
  const auto& indices = sums.filled->indices;
  const auto along = std::find_if(indices.begin(), indices.end(), [&](const Expr& e) { return ir::equal(e, z); });
  if (along == indices.end() || mentions(sums.filled->value, sums.fill->iterator)) return false;
  sums.dimension = static_cast<std::size_t>(along - indices.begin());
  for (std::size_t d = 0; d < indices.size(); ++d)
    if (d != sums.dimension && (has_load(indices[d]) || mentions(indices[d], sums.fill->iterator))) return false;
  // All of it, and every block its own.
  const Expr& extent = sums.fill->upper;
  return !has_load(extent) && ir::equal(extent, sums.array()->shape[sums.dimension]) &&
         std::all_of(sums.blocks.begin(), sums.blocks.end(), [&](const ir::For* block) {
           return !mentions(extent, block->iterator) && std::any_of(indices.begin(), indices.end(), [&](const Expr& e) {
             return ir::equal(e, ir::var(block->iterator));
           });
         });
}

/// Takes `s` for the loop of sums into that row, which share nothing else.
bool take_loop(const Stmt& s, FilledSums& sums) {
  sums.loop = s.as<ir::For>();
  if (!sums.loop || is_parallel_loop(s) || contains_parallel_loop(s) || has_contraction(s) || ir::uses_stack(s))
    return false;
  std::set<Array> own;
  for (const LocalArray& local : locals_of(s)) own.insert(local.array);
  std::optional<ir::ReduceOp> op;
  bool fits = true, from_data = false;
  ir::walk(
      s,
      [&](const Stmt& leaf) {
        const auto* sum = leaf.as<ir::Reduce>();
        for_each_store(leaf, [&](const Array& array, const std::vector<Expr>& indices) {
          if (own.count(array)) return;
          fits = fits && sum && !sum->atomic && array == sums.array() && sums.is_row(indices) &&
                 op.value_or(sum->op) == sum->op;
          if (!fits) return;
          op = sum->op;
          from_data |= has_load(indices[sums.dimension]);
        });
      },
      [&](const Expr& e) {
        const auto* load = e.as<ir::Load>();
        fits = fits && !(load && load->array == sums.array());
      });
  if (!fits || !from_data) return false;
  sums.op = *op;
  return true;
}

std::optional<FilledSums> filled_sums(const Stmt& nest) {
  FilledSums sums;
  Stmt body = nest;
  for (; is_parallel_loop(body); body = body.as<ir::For>()->body) sums.blocks.push_back(body.as<ir::For>());
  const auto* both = body.as<ir::Block>();
  if (sums.blocks.empty() || !both || both->body.size() != 2) return std::nullopt;
  return take_fill(both->body[0], sums) && take_loop(both->body[1], sums) ? std::optional(sums) : std::nullopt;
}

class Copies : LoopBuilder {
 public:
  Copies(const FilledSums& sums, std::int64_t lanes)
      : LoopBuilder(sums.loop->location), sums_(sums), lanes_(lanes), extent_(sums.fill->upper) {
    const Array& array = sums.array();
    copies_ = local(array->name + "_copy", {extent_, number(lanes + 1)}, value_type(array->type));
  }

  /// Where the copies fit, else `nest`.
  Stmt code(const Stmt& nest) const {
    const auto bytes = static_cast<std::int64_t>(bytes_of(copies_->type)) * (lanes_ + 1);
    const Expr fits = ir::binary(BinaryOp::Le, extent_, number(most_copied_bytes / bytes));
    Stmt body = ir::allocate(copies_, ir::block({summed(), combined()}), where_);
    for (auto it = sums_.blocks.rbegin(); it != sums_.blocks.rend(); ++it) body = with_body(**it, body);
    return ir::if_then(fits, ir::with_fresh_names(body), nest, where_);
  }

 private:
  Stmt summed() const {
    const ir::For& loop = *sums_.loop;
    return parallel("lane", number(lanes_), [&](const Expr& lane) {
      const Stmt none = forward("z", extent_, [&](const Expr& z) {
        return set(copies_, {z, lane}, ir::identity_of(sums_.op, copies_->type));
      });
      const Stmt own = ir::rewrite(loop.body, {}, [&](const Stmt& s) -> std::optional<Stmt> {
        const auto* sum = s.as<ir::Reduce>();
        if (!sum || sum->array != sums_.array()) return std::nullopt;
        return ir::reduce_like(*sum, copies_, {sum->indices[sums_.dimension], lane}, sum->value);
      });
      // Several trips at once, whose loads are under way together; what not all lanes have needs a question for each.
      const Expr round = number(lanes_ * trips_at_once), rounds = div(loop.upper - loop.lower, round);
      const auto iterations = [&](const Expr& which, const Stmt& body) {
        return forward("k", number(trips_at_once), [&](const Expr& k) {
          const Expr i = loop.lower + which * round + k * number(lanes_) + lane;
          return ir::with_fresh_names(ir::for_loop(loop.iterator, i, i + number(1), body, LoopMode::Forward, where_));
        });
      };
      const Stmt all = forward("round", rounds, [&](const Expr& which) { return iterations(which, own); });
      const Expr exists = ir::binary(BinaryOp::Lt, ir::var(loop.iterator), loop.upper);
      const Stmt rest =
          ir::if_then(ir::binary(BinaryOp::Lt, loop.lower, loop.upper), iterations(rounds, ir::if_then(exists, own)));
      return ir::block({none, all, rest});
    });
  }

  Stmt combined() const {
    return parallel("lane", number(lanes_), [&](const Expr& lane) {
      return forward("turn", ceil_div(extent_, number(lanes_)), [&](const Expr& turn) {
        const Expr z = turn * number(lanes_) + lane;
        const Array total = local("total", {}, copies_->type);
        const Stmt each = forward("l", number(lanes_), [&](const Expr& l) {
          return ir::reduce(total, {}, sums_.op, get(copies_, {z, l}), where_);
        });
        std::vector<Expr> indices = sums_.filled->indices;
        indices[sums_.dimension] = z;
        const Stmt all = ir::block({set(total, {}, ir::cast(total->type, sums_.filled->value)), each,
                                    set(sums_.array(), indices, ir::load(total, {}))});
        return ir::if_then(ir::binary(BinaryOp::Lt, z, extent_), ir::allocate(total, all, where_));
      });
    });
  }

  const FilledSums& sums_;
  const std::int64_t lanes_;
  const Expr extent_;
  Array copies_;
};

}  // namespace

ir::Program lane_copies(const ir::Program& program, int threads_per_block) {
  const std::int64_t lanes = threads_per_block ? threads_per_block : usual_lanes;
  return ir::with_body(program, ir::rewrite(program.body, {}, [&](const Stmt& s) -> std::optional<Stmt> {
                         if (!is_parallel_loop(s)) return std::nullopt;
                         const auto sums = filled_sums(s);
                         return sums ? Copies(*sums, lanes).code(s) : s;
                       }));
}

}  // namespace loopgrad::transforms

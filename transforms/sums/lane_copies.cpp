#include "transforms/sums/lane_copies.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "transforms/analysis/analyses.h"
#include "transforms/analysis/nest.h"
#include "transforms/loops/legality.h"
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

/// A row of an array that the threads of a block have to themselves: filled first, then added to.
struct Row {
  const ir::For* fill = nullptr;
  const ir::Assign* filled = nullptr;
  std::size_t dimension = 0;  // along which it is filled
  std::optional<ir::ReduceOp> op = {};

  const Array& array() const { return filled->array; }
  const Expr& extent() const { return fill->upper; }
  bool has(const std::vector<Expr>& indices) const {
    for (std::size_t d = 0; d < indices.size(); ++d)
      if (d != dimension && !ir::equal(indices[d], filled->indices[d])) return false;
    return true;
  }
};

/// Rows that are filled, then added to by the iterations of a loop.
struct FilledSums {
  std::vector<const ir::For*> blocks;  // the parallel loops around
  std::vector<Row> rows;
  Stmt loop_statement;
  const ir::For* loop = nullptr;

  Row* row_of(const Array& array) {
    const auto found = std::find_if(rows.begin(), rows.end(), [&](const Row& row) { return row.array() == array; });
    return found == rows.end() ? nullptr : &*found;
  }
};

/// What `assign` in the loop `fill` fills, when it is all of a row that each block has to itself.
std::optional<Row> filled_row(const ir::For& fill, const Stmt& assign, const std::vector<const ir::For*>& blocks) {
  Row row;
  row.fill = &fill;
  row.filled = assign.as<ir::Assign>();
  if (!row.filled || row.array()->role != ir::ArrayRole::Local || has_load(row.filled->value)) return std::nullopt;
  const Expr z = ir::var(fill.iterator);
  const auto& indices = row.filled->indices;
  const auto along = std::find_if(indices.begin(), indices.end(), [&](const Expr& e) { return ir::equal(e, z); });
  if (along == indices.end() || mentions(row.filled->value, fill.iterator)) return std::nullopt;
  row.dimension = static_cast<std::size_t>(along - indices.begin());
  for (std::size_t d = 0; d < indices.size(); ++d)
    if (d != row.dimension && (has_load(indices[d]) || mentions(indices[d], fill.iterator))) return std::nullopt;
  // All of it, and every block its own.
  const bool is_whole = !has_load(row.extent()) && ir::equal(row.extent(), row.array()->shape[row.dimension]) &&
                        std::all_of(blocks.begin(), blocks.end(), [&](const ir::For* block) {
                          return !mentions(row.extent(), block->iterator) &&
                                 std::any_of(indices.begin(), indices.end(),
                                             [&](const Expr& e) { return ir::equal(e, ir::var(block->iterator)); });
                        });
  return is_whole ? std::optional(row) : std::nullopt;
}

/// Takes `s` for a loop that fills rows of each block.
bool take_fill(const Stmt& s, FilledSums& sums) {
  const auto* fill = s.as<ir::For>();
  if (!is_parallel_loop(s) || ir::as_int(fill->lower) != 0) return false;
  const auto* several = fill->body.as<ir::Block>();
  for (const Stmt& assign : several ? several->body : std::vector<Stmt>{fill->body}) {
    const auto row = filled_row(*fill, assign, sums.blocks);
    if (!row || sums.row_of(row->array())) return false;
    sums.rows.push_back(*row);
  }
  return true;
}

/// Takes `s` for the loop of sums into those rows.
bool take_loop(const Stmt& s, FilledSums& sums) {
  sums.loop = s.as<ir::For>();
  sums.loop_statement = s;
  if (!sums.loop || is_parallel_loop(s) || contains_parallel_loop(s) || has_contraction(s) || ir::uses_stack(s))
    return false;
  bool fits = true, from_data = false;
  ir::walk(
      s,
      [&](const Stmt& leaf) {
        const auto* sum = leaf.as<ir::Reduce>();
        for_each_store(leaf, [&](const Array& array, const std::vector<Expr>& indices) {
          Row* const row = sums.row_of(array);
          if (!row) return;
          fits = fits && sum && !sum->atomic && row->has(indices) && row->op.value_or(sum->op) == sum->op;
          if (!fits) return;
          row->op = sum->op;
          from_data |= has_load(indices[row->dimension]);
        });
      },
      [&](const Expr& e) {
        const auto* load = e.as<ir::Load>();
        fits = fits && !(load && sums.row_of(load->array));
      });
  return fits && from_data && std::all_of(sums.rows.begin(), sums.rows.end(), [](const Row& row) { return row.op; });
}

std::optional<FilledSums> filled_sums(const Stmt& nest) {
  FilledSums sums;
  Stmt body = nest;
  for (; is_parallel_loop(body); body = body.as<ir::For>()->body) sums.blocks.push_back(body.as<ir::For>());
  const auto* all = body.as<ir::Block>();
  if (sums.blocks.empty() || !all || all->body.size() < 2) return std::nullopt;
  for (std::size_t k = 0; k + 1 < all->body.size(); ++k)
    if (!take_fill(all->body[k], sums)) return std::nullopt;
  return take_loop(all->body.back(), sums) ? std::optional(std::move(sums)) : std::nullopt;
}

/// Whether iterations of the loop have nothing in common but what they add to the rows.
bool share_rows_only(const ir::Program& program, FilledSums& sums, PassContext& context) {
  if (!bounds_stay(program, sums.loop_statement).ok) return false;
  try {
    const auto& conflicts = analyses(context).carried_by(program, sums.loop_statement, poly::Search::UntilNotASum);
    return std::all_of(conflicts.begin(), conflicts.end(),
                       [&](const poly::Conflict& conflict) { return conflict.sum && sums.row_of(conflict.a->array); });
  } catch (const poly::BudgetError&) {
    return false;
  }
}

class LaneCopies : LoopBuilder {
 public:
  LaneCopies(const FilledSums& sums, std::int64_t lanes)
      : LoopBuilder(sums.loop->location), sums_(sums), lanes_(lanes) {
    for (const Row& row : sums.rows)
      copies_.push_back(
          local(row.array()->name + "_copy", {row.extent(), number(lanes + 1)}, value_type(row.array()->type)));
  }

  /// Where the copies fit, else `nest`.
  Stmt code(const Stmt& nest) const {
    Expr elements;  // of four bytes, for one lane
    for (std::size_t k = 0; k < copies_.size(); ++k) {
      const auto words = static_cast<std::int64_t>(bytes_of(copies_[k]->type) + 3) / 4;
      const Expr part = words == 1 ? sums_.rows[k].extent() : sums_.rows[k].extent() * number(words);
      elements = elements ? elements + part : part;
    }
    const Expr fits = ir::binary(BinaryOp::Le, elements, number(most_copied_bytes / (4 * (lanes_ + 1))));
    std::vector<Stmt> steps = {summed()};
    for (std::size_t k = 0; k < copies_.size(); ++k) steps.push_back(combined(sums_.rows[k], copies_[k]));
    Stmt body = ir::block(std::move(steps));
    for (const Array& copy : copies_) body = ir::allocate(copy, body, where_);
    for (auto it = sums_.blocks.rbegin(); it != sums_.blocks.rend(); ++it) body = with_body(**it, body);
    return ir::if_then(fits, ir::with_fresh_names(body), nest, where_);
  }

 private:
  Stmt summed() const {
    const ir::For& loop = *sums_.loop;
    return parallel("lane", number(lanes_), [&](const Expr& lane) {
      std::vector<Stmt> steps;
      for (std::size_t k = 0; k < copies_.size(); ++k)
        steps.push_back(forward("z", sums_.rows[k].extent(), [&](const Expr& z) {
          return set(copies_[k], {z, lane}, ir::identity_of(*sums_.rows[k].op, copies_[k]->type));
        }));
      const Stmt own = ir::rewrite(loop.body, {}, [&](const Stmt& s) -> std::optional<Stmt> {
        const auto* sum = s.as<ir::Reduce>();
        for (std::size_t k = 0; sum && k < copies_.size(); ++k)
          if (sum->array == sums_.rows[k].array())
            return ir::reduce_like(*sum, copies_[k], {sum->indices[sums_.rows[k].dimension], lane}, sum->value);
        return std::nullopt;
      });
      // Several trips at once, whose loads are under way together; what not all lanes have needs a question for each.
      const Expr round = number(lanes_ * trips_at_once), rounds = div(loop.upper - loop.lower, round);
      const auto iterations = [&](const Expr& which, const Stmt& body) {
        return forward("k", number(trips_at_once), [&](const Expr& k) {
          const Expr i = loop.lower + which * round + k * number(lanes_) + lane;
          return ir::with_fresh_names(ir::for_loop(loop.iterator, i, i + number(1), body, LoopMode::Forward, where_));
        });
      };
      steps.push_back(forward("round", rounds, [&](const Expr& which) { return iterations(which, own); }));
      const Expr exists = ir::binary(BinaryOp::Lt, ir::var(loop.iterator), loop.upper);
      steps.push_back(
          ir::if_then(ir::binary(BinaryOp::Lt, loop.lower, loop.upper), iterations(rounds, ir::if_then(exists, own))));
      return ir::block(std::move(steps));
    });
  }

  Stmt combined(const Row& row, const Array& copies) const {
    return parallel("lane", number(lanes_), [&](const Expr& lane) {
      return forward("turn", ceil_div(row.extent(), number(lanes_)), [&](const Expr& turn) {
        const Expr z = turn * number(lanes_) + lane;
        const Array total = local("total", {}, copies->type);
        const Stmt each = forward("l", number(lanes_), [&](const Expr& l) {
          return ir::reduce(total, {}, *row.op, get(copies, {z, l}), where_);
        });
        std::vector<Expr> indices = row.filled->indices;
        indices[row.dimension] = z;
        const Stmt all = ir::block({set(total, {}, ir::cast(total->type, row.filled->value)), each,
                                    set(row.array(), indices, ir::load(total, {}))});
        return ir::if_then(ir::binary(BinaryOp::Lt, z, row.extent()), ir::allocate(total, all, where_));
      });
    });
  }

  const FilledSums& sums_;
  const std::int64_t lanes_;
  std::vector<Array> copies_;
};

/// As many as elements of the widest type leave room for: half of the usual number where these have eight bytes.
std::int64_t lanes_for(const FilledSums& sums, int threads_per_block) {
  if (threads_per_block) return threads_per_block;
  const bool is_wide = std::any_of(sums.rows.begin(), sums.rows.end(),
                                   [](const Row& row) { return bytes_of(value_type(row.array()->type)) > 4; });
  return is_wide ? usual_lanes / 2 : usual_lanes;
}

}  // namespace

ir::Program lane_copies(const ir::Program& program, PassContext& context) {
  return ir::with_body(program, ir::rewrite(program.body, {}, [&](const Stmt& s) -> std::optional<Stmt> {
                         if (!is_parallel_loop(s)) return std::nullopt;
                         auto sums = filled_sums(s);
                         if (!sums || !share_rows_only(program, *sums, context)) return s;
                         return LaneCopies(*sums, lanes_for(*sums, context.options.threads_per_block)).code(s);
                       }));
}

}  // namespace loopgrad::transforms

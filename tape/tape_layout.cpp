// Which dimensions a tape has, and in which order.
#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/poly/dependences.h"
#include "tape/stores.h"
#include "tape/tape_plan.h"

#include <algorithm>

namespace loopgrad::tape {

using ir::Array;
using ir::Expr;
using ir::Stmt;
using poly::ask;

namespace {

/// look(the indices of an element) for each that `s` touches.
template <class Look>
void for_each_touched(const Stmt& s, const Look& look) {
  ir::walk(
      s,
      [&](const Stmt& child) {
        if (stored_array(child)) look(stored_indices(child));
      },
      [&](const Expr& e) {
        if (const auto* load = e.as<ir::Load>()) look(load->indices);
      });
}

/// Every element that `s` touches in memory moves with `lane` in its last index only, or not at all, and that index
/// does not move with `inner`.
bool moves_contiguously(const Stmt& s, const ir::Symbol& lane, const ir::Symbol& inner) {
  bool result = true;
  for_each_touched(s, [&](const std::vector<Expr>& indices) {
    for (std::size_t k = 0; k + 1 < indices.size(); ++k) result &= !mentions(indices[k], lane);
    if (!indices.empty()) result &= !mentions(indices.back(), inner);
  });
  return result;
}

/// Whether data choose an element that `s` touches: then a CPU takes its iterations one by one.
bool is_chosen_by_data(const Stmt& s) {
  bool result = false;
  for_each_touched(s, [&](const std::vector<Expr>& indices) {
    result |= std::any_of(indices.begin(), indices.end(), ir::has_load);
  });
  return result;
}

constexpr std::int64_t widest_border = 4;

/// extent - upper, where that is a number at sight.
std::optional<std::int64_t> left_out_behind(const Expr& upper, const Expr& extent) {
  if (ir::equal(upper, extent)) return 0;
  const auto* difference = upper.as<ir::Binary>();
  const auto amount = difference ? ir::as_int(difference->b) : std::nullopt;
  if (!amount || !ir::equal(difference->a, extent)) return std::nullopt;
  if (difference->op == ir::BinaryOp::Sub) return *amount;
  return difference->op == ir::BinaryOp::Add ? std::optional(-*amount) : std::nullopt;
}

/// The loop goes through all of a dimension, but for a few elements at its ends.
bool goes_through(const ir::For& loop, const Expr& extent) {
  const auto before = ir::as_int(loop.lower), behind = left_out_behind(loop.upper, extent);
  if (!before || !behind) return false;
  const std::int64_t widest = ir::as_int(extent) ? 0 : widest_border;
  return 0 <= *before && *before <= widest && 0 <= *behind && *behind <= widest;
}

}  // namespace

/// Whether the loop's iterations must run in order, for other reasons than sums.
bool TapePlan::is_sequential(const Stmt& loop) const {
  if (!model_) return true;
  const auto known = sequential_.find(loop.get());
  if (known != sequential_.end()) return known->second;
  const auto carries = [&] { return !poly::carried_by(*model_, loop, poly::Search::SkipSums).empty(); };
  return sequential_[loop.get()] = ask(*model_, true, carries);
}

/// The dimensions of a tape in the order of its loops, but for one case: when the innermost loop must run in sequence
/// while a loop around it need not and moves through contiguous memory, that one becomes the last dimension. Then both
/// sweeps can take many of its iterations side by side, as lanes or threads that touch neighbouring elements.
/// `for_lanes_only`: what one iteration writes and reads again lies better in the order of the loops where a CPU finds
/// no lanes.
std::vector<Stmt> TapePlan::in_layout(std::vector<Stmt> loops, bool for_lanes_only) const {
  if (loops.size() < 2 || loops.back().kind() != ir::Kind::For || !is_sequential(loops.back())) return loops;
  for (std::size_t k = loops.size() - 1; k-- > 0;) {
    if (loops[k].kind() != ir::Kind::For || is_sequential(loops[k])) continue;
    if (for_lanes_only && is_chosen_by_data(loops[k])) break;
    if (moves_contiguously(loops.back(), iterator_of(loops[k]), iterator_of(loops.back())))
      std::rotate(loops.begin() + static_cast<std::ptrdiff_t>(k), loops.begin() + static_cast<std::ptrdiff_t>(k) + 1,
                  loops.end());
    break;
  }
  return loops;
}

/// Whether the inner loops around the writer go through its array row by row, for each iteration of the outer ones.
bool TapePlan::is_laid_out_like_array(const Stmt& writer, const std::vector<Stmt>& loops) const {
  const ir::Array& array = *stored_array(writer);
  const std::vector<Expr>& indices = stored_indices(writer);
  if (indices.empty() || indices.size() >= loops.size()) return false;
  const std::size_t outer = loops.size() - indices.size();
  for (std::size_t d = 0; d < indices.size(); ++d) {
    const auto* loop = loops[outer + d].as<ir::For>();
    const auto* index = indices[d].as<ir::Var>();
    if (!loop || !index || index->symbol != loop->iterator || !goes_through(*loop, array->shape[d])) return false;
    const auto extent = range_of(array->shape[d], extents_.ranges(), prepared_.program);
    if (!extent || !ir::equal(extent->highest, array->shape[d])) return false;
  }
  return true;
}

std::optional<std::vector<Expr>> TapePlan::largest_shape(const Array& array) const {
  std::vector<Expr> shape;
  for (const Expr& extent : array->shape) {
    const auto range = range_of(extent, extents_.ranges(), prepared_.program);
    if (!range) return std::nullopt;
    shape.push_back(range->highest);
  }
  return shape;
}

/// What one statement writes: by its loops, or, where these go through the whole array over and over, by the outer ones
/// and then in the array's own shape. A level of such a tape can stand for the array (see
/// transforms/storage/read_levels.h).
Array TapePlan::new_writer_tape(const Stmt& writer) {
  const ir::Array& array = *stored_array(writer);
  std::vector<Stmt> loops = in_layout(site_of(writer).loops);
  std::vector<Expr> inner_shape;
  if (is_laid_out_like_array(writer, loops)) {
    loops.resize(loops.size() - array->shape.size());
    inner_shape = array->shape;
  }
  return new_tape(array->name + "_tape", array->type, loops, inner_shape, writer->location);
}

std::vector<Expr> TapePlan::writer_tape_index(const Stmt& writer, const ir::Substitution& at) const {
  std::vector<Stmt> loops = in_layout(site_of(writer).loops);
  if (!is_laid_out_like_array(writer, loops)) return tape_index(loops, at);
  loops.resize(loops.size() - stored_indices(writer).size());
  std::vector<Expr> index = tape_index(loops, at);
  for (const Expr& own : stored_indices(writer)) index.push_back(ir::substitute(own, at));
  return index;
}

}  // namespace loopgrad::tape

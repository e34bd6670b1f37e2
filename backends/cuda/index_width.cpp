#include "backends/cuda/index_width.h"

#include "backends/c_text/expr_text.h"
#include "backends/runtime/solve_sizes.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/visit.h"
#include "dsl/symbolic/ranges.h"

#include <algorithm>

namespace loopgrad::backend {

using namespace ir;

namespace {

constexpr std::int64_t narrow_limit = std::int64_t{1} << 30;

bool is_narrow_constant(const Expr& e) {
  const auto c = as_int(e);
  return !c || (-narrow_limit < *c && *c < narrow_limit);
}

/// Walks a program with the values that its iterators can take.
class WidthCheck {
 public:
  WidthCheck(const Program& program, const SizeValues& sizes) : text_(program) {
    text_.index_type = either_width;
    known_ = sizes;
    for (const auto& [symbol, value] : sizes) ranges_.variables[symbol] = {int_const(value), int_const(value)};
    ranges_.leaf = [](const Expr&) { return std::optional<Range>(); };
    ranges_.non_negative = [](const Symbol&) { return false; };
  }

  bool fits(const Stmt& s, bool in_kernel) {
    if (!s) return true;
    if (const auto* loop = s.as<For>()) return loop_fits(*loop, in_kernel || loop->mode == LoopMode::Grid);
    if (const auto* product = s.as<Contraction>()) return fits(product->loops, in_kernel);
    if (const auto* loop = s.as<While>()) {
      if (in_kernel) note_width(loop->iterator, loop->max_trips);
      set(loop->iterator, int_const(0), loop->max_trips);
    }
    if (const auto* local = s.as<Allocate>(); local && in_kernel && !elements_fit(local->array)) return false;
    if (const auto* a = s.as<Assign>(); a && in_kernel && !element_fits(a->array, a->indices)) return false;
    if (const auto* r = s.as<Reduce>(); r && in_kernel && !element_fits(r->array, r->indices)) return false;
    bool all = true;
    ir::for_each_child(s, overloaded{[&](const Expr& e) { all = all && (!in_kernel || expression_fits(e)); },
                                     [&](const Stmt& child) { all = all && fits(child, in_kernel); }});
    return all;
  }

 private:
  bool loop_fits(const For& loop, bool in_kernel) {
    if (in_kernel && !(expression_fits(loop.lower) && expression_fits(loop.upper))) return false;
    if (loop.mode != LoopMode::Grid) return body_fits(loop, in_kernel);
    const Expr outside = blocks_;
    blocks_ = blocks_ * (loop.upper - loop.lower);
    const bool all = value_fits(blocks_) && body_fits(loop, true);
    blocks_ = outside;
    return all;
  }

  bool body_fits(const For& loop, bool in_kernel) {
    if (in_kernel) {  // what the host computes has the width of indices, as a parameter
      note_width(loop.iterator, loop.lower);
      note_width(loop.iterator, loop.upper);
    }
    const std::optional<Range> before = set(loop.iterator, loop.lower, loop.upper);
    return before && is_empty(*before) ? true : fits(loop.body, in_kernel);
  }

  void note_width(const Symbol& iterator, const Expr& bound) {
    if (is_wide(bound, text_)) text_.wide.insert(iterator);
  }

  /// What the iterator of a loop with these bounds can be; nullopt where nothing is known.
  std::optional<Range> set(const Symbol& iterator, const Expr& lower, const Expr& upper) {
    const auto first = range(lower), end = range(upper);
    ranges_.variables.erase(iterator);
    known_.erase(iterator);
    if (!first || !end) return std::nullopt;
    const Range all = {first->lowest, end->highest - int_const(1)};
    if (const auto only = as_int(all.lowest); only && as_int(all.highest) == only) known_[iterator] = *only;
    return ranges_.variables[iterator] = all;
  }

  /// Parts whose variables have one value each are exact.
  std::optional<Range> range(const Expr& e) const {
    return range_of(ir::rewrite(e, [&](const Expr& part) { return exact(part); }), ranges_);
  }

  std::optional<Expr> exact(const Expr& e) const {
    bool is_known = e.type() == ScalarType::I64;  // a constant of another type would not fit its operands
    walk(e, [&](const Expr& part) {
      const auto* v = part.as<Var>();
      is_known &= !is_float(part.type()) && part.kind() != Kind::Load && (!v || known_.count(v->symbol) > 0);
    });
    const auto value = is_known ? try_evaluate(e, known_) : std::nullopt;
    return value ? std::optional(int_const(*value, e.type())) : std::nullopt;
  }

  static bool is_empty(const Range& range) {
    const auto lowest = as_int(range.lowest), highest = as_int(range.highest);
    return lowest && highest && *highest < *lowest;
  }

  bool expression_fits(const Expr& e) {
    bool all = true;
    walk(e, [&](const Expr& part) {
      if (!all) return;
      if (part.type() == ScalarType::I64) all = value_fits(part);
      if (const auto* load = part.as<Load>()) all = element_fits(load->array, load->indices);
    });
    return all;
  }

  bool value_fits(const Expr& e) {
    if (is_wide(e, text_)) return true;
    const auto bounds = range(e);
    return bounds && as_int(bounds->lowest) && as_int(bounds->highest) && is_narrow_constant(bounds->lowest) &&
           is_narrow_constant(bounds->highest);
  }

  /// Every step of the row-major position.
  bool element_fits(const Array& array, const std::vector<Expr>& indices) {
    if (!elements_fit(array)) return false;
    Expr position = int_const(0);
    bool all = true;
    for (std::size_t d = 0; d < indices.size(); ++d) {
      position = position * array->shape[d] + indices[d];
      all = all && value_fits(position);
    }
    return all;
  }

  bool elements_fit(const Array& array) {
    const auto known = counted_.find(array);
    if (known != counted_.end()) return known->second;
    return counted_[array] = value_fits(element_count(array));
  }

  EmitState text_;  // knows what the emitted code computes with 64 bits
  RangeContext ranges_;
  SizeValues known_;               // variables of one value
  Expr blocks_ = int_const(1);     // of the grid, so far
  std::map<Array, bool> counted_;  // by `elements_fit`
};

}  // namespace

bool may_have_narrow_indices(const Program& program) { return is_empty(program.body) || !uses_stack(program.body); }

bool has_narrow_indices(const Program& program, const SizeValues& sizes) {
  bool mapped = false;
  walk_stmts(program.body, [&](const Stmt& s) {
    const auto* loop = s.as<For>();
    mapped |= loop && loop->mode == LoopMode::Grid;
  });
  return WidthCheck(program, sizes).fits(program.body, !mapped);
}

}  // namespace loopgrad::backend

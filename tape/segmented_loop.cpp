#include "tape/segmented_loop.h"

#include "dsl/ir/element_loops.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/symbolic/linear_form.h"
#include "dsl/symbolic/ranges.h"
#include "tape/loop_extents.h"
#include "tape/segment_state.h"
#include "tape/stores.h"

#include <algorithm>

namespace loopgrad::tape {

using ir::Array;
using ir::ArrayRole;
using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

namespace {

Expr number(std::int64_t value) { return ir::int_const(value); }

Stmt each(const char* name, const Expr& lower, const Expr& upper, ir::LoopMode mode,
          const std::function<Stmt(const Expr&)>& body) {
  const ir::Symbol i = ir::make_symbol(name);
  return ir::for_loop(i, lower, upper, body(ir::var(i)), mode);
}
/// A name for a value, so that indices and bounds in the body are affine in it.
Stmt let(const char* name, const Expr& value, const std::function<Stmt(const Expr&)>& body) {
  return each(name, value, value + number(1), ir::LoopMode::Forward, body);
}

/// Iterations number first..first + length of the loop.
Stmt part_of(const ir::For& n, const Expr& first, const Expr& length) {
  const bool down = n.mode == ir::LoopMode::Backward;
  const Expr lower = down ? n.upper - first - length : n.lower + first;
  const Expr upper = down ? n.upper - first : n.lower + first + length;
  return ir::for_loop(n.iterator, simplify_indices(lower), simplify_indices(upper), n.body, n.mode, n.location,
                      n.at_most);
}

/// rows[at, ...] = row[...] or the other way round, for all elements.
Stmt copy_row(const Array& row, const Array& rows, const Expr& at, bool to_rows, const SourceLocation& where) {
  return ir::over_elements(row->shape, where, [&](const std::vector<Expr>& indices) {
    const std::vector<Expr> in_rows = concatenate({at}, indices);
    return to_rows ? ir::assign(rows, in_rows, ir::load(row, indices), where)
                   : ir::assign(row, indices, ir::load(rows, in_rows), where);
  });
}

}  // namespace

SegmentedLoop::SegmentedLoop(const Prepared& whole, const Stmt& loop, std::set<std::string>& taken)
    : loop_(loop), first_(ir::make_symbol("first")), length_(ir::make_symbol("length")), outer_(outer_arrays(loop)) {
  const auto& n = *loop.as<ir::For>();
  part_ = part_of(n, ir::var(first_), ir::var(length_));
  const auto size = [&](const char* what) {
    return ir::make_symbol(unique_name(ir::free_name(whole.program, n.iterator.name + what), taken));
  };
  lengths_ = {size("_taped"), size("_blocks"), size("_leaves"), size("_leaf")};
}

std::optional<SegmentedLoop> SegmentedLoop::of(const Prepared& whole, const Stmt& loop,
                                               const std::set<Array>& set_before, std::set<std::string>& taken,
                                               Report& report) {
  const auto* n = loop.as<ir::For>();
  if (!n || ir::has_load(n->lower) || ir::has_load(n->upper)) return std::nullopt;
  std::set<std::string> names = taken;
  SegmentedLoop result(whole, loop, names);
  Report tried = report;
  result.gradient_ = gradient_of_part(whole, result.part_, {result.first_, result.length_}, names, tried);
  bool grows = false;
  for (const Array& tape : result.gradient_.tape)
    for (const Expr& extent : tape->shape) grows |= ir::mentions(extent, result.length_);
  if (!grows) return std::nullopt;
  std::string why;
  if (const Array array = inexact_control(loop))
    why = "'" + array->name + "', on which control depends, might be rounded in another way when it runs again";
  else if (!result.measures_inputs(whole.program) || !result.place_tapes(whole.program, names))
    why = "extents of its tape depend on data";
  if (why.empty()) result.find_state(whole.program, names);
  for (const auto& [array, checkpoint] : result.checkpoints_)
    if (array->role == ArrayRole::Output && !set_before.count(array))
      why = "'" + array->name + "' may have no value where it would be saved";
  if (!why.empty()) {
    report.remarks.push_back({"loop '" + n->iterator.name + "' is not checkpointed: " + why, n->location});
    return std::nullopt;
  }
  taken = std::move(names);
  report = std::move(tried);
  std::string saved;
  for (const auto& [array, checkpoint] : result.checkpoints_) saved += (saved.empty() ? "" : ", ") + array->name;
  report.remarks.push_back({"loop '" + n->iterator.name + "' is checkpointed where its tape does not fit: " +
                                (saved.empty() ? "nothing" : saved) + " is saved for each of " +
                                result.lengths_.blocks.name + " blocks of " + result.lengths_.leaves.name +
                                " segments of " + result.lengths_.leaf.name + " iterations, which run again",
                            n->location});
  return result;
}

/// Whether what its tapes are sized by is the same for all segments, and known before the program runs.
bool SegmentedLoop::measures_inputs(const ir::Program& program) const {
  const ir::Program& sizing = gradient_.sizing;
  const auto is_input = [&](const Array& array) {
    const Array own = ir::find_array(program, array->name);
    return array->role == ArrayRole::Output || (own && own->role == ArrayRole::Input);
  };
  bool same = std::all_of(sizing.arrays.begin(), sizing.arrays.end(), is_input);
  const auto on_expr = [&](const Expr& e) {
    const auto* n = e.as<ir::Var>();
    same &= !n || (n->symbol != first_ && n->symbol != length_);
  };
  ir::walk(
      sizing.body, [](const Stmt&) {}, on_expr);
  return same;
}

/// Tapes of all iterations, and those of a segment; false where there is no bound for an extent.
bool SegmentedLoop::place_tapes(const ir::Program& program, std::set<std::string>& taken) {
  Ranges longest = {{first_, {number(0), trips()}}, {length_, {number(0), ir::var(lengths_.leaf)}}};
  for (const ir::Symbol& size : gradient_.sizes) longest[size] = {ir::var(size), ir::var(size)};
  for (const Array& tape : gradient_.tape) {
    std::vector<Expr> all, segment;
    for (const Expr& written : tape->shape) {
      const Expr extent = simplify_indices(written);
      all.push_back(ir::substitute(extent, {{first_, number(0)}, {length_, ir::var(lengths_.taped)}}));
      const auto range = ir::mentions(extent, first_) || ir::mentions(extent, length_)
                             ? range_of(extent, longest, program)
                             : std::optional(Range{extent, extent});
      if (!range || ir::mentions(range->highest, first_) || ir::mentions(range->highest, length_)) return false;
      segment.push_back(simplify_indices(range->highest));
    }
    whole_tapes_[tape] = ir::make_array(tape->name, tape->type, all, ArrayRole::Tape, tape->location);
    segment_tapes_[tape] =
        ir::make_array(unique_name(tape->name + "_now", taken), tape->type, segment, ArrayRole::Local, tape->location);
  }
  return true;
}

/// Which arrays run along when a segment runs again, and which of them it finds something in.
void SegmentedLoop::find_state(const ir::Program& program, std::set<std::string>& taken) {
  const std::set<Array> needed = needed_arrays(gradient_.forward, gradient_.backward, outer_.written);
  for (const Array& array : needed) {
    now_[array] = ir::make_array(unique_name(array->name + "_now", taken), array->type, array->shape, ArrayRole::Local,
                                 array->location);
  }
  const auto rows = [&](const Array& array, const char* what, const Expr& count, ArrayRole role) {
    std::vector<Expr> shape = array->shape;
    shape.insert(shape.begin(), count);
    return ir::make_array(unique_name(array->name + what, taken), array->type, shape, role, array->location);
  };
  // What runs backward after it may read elements that earlier segments have set, too: the first one of all, say.
  const Stmt segment = ir::block({needed_of(gradient_.forward), gradient_.backward});
  for (const Array& array : found_at_start(program, {first_, length_}, segment, needed)) {
    checkpoints_[array] = rows(array, "_checkpoint", ir::var(lengths_.blocks), ArrayRole::Tape);
    states_[array] = rows(array, "_state", ir::var(lengths_.leaves) - number(1), ArrayRole::Local);
  }
}

/// What there is in `s` when it runs again.
Stmt SegmentedLoop::needed_of(const Stmt& s) const {
  std::set<Array> dropped = outer_.written;
  for (const auto& [array, now] : now_) dropped.erase(array);
  return without_stores(s, dropped);
}

std::vector<Array> SegmentedLoop::tape() const {
  std::vector<Array> result;
  for (const Array& tape : gradient_.tape) result.push_back(whole_tapes_.at(tape));
  for (const auto& [array, checkpoint] : checkpoints_) result.push_back(checkpoint);
  return result;
}

Expr SegmentedLoop::trips() const {
  const auto& n = *loop_.as<ir::For>();
  return ir::larger(simplify_indices(n.upper - n.lower), number(0));
}
Expr SegmentedLoop::block() const { return ir::var(lengths_.leaves) * ir::var(lengths_.leaf); }

LoopToDecide SegmentedLoop::to_decide() const {
  Expr state = number(0);
  for (const auto& [array, checkpoint] : checkpoints_) state = state + bytes_of_array(array->type, array->shape);
  const auto tape = [this](const Expr& iterations) {
    Expr bytes = number(0);
    for (const auto& [array, own] : segment_tapes_) bytes = bytes + bytes_of_array(own->type, own->shape);
    return ir::substitute(bytes, {{lengths_.leaf, iterations}});
  };
  return {lengths_, trips(), state, tape, loop_->location};
}

/// Iterations first..end of what is written in terms of `first_` and `length_`.
Stmt SegmentedLoop::segment_of(const Stmt& s, const Expr& first, const Expr& end) const {
  return ir::simplify_indices(ir::substitute(s, {{first_, first}, {length_, end - first}}));
}

Stmt SegmentedLoop::save(const std::map<Array, Array>& to, const Expr& at) const {
  std::vector<Stmt> all;
  for (const auto& [array, rows] : to) all.push_back(copy_row(array, rows, at, true, loop_->location));
  return ir::block(std::move(all));
}

Stmt SegmentedLoop::restore(const std::map<Array, Array>& from, const Expr& at) const {
  std::vector<Stmt> all;
  for (const auto& [array, rows] : from) all.push_back(copy_row(array, rows, at, false, loop_->location));
  return ir::block(std::move(all));
}

Stmt SegmentedLoop::forward() const {
  const Stmt taped =
      ir::replace_arrays(segment_of(gradient_.forward, number(0), ir::var(lengths_.taped)), whole_tapes_);
  const Stmt blocks = each("block", number(0), ir::var(lengths_.blocks), ir::LoopMode::Forward, [&](const Expr& s) {
    const Stmt run = let("start", s * block(), [&](const Expr& start) {
      return segment_of(part_, start, ir::smaller(start + block(), trips()));
    });
    return ir::block({save(checkpoints_, s), run});
  });
  return ir::with_fresh_names(
      ir::if_then(ir::binary(BinaryOp::Gt, ir::var(lengths_.taped), number(0)), taped, blocks, loop_->location));
}

Stmt SegmentedLoop::backward(const After& after) const {
  std::map<Array, Array> arrays = whole_tapes_;
  for (const Array& array : outer_arrays(gradient_.backward).read)
    if (outer_.read.count(array) || outer_.written.count(array)) arrays[array] = after(array);
  const Stmt taped = ir::replace_arrays(segment_of(gradient_.backward, number(0), ir::var(lengths_.taped)), arrays);
  return ir::with_fresh_names(ir::if_then(ir::binary(BinaryOp::Gt, ir::var(lengths_.taped), number(0)), taped,
                                          by_segments(after), loop_->location));
}

Stmt SegmentedLoop::by_segments(const After& after) const {
  const Stmt advance = needed_of(part_), forward = needed_of(gradient_.forward);
  const Expr leaf = ir::var(lengths_.leaf);

  const auto of_block = [&](const Expr& s, const Expr& start) {
    const Expr end = ir::smaller(start + block(), trips());
    const Expr last = ir::binary(BinaryOp::FloorDiv, end - start - number(1), leaf);  // segment of the block
    const Stmt ahead = each("segment", number(0), last, ir::LoopMode::Forward, [&](const Expr& j) {
      return ir::block({save(states_, j), let("first", start + j * leaf, [&](const Expr& first) {
                          return segment_of(advance, first, first + leaf);
                        })});
    });
    const Stmt back = each("segment", number(0), last + number(1), ir::LoopMode::Backward, [&](const Expr& j) {
      const Stmt begin = ir::if_then(ir::binary(BinaryOp::Lt, j, last), restore(states_, j));
      return ir::block(
          {begin, let("first", start + j * leaf, [&](const Expr& first) {
             const Expr next = ir::smaller(first + leaf, end);
             return ir::block({segment_of(forward, first, next), segment_of(gradient_.backward, first, next)});
           })});
    });
    return ir::block({restore(checkpoints_, s), ahead, back});
  };
  Stmt all = each("block", number(0), ir::var(lengths_.blocks), ir::LoopMode::Backward, [&](const Expr& s) {
    return let("start", s * block(), [&](const Expr& start) { return of_block(s, start); });
  });

  std::map<Array, Array> arrays = segment_tapes_;
  for (const auto& [array, now] : now_) arrays[array] = now;
  for (const Array& array : outer_arrays(all).read)
    if (!arrays.count(array) && outer_.read.count(array)) arrays[array] = after(array);
  all = ir::replace_arrays(all, arrays);
  for (const auto* locals : {&segment_tapes_, &states_, &now_})
    for (const auto& [array, local] : *locals) all = ir::allocate(local, all, loop_->location);
  return all;
}

}  // namespace loopgrad::tape

#include "transforms/map/gpu/shared_tiles.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "transforms/analysis/nest.h"
#include "transforms/loops/loop_builder.h"

#include <algorithm>
#include <map>

namespace loopgrad::transforms {

using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

namespace {

constexpr std::int64_t row_padding = 4;  // elements: neighbours along a step are in other banks

Expr least(const Expr& a, const Expr& b) { return ir::binary(BinaryOp::Min, a, b); }
Stmt only_if(const Expr& condition, const Stmt& s) { return condition ? ir::if_then(condition, s) : s; }

class Kernel : LoopBuilder {
 public:
  Kernel(const ParallelNest& nest, const DenseSum& sum, const BlockTile& tile)
      : LoopBuilder(sum.step.location), nest_(nest), sum_(sum), tile_(tile), threads_(number(tile.threads())) {
    for (const ir::Array& scalar : sum.sums)
      kept_[scalar] =
          local(scalar->name, {threads_, number(tile.thread_rows), number(tile.thread_columns)}, scalar->type);
    for (const DenseSum::Element& e : sum.elements) {
      const ir::Array& array = e.load.as<ir::Load>()->array;
      const std::int64_t width = (e.of_rows ? tile.rows : tile.columns) + row_padding;
      next_.push_back(local(array->name + "_next",
                            {threads_, number((width - row_padding) * tile.steps / tile.threads())},
                            value_type(array->type)));
      tiles_.push_back(local(array->name + "_tile", {number(tile.steps), number(width)}, value_type(array->type)));
    }
    row_start_ = sum.rows->lower + ir::var(block_row_) * number(tile.rows);
    column_start_ = sum.columns->lower + ir::var(block_column_) * number(tile.columns);
  }

  Stmt make() {
    Stmt body = ir::block({own_iterations([&](const Place& p) { return before(p); }), steps(),
                           own_iterations([&](const Place& p) { return after(p); })});
    for (const ir::Array& n : next_) body = ir::allocate(n, body, where_);
    for (const ir::Array& t : tiles_) body = ir::allocate(t, body, where_);
    for (const auto& [scalar, kept] : kept_) body = ir::allocate(kept, body, where_);
    const ir::Symbol rows = ir::make_symbol("blocks_y"), columns = ir::make_symbol("blocks_x");
    body = grid_loop(block_column_, number(0), ir::var(columns), body, sum_.columns->location);
    body = grid_loop(block_row_, number(0), ir::var(rows), body, sum_.rows->location);
    for (auto it = nest_.loops.rbegin(); it != nest_.loops.rend(); ++it)
      if (*it != sum_.rows && *it != sum_.columns)
        body = grid_loop((*it)->iterator, (*it)->lower, (*it)->upper, body, (*it)->location);
    body = let(columns, ceil_div(sum_.columns->upper - sum_.columns->lower, number(tile_.columns)), body);
    body = let(rows, ceil_div(sum_.rows->upper - sum_.rows->lower, number(tile_.rows)), body);
    return only_if(sum_.when, body);
  }

 private:
  struct Place {                     // of one iteration
    Expr thread, in_row, in_column;  // which of the thread's
    Expr row, column;                // of the tile
  };

  /// threads t: for each of its iterations: body
  template <class Body>
  Stmt own_iterations(Body body) {
    const ir::Symbol t = ir::make_symbol("t"), u = ir::make_symbol("row"), v = ir::make_symbol("column");
    Stmt inner =
        ir::for_loop(v, number(0), number(tile_.thread_columns), body(place(ir::var(t), ir::var(u), ir::var(v))));
    inner = ir::for_loop(u, number(0), number(tile_.thread_rows), inner);
    return threads_loop(t, threads_, inner, where_);
  }

  Place place(const Expr& t, const Expr& u, const Expr& v) const {
    const Expr across = number(tile_.columns / tile_.thread_columns);
    return {t, u, v, div(t, across) * number(tile_.thread_rows) + u, mod(t, across) * number(tile_.thread_columns) + v};
  }

  ir::Substitution existing(const Expr& row, const Expr& column) const {
    ir::Substitution result;
    if (row) result[sum_.rows->iterator] = least(row_start_ + row, sum_.rows->upper - number(1));
    if (column) result[sum_.columns->iterator] = least(column_start_ + column, sum_.columns->upper - number(1));
    return result;
  }

  /// `s` with the thread's own elements in place of the scalars.
  Stmt with_sums(const Stmt& s, const Place& p) const {
    return ir::move_elements(s, [&](const ir::Array& array, const auto&) -> std::optional<ir::ElementPlace> {
      const auto found = kept_.find(array);
      if (found == kept_.end()) return std::nullopt;
      return ir::ElementPlace{found->second, {p.thread, p.in_row, p.in_column}};
    });
  }

  static Stmt declared(Stmt body, const std::vector<ir::Array>& locals) {
    for (const ir::Array& array : locals) body = ir::allocate(array, body, array->location);
    return body;
  }

  Stmt before(const Place& p) const {
    return ir::substitute(declared(with_sums(sum_.before, p), sum_.before_locals), existing(p.row, p.column));
  }

  Stmt after(const Place& p) const {
    const Expr row = row_start_ + p.row, column = column_start_ + p.column;
    const Stmt body = ir::substitute(declared(with_sums(sum_.after, p), sum_.after_locals),
                                     {{sum_.rows->iterator, row}, {sum_.columns->iterator, column}});
    return ir::if_then(
        both(ir::binary(BinaryOp::Lt, row, sum_.rows->upper), ir::binary(BinaryOp::Lt, column, sum_.columns->upper)),
        body);
  }

  /// The conditions that depend on rows, on columns, on neither.
  Expr conditions(bool rows, bool columns) const {
    Expr result;
    for (const Expr& c : sum_.conditions)
      if (mentions(c, sum_.rows->iterator) == rows && mentions(c, sum_.columns->iterator) == columns)
        result = both(result, c);
    return result;
  }

  Stmt steps() {
    const ir::Symbol step = ir::make_symbol(sum_.step.iterator.name + "_step");
    const Expr first = sum_.step.lower + ir::var(step) * number(tile_.steps);
    // What the next step needs is on its way while the terms of this one are added.
    const Expr second = first + number(tile_.steps);
    Stmt body = ir::block({loads(Part::Put, first),
                           ir::if_then(ir::binary(BinaryOp::Lt, second, sum_.step.upper), loads(Part::Fetch, second)),
                           terms(first)});
    body = ir::for_loop(step, number(0), ceil_div(sum_.step.upper - sum_.step.lower, number(tile_.steps)), body,
                        ir::LoopMode::Forward, sum_.step.location);
    body = ir::if_then(ir::binary(BinaryOp::Lt, sum_.step.lower, sum_.step.upper),
                       ir::block({loads(Part::Fetch, sum_.step.lower), body}));
    body = only_if(conditions(false, false), body);
    for (auto it = sum_.outer.rbegin(); it != sum_.outer.rend(); ++it)
      body = ir::for_loop(it->iterator, it->lower, it->upper, body, ir::LoopMode::Forward, it->location);
    return body;
  }

  /// What the thread does for a tile: neighbouring threads load neighbouring elements, a few each, into registers
  /// first.
  enum class Part { Fetch, Put };

  Stmt loads(Part part, const Expr& first) const {
    const ir::Symbol t = ir::make_symbol("t");
    std::vector<Stmt> all;
    for (std::size_t k = 0; k < tiles_.size(); ++k) all.push_back(load(part, k, ir::var(t), first));
    return threads_loop(t, threads_, ir::block(std::move(all)), where_);
  }

  Stmt load(Part part, std::size_t k, const Expr& t, const Expr& first) const {
    const DenseSum::Element& e = sum_.elements[k];
    const std::int64_t width = e.of_rows ? tile_.rows : tile_.columns, threads = tile_.threads();
    const std::int64_t across = std::min(e.along_step ? tile_.steps : width, threads);  // along which neighbours are
    const std::int64_t others = threads / across;
    const ir::Symbol q = ir::make_symbol("part"), r = ir::make_symbol("more");
    const Expr near = mod(t, number(across)) + ir::var(r) * number(across);
    const Expr far = div(t, number(across)) + ir::var(q) * number(others);
    const Expr step = e.along_step ? near : far, place = e.along_step ? far : near;
    const std::int64_t far_extent = e.along_step ? width : tile_.steps,
                       near_extent = e.along_step ? tile_.steps : width;
    const std::int64_t more = near_extent / across;
    const std::vector<Expr> own = {t, ir::var(q) * number(more) + ir::var(r)};
    Stmt body;
    if (part == Part::Put) {
      body = set(tiles_[k], {step, place}, get(next_[k], own));
    } else {
      ir::Substitution values = existing(e.of_rows ? place : Expr(), e.of_rows ? Expr() : place);
      values[sum_.step.iterator] = least(first + step, sum_.step.upper - number(1));
      Expr condition = conditions(e.of_rows, !e.of_rows);
      const Expr value = ir::substitute(bounded(e, condition), values);
      body = set(next_[k], own, value);
      if (condition)
        body = ir::if_then(ir::substitute(condition, values), body,
                           set(next_[k], own, ir::cast(next_[k]->type, ir::int_const(0))));
    }
    body = ir::for_loop(r, number(0), number(more), body);
    return ir::for_loop(q, number(0), number(far_extent / others), body);
  }

  /// The load, inside of its array also where a condition of the others does not hold, as `condition` says.
  Expr bounded(const DenseSum::Element& e, Expr& condition) const {
    const auto* load = e.load.as<ir::Load>();
    const Expr others = conditions(!e.of_rows, e.of_rows);
    std::vector<Expr> indices = load->indices;
    for (std::size_t d = 0; others && d < indices.size(); ++d) {
      const bool meets = std::any_of(sum_.outer.begin(), sum_.outer.end(), [&](const DenseSum::Sum& s) {
        return mentions(indices[d], s.iterator) && mentions(others, s.iterator);
      });
      if (!meets) continue;
      const Expr extent = load->array->shape[d];
      indices[d] = ir::binary(BinaryOp::Max, number(0), least(indices[d], extent - number(1)));
      condition = both(condition, at_least(extent, 1));
    }
    return ir::load(load->array, indices, load->location);
  }

  /// The terms of one step.
  Stmt terms(const Expr& first) const {
    const Expr left = sum_.step.upper - first;
    const Stmt some = own_terms(first, left);
    return ir::if_then(at_least(left, tile_.steps), own_terms(first, number(tile_.steps)), some);
  }

  Stmt own_terms(const Expr& first, const Expr& count) const {
    const ir::Symbol t = ir::make_symbol("t"), l = ir::make_symbol(sum_.step.iterator.name), u = ir::make_symbol("row"),
                     v = ir::make_symbol("column");
    const Place p = place(ir::var(t), ir::var(u), ir::var(v));
    std::vector<ir::Array> own;  // what the thread's iterations use
    std::vector<Stmt> all;
    for (std::size_t k = 0; k < tiles_.size(); ++k) {
      const bool of_rows = sum_.elements[k].of_rows;
      const Expr width = number(of_rows ? tile_.thread_rows : tile_.thread_columns);
      own.push_back(local(sum_.elements[k].load.as<ir::Load>()->array->name + "_own", {width}, tiles_[k]->type));
      const ir::Symbol w = ir::make_symbol(of_rows ? "row" : "column");
      const Place one = place(ir::var(t), ir::var(w), ir::var(w));
      all.push_back(
          ir::for_loop(w, number(0), width,
                       set(own[k], {ir::var(w)}, get(tiles_[k], {ir::var(l), of_rows ? one.row : one.column}))));
    }
    Stmt body = ir::rewrite(sum_.inside, [&](const Expr& e) -> std::optional<Expr> {
      for (std::size_t k = 0; k < tiles_.size(); ++k)
        if (ir::equal(sum_.elements[k].load, e)) return get(own[k], {ir::var(sum_.elements[k].of_rows ? u : v)});
      return std::nullopt;
    });
    body = with_sums(body, p);
    const Expr of_rows = conditions(true, false), of_columns = conditions(false, true);
    const auto along = [&](const ir::Symbol& i, std::int64_t width, const Stmt& s) {
      return ir::for_loop(i, number(0), number(width), s);
    };
    // The condition outermost, so that what is behind it is one piece.
    if (of_columns && !of_rows)
      body = along(v, tile_.thread_columns, only_if(of_columns, along(u, tile_.thread_rows, body)));
    else
      body = along(u, tile_.thread_rows, only_if(of_rows, along(v, tile_.thread_columns, only_if(of_columns, body))));
    all.push_back(body);
    body = ir::block(std::move(all));
    for (const ir::Array& array : own) body = ir::allocate(array, body, where_);
    ir::Substitution values = existing(p.row, p.column);
    values[sum_.step.iterator] = first + ir::var(l);
    body = ir::substitute(body, values);
    body = ir::for_loop(l, number(0), count, body, ir::LoopMode::Forward, sum_.step.location);
    return ir::with_fresh_names(threads_loop(t, threads_, body, where_));
  }

  const ParallelNest& nest_;
  const DenseSum& sum_;
  const BlockTile tile_;
  const Expr threads_;
  const ir::Symbol block_row_ = ir::make_symbol("block_y"), block_column_ = ir::make_symbol("block_x");
  Expr row_start_, column_start_;
  std::map<ir::Array, ir::Array> kept_;
  std::vector<ir::Array> tiles_, next_;
};

/// Of a loop: a part of its iterations, a multiple of `unit` each.
DenseSum::Sum part_of(const DenseSum::Sum& loop, const Expr& part, const Expr& parts, std::int64_t unit) {
  const Expr share = ceil_div(ceil_div(loop.upper - loop.lower, parts), number(unit)) * number(unit);
  DenseSum::Sum result = loop;
  result.lower = loop.lower + part * share;
  result.upper = least(result.lower + share, loop.upper);
  return result;
}

}  // namespace

const DenseSum::Sum* loop_in_parts(const ParallelNest& nest, const DenseSum& sum) {
  const auto is_known = [&](const DenseSum::Sum& loop) {
    return host_knows(loop.lower) && host_knows(loop.upper) &&
           std::none_of(nest.loops.begin(), nest.loops.end(), [&](const ir::For* n) {
             return mentions(loop.lower, n->iterator) || mentions(loop.upper, n->iterator);
           });
  };
  for (const ir::Array& s : sum.sums)
    if (s->type != ScalarType::F32 && s->type != ScalarType::F64) return nullptr;
  bool adds = true;
  ir::walk_stmts(sum.inside, [&](const Stmt& s) {
    if (const auto* n = s.as<ir::Reduce>()) adds &= n->op == ir::ReduceOp::Add;
  });
  if (!adds) return nullptr;
  if (!sum.outer.empty() && is_known(sum.outer.front())) return &sum.outer.front();
  return is_known(sum.step) ? &sum.step : nullptr;
}

Stmt split_tile_kernel(const ParallelNest& nest, const DenseSum& sum, const BlockTile& tile, const Expr& parts,
                       const std::function<Stmt(const Stmt&)>& combined) {
  const SourceLocation& where = sum.step.location;
  const ir::Symbol part = ir::make_symbol("part"), count = ir::make_symbol("parts");
  DenseSum own = sum;
  const DenseSum::Sum* loop = loop_in_parts(nest, own);
  if (loop == &own.step) own.step = part_of(own.step, ir::var(part), ir::var(count), tile.steps);
  else own.outer.front() = part_of(own.outer.front(), ir::var(part), ir::var(count), 1);
  std::vector<Expr> shape = {ir::var(count)}, place, index;
  for (const ir::For* n : nest.loops) {
    shape.push_back(n->upper - n->lower);
    place.push_back(ir::var(n->iterator) - n->lower);
  }
  std::vector<Stmt> before, after, sums;
  std::vector<ir::Array> partial;
  const ir::Symbol other = ir::make_symbol("part");
  const auto at = [&](const ir::Symbol& p) {
    std::vector<Expr> result = {ir::var(p)};
    result.insert(result.end(), place.begin(), place.end());
    return result;
  };
  for (const ir::Array& s : sum.sums) {
    partial.push_back(ir::make_array(s->name + "_partial", s->type, shape, ir::ArrayRole::Local, where));
    before.push_back(ir::assign(s, {}, ir::float_const(0, s->type), where));
    after.push_back(ir::assign(partial.back(), at(part), ir::load(s, {}), where));
    sums.push_back(ir::reduce(s, {}, ir::ReduceOp::Add, ir::load(partial.back(), at(other)), where));
  }
  own.before = ir::block(before);
  own.after = ir::block(after);
  own.before_locals = own.after_locals = {};
  own.when = {};
  ParallelNest with_parts = nest;
  with_parts.owned.push_back(ir::for_loop(part, number(0), ir::var(count), nest.body, ir::LoopMode::Parallel, where));
  with_parts.loops.insert(with_parts.loops.begin(), with_parts.owned.back().as<ir::For>());
  Stmt result = ir::with_fresh_names(shared_tile_kernel(with_parts, own, tile));
  Stmt once = ir::block({sum.before, ir::for_loop(other, number(0), ir::var(count), ir::block(sums)), sum.after});
  for (const auto* locals : {&sum.sums, &sum.before_locals, &sum.after_locals})
    for (const ir::Array& array : *locals) once = ir::allocate(array, once, where);
  for (auto it = nest.loops.rbegin(); it != nest.loops.rend(); ++it) once = with_body(**it, once);
  result = ir::block({result, combined(ir::with_fresh_names(once))});
  for (const ir::Array& p : partial) result = ir::allocate(p, result, where);
  return only_if(sum.when, let(count, parts, result));
}

Stmt shared_tile_kernel(const ParallelNest& nest, const DenseSum& sum, const BlockTile& tile) {
  return Kernel(nest, sum, tile).make();
}

}  // namespace loopgrad::transforms

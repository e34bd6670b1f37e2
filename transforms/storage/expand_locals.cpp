#include "transforms/storage/expand_locals.h"

#include "dsl/poly/abstraction.h"
#include "dsl/poly/coalesced.h"
#include "dsl/poly/extremes.h"
#include "dsl/symbolic/csr_rows.h"
#include "dsl/symbolic/linear_form.h"
#include "dsl/symbolic/ranges.h"
#include "transforms/analysis/nest.h"
#include "transforms/bounds/open_accesses.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::Expr;
using ir::Stmt;

std::vector<Stmt> loops_of(const std::vector<Stmt>& around) {
  std::vector<Stmt> result;
  for (const Stmt& s : around) {
    if (s.kind() == ir::Kind::For || s.kind() == ir::Kind::While) result.push_back(s);
  }
  return result;
}

namespace {

// A new dimension: the iterator's values start at `lowest` and there are at most `extent`. In a band around those of
// other loops they have `room`, counted from `origin`.
struct Dimension {
  ir::Symbol iterator;
  Expr lowest, extent;
  Expr origin, room;

  Dimension(const ir::Symbol& i, const Expr& from, const Expr& most)
      : iterator(i), lowest(from), extent(most), origin(from), room(most) {}
};

struct Expanded {
  ir::Array array;
  std::vector<Dimension> dimensions;
};

const ir::Symbol& iterator_of(const Stmt& loop) {
  auto* node = loop.as<ir::For>();
  return node ? node->iterator : loop.as<ir::While>()->iterator;
}

bool accesses(const poly::Statement& s, const ir::Array& array) {
  return std::any_of(s.accesses.begin(), s.accesses.end(),
                     [&](const poly::Access& access) { return access.array == array; });
}

// The loop over the rows whose entries `loop` enumerates, when the row is that loop's iterator up to an offset.
std::optional<ir::Symbol> row_loop_of(const poly::Model& model, const Stmt& loop, std::size_t depth,
                                      const std::vector<Stmt>& loops) {
  bool csr = std::any_of(model.statements.begin(), model.statements.end(), [&](const poly::Statement& s) {
    return s.loops.size() > depth && s.loops[depth].get() == loop.get() &&
           std::any_of(s.entries.begin(), s.entries.end(),
                       [&](const poly::CsrEntry& entry) { return entry.dim == static_cast<int>(depth); });
  });
  if (!csr) return std::nullopt;
  const auto& header = *loop.as<ir::For>();
  const ir::Load* const start = ir::pointer_bounds(header.lower, header.upper).start;
  if (!start) return std::nullopt;  // the rest of a row, which a loop around goes through
  const Expr& row = start->indices[0];
  std::optional<ir::Symbol> result;
  for (const Stmt& outer : loops) {
    if (!mentions(row, iterator_of(outer))) continue;
    auto coefficient = coefficient_of(row, iterator_of(outer));
    if (result || !coefficient || std::abs(*coefficient) != 1) return std::nullopt;
    result = iterator_of(outer);
  }
  return result;
}

// `extent`, or 0 where it is negative (a nest without iterations).
Expr at_least_zero(const poly::Model& model, const Expr& extent) {
  Expr negative = ir::binary(ir::BinaryOp::Lt, extent, ir::int_const(0));
  auto set = poly::to_set(negative, {model.context, {}, ""});
  if (set && set->params().intersect(model.assumptions).is_empty()) return extent;
  return ir::binary(ir::BinaryOp::Max, extent, ir::int_const(0));
}

// Bounds of iterators, as expressions in symbols from outside the nest.
class Dimensions {
 public:
  explicit Dimensions(const poly::Model& model) : model_(model) {}

  // Of iterator `depth`, that of `loop`, over everything that accesses the array.
  std::optional<Dimension> of(const ir::Array& array, const Stmt& loop, std::size_t depth) {
    std::optional<isl::set> values;
    for (const poly::Statement& s : model_.statements) {
      if (!accesses(s, array)) continue;
      const isl::set one = values_in(s, depth);
      // Most often it is the same for all of them.
      values = values ? poly::coalesced(is_plainly_equal(*values, one) ? *values : values->unite(one)) : one;
    }
    if (!values) return std::nullopt;
    for (const Found& found : found_)
      if (found.loop.same_as(loop) && is_plainly_equal(found.values, *values)) return found.dimension;
    found_.push_back({loop, *values, bounds_of(*values, loop)});
    return found_.back().dimension;
  }

 private:
  struct Found {
    Stmt loop;
    isl::set values;
    std::optional<Dimension> dimension;
  };

  bool is_plainly_equal(const isl::set& a, const isl::set& b) const {
    return poly::checked(*model_.context, isl_set_plain_is_equal(a.get(), b.get()));
  }

  const isl::set& values_in(const poly::Statement& s, std::size_t depth) {
    isl::set& known = values_[{&s, depth}];
    if (!known.is_null()) return known;
    auto dims = static_cast<unsigned>(s.iterators.size());
    auto k = static_cast<unsigned>(depth);
    isl_set* set = isl_set_project_out(s.domain.copy(), isl_dim_set, k + 1, dims - k - 1);
    set = isl_set_project_out(isl_set_reset_tuple_id(set), isl_dim_set, 0, k);
    return known = poly::checked(*model_.context, set).intersect_params(model_.assumptions);
  }

  std::optional<Dimension> bounds_of(const isl::set& values, const Stmt& loop) const {
    if (values.is_empty()) return std::nullopt;
    poly::Context& context = *model_.context;
    const auto lowest = poly::least_of(context, values, 0), highest = poly::greatest_of(context, values, 0);
    if (!lowest || !highest) return std::nullopt;
    Expr first = poly::to_expr(*lowest, {}, context, model_.assumptions);
    Expr last = poly::to_expr(*highest, {}, context, model_.assumptions);
    Expr extent = simplify_indices(last - first + ir::int_const(1));
    return Dimension(iterator_of(loop), simplify_indices(first), at_least_zero(model_, extent));
  }

  const poly::Model& model_;
  std::map<std::pair<const poly::Statement*, std::size_t>, isl::set> values_;
  std::vector<Found> found_;
};

// The local's own shape, where an extent that depends on the loops around it (a triangle's row) is the largest that it
// takes in them.
std::optional<std::vector<Expr>> largest_shape(const std::vector<Expr>& shape, const std::vector<Stmt>& loops,
                                               const std::vector<Dimension>& dimensions) {
  ir::RangeContext context;
  for (const Dimension& d : dimensions)
    context.variables[d.iterator] = {d.lowest, simplify_indices(d.lowest + d.extent - ir::int_const(1))};
  const auto varies = [&](const Expr& e) {
    return std::any_of(loops.begin(), loops.end(), [&](const Stmt& loop) { return mentions(e, iterator_of(loop)); });
  };
  context.leaf = [&](const Expr& leaf) { return varies(leaf) ? std::nullopt : std::optional(ir::Range{leaf, leaf}); };
  std::vector<Expr> result;
  for (const Expr& extent : shape) {
    const std::optional<Expr> largest = varies(extent) ? highest_of(extent, context) : extent;
    if (!largest) return std::nullopt;
    result.push_back(simplify_indices(*largest));
  }
  return result;
}

// Where data decide how often a loop runs, but no more than facts and sizes allow.
std::optional<Dimension> dimension_of(const IndexRanges& ranges, const Stmt& loop) {
  const auto values = ranges.range_of(ir::var(iterator_of(loop)));
  if (!values) return std::nullopt;
  const Expr extent = simplify_indices(values->highest - values->lowest + ir::int_const(1));
  return Dimension(iterator_of(loop), values->lowest, ir::larger(extent, ir::int_const(0)));
}

bool is_surely_at_least(const Expr& a, const Expr& b) {
  const auto* larger = a.as<ir::Binary>();
  if (larger && larger->op == ir::BinaryOp::Max)
    return is_surely_at_least(larger->a, b) || is_surely_at_least(larger->b, b);
  return ir::as_int(simplify_indices(a - b)).value_or(-1) >= 0;
}

/// Elements for a loop that runs `most` times at most, counted from where it begins, not from the lowest value that is
/// used: a branch may leave out the first ones.
Expr room_from(const Expr& begin, const Expr& most, const Dimension& dimension, const IndexRanges& ranges) {
  const auto begins = ranges.range_of(begin);
  if (!begins) return most;
  const Expr before = simplify_indices(dimension.lowest - begins->lowest);
  if (is_surely_at_least(begins->lowest, dimension.lowest))
    return simplify_indices(ir::smaller(most, dimension.extent));
  return simplify_indices(ir::smaller(most, ir::larger(before + dimension.extent, ir::int_const(0))));
}

/// Where the loop takes a part of its values in each iteration of those around it, of a width that sizes tell.
void keep_band(Dimension& dimension, const IndexRanges& ranges, const std::vector<Stmt>& loops, std::size_t depth) {
  const auto* n = loops[depth].as<ir::For>();
  if (!n) return;
  const auto is_fixed = [&](const Expr& e) {
    return std::none_of(loops.begin(), loops.end(), [&](const Stmt& loop) { return mentions(e, iterator_of(loop)); });
  };
  const auto width = band_width(n->lower, n->upper, is_fixed);
  if (!width) return;
  dimension.origin = n->lower;
  dimension.room = room_from(n->lower, *width, dimension, ranges);
}

/// Where data decide where the loop begins, and a promise how long it is at most (bound_accesses.h).
void keep_trips(Dimension& dimension, const IndexRanges& ranges, const std::vector<Stmt>& loops, std::size_t depth) {
  const auto* n = loops[depth].as<ir::For>();
  if (!n || !n->at_most || !ir::has_load(n->lower) || ir::has_load(n->at_most)) return;
  const std::set<ir::Array> stored = stored_in(n->body);
  bool is_kept = true;
  ir::walk(n->lower, [&](const Expr& e) {
    if (const auto* load = e.as<ir::Load>()) is_kept &= !stored.count(load->array);
  });
  for (const Stmt& loop : loops) is_kept &= !mentions(n->at_most, iterator_of(loop));
  if (!is_kept) return;
  dimension.origin = n->lower;
  dimension.room = room_from(n->lower, n->at_most, dimension, ranges);
}

/// A bound of a loop, or where it is an iterator of one of the `loops` around it, up to a number, that of this one.
Expr widest(const Expr& bound, bool is_upper, const std::vector<Stmt>& loops, std::size_t depth) {
  const ir::Entry entry = ir::entry_of(bound);
  const auto* at = entry.base.as<ir::Var>();
  while (at && depth-- > 0) {
    const auto* around = loops[depth].as<ir::For>();
    if (!around || around->iterator != at->symbol) continue;
    const Expr own = is_upper ? around->upper + ir::int_const(entry.offset - 1)  // one past the iterator's last value
                              : around->lower + ir::int_const(entry.offset);
    return widest(own, is_upper, loops, depth);
  }
  return bound;
}

/// Where the loop goes through a row of a CSR structure, or a part of one, that something else chooses than a loop over
/// the rows. The part may begin or end where another loop over the row is.
void keep_row(const ir::Program& program, Dimension& dimension, const std::vector<Stmt>& loops, std::size_t depth) {
  const ir::For& loop = *loops[depth].as<ir::For>();
  const Expr lowest = widest(loop.lower, false, loops, depth), highest = widest(loop.upper, true, loops, depth);
  const auto [start, end, whole] = ir::pointer_bounds(lowest, highest);
  const ir::Fact* const fact = start ? ir::csr_fact(program, start->array) : nullptr;
  if (!fact || !fact->longest || !ir::is_next_row(start->indices[0], end->indices[0])) return;
  bool is_fixed = true;  // nothing that the nest computes decides
  ir::walk(loop.lower, [&](const Expr& e) {
    if (const auto* load = e.as<ir::Load>()) is_fixed &= load->array->role == ir::ArrayRole::Input;
  });
  if (!is_fixed) return;
  dimension.origin = loop.lower;
  dimension.room = fact->longest;
}

/// Where trips follow from the length of a row of a CSR structure: the longest one says more than all of them.
void keep_longest(const ir::Program& program, Dimension& dimension, const IndexRanges& ranges, const Stmt& loop) {
  const auto by_facts = dimension_of(ranges, loop);
  if (!by_facts) return;
  const bool follows = std::any_of(program.facts.begin(), program.facts.end(), [&](const ir::Fact& fact) {
    const auto* longest = fact.longest ? fact.longest.as<ir::Var>() : nullptr;
    return longest && mentions(by_facts->extent, longest->symbol);
  });
  if (!follows) return;
  dimension.origin = by_facts->lowest;
  dimension.room = by_facts->extent;
}

std::optional<Expanded> expand(const ir::Program& program, const poly::Model& model, Dimensions& bounds,
                               IndexRanges& ranges, const LocalArray& local, const std::set<ir::Symbol>& innermost) {
  std::vector<Stmt> loops = loops_of(local.around);
  std::vector<Dimension> dimensions;
  for (std::size_t depth = 0; depth < loops.size(); ++depth) {
    const auto row = row_loop_of(model, loops[depth], depth, loops);
    if (row) {
      dimensions.erase(
          std::remove_if(dimensions.begin(), dimensions.end(), [&](const Dimension& d) { return d.iterator == *row; }),
          dimensions.end());
    }
    auto dimension = bounds.of(local.array, loops[depth], depth);
    ranges.enter(loops[depth]);
    if (!dimension) dimension = dimension_of(ranges, loops[depth]);
    if (!dimension) return std::nullopt;
    keep_band(*dimension, ranges, loops, depth);
    if (!row) {  // else entries stand for their rows, too, so that they are counted through
      keep_longest(program, *dimension, ranges, loops[depth]);
      keep_trips(*dimension, ranges, loops, depth);
      if (loops[depth].kind() == ir::Kind::For) keep_row(program, *dimension, loops, depth);
    }
    dimensions.push_back(*dimension);
  }
  std::stable_partition(dimensions.begin(), dimensions.end(),
                        [&](const Dimension& d) { return innermost.count(d.iterator) == 0; });
  std::vector<Expr> shape;
  for (const Dimension& dimension : dimensions) shape.push_back(dimension.room);
  const auto own = largest_shape(local.array->shape, loops, dimensions);
  if (!own) return std::nullopt;
  shape.insert(shape.end(), own->begin(), own->end());
  ir::Array array =
      ir::make_array(local.array->name + "_all", local.array->type, shape, ir::ArrayRole::Local, local.array->location);
  return Expanded{array, dimensions};
}

// Moves the accesses of some locals to their expanded arrays and drops their Allocates.
Stmt with_moved(const Stmt& s, const std::map<ir::Array, Expanded>& moved) {
  const Stmt bare = ir::rewrite(s, {}, [&](const Stmt& child) -> std::optional<Stmt> {
    auto* scope = child.as<ir::Allocate>();
    return scope && moved.count(scope->array) ? std::optional(with_moved(scope->body, moved)) : std::nullopt;
  });
  return ir::move_elements(
      bare, [&](const ir::Array& array, const std::vector<Expr>& indices) -> std::optional<ir::ElementPlace> {
        const auto to = moved.find(array);
        if (to == moved.end()) return std::nullopt;
        ir::ElementPlace place{to->second.array, {}};
        for (const Dimension& dimension : to->second.dimensions)
          place.indices.push_back(simplify_indices(ir::var(dimension.iterator) - dimension.origin));
        place.indices.insert(place.indices.end(), indices.begin(), indices.end());
        return place;
      });
}

}  // namespace

std::optional<Expansion> expand_locals(const ir::Program& program, const poly::Model& model, const Stmt& nest,
                                       const std::vector<ir::Array>& locals, const InnermostDimensions& innermost) {
  return poly::guarded(*model.context, [&]() -> std::optional<Expansion> {
    std::map<ir::Array, Expanded> moved;
    Dimensions bounds(model);
    IndexRanges ranges(program);
    Expansion result;
    for (const LocalArray& local : locals_of(nest)) {
      if (std::find(locals.begin(), locals.end(), local.array) == locals.end()) continue;
      const auto last = innermost.find(local.array);
      auto expanded = expand(program, model, bounds, ranges, local,
                             last == innermost.end() ? std::set<ir::Symbol>() : last->second);
      if (!expanded) return std::nullopt;
      result.arrays.push_back(expanded->array);
      moved.emplace(local.array, *expanded);
    }
    result.nest = with_moved(nest, moved);
    return result;
  });
}

}  // namespace loopgrad::transforms

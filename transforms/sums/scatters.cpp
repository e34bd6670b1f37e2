#include "transforms/sums/scatters.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/csr_rows.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/nest.h"
#include "transforms/bounds/open_accesses.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

namespace {

constexpr std::int64_t most_summed = 64;  // trips of a loop that one thread makes for each instance

bool mentions_any(const Expr& e, const Loops& loops) {
  return std::any_of(loops.begin(), loops.end(), [&](const ir::For* loop) { return mentions(e, loop->iterator); });
}

bool bounds_mention(const ir::For& loop, const Loops& loops) {
  return mentions_any(loop.lower, loops) || mentions_any(loop.upper, loops);
}

bool bounds_load(const ir::For& loop) { return ir::has_load(loop.lower) || ir::has_load(loop.upper); }

/// Of a loop over ptr[r]..ptr[r + 1], a row of a CSR structure: what is known of that, and r. Null for other loops.
std::pair<const ir::Fact*, Expr> csr_row_of(const ir::Program& program, const ir::For& loop) {
  const auto [first, last, whole] = ir::pointer_bounds(loop.lower, loop.upper);
  if (!whole || first->array->role != ir::ArrayRole::Input) return {};
  if (!ir::is_next_row(first->indices[0], last->indices[0])) return {};
  const ir::Fact* const fact = ir::csr_fact(program, first->array);
  return fact ? std::pair(fact, first->indices[0]) : std::pair<const ir::Fact*, Expr>();
}

/// The total of a CSR structure whose rows the loop runs over, one for each iteration of `rows`; null for other loops.
Expr entries_of(const ir::Program& program, const ir::For& loop, const ir::For& rows) {
  const auto [csr, row] = csr_row_of(program, loop);
  return csr && same_value(row, ir::var(rows.iterator)) ? ir::cast(ScalarType::I64, csr->upper) : Expr{};
}

/// The loops with every one over the entries of CSR rows directly inside that over the rows: what is between them
/// decides nothing about the entries.
Loops with_rows_beside_entries(const ir::Program& program, Loops loops) {
  for (std::size_t k = 2; k < loops.size(); ++k)
    for (std::size_t row = 0; row + 1 < k; ++row)
      // Where two structures have the same rows, the first one's entries stay there.
      if (entries_of(program, *loops[k], *loops[row]) && !entries_of(program, *loops[row + 1], *loops[row])) {
        const auto first = loops.begin() + static_cast<std::ptrdiff_t>(row + 1);
        std::rotate(first, loops.begin() + static_cast<std::ptrdiff_t>(k),
                    loops.begin() + static_cast<std::ptrdiff_t>(k + 1));
        break;
      }
  return loops;
}

/// A bound with sums of 32 bits made in 64, so that what they have in common with the other one cancels.
Expr widened(const Expr& bound) {
  const auto* cast = bound.as<ir::Cast>();
  const auto* sum = cast && cast->a.type() == ScalarType::I32 ? cast->a.as<ir::Binary>() : nullptr;
  if (!sum || (sum->op != BinaryOp::Add && sum->op != BinaryOp::Sub)) return bound;
  const auto wide = [](const Expr& e) { return widened(ir::cast(ScalarType::I64, e)); };
  return ir::binary(sum->op, wide(sum->a), wide(sum->b));
}

}  // namespace

Expr most_trips_of(const ir::Program& program, const ir::For& loop, const Loops& inside) {
  const auto in_sizes = [&](const Expr& e) { return e && !ir::has_load(e) && !mentions_any(e, inside); };
  if (in_sizes(loop.at_most)) return ir::larger(loop.at_most, ir::int_const(0));
  if (const ir::Fact* csr = csr_row_of(program, loop).first; csr && csr->longest) return csr->longest;
  IndexRanges ranges(program);
  for (const ir::For* around : inside) ranges.enter(*around);
  // What is never negative only wraps to what is, which ends the loop sooner.
  const Expr wide = widened(loop.upper);
  const auto end = ranges.range_of(wide);
  const bool is_bound = end && ir::as_int(end->lowest).value_or(-1) >= 0;
  const auto trips = ranges.range_of(simplify_indices((is_bound ? wide : loop.upper) - loop.lower));
  if (!trips || !in_sizes(trips->highest)) return {};
  return simplify_indices(ir::larger(trips->highest, ir::int_const(0)));
}

namespace {

/// What the loops over instances are; nullopt where only data tells how often one runs.
std::optional<std::vector<ScatterFactor>> factors_of(const ir::Program& program, const Loops& loops,
                                                     const Loops& around) {
  std::vector<ScatterFactor> factors;
  for (std::size_t k = 0; k < loops.size(); ++k) {
    const ir::For& loop = *loops[k];
    // Rows are looked up from outside of all loops, so that their own bounds may not depend on these.
    const Loops before(loops.begin(), loops.begin() + static_cast<std::ptrdiff_t>(k > 0 ? k - 1 : 0));
    const bool can_be_looked_up = k > 0 && (!factors.back().csr.empty() || !(bounds_mention(*loops[k - 1], before) ||
                                                                             bounds_mention(*loops[k - 1], around)));
    if (const Expr entries = can_be_looked_up ? entries_of(program, loop, *loops[k - 1]) : Expr{}) {
      std::vector<CsrLoops> csr = std::move(factors.back().csr);
      csr.push_back({loops[k - 1], &loop, entries});
      factors.back() = {&loop, entries, false, std::move(csr)};
    } else if (bounds_load(loop) || bounds_mention(loop, loops) || bounds_mention(loop, around)) {
      Loops inside = around;
      inside.insert(inside.end(), loops.begin(), loops.begin() + static_cast<std::ptrdiff_t>(k));
      const Expr most = most_trips_of(program, loop, inside);
      if (!most) return std::nullopt;
      factors.push_back({&loop, most, true});
    } else {
      const Expr trips = simplify_indices(loop.upper - loop.lower);
      const bool known = is_never_negative(program, trips);
      factors.push_back({&loop, known ? trips : ir::larger(trips, ir::int_const(0))});
    }
  }
  return factors;
}

/// The only sum in a leaf of conditions, scalars of its own and what they are assigned; null for others.
const ir::Reduce* only_sum(const Stmt& leaf) {
  const ir::Reduce* sum = nullptr;
  std::set<ir::Array> own;
  bool plain = true;
  ir::walk_stmts(leaf, [&](const Stmt& s) {
    if (const auto* local = s.as<ir::Allocate>()) {
      plain &= local->array->shape.empty();
      own.insert(local->array);
    } else if (const auto* one = s.as<ir::Reduce>()) {
      plain &= !sum;
      sum = one;
    } else if (const auto* set = s.as<ir::Assign>()) {
      plain &= own.count(set->array) > 0;
    } else {
      plain &= s.kind() == ir::Kind::Block || s.kind() == ir::Kind::If;
    }
  });
  return plain && sum && !own.count(sum->array) ? sum : nullptr;
}

/// Which loops of the nest are over rows: all but those that decide about keys or about other such loops, and those
/// that do not separate elements.
std::set<const ir::For*> rows_of(const Loops& loops, const ir::Reduce& sum, std::vector<std::size_t>& dims) {
  std::set<const ir::For*> rows(loops.begin(), loops.end());
  const auto is_instance = [&](const ir::For* loop) { return !rows.count(loop); };
  const auto mentions_instance = [&](const Expr& e) {
    return std::any_of(loops.begin(), loops.end(),
                       [&](const ir::For* l) { return is_instance(l) && mentions(e, l->iterator); });
  };
  for (bool more = true; more;) {
    more = false;
    dims.clear();
    for (std::size_t d = 0; d < sum.indices.size(); ++d)
      if (ir::has_load(sum.indices[d]) || mentions_instance(sum.indices[d])) dims.push_back(d);
    for (const ir::For* loop : loops) {
      if (is_instance(loop)) continue;
      bool is_row = !bounds_load(*loop) && !mentions_instance(loop->lower) && !mentions_instance(loop->upper);
      for (const std::size_t d : dims) is_row &= !mentions(sum.indices[d], loop->iterator);
      for (const ir::For* other : loops)
        if (is_instance(other)) is_row &= !bounds_mention(*other, {loop});
      bool separates = loop->mode == ir::LoopMode::Parallel;
      for (const Expr& index : sum.indices) separates |= distance(index, ir::var(loop->iterator)).has_value();
      if (is_row && separates) continue;
      rows.erase(loop);
      more = true;
    }
  }
  return rows;
}

/// Loops of few trips over instances that differ in nothing but what they add become part of the instance.
void take_summed(Scatter& scatter) {
  const std::vector<Expr> deciders = scatter.deciders();
  const auto belongs = [&](const ir::For* loop) {
    const auto trips = ir::as_int(loop->upper - loop->lower);
    if (!trips || *trips > most_summed || ir::is_parallel(loop->mode)) return false;
    const auto decides = [&](const Expr& e) { return mentions(e, loop->iterator); };
    if (std::any_of(deciders.begin(), deciders.end(), decides)) return false;
    if (std::any_of(scatter.sum->indices.begin(), scatter.sum->indices.end(), decides)) return false;
    for (const Loops* others : {&scatter.sequential, &scatter.outer, &scatter.inner})
      for (const ir::For* other : *others)
        if (bounds_mention(*other, {loop})) return false;
    return true;
  };
  for (std::size_t k = scatter.sequential.size(); k-- > 0 && scatter.sequential.size() > 1;) {
    if (!belongs(scatter.sequential[k])) continue;
    scatter.summed.insert(scatter.summed.begin(), scatter.sequential[k]);
    scatter.sequential.erase(scatter.sequential.begin() + static_cast<std::ptrdiff_t>(k));
  }
}

/// The loops of a perfect nest, outermost first, and what is in them. A condition around inner loops is one of what is
/// in them as well, unless it keeps them from reading where they end.
std::pair<Loops, Stmt> perfect_nest(const Stmt& nest) {
  Loops loops;
  std::vector<const ir::If*> conditions;  // since the innermost loop so far, and those around loops
  Stmt at = nest;
  for (Stmt next = nest; next;) {
    if (const auto* loop = next.as<ir::For>()) {
      if (!conditions.empty() && bounds_load(*loop)) break;
      loops.push_back(loop);
      next = at = loop->body;
    } else if (const auto* branch = next.as<ir::If>(); branch && !branch->else_body) {
      conditions.push_back(branch);
      next = branch->then_body;
    } else {
      break;
    }
  }
  // Of `conditions`, those below the innermost loop are still in `at`.
  std::set<const ir::StmtNode*> inside;
  ir::walk_stmts(at, [&](const Stmt& s) { inside.insert(s.get()); });
  for (auto it = conditions.rbegin(); it != conditions.rend(); ++it)
    if (!inside.count(*it)) at = ir::if_then((*it)->condition, at, {}, (*it)->location);
  return {std::move(loops), std::move(at)};
}

/// The loops of such a nest by what they are; false where the nest is none.
bool take_loops(const Stmt& nest, Scatter& scatter) {
  if (nest.kind() != ir::Kind::For) return false;
  const auto [loops, at] = perfect_nest(nest);
  scatter.leaf = at;
  scatter.sum = only_sum(at);
  if (!scatter.sum || !has_index_from_data(*scatter.sum)) return false;
  const std::set<const ir::For*> rows = rows_of(loops, *scatter.sum, scatter.dims);
  for (const ir::For* loop : loops) {
    if (!rows.count(loop)) scatter.sequential.push_back(loop);
    else (scatter.sequential.empty() ? scatter.outer : scatter.inner).push_back(loop);
  }
  if (scatter.sequential.empty()) return false;
  take_summed(scatter);
  scatter.is_shared_out = ir::is_parallel(loops.front()->mode) && !rows.count(loops.front());
  return true;
}

/// Whether nothing but the sum depends on it, and what decides about keys is the same for all rows.
bool is_separable(const ir::Program& program, const Scatter& s) {
  const ir::Reduce& sum = *s.sum;
  if (sum.atomic || ir::aliased_arrays(program).count(sum.array)) return false;
  const std::vector<ir::Symbol> iterators = s.iterators();
  const auto reads = [&](const Expr& e) { return may_read_target(e, sum, iterators); };
  const std::vector<Expr> deciders = s.deciders();
  if (reads(sum.value) || std::any_of(sum.indices.begin(), sum.indices.end(), reads) ||
      std::any_of(deciders.begin(), deciders.end(), reads))
    return false;
  for (const ir::For* loop : s.sequential)
    if (reads(loop->lower) || reads(loop->upper)) return false;
  return std::none_of(deciders.begin(), deciders.end(), [&](const Expr& decider) {
    return mentions_any(decider, s.outer) || mentions_any(decider, s.inner);
  });
}

}  // namespace

bool may_read_target(const Expr& e, const ir::Reduce& sum, const std::vector<ir::Symbol>& iterators) {
  const auto is_level = [&](const Expr& index) { return !ir::has_load(index) && ir::is_fixed(index, iterators); };
  bool found = false;
  ir::walk(e, [&](const Expr& part) {
    const auto* load = part.as<ir::Load>();
    if (!load || load->array != sum.array) return;
    bool on_another_level = false;
    for (std::size_t d = 0; d < sum.indices.size(); ++d) {
      const bool are_levels = is_level(load->indices[d]) && is_level(sum.indices[d]);
      on_another_level |= are_levels && distance(load->indices[d], sum.indices[d]).value_or(0) != 0;
    }
    found |= !on_another_level;
  });
  return found;
}

bool has_index_from_data(const ir::Reduce& sum) {
  return std::any_of(sum.indices.begin(), sum.indices.end(), ir::has_load);
}

Expr Scatter::key() const {
  std::vector<Expr> places;
  for (const std::size_t d : dims) places.push_back(ir::cast(ScalarType::I64, sum->indices[d]));
  return number_of(places);
}

std::vector<ir::Symbol> Scatter::iterators() const {
  std::vector<ir::Symbol> result;
  for (const Loops* loops : {&sequential, &outer, &inner})
    for (const ir::For* loop : *loops) result.push_back(loop->iterator);
  return result;
}

Expr Scatter::number_of(const std::vector<Expr>& places) const {
  Expr result = places[0];
  for (std::size_t k = 1; k < dims.size(); ++k) result = result * sum->array->shape[dims[k]] + places[k];
  return result;
}

Expr Scatter::targets() const {
  Expr result;
  for (const std::size_t d : dims) result = result ? result * sum->array->shape[d] : sum->array->shape[d];
  return result;
}

std::vector<Expr> Scatter::places_of(const Expr& target) const {
  if (dims.size() == 1) return {target};
  std::vector<Expr> places(dims.size());
  Expr rest = target;
  for (std::size_t k = dims.size(); k-- > 1;) {
    const Expr& extent = sum->array->shape[dims[k]];
    places[k] = ir::binary(BinaryOp::Mod, rest, extent);
    rest = ir::binary(BinaryOp::FloorDiv, rest, extent);
  }
  places[0] = rest;
  return places;
}

Stmt Scatter::over_targets(const std::function<Stmt(const std::vector<Expr>&, const Expr&)>& body) const {
  std::vector<ir::Symbol> symbols;
  std::vector<Expr> places;
  for (std::size_t k = 0; k < dims.size(); ++k) {
    symbols.push_back(ir::make_symbol("target"));
    places.push_back(ir::var(symbols.back()));
  }
  Stmt result = body(places, number_of(places));
  for (std::size_t k = dims.size(); k-- > 0;)
    result = ir::for_loop(symbols[k], ir::int_const(0), sum->array->shape[dims[k]], result, ir::LoopMode::Parallel,
                          leaf->location);
  return result;
}

Expr Scatter::iterations() const {
  Expr product = ir::int_const(1);
  for (const ScatterFactor& factor : factors) product = product * factor.extent;
  return product;
}

Expr Scatter::iterations_up_to(std::int64_t limit) const {
  const auto bounded = [&](const Expr& e) { return ir::binary(BinaryOp::Min, e, ir::int_const(limit)); };
  Expr product = ir::int_const(1);
  for (const ScatterFactor& factor : factors) product = bounded(product * bounded(factor.extent));
  return product;
}

Stmt Scatter::sum_into(const std::vector<Expr>& places, const std::vector<Expr>& instance) const {
  const Stmt one = ir::rewrite(leaf, [&](const Expr& e) -> std::optional<Expr> {
    for (std::size_t k = 0; k < places.size(); ++k) {
      const Expr& index = sum->indices[dims[k]];
      if (ir::has_load(index) && ir::equal(e, index)) return ir::cast(e.type(), places[k]);
    }
    return std::nullopt;
  });
  ir::Substitution values;
  for (std::size_t k = 0; k < sequential.size(); ++k) values[sequential[k]->iterator] = instance[k];
  return ir::substitute(around(summed, one), values);
}

std::vector<Expr> Scatter::deciders() const {
  std::vector<Expr> result = conditions();
  result.insert(result.begin(), key());
  return result;
}

std::vector<Expr> Scatter::conditions() const {
  std::vector<Expr> result;
  ir::walk_stmts(leaf, [&](const Stmt& s) {
    if (const auto* branch = s.as<ir::If>()) result.push_back(branch->condition);
    if (const auto* set = s.as<ir::Assign>()) result.push_back(set->value);
  });
  return result;
}

Stmt Scatter::for_each(const Stmt& in_place_of_sum) const {
  return ir::rewrite(leaf, {}, [&](const Stmt& s) -> std::optional<Stmt> {
    return s.as<ir::Reduce>() == sum ? std::optional(in_place_of_sum) : std::nullopt;
  });
}

std::optional<Scatter> scatter_form(const ir::Program& program, const Stmt& nest) {
  Scatter result;
  result.nest = nest;
  if (!take_loops(nest, result)) return std::nullopt;
  if (!is_separable(program, result)) return std::nullopt;
  result.sequential = with_rows_beside_entries(program, std::move(result.sequential));
  auto factors = factors_of(program, result.sequential, result.outer);
  if (!factors) return std::nullopt;
  result.factors = std::move(*factors);
  return result;
}

std::optional<Scatter> scatter_in(const ir::Program& program, const Stmt& nest) {
  bool planned = false;
  ir::walk_stmts(nest, [&](const Stmt& s) {
    const auto* sum = s.as<ir::Reduce>();
    planned |= sum && sum->by_segments;
  });
  return planned ? scatter_form(program, nest) : std::nullopt;
}

namespace {

/// Of the indices that make up the keys, one by one; nullopt where it is not the same for all instances.
std::optional<std::vector<Expr>> index_distances(const Scatter& a, const Scatter& b, const ir::Substitution& names) {
  if (a.dims.size() != b.dims.size()) return std::nullopt;
  std::vector<Expr> distances;
  for (std::size_t k = 0; k < a.dims.size(); ++k) {
    if (!ir::equal(a.sum->array->shape[a.dims[k]], b.sum->array->shape[b.dims[k]])) return std::nullopt;
    const auto place = [&](const Scatter& s) { return ir::cast(ScalarType::I64, s.sum->indices[s.dims[k]]); };
    const Expr of_a = place(a), of_b = ir::substitute(place(b), names);
    const Expr between = ir::equal(of_a, of_b) ? ir::int_const(0) : simplify_indices(of_b - of_a);
    if (!ir::is_fixed(between, a.iterators()) || !ir::is_fixed(between, b.iterators())) return std::nullopt;
    distances.push_back(between);
  }
  return distances;
}

}  // namespace

std::optional<Expr> key_distance(const Scatter& a, const Scatter& b, const ir::Substitution& names) {
  const auto distances = index_distances(a, b, names);
  return distances ? std::optional(simplify_indices(a.number_of(*distances))) : std::nullopt;
}

bool have_same_targets(const Scatter& a, const Scatter& b, const ir::Substitution& names) {
  const auto distances = index_distances(a, b, names);
  return distances && std::all_of(distances->begin(), distances->end(),
                                  [](const Expr& distance) { return ir::as_int(distance) == 0; });
}

bool are_independent(const Scatter& a, const Scatter& b) {
  if (a.sum->array == b.sum->array) {
    // One of them may read another level of it, which the other one adds to.
    const auto only_adds = [](const Scatter& s) { return !ir::reads(s.leaf, s.sum->array); };
    return a.sum->op == b.sum->op && only_adds(a) && only_adds(b);
  }
  const auto reads = [](const Scatter& s, const ir::Array& array) {
    const auto in_bounds = [&](const ir::For* loop) { return uses(loop->lower, array) || uses(loop->upper, array); };
    return uses(s.leaf, array) || std::any_of(s.sequential.begin(), s.sequential.end(), in_bounds) ||
           std::any_of(s.outer.begin(), s.outer.end(), in_bounds) ||
           std::any_of(s.inner.begin(), s.inner.end(), in_bounds);
  };
  return !reads(a, b.sum->array) && !reads(b, a.sum->array);
}

namespace {

template <class Condition>
Stmt with_plan(const Stmt& body, bool by_segments, const Condition& condition) {
  return ir::rewrite(body, {}, [&](const Stmt& s) -> std::optional<Stmt> {
    const auto* sum = s.as<ir::Reduce>();
    return sum && condition(*sum) ? std::optional(ir::with_segments(*sum, by_segments)) : std::nullopt;
  });
}

}  // namespace

Stmt plan_segments(const Stmt& body, const std::set<std::int64_t>& partials) {
  return with_plan(body, true, [&](const ir::Reduce& sum) {
    return !sum.atomic && !partials.count(sum.array->id) &&
           std::any_of(sum.indices.begin(), sum.indices.end(), ir::has_load);
  });
}

ir::Program without_segments(const ir::Program& program) {
  return ir::with_body(program, with_plan(program.body, false, [](const ir::Reduce& sum) { return sum.by_segments; }));
}

Stmt whole_loop(const ir::For& blocks, const ir::For& columns, const Stmt& body) {
  const auto width = coefficient_of(columns.lower, blocks.iterator);
  const auto* end = columns.upper.as<ir::Binary>();
  const auto* count = blocks.upper.as<ir::Binary>();
  if (!width || *width < 1 || !end || end->op != BinaryOp::Min || !count || count->op != BinaryOp::FloorDiv) return {};
  const Expr size = ir::int_const(*width), first = ir::substitute(columns.lower, {{blocks.iterator, ir::int_const(0)}});
  const bool a_is_last = !mentions(end->a, blocks.iterator);
  const Expr &last = a_is_last ? end->a : end->b, &block_end = a_is_last ? end->b : end->a;
  const bool covers = !mentions(last, blocks.iterator) && same_value(block_end, columns.lower + size) &&
                      ir::as_int(blocks.lower) == 0 && ir::as_int(count->b) == *width &&
                      same_value(count->a, last - first + size - ir::int_const(1));
  bool elsewhere = false;
  ir::walk(
      body, [](const Stmt&) {}, [&](const Expr& e) { elsewhere |= mentions(e, blocks.iterator); });
  if (!covers || elsewhere) return {};
  return ir::for_loop(columns.iterator, simplify_indices(first), last, body, ir::LoopMode::Parallel, columns.location);
}

}  // namespace loopgrad::transforms

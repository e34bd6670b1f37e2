#include "transforms/sums/partial_results.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/csr_rows.h"
#include "dsl/symbolic/linear_form.h"
#include "dsl/symbolic/ranges.h"
#include "transforms/analysis/moving_trips.h"
#include "transforms/analysis/size_estimates.h"
#include "transforms/loops/lane_loops.h"
#include "transforms/sums/tree_sums.h"

#include <algorithm>
#include <map>

namespace loopgrad::transforms {

using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

namespace {

constexpr std::int64_t most_partial_elements = 1 << 25, least_block_work = 64;
// For each element of a block's partial results: terms of the sum, or iterations of other statements, which lanes may
// do many of while the elements are cleared and added up.
constexpr std::int64_t least_own_work = 4, least_nest_work = 64;
// Of one sum, where more than a CPU's number of blocks are wanted.
constexpr std::int64_t enough_blocks = 256;
// Blocks that each sum for many elements have many threads, and all of them should run at the same time.
constexpr std::int64_t wide_blocks = 768, wide_elements = 1024;

Expr quotient(const Expr& a, const Expr& b) { return ir::binary(BinaryOp::FloorDiv, a, b); }

// The number of entries of a CSR structure, or null.
Expr entries_of(const ir::Program& program, const ir::Array& pointer) {
  const ir::Fact* const fact = ir::csr_fact(program, pointer);
  return fact ? fact->upper : Expr();
}

/// An extent of the target that covers what the sums' index in this dimension reaches: the bound of the loops that it
/// is the iterator of, where that is known on entry and surely no more than the array's own extent.
Expr extent_of(const poly::Model& model, const std::vector<Stmt>& sums, std::size_t dim) {
  const Expr whole = sums[0].as<ir::Reduce>()->array->shape[dim];
  Expr bound;
  for (const poly::Statement& s : model.statements) {
    if (std::none_of(sums.begin(), sums.end(), [&](const Stmt& sum) { return sum.get() == s.stmt.get(); })) continue;
    const auto* index = s.stmt.as<ir::Reduce>()->indices[dim].as<ir::Var>();
    const auto iterator = index ? std::find(s.iterators.begin(), s.iterators.end(), index->symbol) : s.iterators.end();
    if (iterator == s.iterators.end()) return whole;
    const auto* loop = s.loops[static_cast<std::size_t>(iterator - s.iterators.begin())].as<ir::For>();
    if (!loop || ir::has_load(loop->upper) || (bound && !same_value(bound, loop->upper))) return whole;
    for (const ir::Symbol& inner : s.iterators)
      if (mentions(loop->upper, inner)) return whole;
    bound = loop->upper;
  }
  if (!bound || same_value(bound, whole)) return whole;
  const bool fits = holds_on_entry(model, ir::binary(BinaryOp::Le, ir::int_const(0), bound)) &&
                    holds_on_entry(model, ir::binary(BinaryOp::Le, bound, whole));
  return fits ? bound : whole;
}

/// Trips of a loop over the entries of rows: where loops of the nest go through the rows, of all of these together, in
/// their place; else, as for a second structure with the same rows, of a row on average.
Expr entries_for(const poly::CsrEntry& entry, const Expr& entries, std::map<ir::Symbol, Expr>& work) {
  const Expr all = ir::cast(ScalarType::I64, entries);
  const bool of_loops = !entry.row.empty() && std::none_of(entry.row.begin(), entry.row.end(), ir::has_load);
  const auto goes_through = [&](const auto& one) {
    return of_loops &&
           std::any_of(entry.row.begin(), entry.row.end(), [&](const Expr& row) { return mentions(row, one.first); });
  };
  if (std::erase_if(work, goes_through) > 0) return all;
  return larger(quotient(all, larger(entry.pointer->shape[0], ir::int_const(1))), ir::int_const(1));
}

}  // namespace

bool Partial::is_small() const {
  auto count = ir::as_int(product(shape));
  return count && *count <= small_array;
}

Partial partial_of(const poly::Model& model, const std::vector<Stmt>& sums) {
  const ir::Reduce& first = *sums[0].as<ir::Reduce>();
  Partial result;
  result.first = sums[0];
  result.target = first.array;
  result.op = first.op;
  for (const Stmt& sum : sums) result.sums.insert(sum.get());
  for (std::size_t dim = 0; dim < first.indices.size(); ++dim) {
    const Expr& index = first.indices[dim];
    bool fixed = !ir::has_load(index);
    for (const Stmt& sum : sums) fixed = fixed && ir::equal(sum.as<ir::Reduce>()->indices[dim], index);
    for (const poly::Statement& s : model.statements) {
      for (const ir::Symbol& iterator : s.iterators) fixed = fixed && !mentions(index, iterator);
    }
    result.fixed.push_back(fixed ? index : Expr());
    if (fixed) continue;
    result.shape.push_back(extent_of(model, sums, dim));
    result.room.push_back(first.array->shape[dim]);
  }
  return result;
}

namespace {

/// With a loop around the nest, as those of a triangle do, which may be none in its last iteration: what is around them
/// takes its time all the same.
bool varies_around(const ir::Program& program, const poly::Statement& statement, const Expr& trips) {
  bool found = false;
  ir::walk(trips, [&](const Expr& e) {
    const auto* n = e.as<ir::Var>();
    if (!n) return;
    const auto is = [&](const std::vector<ir::Symbol>& all) {
      return std::find(all.begin(), all.end(), n->symbol) != all.end();
    };
    found |= !is(program.sizes) && !is(statement.iterators);
  });
  return found;
}

}  // namespace

std::vector<Expr> work_of(const ir::Program& program, const poly::Model& model, const Stmt& sum) {
  auto found = std::find_if(model.statements.begin(), model.statements.end(),
                            [&](const poly::Statement& s) { return s.stmt.get() == sum.get(); });
  if (found == model.statements.end()) throw InternalError("a sum is missing in the model of its nest");
  std::map<ir::Symbol, Expr> work;  // by iterators
  MovingTrips moving(found->iterators);
  for (std::size_t k = 0; k < found->loops.size(); ++k) {
    auto* loop = found->loops[k].as<ir::For>();
    if (!loop) continue;
    auto entry = std::find_if(found->entries.begin(), found->entries.end(),
                              [&](const poly::CsrEntry& e) { return e.dim == static_cast<int>(k); });
    const bool from_pointer = ir::pointer_bounds(loop->lower, loop->upper).start;  // not the rest of a row
    const Expr entries = entry == found->entries.end() || !from_pointer ? Expr() : entries_of(program, entry->pointer);
    Expr trips = simplify_indices(loop->upper - loop->lower);
    if (entries) {
      trips = entries_for(*entry, entries, work);
    } else {
      if (ir::has_load(trips)) {  // how often it runs is up to the data
        trips = ir::int_const(static_cast<std::int64_t>(assumed_trips));
        if (loop->at_most) trips = smaller(trips, loop->at_most);
      }
      trips = moving.of(*loop, trips);
      if (trips && varies_around(program, *found, trips)) trips = larger(trips, ir::int_const(1));
    }
    if (trips) work[loop->iterator] = trips;
  }
  std::vector<Expr> factors;
  for (const ir::Symbol& iterator : found->iterators)
    if (const auto one = work.find(iterator); one != work.end()) factors.push_back(one->second);
  return factors;
}

Expr product(const std::vector<Expr>& factors) {
  Expr result = ir::int_const(1);
  for (const Expr& factor : factors) result = result * factor;
  return result;
}

Expr blocks_for(std::vector<Expr> work, const std::vector<Expr>& shape, bool many) {
  const std::vector<Expr> all = work;
  std::vector<Expr> elements;
  for (const Expr& extent : shape) {
    auto same = std::find_if(work.begin(), work.end(), [&](const Expr& e) { return ir::equal(e, extent); });
    if (same == work.end()) elements.push_back(extent);
    else work.erase(same);
  }
  Expr each = product(elements);
  if (!ir::as_int(each)) each = larger(each, ir::int_const(1));
  Expr wanted = quotient(product(work), ir::int_const(least_own_work) * each);
  if (!many || ir::as_int(product(shape))) return wanted;
  // No division by the number of elements: this is a bound of every loop over the blocks.
  const Expr is_wide = ir::binary(BinaryOp::Ge, product(shape), ir::int_const(wide_elements));
  wanted = ir::select(is_wide, smaller(wanted, ir::int_const(wide_blocks)), wanted);
  const Expr partials = larger(product(shape), ir::int_const(1));
  const Expr affordable =
      smaller(quotient(ir::int_const(most_partial_elements), partials), ir::int_const(enough_blocks));
  return larger(wanted, smaller(affordable, quotient(product(all), ir::int_const(least_block_work))));
}

namespace {

/// The work of the statement of the nest that has most: what the blocks share out.
std::vector<Expr> heaviest_work(const ir::Program& program, const poly::Model& model) {
  SizeEstimator estimator(program, {});
  std::vector<Expr> result;
  double most = 0;
  for (const poly::Statement& s : model.statements) {
    if (s.stmt.kind() != ir::Kind::Assign && s.stmt.kind() != ir::Kind::Reduce) continue;
    std::vector<Expr> work = work_of(program, model, s.stmt);
    const double trips = estimator.value_of(product(work), {});
    if (trips <= most) continue;
    most = trips;
    result = std::move(work);
  }
  return result;
}

/// Where a nest does much else, its threads are worth partial results that its own sums would not be worth.
Expr blocks_for_nest(const std::vector<Expr>& work, const Partial& partial) {
  const Expr elements = larger(product(partial.shape), ir::int_const(1));
  const Expr wanted = quotient(blocks_for(work, partial.shape, false), ir::int_const(least_nest_work / least_own_work));
  return smaller(wanted, quotient(ir::int_const(most_partial_elements), elements));
}

}  // namespace

Expr partial_blocks(const ir::Program& program, const poly::Model& model, const ir::For& nest,
                    const std::vector<Partial>& partials, const Machine& machine) {
  const bool many = machine.is_gpu();
  Expr blocks = ir::int_const(machine.most_partials);
  // There may be few iterations: then no more blocks than iterations, and two iterations for each of some hundred
  // blocks.
  const Expr few = many ? varying_trips(program, nest) : Expr();
  const std::vector<Expr> heaviest = many ? std::vector<Expr>() : heaviest_work(program, model);
  for (const Partial& partial : partials) {
    if (partial.is_small()) continue;
    const std::vector<Expr> own = work_of(program, model, partial.first);
    Expr wanted = blocks_for(own, partial.shape, many);
    if (!many && !same_value(product(own), product(heaviest)))
      wanted = larger(wanted, blocks_for_nest(heaviest, partial));
    if (few)
      wanted =
          larger(wanted, smaller(quotient(few + ir::int_const(1), ir::int_const(2)), ir::int_const(enough_blocks)));
    if (!ir::equal(blocks, smaller(ir::int_const(machine.most_partials), wanted))) blocks = smaller(blocks, wanted);
  }
  if (in_lanes(nest, machine)) {
    const Expr tiles = quotient(simplify_indices(nest.upper - nest.lower), ir::int_const(lanes_of_block));
    blocks = smaller(blocks, tiles);
  }
  // Blocks without iterations would have threads of their own all the same, and the mapping would not see how few
  // work.
  const Expr trips = simplify_indices(nest.upper - nest.lower);
  if (many && !ir::has_load(trips)) blocks = smaller(blocks, trips);
  return ir::as_int(blocks).value_or(0) < 1 ? larger(blocks, ir::int_const(1)) : blocks;
}

bool in_lanes(const ir::For& nest, const Machine& machine) {
  return !machine.is_gpu() && !ir::has_load(nest.lower) && !ir::has_load(nest.upper) && wants_lanes(nest);
}

bool holds_on_entry(const poly::Model& model, const Expr& condition) {
  return poly::guarded(*model.context, [&] {
    const auto set = poly::to_set(condition, {model.context, {}, ""});
    return set && model.assumptions.is_subset(set->params());
  });
}

Expr element_exists(const poly::Model& model, const ir::Array& array, const std::vector<Expr>& indices,
                    const std::vector<ir::Symbol>& inside) {
  Expr result = ir::bool_const(true);
  for (std::size_t d = 0; d < indices.size(); ++d) {
    const Expr& index = indices[d];
    auto* variable = index.as<ir::Var>();
    if (variable && std::count(inside.begin(), inside.end(), variable->symbol)) continue;
    ir::walk(index, [&](const Expr& e) {
      auto* load = e.as<ir::Load>();
      if (load) result = ir::both(result, element_exists(model, load->array, load->indices, inside));
      return !load;
    });
    for (const Expr& divisor : divisors_in(index)) {
      const Expr divides = ir::binary(BinaryOp::Ne, divisor, ir::int_const(0));
      if (!holds_on_entry(model, divides)) result = ir::both(result, divides);
    }
    const Expr own = ir::both(ir::binary(ir::BinaryOp::Le, ir::int_const(0), index),
                              ir::binary(ir::BinaryOp::Lt, index, array->shape[d]));
    if (!holds_on_entry(model, own)) result = ir::both(result, own);
  }
  return result;
}

}  // namespace loopgrad::transforms

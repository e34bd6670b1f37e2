#include "transforms/sums/keyed_loops.h"

#include "dsl/ir/notes.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/linear_form.h"
#include "dsl/symbolic/ranges.h"
#include "transforms/analysis/accesses.h"
#include "transforms/analysis/nest.h"

#include <algorithm>
#include <map>

namespace loopgrad::transforms {

using ir::Array;
using ir::BinaryOp;
using ir::Expr;
using ir::LoopMode;
using ir::Stmt;

IndexRanges ranges_in(const ir::Program& program) {
  IndexRanges ranges(program);
  ir::walk_stmts(program.body, [&](const Stmt& s) {
    if (s.kind() == ir::Kind::For || s.kind() == ir::Kind::While) ranges.enter(s);
  });
  return ranges;
}

namespace {

/// The divisor of integers of a division that may fail; null for others.
Expr open_divisor(const IndexRanges& ranges, const Expr& e) {
  const auto* division = e.as<ir::Binary>();
  const bool divides =
      division && is_integer(e.type()) &&
      (division->op == BinaryOp::Div || division->op == BinaryOp::FloorDiv || division->op == BinaryOp::Mod);
  if (!divides) return {};
  const auto range = ranges.range_of(division->b);
  const bool is_positive = range && ir::as_int(range->lowest).value_or(0) > 0;
  return is_positive || ir::as_int(division->b).value_or(0) != 0 ? Expr() : division->b;
}

}  // namespace

bool can_be_asked_for(const ir::Program& program, const IndexRanges& ranges, const std::vector<Expr>& list) {
  bool can = true;
  for (const Expr& index : list)
    ir::walk(index, [&](const Expr& e) {
      const auto* load = e.as<ir::Load>();
      for (std::size_t d = 0; load && d < load->indices.size(); ++d)
        can &= ranges.stays_within(load->indices[d], load->array->shape[d]);
      const Expr divisor = open_divisor(ranges, e);
      can &= !divisor || ir::is_of_sizes(divisor, program);
    });
  return can;
}

Expr divides_by_no_zero(const ir::Program& program, const IndexRanges& ranges, const std::vector<Expr>& list) {
  std::vector<Expr> divisors;
  Expr result;
  for (const Expr& index : list)
    ir::walk(index, [&](const Expr& e) {
      const Expr divisor = open_divisor(ranges, e);
      const auto is_it = [&](const Expr& other) { return ir::equal(other, divisor); };
      if (!divisor || !ir::is_of_sizes(divisor, program) || std::any_of(divisors.begin(), divisors.end(), is_it))
        return;
      divisors.push_back(divisor);
      const Expr not_zero = ir::binary(BinaryOp::Ne, divisor, ir::int_const(0, divisor.type()));
      result = result ? ir::binary(BinaryOp::And, result, not_zero) : not_zero;
    });
  return result;
}

Expr all_run(const ir::Program& program, const Loops& loops) {
  Expr all;
  ir::Substitution first;
  for (const ir::For* loop : loops) {
    const Expr lower = ir::substitute(loop->lower, first), upper = ir::substitute(loop->upper, first);
    const Expr runs = ir::binary(BinaryOp::Lt, lower, upper);
    if (!ir::is_of_sizes(runs, program)) return {};
    all = ir::both(all, runs);
    first[loop->iterator] = lower;
  }
  return all ? all : ir::bool_const(true);
}

namespace {

/// How far the loops over instances go.
std::vector<Expr> bounds_of(const Scatter& scatter) {
  std::vector<Expr> result;
  for (const ir::For* loop : scatter.sequential) result.insert(result.end(), {loop->lower, loop->upper});
  return result;
}

/// Whether bounds of rows are looked up whatever another loop over instances finds in data.
bool looks_up_rows_first(const Scatter& scatter) {
  std::size_t structures = 0, by_data = 0;
  for (const ScatterFactor& factor : scatter.factors) {
    structures += factor.csr.size();
    by_data += factor.is_ragged;
  }
  return structures > 1 || (structures > 0 && by_data > 0);
}

}  // namespace

Expr when_asked_for(const ir::Program& program, const IndexRanges& ranges, const Scatter& scatter) {
  const std::vector<Expr> deciders = scatter.deciders(), bounds = bounds_of(scatter);
  const bool has_bounds = can_be_asked_for(program, ranges, bounds);
  const Expr divides = divides_by_no_zero(program, ranges, deciders);
  if (has_bounds && can_be_asked_for(program, ranges, deciders)) return divides;
  if (!has_bounds && looks_up_rows_first(scatter)) return ir::bool_const(false);
  Loops around = scatter.outer;
  for (const Loops* more : {&scatter.inner, &scatter.summed}) around.insert(around.end(), more->begin(), more->end());
  for (const ir::For* loop : scatter.sequential)
    if (!has_bounds && all_run(program, {loop})) around.push_back(loop);
  if (around.empty()) return divides;
  const Expr run = all_run(program, around);
  if (!run) return ir::bool_const(false);
  return divides ? ir::both(run, divides) : run;
}

namespace {

/// Whether all iterations have a place of their own in an array with these accesses: in one index the same distance
/// from the iterator.
bool is_own_in_all(const std::vector<Access>& accesses, const ir::For& loop) {
  for (std::size_t d = 0; d < accesses[0].indices.size(); ++d) {
    const auto first = distance(accesses[0].indices[d], ir::var(loop.iterator));
    if (first && std::all_of(accesses.begin(), accesses.end(), [&](const Access& access) {
          return distance(access.indices[d], ir::var(loop.iterator)) == first;
        }))
      return true;
  }
  return false;
}

/// The indices from data of the first access, where all of them have these; else none.
std::vector<Expr> common_key(const std::vector<Access>& accesses) {
  std::vector<Expr> key;
  for (std::size_t d = 0; d < accesses[0].indices.size(); ++d) {
    const Expr& index = accesses[0].indices[d];
    if (!ir::has_load(index)) continue;
    for (const Access& access : accesses)
      if (!ir::equal(access.indices[d], index)) return {};
    key.push_back(index);
  }
  return key;
}

/// Whether each iteration of the loop has one value for it, whatever the other loops of the nest.
bool is_of_iteration(const Expr& key, const KeyedPart& part, const std::set<Array>& stored) {
  std::set<ir::Symbol> inside;
  for (const ir::For* row : part.rows) inside.insert(row->iterator);
  std::set<Array> own;
  ir::walk_stmts(part.body, [&](const Stmt& s) {
    if (const auto* loop = s.as<ir::For>()) inside.insert(loop->iterator);
    if (const auto* loop = s.as<ir::While>()) inside.insert(loop->iterator);
    if (const auto* local = s.as<ir::Allocate>()) own.insert(local->array);
  });
  bool fits = true;
  ir::walk(key, [&](const Expr& e) {
    if (const auto* variable = e.as<ir::Var>()) fits &= !inside.count(variable->symbol);
    if (const auto* load = e.as<ir::Load>()) fits &= !stored.count(load->array) && !own.count(load->array);
  });
  return fits;
}

/// Whether nothing in the nest keeps its iterations where they are: stacks, memory under two names, bounds that need
/// more than sizes, locals as large as the number of an iteration says, which would come from data.
bool can_be_moved(const ir::Program& program, const KeyedPart& nest) {
  bool fits = !ir::uses_stack(nest.loop->body);
  ir::walk_stmts(nest.loop->body, [&](const Stmt& s) {
    const auto* sum = s.as<ir::Reduce>();
    fits &= s.kind() != ir::Kind::Contraction && !(sum && sum->atomic && !ir::is_note(s));
    if (const auto* local = s.as<ir::Allocate>())
      for (const Expr& extent : local->array->shape) fits &= !mentions(extent, nest.loop->iterator);
  });
  const std::set<Array> aliased = ir::aliased_arrays(program);
  for (const Access& access : accesses_of(nest.loop->body)) fits &= !aliased.count(access.array);
  Loops loops = nest.rows;
  loops.push_back(nest.loop);
  for (const ir::For* loop : loops)
    for (const Expr& bound : {loop->lower, loop->upper})
      fits &= !ir::has_load(bound) && std::none_of(loops.begin(), loops.end(), [&](const ir::For* other) {
        return mentions(bound, other->iterator);
      });
  return fits;
}

/// Of the dimensions that a key is about.
std::vector<Expr> key_extents(const Access& access) {
  std::vector<Expr> result;
  for (std::size_t d = 0; d < access.indices.size(); ++d)
    if (ir::has_load(access.indices[d])) result.push_back(access.array->shape[d]);
  return result;
}

/// Whether the indices are those of an element; null where that is known. A list may have -1 for "none", or places
/// beyond a capacity, and a condition in the body that leaves these out.
Expr is_within(const IndexRanges& ranges, const std::vector<Expr>& key, const std::vector<Expr>& extents) {
  Expr result;
  for (std::size_t k = 0; k < key.size(); ++k) {
    if (ranges.stays_within(key[k], extents[k])) continue;
    const Expr index = ir::cast(ScalarType::I64, key[k]);
    const Expr own = ir::binary(ir::BinaryOp::And, ir::binary(ir::BinaryOp::Le, ir::int_const(0), index),
                                ir::binary(ir::BinaryOp::Lt, index, extents[k]));
    result = ir::both(result, own);
  }
  return result;
}

/// What the part is; neither parallel nor with keys where it has to stay in order.
void classify(const ir::Program& program, KeyedPart& part) {
  const std::set<Array> stored = stored_in(part.body);
  std::map<Array, std::vector<Access>> accesses;
  for (const Access& access : accesses_of(part.body)) accesses[access.array].push_back(access);
  const std::vector<Access>* target = nullptr;
  for (const auto& [array, all] : accesses) {
    if (!stored.count(array) || is_own_in_all(all, *part.loop)) continue;
    const std::vector<Expr> key = common_key(all);
    if (key.empty() || (target && !ir::equal(key, part.key))) return;
    part.key = key;
    if (!target) target = &all;
  }
  if (!target) {
    part.is_parallel = true;
    return;
  }
  for (const Expr& index : part.key)
    if (!is_of_iteration(index, part, stored)) return;
  const std::vector<Expr> extents = key_extents(target->front());
  for (const auto& [array, all] : accesses)
    if (stored.count(array) && !is_own_in_all(all, *part.loop) && !ir::equal(key_extents(all.front()), extents)) return;
  const IndexRanges ranges = ranges_in(program);
  if (!can_be_asked_for(program, ranges, part.key)) return;
  part.has_key = is_within(ranges, part.key, extents);
  // The stream of keys, as the sorts know it: iterations that add to the elements.
  const Access& first = target->front();
  std::vector<Expr> indices;
  for (const Expr& index : first.indices) indices.push_back(ir::has_load(index) ? index : ir::int_const(0));
  const Expr nothing = ir::cast(value_type(first.array->type), ir::int_const(0));
  Stmt sum = ir::reduce(first.array, indices, ir::ReduceOp::Add, nothing, part.loop->location);
  if (part.has_key) sum = ir::if_then(part.has_key, sum, {}, part.loop->location);
  part.stream = with_mode(*with_body(*part.loop, sum).as<ir::For>(), LoopMode::Forward);
  part.keys = scatter_form(program, part.stream);
}

/// Statements of a body that stay in one loop.
struct Group {
  std::vector<Stmt> statements;
  std::map<Array, std::vector<Access>> accesses;
  std::set<Array> stored;

  explicit Group(const Stmt& s) : statements{s}, stored(stored_in(s)) {
    for (const Access& access : accesses_of(s)) accesses[access.array].push_back(access);
  }

  void take(Group&& other) {
    statements.insert(statements.end(), other.statements.begin(), other.statements.end());
    stored.merge(other.stored);
    for (auto& [array, all] : other.accesses) {
      std::vector<Access>& mine = accesses[array];
      mine.insert(mine.end(), all.begin(), all.end());
    }
  }
};

enum class Shared { Nothing, OwnPlaces, Others };

/// What one group changes and the other one touches. In places that each iteration has for itself, one loop after the
/// other does what one loop did.
Shared shared_by(const Group& a, const Group& b, const ir::For& loop) {
  Shared result = Shared::Nothing;
  for (const auto& [array, all] : a.accesses) {
    const auto other = b.accesses.find(array);
    if (other == b.accesses.end() || (!a.stored.count(array) && !b.stored.count(array))) continue;
    std::vector<Access> both = all;
    both.insert(both.end(), other->second.begin(), other->second.end());
    if (!is_own_in_all(both, loop)) return Shared::Others;
    result = Shared::OwnPlaces;
  }
  return result;
}

/// The body of the loop, as bodies of loops one after another.
std::vector<Stmt> bodies_of(const ir::For& loop) {
  const auto* block = loop.body.as<ir::Block>();
  if (!block) return {loop.body};
  std::vector<Group> groups;
  for (const Stmt& s : block->body) {
    Group own(s);
    const auto first = std::find_if(groups.begin(), groups.end(),
                                    [&](const Group& group) { return shared_by(group, own, loop) == Shared::Others; });
    std::vector<Group> next(groups.begin(), first);
    if (first == groups.end()) {
      next.push_back(std::move(own));
    } else {
      // What shares something with one of the two stays between them.
      Group joined = *first;
      for (auto group = first + 1; group != groups.end(); ++group) {
        const bool free =
            shared_by(*group, joined, loop) == Shared::Nothing && shared_by(*group, own, loop) == Shared::Nothing;
        if (free) next.push_back(*group);
        else joined.take(Group(*group));
      }
      joined.take(std::move(own));
      next.push_back(std::move(joined));
    }
    groups = std::move(next);
  }
  std::vector<Stmt> result;
  for (Group& group : groups) result.push_back(ir::block(std::move(group.statements)));
  return result;
}

}  // namespace

Stmt KeyedPart::nest() const {
  const Stmt own = with_body(*loop, body);
  return around(rows, is_parallel ? with_mode(*own.as<ir::For>(), LoopMode::Parallel) : own);
}

Expr KeyedPart::width() const {
  Expr result = ir::int_const(1);
  for (const ir::For* row : rows) result = result * ir::larger(row->upper - row->lower, ir::int_const(0));
  return result;
}

std::optional<std::vector<KeyedPart>> keyed_parts(const ir::Program& program, const Stmt& nest) {
  KeyedPart part;
  Stmt at = nest;
  for (; is_parallel_loop(at); at = at.as<ir::For>()->body) part.rows.push_back(at.as<ir::For>());
  part.loop = at.as<ir::For>();
  if (!part.loop || (part.loop->mode != LoopMode::Forward && part.loop->mode != LoopMode::Backward))
    return std::nullopt;
  if (!can_be_moved(program, part)) return std::nullopt;
  std::vector<KeyedPart> result;
  bool has_keys = false;
  for (const Stmt& body : bodies_of(*part.loop)) {
    result.push_back(part);
    result.back().body = body;
    classify(program, result.back());
    has_keys |= result.back().keys.has_value();
  }
  return has_keys ? std::optional(std::move(result)) : std::nullopt;
}

namespace {

/// What iterations without a key do: they touch places of their own only. Null: nothing.
Stmt without_key(const KeyedPart& part) {
  if (!part.has_key) return {};
  std::set<Array> own;
  bool stores = false;  // something else than elements with keys
  ir::walk_stmts(part.body, [&](const Stmt& s) {
    if (const auto* local = s.as<ir::Allocate>()) own.insert(local->array);
    for_each_store(s, [&](const Array& array, const std::vector<Expr>& indices) {
      stores |= !own.count(array) && std::none_of(indices.begin(), indices.end(), [&](const Expr& index) {
        return ir::has_load(index) &&
               std::any_of(part.key.begin(), part.key.end(), [&](const Expr& key) { return ir::equal(index, key); });
      });
    });
  });
  if (!stores) return {};
  const Stmt body = ir::if_then(ir::unary(ir::UnaryOp::Not, part.has_key), part.body, {}, part.loop->location);
  return around(part.rows, with_mode(*with_body(*part.loop, body).as<ir::For>(), LoopMode::Parallel));
}

}  // namespace

Stmt by_keys(const KeyedPart& part, const SortedIterations& sorted) {
  const Stmt keyed = part.keys->over_targets([&](const std::vector<Expr>& places, const Expr& target) {
    const ir::Symbol slot = ir::make_symbol("slot");
    const Stmt here = ir::rewrite(part.body, [&](const Expr& e) -> std::optional<Expr> {
      for (std::size_t k = 0; k < part.key.size(); ++k)
        if (ir::equal(e, part.key[k])) return ir::cast(e.type(), places[k]);
      return std::nullopt;
    });
    const Stmt one = sorted.with_instance_at(ir::var(slot), [&](const std::vector<Expr>& instance) {
      return ir::substitute(here, {{part.loop->iterator, instance.front()}});
    });
    const auto bound = [&](const Array& array) { return ir::cast(ScalarType::I64, ir::load(array, {target})); };
    return around(part.rows, ir::for_loop(slot, bound(sorted.begin), bound(sorted.end), one, part.loop->mode,
                                          part.loop->location));
  });
  const Stmt others = without_key(part);
  return others ? ir::block({ir::with_fresh_names(others), keyed}) : keyed;
}

}  // namespace loopgrad::transforms

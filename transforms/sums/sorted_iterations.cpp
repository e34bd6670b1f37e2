#include "transforms/sums/sorted_iterations.h"

#include "dsl/ir/structural_equal.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::Array;
using ir::BinaryOp;
using ir::Expr;
using ir::LoopMode;
using ir::Stmt;

namespace {

constexpr std::int64_t most_bisections = 31;

/// Of the number of an instance, by one of the extents that it counts: with 32 bits, which both have (`fits`), a device
/// divides several times faster.
Expr quotient_of(const Expr& number_of_instance, const Expr& extent) {
  const auto at_least = [](const Expr& e, std::int64_t least) {
    return ir::binary(BinaryOp::Max, ir::cast(ScalarType::I32, e), ir::int_const(least, ScalarType::I32));
  };
  return ir::cast(ScalarType::I64,
                  ir::binary(BinaryOp::FloorDiv, at_least(number_of_instance, 0), at_least(extent, 1)));
}

}  // namespace

SortedIterations::SortedIterations(const Scatter& scatter, bool in_order, const SortShares& shares, const Expr& when)
    : OrderBuilder(scatter.leaf->location),
      s_(scatter),
      is_in_order_(in_order),
      when_(when),
      targets(scatter.targets()),
      count(scatter.iterations()),
      shares_(shares) {
  words_ = local("words", {number(2), room()});
  key = local("key", {room()}, ScalarType::I32);
  begin = local("begin", {targets}, ScalarType::I32);
  end = local("end", {targets}, ScalarType::I32);
  const bool some_miss = !s_.is_plain() || s_.may_miss ||
                         std::any_of(s_.factors.begin(), s_.factors.end(),
                                     [](const ScatterFactor& f) { return !f.csr.empty() || f.is_ragged; });
  if (some_miss && !is_in_order_) {
    left_ = local("left", {number(2)}, ScalarType::I32);
    positions_ = local("positions", {number(1)}, ScalarType::I32);
  }
  // Of several loops the iterators follow from the number of the instance; entries of a CSR structure need their row.
  is_numbered_ = s_.factors.size() > 1 && std::none_of(s_.factors.begin(), s_.factors.end(),
                                                       [](const ScatterFactor& f) { return !f.csr.empty(); });
  if (is_numbered_) {
    instance_ = local("instance", {room()}, ScalarType::I32);
    return;
  }
  for (const ScatterFactor& factor : s_.factors) {
    rows_.emplace_back();
    for (std::size_t level = 0; level < factor.csr.size(); ++level) {
      rows_.back().push_back(local("row", {entries_of(factor, level)}, ScalarType::I32));
      iterators.push_back(iterator_array(*factor.csr[level].rows, ScalarType::I32));
    }
    const bool from_zero = !factor.csr.empty() || ir::as_int(factor.loop->lower) == 0;
    iterators.push_back(iterator_array(*factor.loop, from_zero ? ScalarType::I32 : ScalarType::I64));
  }
}

Stmt SortedIterations::code() const {
  if (is_in_order_) return ir::block({words(), in_order(number(0))});
  // What does not exist gets a key behind all targets.
  const Expr key_end = left_ ? targets + number(1) : targets;
  return ir::block({words(), counting_sort(words_, count, key_end, left_, shares_, where_,
                                           [&](const Expr& side) { return in_order(side); })});
}

Expr SortedIterations::positions() const { return positions_ ? at(positions_, number(0)) : count; }

Expr SortedIterations::fits() const {
  const Expr few = less(has_far_bounds() ? s_.iterations_up_to(most_sorted) : count, number(most_sorted));
  Expr result = ir::binary(BinaryOp::And, few, less(targets, number(most_key_end)));
  if (when_) result = ir::binary(BinaryOp::And, result, when_);
  for (const ScatterFactor& factor : s_.factors)
    for (std::size_t level = 0; level < factor.csr.size(); ++level)
      result = ir::binary(BinaryOp::And, result,
                          less(ir::cast(ScalarType::I64, end_of_rows(factor, level)), number(most_sorted)));
  return result;
}

/// Promised bounds of trips may be far above these: their product need not be a number of 64 bits.
bool SortedIterations::has_far_bounds() const {
  return s_.factors.size() > 1 &&
         std::any_of(s_.factors.begin(), s_.factors.end(), [](const ScatterFactor& f) { return f.is_ragged; });
}

/// What arrays have of elements for all iterations: none where they are not used.
Expr SortedIterations::room() const { return has_far_bounds() ? ir::select(fits(), count, number(0)) : count; }

std::vector<Array> SortedIterations::arrays() const {
  std::vector<Array> result = {words_, key, begin, end};
  if (is_numbered_) result.push_back(instance_);
  if (left_) result.insert(result.end(), {left_, positions_});
  result.insert(result.end(), iterators.begin(), iterators.end());
  for (const std::vector<Array>& levels : rows_) result.insert(result.end(), levels.begin(), levels.end());
  return result;
}

std::optional<Expr> SortedIterations::shift_to(const Scatter& other) const {
  if (other.sequential.size() != s_.sequential.size()) return std::nullopt;
  ir::Substitution names;
  for (std::size_t k = 0; k < s_.sequential.size(); ++k) {
    const ir::For &mine = *s_.sequential[k], &its = *other.sequential[k];
    if (!ir::equal(mine.lower, ir::substitute(its.lower, names)) ||
        !ir::equal(mine.upper, ir::substitute(its.upper, names)))
      return std::nullopt;
    names[its.iterator] = ir::var(mine.iterator);
  }
  if (!ir::equal(targets, other.targets()) || !has_instances_of(other, names)) return std::nullopt;
  // What has no target here is left out, and may have one at a distance, also at one of zero: in the next row, as many
  // columns before.
  if (s_.may_miss && !have_same_targets(s_, other, names)) return std::nullopt;
  return key_distance(s_, other, names);
}

namespace {

/// All conditions around the sum that `leaf` is are, in this order, the first ones around that of `other`.
bool has_fewer_conditions(const Stmt& leaf, const Stmt& other, const ir::Substitution& names) {
  if (leaf.kind() == ir::Kind::Reduce) return true;
  const auto *mine = leaf.as<ir::If>(), *its = other.as<ir::If>();
  return mine && its && !mine->else_body && !its->else_body &&
         ir::equal(mine->condition, ir::substitute(its->condition, names)) &&
         has_fewer_conditions(mine->then_body, its->then_body, names);
}

}  // namespace

/// All that exist are sorted: these exist under the same conditions, nested alike, or under more. `names`: its
/// iterators.
bool SortedIterations::has_instances_of(const Scatter& other, const ir::Substitution& names) const {
  if (has_fewer_conditions(s_.leaf, other.leaf, names)) return true;
  std::vector<Expr> its = other.conditions();
  for (Expr& condition : its) condition = ir::substitute(condition, names);
  return ir::equal(s_.conditions(), its) &&
         structurally_equal(s_.for_each(ir::block({})), other.for_each(ir::block({})));
}

Stmt SortedIterations::with_instance_at(const Expr& position, const Body& body) const {
  if (is_numbered_) return with_instance(at(instance_, position), true, body);
  std::vector<Expr> values;
  for (const Array& iterator : iterators) values.push_back(at(iterator, position));
  return body(values);
}

/// Whether the loop gets to it, given the iterators up to its own; null: always.
Expr SortedIterations::has_trip(const ScatterFactor& factor, const ir::Substitution& known) {
  if (factor.csr.empty() && !factor.is_ragged) return {};
  const ir::For& loop = factor.csr.empty() ? *factor.loop : *factor.csr[0].rows;
  return less(known.at(loop.iterator), ir::substitute(loop.upper, known));
}

/// body(the values of the iterators of the instance with this number); rows of a CSR structure are looked up. An
/// instance that may not exist reads no bound that only a trip of the loops around has.
Stmt SortedIterations::with_instance(const Expr& number_of_instance, bool exists, const Body& body) const {
  const std::size_t n = s_.factors.size();
  std::vector<std::pair<Array, Expr>> kept;
  const auto keep = [&](const std::string& name, const Expr& value) {
    if (n == 1) return value;
    kept.push_back({local(name, {}), value});
    return ir::load(kept.back().first, {});
  };
  std::vector<Expr> offsets(n);
  offsets[0] = keep("rest", number_of_instance);
  for (std::size_t k = n; k-- > 1;) {
    const std::string& name = s_.factors[k].loop->iterator.name;
    const Expr rest = offsets[0], quotient = keep("rest", quotient_of(rest, s_.factors[k].extent));
    offsets[k] = keep(name + "_offset", rest - quotient * s_.factors[k].extent);
    offsets[0] = quotient;
  }
  std::vector<Expr> values;
  ir::Substitution known;
  Expr has_trips;  // of the loops so far
  for (std::size_t k = 0; k < n; ++k) {
    const ScatterFactor& factor = s_.factors[k];
    if (factor.csr.empty()) {
      Expr lower = ir::substitute(factor.loop->lower, known);
      if (has_trips && ir::has_load(lower)) lower = ir::select(has_trips, lower, ir::int_const(0, lower.type()));
      values.push_back(ir::as_int(lower) == 0 ? offsets[k] : keep(factor.loop->iterator.name, lower + offsets[k]));
    } else {
      std::vector<Expr> levels = {offsets[k]};  // from the innermost entry outwards
      for (std::size_t level = factor.csr.size(); level-- > 0;)
        levels.push_back(keep(factor.csr[level].rows->iterator.name, at(rows_[k][level], levels.back())));
      for (std::size_t level = 0; level < factor.csr.size(); ++level)
        known[factor.csr[level].rows->iterator] = levels[factor.csr.size() - level];
      values.insert(values.end(), levels.rbegin(), levels.rend());
    }
    known[factor.loop->iterator] = values.back();
    if (!exists) has_trips = ir::both(has_trips, has_trip(factor, known));
  }
  std::vector<Stmt> all;
  for (const auto& [array, value] : kept) all.push_back(set(array, {}, value));
  all.push_back(body(values));
  Stmt result = ir::block(std::move(all));
  for (auto it = kept.rbegin(); it != kept.rend(); ++it) result = ir::allocate(it->first, result, where_);
  return result;
}

Array SortedIterations::iterator_array(const ir::For& loop, ScalarType type) const {
  return local(loop.iterator.name + "_of", {room()}, type);
}

/// How many entries of this structure are looked up: of one that has the rows of another, also one behind all.
Expr SortedIterations::entries_of(const ScatterFactor& factor, std::size_t level) {
  const Expr& count = factor.csr[level].count;
  return level + 1 < factor.csr.size() ? count + number(1) : count;
}

/// Its rows are below this number.
Expr SortedIterations::end_of_rows(const ScatterFactor& factor, std::size_t level) {
  return level > 0 ? factor.csr[level - 1].count : factor.csr[0].rows->upper;
}

/// row[entry] = the row that has it, or that behind all rows for entries that none has; then `and_then`.
Stmt SortedIterations::rows_of(const ScatterFactor& factor, std::size_t level, const Array& row,
                               const Stmt& and_then) const {
  const CsrLoops& csr = factor.csr[level];
  const auto bound = [&](const Expr& e, const Expr& v) {
    const Expr at = ir::substitute(e, {{csr.rows->iterator, ir::cast(ScalarType::I64, v)}});
    return ir::cast(ScalarType::I64, at);
  };
  const auto small = [](const Expr& e) { return ir::cast(ScalarType::I32, e); };
  const ir::Symbol steps = ir::make_symbol("steps");
  const Expr e = ir::var(csr.entries->iterator), behind = end_of_rows(factor, level),
             first = level > 0 ? number(0) : csr.rows->lower;
  const auto ends_before = [&](const Expr& v) { return ir::binary(BinaryOp::Le, bound(csr.entries->upper, v), e); };
  const Stmt found = bisect(small(first), small(behind), ir::var(steps), ends_before, [&](const Expr& v) {
    // What comes before the first row is found in it.
    const Expr begun = ir::binary(BinaryOp::Le, bound(csr.entries->lower, v), e);
    const Stmt none = put(row, e, behind);
    return ir::if_then(less(ir::cast(ScalarType::I64, v), behind), ir::if_then(begun, put(row, e, v), none), none);
  });
  const Stmt all = ir::for_loop(csr.entries->iterator, number(0), entries_of(factor, level),
                                ir::block({found, and_then}), LoopMode::Parallel, where_);
  return let(steps, bits_of(behind - first, most_bisections), all);
}

/// words[0, number of the instance]; instances that do not exist get a target behind all.
Stmt SortedIterations::words() const {
  // The only loop of a nest has both the row and the word.
  if (s_.factors.size() == 1 && s_.factors[0].csr.size() == 1)
    return ir::with_fresh_names(rows_of(s_.factors[0], 0, rows_[0][0], word_of(ir::var(s_.factors[0].loop->iterator))));
  std::vector<Stmt> all;
  for (std::size_t k = 0; k < rows_.size(); ++k)
    for (std::size_t level = 0; level < rows_[k].size(); ++level)
      all.push_back(ir::with_fresh_names(rows_of(s_.factors[k], level, rows_[k][level], ir::block({}))));
  // One loop, whatever the loops of the nest, so that neighbouring threads write neighbouring words.
  all.push_back(parallel("place", count, [&](const Expr& place) { return word_of(place); }));
  return ir::block(std::move(all));
}

Stmt SortedIterations::word_of(const Expr& place) const {
  const Stmt word =
      with_instance(place, false, [&](const std::vector<Expr>& values) { return word_of(place, values); });
  if (!left_) return word;
  const Expr is_first = ir::binary(BinaryOp::Eq, place, number(0));
  return ir::block({ir::if_then(is_first, put(left_, number(0), count)), word});
}

Stmt SortedIterations::word_of(const Expr& place, const std::vector<Expr>& values) const {
  ir::Substitution known;
  for (std::size_t k = 0; k < values.size(); ++k) known[s_.sequential[k]->iterator] = values[k];
  Expr exists;
  for (const ScatterFactor& factor : s_.factors) exists = ir::both(exists, has_trip(factor, known));
  const auto word = [&](const Expr& key) { return set(words_, {number(0), place}, sort_word(key, place)); };
  Expr has_target;
  for (std::size_t k = 0; s_.may_miss && k < s_.dims.size(); ++k) {
    const Expr& index = s_.sum->indices[s_.dims[k]];
    has_target = ir::both(has_target, ir::binary(BinaryOp::Le, ir::int_const(0), index));
    has_target = ir::both(has_target, less(index, s_.sum->array->shape[s_.dims[k]]));
  }
  const Stmt own = has_target ? ir::if_then(has_target, word(s_.key())) : word(s_.key());
  const Stmt body = ir::substitute(s_.for_each(own), known);
  const Stmt none = word(targets);
  if (s_.is_plain() && !has_target) return exists ? ir::if_then(exists, body, none) : body;
  // Conditions of the leaf may leave out the word.
  return ir::with_fresh_names(ir::block({none, exists ? ir::if_then(exists, body) : body}));
}

/// What is known of each position; where each target's positions begin and end.
Stmt SortedIterations::in_order(const Expr& side) const {
  const Stmt none = parallel("target", targets, [&](const Expr& t) {
    return ir::block({put(begin, t, number(0)), put(end, t, number(0))});
  });
  const Expr last = left_ ? at(left_, side) : count;
  const Stmt all = parallel("at", count, [&](const Expr& p) {
    const Array own = local("own", {}), word = local("word", {});
    const Expr target = ir::load(own, {});
    const auto key_at = [&](const Expr& position) { return key_of(get(words_, {side, position})); };
    // Before the first and behind the last position there is nothing to load.
    const auto where_differs = [&](const Expr& at_end, const Expr& neighbour, const Stmt& then) {
      return ir::if_then(at_end, then, ir::if_then(ir::binary(BinaryOp::Ne, key_at(neighbour), target), then));
    };
    const Stmt begins = where_differs(ir::binary(BinaryOp::Eq, p, number(0)), p - number(1), put(begin, target, p));
    const Stmt ends =
        where_differs(ir::binary(BinaryOp::Eq, p + number(1), last), p + number(1), put(end, target, p + number(1)));
    const Stmt exists =
        ir::if_then(less(target, targets), ir::block({begins, ends, iterators_of(item_of(ir::load(word, {})), p)}));
    const Stmt body = ir::block(
        {set(word, {}, get(words_, {side, p})), set(own, {}, key_of(ir::load(word, {}))), put(key, p, target), exists});
    const Stmt position = ir::allocate(own, ir::allocate(word, body));
    if (!left_) return position;
    const Stmt noted = ir::if_then(ir::binary(BinaryOp::Eq, p, number(0)), put(positions_, number(0), last));
    return ir::block({noted, ir::if_then(less(p, last), position)});
  });
  return ir::block({none, all});
}

/// What is known of the instance with this number, at position p.
Stmt SortedIterations::iterators_of(const Expr& item, const Expr& p) const {
  if (is_numbered_) return put(instance_, p, item);
  return with_instance(item, true, [&](const std::vector<Expr>& values) {
    std::vector<Stmt> body;
    for (std::size_t k = 0; k < values.size(); ++k) body.push_back(put(iterators[k], p, values[k]));
    return ir::block(std::move(body));
  });
}

}  // namespace loopgrad::transforms

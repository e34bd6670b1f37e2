// Integers that programs change as they go on (counters, cursors, permutations, generators of random numbers), and the
// indices, conditions and bounds that hang on them. All is drawn apart: half of the programs are those that they were
// before there was this.
#include "tools/fuzz/writer.h"

namespace loopgrad::fuzz {

void Writer::kind_pattern() {
#define SHAPE(name) \
  Shape { &Writer::name, #name }
  static const std::vector<Shape> shapes = {
      SHAPE(random_numbers),    SHAPE(moving_permutation), SHAPE(moving_places),   SHAPE(cursor),
      SHAPE(counted_down),      SHAPE(changing_while),     SHAPE(index_by_itself), SHAPE(trip_before),
      SHAPE(inner_conditions),  SHAPE(inner_conditions),   SHAPE(last_of_inner),   SHAPE(one_iteration),
      SHAPE(branch_with_array), SHAPE(guarded_condition),  SHAPE(side_by_side),    SHAPE(band),
      SHAPE(shared_recurrence), SHAPE(changing_bounds),    SHAPE(changing_bounds), SHAPE(changing_rows),
      SHAPE(grid_again),        SHAPE(two_graphs),         SHAPE(two_graphs),      SHAPE(rows_beyond),
      SHAPE(no_step),           SHAPE(local_by_size),      SHAPE(takers),          SHAPE(takers),
      SHAPE(taken_and_cleared), SHAPE(stale_elements),     SHAPE(masked_fill),     SHAPE(levels),
      SHAPE(neighbours),        SHAPE(strided_stores),     SHAPE(kept_extrema),    SHAPE(kept_extrema)};
#undef SHAPE
  write(one_of(shapes));
}

// ---- declarations ----

void Writer::declare_states() {
  for (std::int64_t k = 1 + below(3); k > 0; --k) add_state();
}

void Writer::add_state() {
  const std::int64_t dice = below(100);
  const bool generator = dice < 15;
  const ScalarType type = generator || dice < 60 ? ScalarType::I64 : ScalarType::I32;
  const Extent bound = chance(35) ? Extent{.pad = 2 + static_cast<int>(below(4))} : Extent{.size = some_size()};
  std::vector<Extent> extents;
  for (std::int64_t rank = dice % 5 < 2 ? 0 : dice % 5 < 4 ? 1 : 2; rank > 0; --rank)
    extents.push_back(chance(60) ? bound : Extent{.size = some_size()});
  const std::string name = fresh("state");
  const std::vector<Value> shape = shape_of(extents);
  // Where an array that is given has an element there has to be a value for it.
  const bool can_be_given = !generator && extents.size() == 1 && extents[0] == bound;
  const bool is_given = can_be_given && chance(30), is_output = !extents.empty() && chance(30);
  const ArrayHandle handle = is_given    ? builder_.inout(type, name, shape)
                             : is_output ? builder_.output(type, name, shape)
                                         : builder_.local(type, name, shape);
  const StateInfo state{handle, type, extents, bound, generator};
  if (is_given) contents_[name] = {IndexContents::Kind::Below, ir::Expr(value_of(bound).node())};
  else fill_state(state);
  states_.push_back(state);
}

void Writer::fill_state(const StateInfo& state) {
  const bool zero = chance(30);
  std::vector<Operand> at;
  const std::function<void(std::size_t)> nest = [&](std::size_t dimension) {
    if (dimension < state.extents.size()) {
      return each(state.extents[dimension], [&](const Value& i) {
        at.push_back(i);
        nest(dimension + 1);
        at.pop_back();
      });
    }
    Value value = 0;
    if (!iterators_.empty() && !zero) value = iterators_.back().value * (state.generator ? 7919 : 1) + 1;
    if (!state.generator) {
      const auto index = zero || chance(40) ? std::nullopt : indirect_index(state.bound, true);
      value = index ? *index : has_values(state.bound) ? value % value_of(state.bound) : Value(0);
    }
    state.handle.at(at) = cast(state.type, value);
  };
  nest(0);
}

/// In the order of the text.
IndexInfo Writer::indices_between(const Extent& extent, const Extent& target) {
  std::vector<std::size_t> fitting;
  for (std::size_t k = 0; k < indices_.size(); ++k)
    if (!indices_[k].second && indices_[k].extent == extent && indices_[k].target == target) fitting.push_back(k);
  if (!fitting.empty() && chance(70)) return indices_[one_of(fitting)];
  return add_index("to", extent, target, chance(50) ? ScalarType::I32 : ScalarType::I64, false);
}

/// An input of numbers below a constant.
ArrayHandle Writer::small_integers(const char* stem, const std::vector<Extent>& extents, int bound) {
  const std::string name = fresh(stem);
  const ArrayHandle array = builder_.input(chance(50) ? ScalarType::I32 : ScalarType::I64, name, shape_of(extents));
  contents_[name] = {IndexContents::Kind::Below, ir::int_const(bound)};
  if (chance(50)) builder_.in_range(array, 0, bound);
  return array;
}

ArrayHandle Writer::integers(const char* stem, const std::vector<Extent>& extents) {
  return builder_.local<std::int64_t>(fresh(stem), shape_of(extents));
}

/// It has no value yet.
ArrayInfo Writer::new_scalar(const char* stem) { return declare(ir::ArrayRole::Local, stem, {}); }

/// Overwrites, sums, extrema and updates in place.
void Writer::change_float(const Element& element, const Value& value) {
  keyed_update(element, static_cast<int>(below(6)), value);
}

LoopOptions Writer::some_order() {
  LoopOptions options;
  options.descending = chance(25);
  return options;
}

/// A bound that the body changes. Iterators of loops in another order are computed from their bounds wherever they are
/// used, which then have to be kept.
Value Writer::fixed(const Value& bound, const LoopOptions& options) {
  return options.descending || options.step > 1 ? builder_.let(fresh("bound"), bound) : bound;
}

Extent Writer::some_steps() { return {.pad = 2 + static_cast<int>(below(3))}; }

/// Steps of time around other statements. What is declared in them belongs to a step.
void Writer::in_steps(const std::function<void()>& f) {
  traits_.insert("shape: steps around others");
  const bool before = chance(50);
  each(some_steps(), [&](const Value&) {
    if (before) change_state();
    f();
    if (!before || chance(40)) change_state();
  });
}

// ---- reading ----

bool Writer::has_values(const Extent& bound) const {
  return bound.size < 0 || bound.pad > 0 || known_positive(bound.size);
}

/// Indices that nothing changes.
std::optional<std::vector<Operand>> Writer::place_in(const StateInfo& state) {
  std::vector<Operand> at;
  for (const Extent& extent : state.extents) {
    const auto index = index_for(extent, false);
    if (!index) return std::nullopt;
    at.emplace_back(*index);
  }
  return at;
}

std::optional<Value> Writer::read_state(const StateInfo& state) {
  const auto at = place_in(state);
  if (!at) return std::nullopt;
  return cast<std::int64_t>(state.handle.at(*at));
}

std::optional<Value> Writer::state_value(const Extent& bound) {
  if (bound.second >= 0 || bound.scale != 1 || !has_values(bound)) return std::nullopt;
  std::vector<std::size_t> fitting;
  for (std::size_t k = 0; k < states_.size(); ++k) {
    const Extent& other = states_[k].bound;
    const bool below_it = other.size == bound.size && other.pad <= bound.pad && has_values(other);
    if (below_it || states_[k].generator) fitting.push_back(k);
  }
  if (fitting.empty()) return std::nullopt;
  const StateInfo state = states_[one_of(fitting)];
  const auto value = read_state(state);
  if (!value) return std::nullopt;
  traits_.insert("index: from integers that change");
  return state.generator ? *value / (1 + below(9)) % value_of(bound) : *value;
}

std::optional<Value> Writer::state_condition() {
  if (states_.empty()) return std::nullopt;
  const auto read = read_state(one_of(states_));
  if (!read) return std::nullopt;
  traits_.insert("statement: branch on integers that change");
  const Value value = *read;
  switch (below(5)) {
    case 0: return value % 2 == 0;
    case 1: return value > below(3);
    case 2: return iterators_.empty() ? value == 0 : value == one_of(iterators_).value;
    case 3:
      if (const auto other = read_state(one_of(states_))) return value <= *other;
      return value < 2;
    default: return value % 3 != 1;
  }
}

// ---- changing ----

void Writer::change_state() {
  if (states_.empty()) return;
  const StateInfo state = one_of(states_);
  const auto change = [&] {
    std::vector<Operand> at;  // of its own elements, too: k[k[i]] = ..
    for (const Extent& extent : state.extents) {
      const auto index = index_for(extent, chance(40));
      if (!index) return;
      at.emplace_back(*index);
    }
    set_state(state, state.handle.at(at));
  };
  if (chance(60)) return change();
  const Branch branch = builder_.when(condition(), change);
  if (chance(30)) branch.otherwise(change);
}

void Writer::set_state(const StateInfo& state, const Element& element) {
  const Value now = cast<std::int64_t>(element);
  const auto set = [&](const Value& value) { element = cast(state.type, value); };
  if (state.generator) {
    if (chance(80)) return set((now * 1103515245 + 12345) % 2147483648);
    return set((now + below(9)) % 2147483648);
  }
  const Value bound = value_of(state.bound);
  switch (below(has_values(state.bound) ? 10 : 4)) {
    case 0: return set(max(now - 1, 0));
    case 1: return set(now / 2);
    case 2: return set(0);
    case 3: return void(builder_.when(now + 1 < bound, [&] { element += 1; }));
    case 4: return set((now + 1 + below(2)) % bound);
    case 5: return set((now * 3 + 1) % bound);
    case 6: return set(min(2 * now + below(2), bound - 1));
    case 7: return set(bound - 1 - now);
    default: {
      const auto other = chance(50) ? indirect_index(state.bound, true) : state_value(state.bound);
      return set(other ? *other : bound - 1);
    }
  }
}

/// A loop whose bound is one of these integers, which its body may change.
bool Writer::loop_by_state(const std::function<void(const Value&)>& nested, LoopOptions options) {
  std::vector<std::size_t> fitting;
  for (std::size_t k = 0; k < states_.size(); ++k)
    if (!states_[k].generator && has_values(states_[k].bound)) fitting.push_back(k);
  if (fitting.empty()) return false;
  const StateInfo state = states_[one_of(fitting)];
  const auto at = place_in(state);
  if (!at) return false;
  traits_.insert("loop: bounds that change");
  const Value value = fixed(cast<std::int64_t>(state.handle.at(*at)), options), bound = value_of(state.bound);
  if (chance(50)) options.at_most = {bound};
  const bool changes = chance(50), first = chance(50);
  const auto body = [&](const Value& i) {
    if (changes && first) set_state(state, state.handle.at(*at));
    nested(i);
    if (changes && !first) set_state(state, state.handle.at(*at));
  };
  switch (below(4)) {
    case 0: each(0, value, state.bound, body, options); break;
    case 1: each(value, bound, state.bound, body, options); break;
    case 2: each(max(value - 1, 0), value + 1, state.bound, body, options); break;
    default: each(0, value + 1, state.bound, body, options); break;
  }
  return true;
}

}  // namespace loopgrad::fuzz

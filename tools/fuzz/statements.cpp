// Random statements: updates, loops, branches and locals.
#include "tools/fuzz/writer.h"

namespace loopgrad::fuzz {

Writer::Writer(std::uint64_t seed, const Axes& axes)
    : axes_(axes),
      seed_(seed),
      random_(seed),
      orders_(seed + 0x0f0f0f),
      later_(seed * 13 + 7),
      rules_(seed * 19 + 3),
      targets_(seed * 29 + 17),
      kinds_(seed * 31 + 5),
      places_(seed * 37 + 11),
      builder_("random") {
  for (int i = 0; i < 4; ++i) random_.next();  // neighbouring seeds start far apart
  choose_types();
}

Case Writer::write() {
  is_changing_ = axes_.changing_state && kinds_.below(100) < 50;
  declare_sizes();
  declare_arguments();
  if (is_changing_) declare_states();
  // Mostly small: each costs less to analyse, and what goes wrong in a large program often does in a small one.
  const std::int64_t dice = below(100);
  budget_ = static_cast<int>(dice < 55 ? 1 + below(4) : dice < 90 ? 4 + below(5) : 9 + below(9));
  const std::int64_t segments = dice < 55 ? 1 : 1 + below(dice < 90 ? 2 : 3);
  for (std::int64_t i = 0; i < segments; ++i) {
    scope([&] {
      const auto content = [&] {
        if (draws(75)) kind_pattern();
        else if (chance(55)) pattern();
        else loop(0);
      };
      if (draws(40)) in_steps(content);
      else content();
    });
    // Drawn apart: the others are the programs that they were before there was this.
    if (axes_.users_shapes && later_.below(100) < 40) scope([&] { later_pattern(); });
    if (axes_.users_shapes && rules_.below(100) < 10) {
      traits_.insert("shape: own_rule");
      scope([&] { own_rule(); });
    }
    if (axes_.places && places_.below(100) < 25) scope([&] { place_pattern(); });
    if (chance(10)) update();
  }
  Sizes sizes = choose_sizes();
  const Program program = builder_.build();
  if (draws(25)) sizes = with_some_large(sizes, program.ir());
  const Sizes medium = medium_sizes(program.ir());
  return {seed_, program, sizes, medium, contents_, coarse_, shared_, traits_};
}

void Writer::scope(const std::function<void()>& f) {
  const std::size_t arrays = arrays_.size(), states = states_.size();
  f();
  arrays_.erase(arrays_.begin() + static_cast<std::ptrdiff_t>(arrays), arrays_.end());
  states_.erase(states_.begin() + static_cast<std::ptrdiff_t>(states), states_.end());
}

void Writer::each(const Value& lower, const Value& upper, const Extent& extent,
                  const std::function<void(const Value&)>& f, const LoopOptions& options) {
  static const char* const names[] = {"i", "j", "k", "l", "q"};
  for (const Value i : builder_.loop(names[iterators_.size() % 5], lower, upper, options)) {
    iterators_.push_back({i, extent});
    scope([&] { f(i); });
    iterators_.pop_back();
  }
}

void Writer::body(int depth, int statements) {
  for (int i = 0; i < statements; ++i) statement(depth);
}

void Writer::statement(int depth) {
  if (draws(25)) return change_state();
  if (--budget_ < 0) return update();
  const std::int64_t dice = below(100);
  if (depth >= 3) return dice < 85 ? update() : local_scalar();
  if (dice < 48) return update();
  if (dice < 68) return loop(depth);
  if (dice < 82) return branch(depth);
  if (dice < 90) return local_scalar();
  if (dice < 95) return local_array(depth);
  if (depth >= 2) return update();
  scope([&] { pattern(); });
}

void Writer::update() {
  if (chance(12)) {
    const auto element = random_element([](const ArrayInfo& a) { return a.writable && !a.readable; });
    if (element) *element = tame(2);
  }
  const auto element = random_element([](const ArrayInfo& a) { return a.writable && a.readable; });
  if (!element) return;
  // Drawn apart, as orders of loops are.
  if (targets_.below(100) < 4) {
    const auto other = random_element([](const ArrayInfo& a) { return a.input; });
    if (other) return void(*element += Value(*other) * Value(*element));
  }
  const std::int64_t dice = below(20);
  if (dice < 7) *element = tame(2);
  else if (dice < 13) *element += bounded(1);
  else if (dice < 15) *element -= bounded(1);
  else if (dice == 15) *element *= 1 + 0.3 * squash(tame(1));
  else if (dice == 16) *element /= 1.5 + 0.4 * wave(tame(1));
  else if (dice == 17) element->min_with(tame(1) + 0.0313);
  else if (dice == 18) element->max_with(tame(1) - 0.0173);
  else *element = 0.7 * Value(*element) + 0.2 * bounded(1);  // in place, not written as a sum
}

void Writer::loop(int depth) {
  const int statements = 1 + static_cast<int>(below(3));
  const auto nested = [&](const Value&) { body(depth + 1, statements); };
  const LoopOptions options = other_order();
  if (draws(25) && loop_by_state(nested, options)) return;
  if (!iterators_.empty() && chance(40)) {
    const IteratorInfo outer = one_of(iterators_);
    switch (below(4)) {
      case 0: return each(0, outer.value + 1, outer.upper, nested, options);
      case 1: return each(0, outer.value, outer.upper, nested, options);
      case 2: return each(outer.value, value_of(outer.upper), outer.upper, nested, options);
      default: return each(outer.value + 1, value_of(outer.upper), outer.upper, nested, options);
    }
  }
  const Extent extent{.size = some_size(), .pad = chance(15) ? 1 : 0};
  switch (below(12)) {
    case 0: return each(1, value_of(extent), extent, nested, options);
    case 1: return each(1, value_of(extent) - 1, extent, nested, options);
    case 2: {
      const Extent few{.pad = 1 + static_cast<int>(below(3))};
      return each(0, value_of(few), few, nested, options);
    }
    case 3: return each(0, value_of(extent) / 2, extent, nested, options);
    default: return each(0, value_of(extent), extent, nested, options);
  }
}

/// Loops that go down, or leave iterations out. Drawn apart, so that a seed has the program that it had without them.
LoopOptions Writer::other_order() {
  LoopOptions options;
  if (orders_.below(100) < (is_changing_ ? 15 : 6)) {
    options.descending = true;
    traits_.insert("loop: descending");
  }
  if (orders_.below(100) < (is_changing_ ? 15 : 6)) {
    options.step = 2 + orders_.below(2);
    traits_.insert("loop: strided");
  }
  return options;
}

void Writer::branch(int depth) {
  const int statements = 1 + static_cast<int>(below(2));
  const auto nested = [&] { scope([&] { body(depth + 1, statements); }); };
  const Branch branch = builder_.when(condition(), nested);
  if (chance(45)) branch.otherwise(nested);
}

void Writer::local_scalar() {
  const ArrayInfo scalar = declare(ir::ArrayRole::Local, "s", {});
  scalar.handle() = tame(2);
  if (chance(6)) builder_.save(scalar.handle);
  else if (chance(2)) builder_.recompute(scalar.handle);  // refused where it gets other values
  arrays_.push_back(scalar);
  update();
}

void Writer::local_array(int depth) {
  const ArrayInfo array = declare(ir::ArrayRole::Local, "t", {random_extent()});
  initialise(array);
  arrays_.push_back(array);
  if (depth < 2) loop(depth);
}

}  // namespace loopgrad::fuzz

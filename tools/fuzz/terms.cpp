// Random conditions and expressions over what is in scope.
#include "tools/fuzz/writer.h"

namespace loopgrad::fuzz {

double Writer::constant() { return 0.137 + 0.01 * static_cast<double>(below(60)); }

Value Writer::read_input() {
  if (const auto element = random_element([](const ArrayInfo& a) { return a.input; })) return *element;
  return cast(value_type(main_type_), constant());
}

Value Writer::read() {
  if (draws(5)) {
    if (const auto number = state_value({.pad = 5})) return as_float(*number) * 0.13;
  }
  const std::int64_t dice = below(20);
  if (dice == 0 && !iterators_.empty()) return cast(value_type(main_type_), one_of(iterators_).value) * 0.11;
  if (dice == 1) return cast(value_type(main_type_), constant());
  if (dice == 3 && !whole_.empty()) {
    if (const auto whole = element_of(one_of(whole_))) return cast(value_type(main_type_), *whole) * 0.21;
  }
  if (dice == 2) {  // a load that is only legal because it is guarded
    for (const ArrayInfo& array : arrays_) {
      for (const IteratorInfo& iterator : iterators_) {
        if (!array.readable || array.extents.size() != 1 || !(iterator.upper == array.extents[0])) continue;
        const Value inside = array.handle(iterator.value - 1);
        return select(iterator.value > 0, inside, constant());
      }
    }
  }
  const bool from_input = chance(30);
  if (const auto element = random_element([&](const ArrayInfo& a) { return a.readable && (a.input || !from_input); }))
    return *element;
  return cast(value_type(main_type_), constant());
}

Value Writer::condition(int depth) {
  if (depth > 0 && chance(20)) {
    const Value a = condition(depth - 1), b = condition(depth - 1);
    switch (below(3)) {
      case 0: return a && b;
      case 1: return a || b;
      default: return !a;
    }
  }
  if (draws(20)) {
    if (const auto state = state_condition()) return *state;
  }
  if (!iterators_.empty() && chance(45)) {
    const IteratorInfo i = one_of(iterators_), j = one_of(iterators_);
    switch (below(5)) {
      case 0: return i.value % 2 == 0;
      case 1: return i.value > 0;
      case 2: return i.value + 1 < value_of(i.upper);
      case 3: return i.value <= j.value + below(2);
      default: return i.value == 1;
    }
  }
  if (!flags_.empty() && chance(25)) {
    if (const auto flag = element_of(one_of(flags_))) return *flag;
  }
  if (!whole_.empty() && chance(20)) {
    if (const auto whole = element_of(one_of(whole_))) return Value(*whole) > below(3) - 1;
  }
  const Value a = read();
  if (chance(60)) return a > constant() - 0.4;
  const Value b = read();
  return a < b + 0.0137;
}

Value Writer::rational_function(const Value& a, const Value& b) {
  switch (below(6)) {
    case 0: return a / (1.5 + b * b);
    case 1: return 0.7 * sqrt(1 + a * a) - 0.5 * b;
    case 2: return abs(a - 0.3) * squash(b);
    case 3: return (a * b - 0.25) / sqrt(2 + a * a);
    case 4: return 0.6 * max(a, b) - 0.3 * min(a, b);
    default: return squash(a) * wave(b);
  }
}

Value Writer::squash(const Value& a) { return rational_ ? a / (1 + a * a) : tanh(a); }
Value Writer::wave(const Value& a) { return rational_ ? a / (1.25 + a * a) : sin(a); }

Value Writer::smooth_function(const Value& a, const Value& b) {
  if (rational_) return rational_function(a, b);
  switch (below(17)) {
    case 0: return sin(a);
    case 1: return cos(a);
    case 2: return tanh(a);
    case 3: return sigmoid(a);
    case 4: return erf(a);
    case 5: return 0.6 * atan(a);
    case 6: return a / (1.5 + b * b);
    case 7: return exp(-(a * a));
    case 8: return exp(0.5 * tanh(a)) - 1;
    case 9: return 0.3 * log(1.5 + a * a) / (1.2 + sqrt(1 + a * a));
    case 10: return tan(0.5 * tanh(a));
    case 11: return asin(0.8 * tanh(a)) * acos(0.8 * sin(b)) * 0.3;
    case 12: return 0.5 * atan2(a, 1.5 + b * b);
    case 13: return pow(1.2 + tanh(a), 1.3) * 0.3;
    case 14: return 0.6 * sinh(tanh(a)) * cosh(sin(b)) * 0.5;
    case 15: return 0.5 * log1p(tanh(a) * tanh(a)) + 0.3 * expm1(sin(b));
    default: return tanh(a) * sin(b);
  }
}

Value Writer::tame(int depth) {
  if (depth <= 0) return read();
  const Value a = tame(depth - 1);
  switch (below(12)) {
    case 0:
    case 1: {
      const Value b = tame(depth - 1);
      return 0.6 * a + 0.3 * b;
    }
    case 2: {
      const Value b = tame(depth - 1);
      return 0.5 * a - 0.4 * b + constant() * 0.2;
    }
    case 3: {
      const Value b = bounded(depth - 1);
      return 0.9 * a * b;
    }
    case 4: {
      const Value b = tame(depth - 1);
      return chance(50) ? max(a, b - 0.0713) : min(a, b + 0.0713);
    }
    case 5: return abs(a + 0.2171) * 0.8;
    case 6: {
      const Value b = tame(depth - 1);
      const Value c = condition();
      return select(c, a, b);
    }
    case 7: return -a;
    case 8: return a;
    default: {
      const Value b = tame(depth - 1);
      return smooth_function(a, b);
    }
  }
}

Value Writer::bounded(int depth) {
  switch (below(6)) {
    case 0: {
      const Value a = read_input(), b = read_input();
      return a * b;
    }
    case 1: {
      const Value a = read_input();
      return 0.9 * a;
    }
    case 2: {
      const Value a = tame(depth), b = read_input();
      return squash(a) * b;
    }
    case 3: {
      const Value a = tame(depth), b = tame(depth);
      return a / (1.5 + a * a) + 0.3 * wave(b);
    }
    default: {
      const Value a = tame(depth);
      return chance(50) ? squash(a) : wave(a);
    }
  }
}

}  // namespace loopgrad::fuzz

// Random indices, conditions and expressions over what is in scope.
#include "tools/fuzz/writer.h"

namespace loopgrad::fuzz {
namespace {

bool plain(const Extent& extent) { return extent.second < 0 && extent.scale == 1; }

}  // namespace

double Writer::constant() { return 0.137 + 0.01 * static_cast<double>(below(60)); }

bool Writer::known_positive(int size) const {
  for (const IteratorInfo& iterator : iterators_) {
    if (iterator.upper == Extent{.size = size}) return true;
  }
  return false;
}

/// An index built from one iterator (and perhaps a second) that stays within the extent.
std::optional<Value> Writer::affine_index(const IteratorInfo& iterator, const Extent& extent) {
  const Extent& upper = iterator.upper;
  const Value& i = iterator.value;
  if (extent.size < 0) {  // a constant extent
    if (upper.size < 0 && upper.pad <= extent.pad) return i + below(extent.pad - upper.pad + 1);
    return (i + below(3)) % extent.pad;
  }
  const Value size = sizes_[static_cast<std::size_t>(extent.size)].value;
  if (upper.size < 0) {
    if (upper.pad <= extent.pad) return i + below(extent.pad - upper.pad + 1);
    return std::nullopt;
  }
  if (!plain(upper)) return upper == extent ? std::optional(i) : std::nullopt;
  const int slack = extent.pad - upper.pad;  // i <= size - 1 + upper.pad
  if (upper.size != extent.size) return std::nullopt;
  if (extent.scale == 2) {
    if (upper.pad != 0) return std::nullopt;
    if (chance(20)) return i + size;
    return chance(70) ? 2 * i + below(2 + extent.pad) : i + below(1 + extent.pad);
  }
  if (extent.second >= 0) {
    for (const IteratorInfo& other : iterators_) {
      if (&other != &iterator && other.upper == Extent{.size = extent.second} && upper.pad == 0 && chance(85))
        return i + other.value;
    }
    return slack >= 0 ? std::optional(i + below(slack + 1)) : std::nullopt;
  }
  if (slack < 0) return std::nullopt;
  switch (below(12)) {
    case 0: return value_of(extent) - 1 - i;
    case 1: return i / 2;
    case 2:
      if (upper.pad == 0) return min(i + 1, value_of(extent) - 1);
      return max(i - 1, 0);
    case 3: return max(i - 1, 0);
    case 4: return (i + 1 + below(2)) % value_of(extent);
    default: return i + below(slack + 1);
  }
}

std::optional<Value> Writer::indirect_index(const Extent& extent) {
  std::vector<std::size_t> fitting;
  for (std::size_t k = 0; k < indices_.size(); ++k) {
    if (indices_[k].target.size == extent.size && plain(extent)) fitting.push_back(k);
  }
  if (fitting.empty()) return std::nullopt;
  const IndexInfo& index =
      indices_[fitting[static_cast<std::size_t>(below(static_cast<std::int64_t>(fitting.size())))]];
  const auto inner = index_for(index.extent, false);
  if (!inner) return std::nullopt;
  return Value(index.handle(*inner));
}

std::optional<Value> Writer::index_for(const Extent& extent, bool allow_indirect) {
  if (allow_indirect && chance(25)) {
    if (auto index = indirect_index(extent)) return index;
  }
  std::vector<Value> fitting;
  for (const IteratorInfo& iterator : iterators_) {
    if (auto index = affine_index(iterator, extent)) fitting.push_back(*index);
  }
  if (!fitting.empty()) return fitting[static_cast<std::size_t>(below(static_cast<std::int64_t>(fitting.size())))];
  if (extent.pad > 0) return Value(below(extent.pad));
  if (known_positive(extent.size)) {
    if (!iterators_.empty() && chance(60)) return iterators_.back().value % value_of(extent);
    return Value(0);
  }
  return std::nullopt;
}

std::optional<Element> Writer::element_of(const ArrayInfo& array) {
  std::vector<Operand> at;
  for (const Extent& extent : array.extents) {
    const auto index = index_for(extent);
    if (!index) return std::nullopt;
    at.emplace_back(*index);
  }
  return array.handle.at(at);
}

std::optional<Element> Writer::random_element(const std::function<bool(const ArrayInfo&)>& wanted) {
  std::vector<std::size_t> fitting;
  for (std::size_t k = 0; k < arrays_.size(); ++k) {
    if (wanted(arrays_[k])) fitting.push_back(k);
  }
  for (int attempt = 0; attempt < 10 && !fitting.empty(); ++attempt) {
    const std::size_t k = fitting[static_cast<std::size_t>(below(static_cast<std::int64_t>(fitting.size())))];
    if (auto element = element_of(arrays_[k])) return element;
  }
  return std::nullopt;
}

Value Writer::read_input() {
  if (const auto element = random_element([](const ArrayInfo& a) { return a.input; })) return *element;
  return cast(main_type_, constant());
}

Value Writer::read() {
  const std::int64_t dice = below(20);
  if (dice == 0 && !iterators_.empty())
    return cast(main_type_,
                iterators_[static_cast<std::size_t>(below(static_cast<std::int64_t>(iterators_.size())))].value) *
           0.11;
  if (dice == 1) return cast(main_type_, constant());
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
  return cast(main_type_, constant());
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
  if (!iterators_.empty() && chance(45)) {
    const auto pick = [&] {
      return iterators_[static_cast<std::size_t>(below(static_cast<std::int64_t>(iterators_.size())))];
    };
    const IteratorInfo i = pick(), j = pick();
    switch (below(5)) {
      case 0: return i.value % 2 == 0;
      case 1: return i.value > 0;
      case 2: return i.value + 1 < value_of(i.upper);
      case 3: return i.value <= j.value + below(2);
      default: return i.value == 1;
    }
  }
  const Value a = read();
  if (chance(60)) return a > constant() - 0.4;
  const Value b = read();
  return a < b + 0.0137;
}

Value Writer::smooth_function(const Value& a, const Value& b) {
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
      return tanh(a) * b;
    }
    case 3: {
      const Value a = tame(depth), b = tame(depth);
      return a / (1.5 + a * a) + 0.3 * sin(b);
    }
    default: {
      const Value a = tame(depth);
      return chance(50) ? tanh(a) : sin(a);
    }
  }
}

}  // namespace loopgrad::fuzz

// Random indices that are in range: of iterators, through index arrays, around rings, from data.
#include "tools/fuzz/writer.h"

namespace loopgrad::fuzz {
namespace {

bool plain(const Extent& extent) { return extent.second < 0 && extent.scale == 1; }

}  // namespace

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
    case 4: return wrapped_index(iterator, extent);
    default: return i + below(slack + 1);
  }
}

/// Neighbours around a ring and clamped ones.
std::optional<Value> Writer::wrapped_index(const IteratorInfo& iterator, const Extent& extent) {
  const Value n = value_of(extent);
  const Value& i = iterator.value;
  switch (below(4)) {
    case 0: return (i + 1 + below(2)) % n;
    case 1: return (i - 1 + n) % n;
    case 2: return (i + 2 + n) % n;
    default: return min(max(i + below(5) - 2, 0), n - 1);
  }
}

std::optional<Value> Writer::data_index(const Extent& extent) {
  if (extent.size < 0 || !plain(extent) || !(known_positive(extent.size) || extent.pad > 0)) return std::nullopt;
  const auto element = random_element([](const ArrayInfo& a) { return a.input && a.extents.size() == 1; });
  if (!element || Value(*element).type() != ScalarType::F64) return std::nullopt;  // f32 would round at the borders
  traits_.insert("index: floor of data");
  const Value n = value_of(extent), scaled = (Value(*element) * 0.5 + 0.5) * cast<double>(n);
  return min(max(cast<std::int64_t>(floor(scaled)), 0), n - 1);
}

std::optional<Value> Writer::index_value(const IndexInfo& index, bool allow_indirect) {
  const auto first = index_for(index.extent, allow_indirect);
  if (!first) return std::nullopt;
  if (!index.second) return Value(index.handle(*first));
  const auto second = index_for(*index.second, false);
  if (!second) return std::nullopt;
  return Value(index.handle(*first, *second));
}

std::optional<Value> Writer::indirect_index(const Extent& extent, bool allow_indirect) {
  std::vector<std::size_t> fitting;
  for (std::size_t k = 0; k < indices_.size(); ++k) {
    if (indices_[k].target.size == extent.size && plain(extent)) fitting.push_back(k);
  }
  if (fitting.empty()) return std::nullopt;
  const IndexInfo index = indices_[one_of(fitting)];
  const bool nested = allow_indirect && chance(50);
  const auto value = index_value(index, nested);
  if (value && extent.pad > 0 && chance(30)) return *value + below(extent.pad + 1);
  return value;
}

std::optional<Value> Writer::index_for(const Extent& extent, bool allow_indirect) {
  if (allow_indirect && draws(15)) {
    if (auto index = state_value(extent)) return index;
  }
  if (allow_indirect && chance(25)) {
    if (auto index = indirect_index(extent, true)) return index;
  }
  if (allow_indirect && chance(3)) {
    if (auto index = data_index(extent)) return index;
  }
  std::vector<Value> fitting;
  for (const IteratorInfo& iterator : iterators_) {
    if (auto index = affine_index(iterator, extent)) fitting.push_back(*index);
  }
  if (!fitting.empty()) return one_of(fitting);
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
    const std::size_t k = one_of(fitting);
    if (auto element = element_of(arrays_[k])) return element;
  }
  return std::nullopt;
}

}  // namespace loopgrad::fuzz

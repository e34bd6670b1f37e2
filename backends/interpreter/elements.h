// Access to array elements: index to offset with a range test, storage formats, and the checks of checked mode.
#pragma once

#include "backends/interpreter/machine.h"
#include "backends/interpreter/nodes.h"
#include "backends/runtime/conversions.h"

namespace loopgrad::backend::interpreter {

/// How elements of a type are kept in memory. f16 and bf16 are rounded when stored.
template <class T>
struct PlainStorage {
  using Memory = T;
  using Value = T;
  static Value decode(Memory m) { return m; }
  static Memory encode(Value v) { return v; }
};
struct BoolStorage {
  using Memory = std::uint8_t;  // any non-zero byte of the caller is true
  using Value = bool;
  static Value decode(Memory m) { return m != 0; }
  static Memory encode(Value v) { return v; }
};
template <class Format>
struct HalfStorage {
  using Memory = std::uint16_t;
  using Value = float;
  static Value decode(Memory m) { return Format::decode(m); }
  static Memory encode(Value v) { return Format::encode(v); }
};

/// Calls `use.template operator()<Storage>()` with the storage of an element type.
template <class Use>
auto with_storage(ScalarType type, Use&& use) {
  switch (type) {
    case ScalarType::Bool: return use.template operator()<BoolStorage>();
    case ScalarType::I32: return use.template operator()<PlainStorage<std::int32_t>>();
    case ScalarType::I64: return use.template operator()<PlainStorage<std::int64_t>>();
    case ScalarType::F16: return use.template operator()<HalfStorage<F16Format>>();
    case ScalarType::BF16: return use.template operator()<HalfStorage<BF16Format>>();
    case ScalarType::F32: return use.template operator()<PlainStorage<float>>();
    case ScalarType::F64: return use.template operator()<PlainStorage<double>>();
  }
  throw InternalError("an element of an unknown type");
}

/// array[indices] at some place of the program.
struct Place {
  ArraySlot& slot;
  const Site& site;
  const ParallelStack& parallel;
  std::vector<EvalPtr<std::int64_t>> indices;

  /// The row-major offset; an index outside of the shape is BadIndex in every mode.
  std::int64_t offset() const {
    std::int64_t result = 0;
    for (std::size_t d = 0; d < indices.size(); ++d) {
      const std::int64_t index = indices[d]->eval(), extent = slot.shape[d];
      if (static_cast<std::uint64_t>(index) >= static_cast<std::uint64_t>(extent)) bad_index(d, index);
      result = result * extent + index;
    }
    return result;
  }
  template <class Storage>
  typename Storage::Value read(std::int64_t offset) const {
    return Storage::decode(reinterpret_cast<const typename Storage::Memory*>(slot.data)[offset]);
  }
  template <class Storage>
  void write(std::int64_t offset, typename Storage::Value value) const {
    note_value(offset, value);
    reinterpret_cast<typename Storage::Memory*>(slot.data)[offset] = Storage::encode(value);
  }

  /// What is seen in the element: an error where a fact says that it is in no other, and it was.
  template <class Value>
  void note_value(std::int64_t offset, Value value) const {
    if constexpr (std::is_integral_v<Value>)
      if (slot.element_of) check_distinct(offset, static_cast<std::int64_t>(value));
  }

  // Checked mode: to be called before the access.
  /// Reads `from` and writes here. False: it has no value to copy. A scalar may stand for it then, as where sums are
  /// accumulated; whoever reads the scalar reads that element, but for copying it back.
  bool check_copy(const Place& from, std::int64_t offset_from, std::int64_t offset) const;
  void check_read(std::int64_t offset) const;
  void check_write(std::int64_t offset) const;
  /// A Reduce that is not atomic is an ordinary read and write. False: the element has no value and gets none, which is
  /// right when all that is added is the identity. So partial results end in elements that nobody added to.
  bool check_reduce(std::int64_t offset, ir::ReduceOp op, bool atomic, bool adds_identity) const;

 private:
  [[noreturn]] void bad_index(std::size_t dimension, std::int64_t index) const;
  void check_distinct(std::int64_t offset, std::int64_t value) const;
  bool has_value(std::int64_t offset) const;
  Origin origin(std::int64_t offset) const;
  void check_initialised(std::int64_t offset) const;
  void check_access(std::int64_t offset, AccessKind kind, ir::ReduceOp op) const;
};

/// The value of an element.
template <class Storage, bool checked>
struct LoadNode final : Eval<typename Storage::Value> {
  const Place place;
  explicit LoadNode(Place p) : place(std::move(p)) {}
  typename Storage::Value eval() const override {
    const std::int64_t offset = place.offset();
    if constexpr (checked) place.check_read(offset);
    const auto value = place.template read<Storage>(offset);
    if constexpr (checked) place.note_value(offset, value);
    return value;
  }
};

}  // namespace loopgrad::backend::interpreter

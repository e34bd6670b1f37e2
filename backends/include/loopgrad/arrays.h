/// @file
/// Arrays that programs run on: views of the caller's memory and owned host arrays.
#pragma once

#include <loopgrad/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace loopgrad {
/// @addtogroup running
/// @{

/// Where memory is.
enum class Device {
  Host,  ///< of the process
  Cuda,  ///< of the current CUDA device
};
/// For messages: "host", "cuda".
const char* name_of(Device device);

/// A view of the caller's memory: row-major unless strides are given. Never owns.
struct View {
  void* data = nullptr;               ///< the first element
  ScalarType type = ScalarType::F32;  ///< of the elements, as stored
  std::vector<std::int64_t> shape;    ///< the extents, outermost first; empty: one element
  std::vector<std::int64_t> strides;  ///< in elements; empty means contiguous
  Device device = Device::Host;       ///< where `data` points
  std::uint64_t version = 0;          ///< of the contents, see `versioned`; 0: they may change from call to call
};

/// The same view with a promise: whenever this memory is passed with this version (not 0), it holds the same elements.
/// Facts about it are then verified once and not in every call. Count the version up when the contents change.
/// **Example:** `arrays["idx"] = versioned(view(idx.data(), {n}), 1)`.
inline View versioned(View view, std::uint64_t version) {
  view.version = version;
  return view;
}

/// A contiguous view of host memory, whose type is that of the pointer. What is const is for inputs only.
/// **Example:** `view(x.data(), {n})`.
template <class T>
requires ElementType<std::remove_const_t<T>> View view(T* data, std::vector<std::int64_t> shape) {
  return {const_cast<std::remove_const_t<T>*>(data),
          scalar_type<std::remove_const_t<T>>(),
          std::move(shape),
          {},
          Device::Host,
          0};
}

/// The same for memory of the GPU, such as cudaMalloc gives.
template <class T>
requires ElementType<std::remove_const_t<T>> View device_view(T* data, std::vector<std::int64_t> shape) {
  View result = view(data, std::move(shape));
  result.device = Device::Cuda;
  return result;
}

/// Arguments of a run, by array name.
using Arguments = std::map<std::string, View>;
/// Sizes of a run, by size name. Sizes that occur alone as an extent need not be given.
using Sizes = std::map<std::string, std::int64_t>;

/// A host array that owns its memory (64-byte aligned).
class HostArray {
 public:
  /// Holds nothing: no element can be read or written.
  HostArray() = default;
  /// Zero-filled. Throws RuntimeError(OutOfMemory) or UsageError(BadSize) on overflow.
  HostArray(ScalarType type, std::vector<std::int64_t> shape);
  /// Of all of it; valid as long as the array or a copy of it lives, which share the memory.
  View view() const;
  /// What it was made with.
  /// @{
  ScalarType type() const { return type_; }
  const std::vector<std::int64_t>& shape() const { return shape_; }
  /// @}
  std::int64_t size() const { return size_; }  ///< elements
  std::int64_t bytes() const;                  ///< of all elements
  void* data() const { return data_.get(); }   ///< the first element; null when it holds nothing
  /// `data` as a pointer to elements; that T is what `type` says is not looked at.
  template <class T>
  T* as() const {
    return static_cast<T*>(data_.get());
  }
  /// Element access, by the row-major position, with conversion, for tests and tools: any type read or written as
  /// double. Throws UsageError (BadIndex; BadArgument when an integer element cannot hold the value).
  /// @{
  double get(std::int64_t index) const;
  void set(std::int64_t index, double value);
  /// @}

 private:
  ScalarType type_ = ScalarType::F32;
  std::vector<std::int64_t> shape_;
  std::int64_t size_ = 0;
  std::shared_ptr<void> data_;
};

/// Number of elements of a shape; throws UsageError(BadSize) when negative or when the bytes overflow. `array` is the
/// name in that message.
std::int64_t element_count(const std::vector<std::int64_t>& shape, ScalarType type, const std::string& array);

/// @}
}  // namespace loopgrad

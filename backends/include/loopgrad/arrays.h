// Arrays that programs run on: views of the caller's memory and owned host arrays.
#pragma once

#include <loopgrad/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace loopgrad {

/// Where memory is.
enum class Device { Host, Cuda };
const char* name_of(Device device);  // "host", "cuda"

/// A view of the caller's memory: row-major unless strides are given. Never owns.
struct View {
  void* data = nullptr;
  ScalarType type = ScalarType::F32;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  // in elements; empty means contiguous
  Device device = Device::Host;
  std::uint64_t version = 0;  // of the contents, see `versioned`; 0: they may change from call to call
};

/// The same view with a promise: whenever this memory is passed with this version (not 0), it holds the same elements.
/// Facts about it are then verified once and not in every call. Count the version up when the contents change.
/// **Example:** `arrays["idx"] = versioned(view(idx.data(), {n}), 1)`.
inline View versioned(View view, std::uint64_t version) {
  view.version = version;
  return view;
}

/// **Example:** `view(x.data(), {n})`.
template <class T>
View view(T* data, std::vector<std::int64_t> shape) {
  return {const_cast<std::remove_const_t<T>*>(data),
          scalar_type<std::remove_const_t<T>>(),
          std::move(shape),
          {},
          Device::Host,
          0};
}

/// The same for memory of the GPU, such as cudaMalloc gives.
template <class T>
View device_view(T* data, std::vector<std::int64_t> shape) {
  View result = view(data, std::move(shape));
  result.device = Device::Cuda;
  return result;
}

/// Arguments of a run, by array name, and sizes, by size name. Sizes that occur alone as an extent need not be given.
using Arguments = std::map<std::string, View>;
using Sizes = std::map<std::string, std::int64_t>;

/// A host array that owns its memory (64-byte aligned).
class HostArray {
 public:
  HostArray() = default;
  /// Zero-filled. Throws RuntimeError(OutOfMemory) or UsageError(BadSize) on overflow.
  HostArray(ScalarType type, std::vector<std::int64_t> shape);
  View view() const;
  ScalarType type() const { return type_; }
  const std::vector<std::int64_t>& shape() const { return shape_; }
  std::int64_t size() const { return size_; }  // elements
  std::int64_t bytes() const;
  void* data() const { return data_.get(); }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_.get());
  }
  /// Element access with conversion, for tests and tools: any type read or written as double. Throws
  /// UsageError (BadIndex; BadArgument when an integer element cannot hold the value).
  double get(std::int64_t index) const;
  void set(std::int64_t index, double value);

 private:
  ScalarType type_ = ScalarType::F32;
  std::vector<std::int64_t> shape_;
  std::int64_t size_ = 0;
  std::shared_ptr<void> data_;
};

/// Number of elements of a shape; throws UsageError(BadSize) when negative or when the bytes overflow.
std::int64_t element_count(const std::vector<std::int64_t>& shape, ScalarType type, const std::string& array);

}  // namespace loopgrad

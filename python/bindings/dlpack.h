// DLPack 1.x: what libraries of arrays agree on. Declared as its specification says, since no Debian package has this
// version.
#pragma once

#include <cstdint>

namespace loopgrad::python::dlpack {

constexpr std::int32_t cpu = 1, cuda = 2, cuda_host = 3, cuda_managed = 13;
constexpr std::uint8_t signed_integer = 0, floating = 2, bfloat = 4, boolean = 6;
constexpr std::uint64_t read_only = 1;

struct Version {
  std::uint32_t major, minor;
};
struct DeviceOf {
  std::int32_t type, index;
};
struct DataType {
  std::uint8_t code, bits;
  std::uint16_t lanes;
};
struct Tensor {
  void* data;
  DeviceOf device;
  std::int32_t ndim;
  DataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; null: contiguous
  std::uint64_t byte_offset;
};
struct Managed {
  Tensor tensor;
  void* context;
  void (*deleter)(Managed*);
};
struct ManagedVersioned {
  Version version;
  void* context;
  void (*deleter)(ManagedVersioned*);
  std::uint64_t flags;
  Tensor tensor;
};

/// What a type offers as `__dlpack_c_exchange_api__`, a capsule "dlpack_exchange_api": the same without Python calls.
struct ExchangeApi {
  Version version;
  ExchangeApi* previous;
  int (*allocate)(Tensor* prototype, ManagedVersioned** out, void* error,
                  void (*set_error)(void* error, const char* kind, const char* message));
  int (*managed_from_object)(void* object, ManagedVersioned** out);
  int (*object_from_managed)(ManagedVersioned* tensor, void** out);
  int (*tensor_from_object)(void* object, Tensor* out);  // may be null; lives as long as the object
  int (*current_stream)(std::int32_t device_type, std::int32_t device, void** out);
};

}  // namespace loopgrad::python::dlpack

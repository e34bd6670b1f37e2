#include "backends/runtime/conversions.h"
#include "dsl/frontend/out_of_memory.h"

#include <loopgrad/arrays.h>
#include <loopgrad/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace loopgrad {

const char* name_of(Device device) { return device == Device::Host ? "host" : "cuda"; }
namespace {

using backend::BF16Format;
using backend::F16Format;

constexpr std::size_t alignment = 64;

std::shared_ptr<void> allocate_zeroed(std::int64_t bytes) {
  const auto size = static_cast<std::size_t>(bytes);
  // Room for at least one block, so that an empty array has an address too. aligned_alloc wants whole blocks.
  const std::size_t blocks = std::max<std::size_t>(1, size / alignment + (size % alignment != 0));
  void* data = blocks > std::numeric_limits<std::size_t>::max() / alignment
                   ? nullptr
                   : std::aligned_alloc(alignment, blocks * alignment);
  if (!data) {
    throw RuntimeError({.code = ErrorCode::OutOfMemory,
                        .message = fmt::format("cannot allocate a host array of {} bytes", bytes),
                        .hint = "use smaller sizes"});
  }
  std::memset(data, 0, blocks * alignment);
  return {data, [](void* p) { std::free(p); }};
}

void check_index(std::int64_t index, std::int64_t size) {
  if (index >= 0 && index < size) return;
  throw UsageError(
      {.code = ErrorCode::BadIndex, .message = fmt::format("element {} of a host array of {} elements", index, size)});
}

template <class Integer>
Integer checked_integer(double value) {
  if (const auto integer = backend::to_integer<Integer>(value)) return *integer;
  throw UsageError(
      {.code = ErrorCode::BadArgument,
       .message = fmt::format("{} does not fit an element of type {}", value, name_of(scalar_type<Integer>()))});
}

}  // namespace

std::int64_t element_count(const std::vector<std::int64_t>& shape, ScalarType type, const std::string& array) {
  for (std::int64_t extent : shape) {
    if (extent >= 0) continue;
    throw UsageError({.code = ErrorCode::BadSize,
                      .message = fmt::format("array '{}' has the negative extent {}", array, extent),
                      .array = array});
  }
  if (!is_known(type))
    throw UsageError({.code = ErrorCode::BadType,
                      .message = fmt::format("array '{}' has no known type", array),
                      .array = array,
                      .hint = "use a value of ScalarType"});
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  std::int64_t count = 1;
  std::int64_t bytes = 0;
  bool overflow = false;
  for (std::int64_t extent : shape) overflow |= __builtin_mul_overflow(count, extent, &count);
  overflow |= __builtin_mul_overflow(count, static_cast<std::int64_t>(bytes_of(type)), &bytes);
  if (overflow) {
    throw UsageError({.code = ErrorCode::BadSize,
                      .message = fmt::format("the bytes of array '{}' with extents [{}] do not fit in 64 bits", array,
                                             fmt::join(shape, ", ")),
                      .array = array,
                      .hint = "use smaller sizes"});
  }
  return count;
}

HostArray::HostArray(ScalarType type, std::vector<std::int64_t> shape)
    : type_(type), shape_(std::move(shape)), size_(element_count(shape_, type_, "")) {
  data_ = reporting_memory("", [&] { return allocate_zeroed(bytes()); });
}

View HostArray::view() const { return {data_.get(), type_, shape_, {}, Device::Host}; }

std::int64_t HostArray::bytes() const { return size_ * static_cast<std::int64_t>(bytes_of(type_)); }

double HostArray::get(std::int64_t index) const {
  check_index(index, data_ ? size_ : 0);  // none where it was moved from
  switch (type_) {
    case ScalarType::Bool: return as<std::uint8_t>()[index] != 0;
    case ScalarType::I32: return as<std::int32_t>()[index];
    case ScalarType::I64: return static_cast<double>(as<std::int64_t>()[index]);
    case ScalarType::F16: return F16Format::decode(as<std::uint16_t>()[index]);
    case ScalarType::BF16: return BF16Format::decode(as<std::uint16_t>()[index]);
    case ScalarType::F32: return as<float>()[index];
    case ScalarType::F64: return as<double>()[index];
  }
  throw InternalError("host array of an unknown type");
}

void HostArray::set(std::int64_t index, double value) {
  check_index(index, data_ ? size_ : 0);  // none where it was moved from
  switch (type_) {
    case ScalarType::Bool: as<std::uint8_t>()[index] = value != 0; return;
    case ScalarType::I32: as<std::int32_t>()[index] = checked_integer<std::int32_t>(value); return;
    case ScalarType::I64: as<std::int64_t>()[index] = checked_integer<std::int64_t>(value); return;
    case ScalarType::F16: as<std::uint16_t>()[index] = F16Format::encode(value); return;
    case ScalarType::BF16: as<std::uint16_t>()[index] = BF16Format::encode(value); return;
    case ScalarType::F32: as<float>()[index] = static_cast<float>(value); return;
    case ScalarType::F64: as<double>()[index] = value; return;
  }
  throw InternalError("host array of an unknown type");
}

}  // namespace loopgrad

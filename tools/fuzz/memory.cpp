#include "tools/fuzz/memory.h"

#include "tools/fuzz/execution.h"

#include <cstring>

namespace loopgrad::fuzz {
namespace {

constexpr std::size_t border = 256;
constexpr unsigned char mark = 0xA5;

}  // namespace

GuardedArray::GuardedArray(const HostArray& contents, int offset, Device device)
    : type_(contents.type()), shape_(contents.shape()), bytes_(static_cast<std::size_t>(contents.bytes())) {
  host_.assign(bytes_ + 3 * border, mark);
  const std::size_t misplaced = device == Device::Host ? reinterpret_cast<std::uintptr_t>(host_.data()) % 64 : 0;
  begin_ = border + (64 - misplaced) % 64 + static_cast<std::size_t>(offset) * bytes_of(type_);
  if (bytes_ > 0) std::memcpy(host_.data() + begin_, contents.data(), bytes_);
  if (device == Device::Host) return;
  device_ = DeviceArray(ScalarType::Bool, {static_cast<std::int64_t>(host_.size())});
  device_.upload(host_.data());
}

View GuardedArray::view() const {
  unsigned char* const base = device_.data() ? static_cast<unsigned char*>(device_.data()) : host_.data();
  return {base + begin_, type_, shape_, {}, device_.data() ? Device::Cuda : Device::Host};
}

HostArray GuardedArray::contents(const std::string& name) const {
  if (device_.data()) device_.download(host_.data());
  for (std::size_t i = 0; i < host_.size(); ++i) {
    if (i >= begin_ && i < begin_ + bytes_) continue;
    if (host_[i] != mark) throw Disagreement("memory outside of '" + name + "' is written");
  }
  HostArray result(type_, shape_);
  if (bytes_ > 0) std::memcpy(result.data(), host_.data() + begin_, bytes_);
  return result;
}

}  // namespace loopgrad::fuzz

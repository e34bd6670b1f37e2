#include "backends/records.h"

#include "backends/cuda/device.h"
#include "dsl/ir/visit.h"

#include <fmt/format.h>
#include <loopgrad/error.h>

#include <algorithm>
#include <new>

namespace loopgrad::backend {
namespace {

/// The value of an expression of sizes; nullopt of others.
std::optional<std::int64_t> value_of(const ir::Expr& e, const SizeValues& sizes) {
  bool known = true;
  ir::walk(e, [&](const ir::Expr& part) {
    const auto* v = part.as<ir::Var>();
    known &= part.kind() != ir::Kind::Load && !(v && !sizes.count(v->symbol));
  });
  return known ? std::optional(evaluate(e, sizes)) : std::nullopt;
}

}  // namespace

Records::Records(std::vector<transforms::Record> records, bool on_device, std::string program)
    : records_(std::move(records)), on_device_(on_device), program_(std::move(program)) {
  for (const transforms::Record& record : records_) {
    Memory& memory = memory_[record.array];
    memory.seen.resize(record.sites.size());
    const auto bytes = static_cast<std::int64_t>(memory.seen.size() * sizeof(std::int64_t));
    auto* data = memory.seen.data();
    if (on_device_) {
      memory.owner = cuda::allocate(bytes, program_);
      data = static_cast<std::int64_t*>(memory.owner.get());
    }
    memory.view = view(data, {static_cast<std::int64_t>(memory.seen.size())});
    memory.view.device = on_device_ ? Device::Cuda : Device::Host;
    forget(memory);
  }
}

void Records::forget(Memory& memory) const {
  std::fill(memory.seen.begin(), memory.seen.end(), transforms::nothing_recorded);
  if (!on_device_) return;
  const auto bytes = static_cast<std::int64_t>(memory.seen.size() * sizeof(std::int64_t));
  cuda::copy_to_device(memory.owner.get(), memory.seen.data(), bytes, nullptr);
  cuda::synchronize(nullptr, {});
}

void Records::give_elements(std::vector<View>& arrays) {
  for (View& array : arrays) {
    if (element_count(array.shape, array.type, "") > 0) continue;
    auto bytes = static_cast<std::int64_t>(bytes_of(array.type));
    for (const std::int64_t extent : array.shape) bytes *= std::max<std::int64_t>(extent, 1);
    if (bytes > spare_bytes_)
      spare_ = on_device_ ? cuda::allocate(bytes, program_)
                          : std::shared_ptr<void>(::operator new(static_cast<std::size_t>(bytes)),
                                                  [](void* memory) { ::operator delete(memory); });
    spare_bytes_ = std::max(spare_bytes_, bytes);
    array.data = spare_.get();
  }
}

void Records::forget() {
  for (auto& [array, all] : memory_) forget(all);
}

void Records::check(const SizeValues& sizes, void* stream) {
  if (on_device_ && cuda::is_capturing(stream)) return;
  for (const transforms::Record& record : records_) {
    Memory& memory = memory_.at(record.array);
    const auto bytes = static_cast<std::int64_t>(memory.seen.size() * sizeof(std::int64_t));
    if (on_device_) cuda::copy_to_host(memory.seen.data(), memory.owner.get(), bytes, stream);
    for (std::size_t k = 0; k < record.sites.size(); ++k) {
      const transforms::RecordedSite& site = record.sites[k];
      const std::int64_t value = memory.seen[k];
      if (value == transforms::nothing_recorded) continue;
      forget();
      throw_out_of_range(site, value, sizes, program_, "it was left out, and results are wrong");
    }
  }
}

void throw_out_of_range(const transforms::RecordedSite& site, std::int64_t value, const SizeValues& sizes,
                        const std::string& program, const char* what_now) {
  ErrorInfo info{.code = ErrorCode::BadIndex, .program = program, .loop = site.loop, .location = site.location};
  if (!site.array) {
    info.message = fmt::format("the loop makes {} trips, more than the {} that at_most promises; {}", value,
                               evaluate(site.at_most, sizes), what_now);
    info.hint = "correct the promise or the bounds";
    throw RuntimeError(info);
  }
  const auto extent = value_of(site.array->shape[site.dimension], sizes);
  info.array = site.array->name;
  info.message = fmt::format("index {} is outside of [0, {}), dimension {}; {}", value,
                             extent ? std::to_string(*extent) : "extent", site.dimension, what_now);
  info.hint = "check the bounds of the loops and the contents of index arrays";
  throw RuntimeError(info);
}

}  // namespace loopgrad::backend

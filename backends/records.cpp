#include "backends/records.h"

#include "dsl/ir/visit.h"

#include <fmt/format.h>
#include <loopgrad/error.h>

#include <algorithm>

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

Records::Records(std::vector<transforms::Record> records, const Memory& memory, std::string program)
    : records_(std::move(records)), memory_of_runs_(memory), program_(std::move(program)) {
  for (const transforms::Record& record : records_) {
    Kept& kept = memory_[record.array];
    kept.seen.resize(record.sites.size());
    kept.array = memory.make_array(ScalarType::I64, {static_cast<std::int64_t>(record.sites.size())});
    forget(kept);
  }
}

void Records::forget(Kept& kept) const {
  std::fill(kept.seen.begin(), kept.seen.end(), transforms::nothing_recorded);
  memory_of_runs_.copy_in(kept.array.view.data, kept.seen.data(), kept.array.bytes);
}

void Records::give_elements(std::vector<View>& arrays) {
  for (View& array : arrays) {
    if (element_count(array.shape, array.type, "") > 0) continue;
    auto bytes = static_cast<std::int64_t>(bytes_of(array.type));
    for (const std::int64_t extent : array.shape) bytes *= std::max<std::int64_t>(extent, 1);
    if (bytes > spare_.bytes) spare_ = memory_of_runs_.make_array(ScalarType::I64, {(bytes + 7) / 8});
    array.data = spare_.view.data;
  }
}

void Records::forget() {
  for (auto& [array, all] : memory_) forget(all);
}

void Records::check(const SizeValues& sizes, void* stream) {
  if (memory_of_runs_.is_capturing(stream)) return;
  for (const transforms::Record& record : records_) {
    Kept& kept = memory_.at(record.array);
    memory_of_runs_.copy_out(kept.seen.data(), kept.array.view.data, kept.array.bytes, stream);
    for (std::size_t k = 0; k < record.sites.size(); ++k) {
      const transforms::RecordedSite& site = record.sites[k];
      const std::int64_t value = kept.seen[k];
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

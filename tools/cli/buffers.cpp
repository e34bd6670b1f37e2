#include "tools/cli/buffers.h"

#include "backends/runtime/binding.h"
#include "tools/cli/options.h"
#include "tools/support/random.h"

#include <fmt/format.h>
#include <xxhash.h>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

namespace loopgrad::cli {
namespace {

using tools::Random;

backend::SizeValues size_values(const ir::Program& program, const Sizes& sizes) {
  backend::SizeValues values;
  for (const ir::Symbol& symbol : program.sizes) {
    auto it = sizes.find(symbol.name);
    if (it == sizes.end())
      bad_input(fmt::format("size '{}' of program '{}' has no default", symbol.name, program.name),
                "list it in ProgramEntry::sizes");
    values[symbol] = it->second;
  }
  return values;
}

HostArray allocate(const ir::Array& array, const backend::SizeValues& sizes, bool f64) {
  ScalarType type = f64 && is_float(array->type) ? ScalarType::F64 : array->type;
  return HostArray(type, backend::shape_of(array, sizes));
}

/// Whole numbers below `upper`, in random order with repetitions, or each at most once, or rising.
void fill_integers(HostArray& array, std::int64_t lower, std::int64_t upper, bool injective, bool sorted,
                   Random& random) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(array.size()));
  if (injective) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(std::max<std::int64_t>(upper - lower, array.size())));
    std::iota(all.begin(), all.end(), lower);
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::swap(all[i], all[i + static_cast<std::size_t>(random.below(static_cast<std::int64_t>(all.size() - i)))]);
      values[i] = all[i];
    }
  } else {
    for (auto& value : values) value = upper > lower ? lower + random.below(upper - lower) : lower;
  }
  if (sorted) std::sort(values.begin(), values.end());
  for (std::size_t i = 0; i < values.size(); ++i)
    array.set(static_cast<std::int64_t>(i), static_cast<double>(values[i]));
}

/// Random row starts: sorted numbers in [0, total] with 0 in front and `total` at the end.
void fill_csr(HostArray& ptr, std::int64_t total, Random& random) {
  fill_integers(ptr, 0, total + 1, false, true, random);
  ptr.set(0, 0);
  ptr.set(ptr.size() - 1, static_cast<double>(total));
}

void fill_by_facts(const ir::Program& program, const ir::Array& array, const backend::SizeValues& sizes, Random& random,
                   HostArray& out) {
  bool ranged = false, injective = false, sorted = false;
  std::int64_t lower = 0, upper = 0;
  for (const ir::Fact& fact : program.facts) {
    if (fact.array != array) continue;
    if (fact.kind == ir::FactKind::CsrPointer) return fill_csr(out, backend::evaluate(fact.upper, sizes), random);
    if (fact.kind == ir::FactKind::InRange) {
      ranged = true;
      lower = backend::evaluate(fact.lower, sizes);
      upper = backend::evaluate(fact.upper, sizes);
    }
    injective = injective || fact.kind == ir::FactKind::Injective;
    sorted = sorted || fact.kind == ir::FactKind::Sorted;
  }
  if (!ranged) upper = injective ? out.size() : 1;
  const std::int64_t needed = injective ? out.size() : std::min<std::int64_t>(out.size(), 1);
  if (upper - lower < needed)
    bad_input(
        fmt::format("at these sizes array '{}' of {} elements has no contents: its facts allow the numbers {}..{}",
                    array->name, out.size(), lower, upper - 1),
        "choose other sizes");
  fill_integers(out, lower, upper, injective, sorted, random);
}

std::vector<std::string> float_arrays(const Program& program, ir::ArrayRole role) {
  std::vector<std::string> names;
  for (const ir::Array& array : program.ir().arrays)
    if (is_float(array->type) && (array->role == role || array->role == ir::ArrayRole::InOut))
      names.push_back(array->name);
  return names;
}

}  // namespace

HostArray copy_of(const HostArray& array) {
  HostArray copy(array.type(), array.shape());
  if (array.bytes() > 0) std::memcpy(copy.data(), array.data(), static_cast<std::size_t>(array.bytes()));
  return copy;
}

HostArray converted(const HostArray& array, ScalarType type) {
  HostArray copy(type, array.shape());
  for (std::int64_t i = 0; i < array.size(); ++i) copy.set(i, array.get(i));
  return copy;
}

HostArray as_f64(const HostArray& array) {
  return is_float(array.type()) ? converted(array, ScalarType::F64) : copy_of(array);
}

Arrays make_inputs(const ProgramEntry& entry, const Program& program, const Sizes& sizes, std::uint64_t seed) {
  const ir::Program& ir = program.ir();
  auto values = size_values(ir, sizes);
  Random random(seed);
  Arrays arrays;
  for (const ir::Array& array : ir.arrays) {
    if (array->role != ir::ArrayRole::Input && array->role != ir::ArrayRole::InOut) continue;
    HostArray& filled = arrays[array->name] = allocate(array, values, false);
    if (is_float(array->type))
      for (std::int64_t i = 0; i < filled.size(); ++i) filled.set(i, random.uniform(-1, 1));
    else if (array->type == ScalarType::Bool)
      for (std::int64_t i = 0; i < filled.size(); ++i) filled.set(i, static_cast<double>(random.below(2)));
    else fill_by_facts(ir, array, values, random, filled);
  }
  if (entry.fill) entry.fill(sizes, seed, arrays);
  return arrays;
}

std::vector<std::string> resolve_wrt(const Program& program, const std::vector<std::string>& wrt) {
  return wrt.empty() ? float_arrays(program, ir::ArrayRole::Input) : wrt;
}

std::vector<std::string> resolve_of(const Program& program) { return float_arrays(program, ir::ArrayRole::Output); }

Arrays make_incoming(const Program& program, const Sizes& sizes, std::uint64_t seed) {
  auto values = size_values(program.ir(), sizes);
  Random random(seed ^ 0x6a09e667f3bcc908u);
  Arrays incoming;
  for (const std::string& name : resolve_of(program)) {
    ir::Array array = ir::find_array(program.ir(), name);
    ScalarType type = array->type == ScalarType::F64 ? ScalarType::F64 : ScalarType::F32;
    HostArray& filled = incoming["d_" + name] = HostArray(type, backend::shape_of(array, values));
    for (std::int64_t i = 0; i < filled.size(); ++i) filled.set(i, random.uniform(-1, 1));
  }
  return incoming;
}

Buffers::Buffers(std::vector<Program> programs, Sizes sizes, Arrays initial, bool f64)
    : programs_(std::move(programs)), sizes_(std::move(sizes)) {
  for (const Program& program : programs_) {
    backend::SizeValues values;  // sizes that data decide are unknown here, but only tape arrays have them
    for (const ir::Symbol& symbol : program.ir().sizes)
      if (auto it = sizes_.find(symbol.name); it != sizes_.end()) values[symbol] = it->second;
    for (const ir::Array& array : program.ir().arrays)
      if (array->role != ir::ArrayRole::Tape && !arrays_.contains(array->name))
        arrays_[array->name] = allocate(array, values, f64);
  }
  for (auto& [name, array] : initial) {
    const auto it = arrays_.find(name);
    const bool as_it_is = it == arrays_.end() || it->second.type() == array.type();
    initial_[name] = as_it_is ? array : converted(array, it->second.type());
  }
  reset();
}

void Buffers::reset() {
  for (const auto& [name, array] : initial_)
    if (auto it = arrays_.find(name); it != arrays_.end() && array.bytes() > 0)
      std::memcpy(it->second.data(), array.data(), static_cast<std::size_t>(array.bytes()));
}

Arguments with_versions(Arguments arguments, const Program& program) {
  for (const ir::Array& array : program.ir().arrays)
    if (array->role == ir::ArrayRole::Input && !is_float(array->type) && arguments.contains(array->name))
      arguments[array->name] = versioned(arguments[array->name], 1);
  return arguments;
}

Arguments Buffers::arguments(std::size_t index) const {
  Arguments arguments;
  for (const ir::Array& array : programs_.at(index).ir().arrays)
    if (array->role != ir::ArrayRole::Tape) arguments[array->name] = arrays_.at(array->name).view();
  return arguments;
}

std::uint64_t hash_bits(const Buffers& buffers, const std::vector<std::string>& names) {
  std::uint64_t hash = 0;
  for (const std::string& name : names) {
    const HostArray& array = buffers.at(name);
    hash = XXH3_64bits_withSeed(array.data(), static_cast<std::size_t>(array.bytes()), hash);
  }
  return hash;
}

double relative_error(const HostArray& a, const HostArray& b, double least_scale) {
  double difference = 0, scale = least_scale;
  for (std::int64_t i = 0; i < b.size(); ++i) {
    double x = a.get(i), y = b.get(i);
    if (!std::isfinite(x) && !(x == y)) return std::numeric_limits<double>::infinity();
    if (x != y) difference = std::max(difference, std::abs(x - y));
    scale = std::max(scale, std::abs(y));
  }
  return scale > 0 ? difference / scale : difference;
}

}  // namespace loopgrad::cli

#include "tools/fuzz/case.h"

#include "backends/runtime/binding.h"
#include "dsl/ir/printer.h"
#include "tools/support/random.h"

#include <loopgrad/error.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace loopgrad::fuzz {
namespace {

backend::SizeValues values_of(const Case& c) {
  backend::SizeValues values;
  for (const ir::Symbol& size : c.program.ir().sizes) values[size] = c.sizes.at(size.name);
  return values;
}

/// Seeded by the name, so that an array keeps its contents while others are dropped from the program.
tools::Random random_for(const Case& c, const std::string& name) {
  std::uint64_t seed = c.seed * 0x9e3779b97f4a7c15u + 1;
  for (char letter : name) seed = seed * 131 + static_cast<unsigned char>(letter);
  return tools::Random(seed);
}

void fill_indices(HostArray& array, const IndexContents& contents, std::int64_t bound, tools::Random& random) {
  using Kind = IndexContents::Kind;
  const std::int64_t count = array.size();
  if ((contents.kind == Kind::Below || contents.kind == Kind::Sorted) && count > 0 && bound <= 0)
    throw UsageError({.code = ErrorCode::BadSize, .message = "an index array has no value to hold", .hint = "seed"});
  switch (contents.kind) {
    case IndexContents::Kind::Below:
      for (std::int64_t i = 0; i < count; ++i) array.set(i, static_cast<double>(random.below(bound) + contents.shift));
      return;
    case IndexContents::Kind::Sorted: {
      std::vector<std::int64_t> values(static_cast<std::size_t>(count));
      for (std::int64_t& value : values) value = random.below(bound);
      std::sort(values.begin(), values.end());
      for (std::int64_t i = 0; i < count; ++i) array.set(i, static_cast<double>(values[static_cast<std::size_t>(i)]));
      return;
    }
    case IndexContents::Kind::Permutation:
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t j = random.below(i + 1);
        array.set(i, array.get(j));
        array.set(j, static_cast<double>(i));
      }
      return;
    case IndexContents::Kind::CsrPointer: {
      const std::int64_t rows = count - 1;
      if (rows <= 0 && bound != 0) {
        throw UsageError({.code = ErrorCode::BadSize, .message = "entries without rows", .hint = "seed"});
      }
      for (std::int64_t e = 0; e < bound; ++e) {  // each entry goes to a random row
        const std::int64_t row = random.below(rows);
        array.set(row + 1, array.get(row + 1) + 1);
      }
      for (std::int64_t row = 0; row < rows; ++row) array.set(row + 1, array.get(row + 1) + array.get(row));
      return;
    }
  }
}

}  // namespace

Arrays make_arrays(const Case& c, bool f64) {
  const backend::SizeValues sizes = values_of(c);
  Arrays arrays;
  for (const ir::Array& declared : c.program.ir().arrays) {
    const bool floating = is_float(declared->type);
    HostArray array(f64 && floating ? ScalarType::F64 : declared->type, backend::shape_of(declared, sizes));
    tools::Random random = random_for(c, declared->name);
    const auto contents = c.contents.find(declared->name);
    if (contents != c.contents.end()) {
      const ir::Expr& bound = contents->second.bound;
      fill_indices(array, contents->second, bound ? backend::evaluate(bound, sizes) : 0, random);
    } else if (floating && declared->role != ir::ArrayRole::Output) {
      const bool coarse = c.coarse.contains(declared->name);
      for (std::int64_t i = 0; i < array.size(); ++i) {
        const double value = random.uniform(-1, 1);
        array.set(i, coarse ? std::floor(4 * value) / 4 : value);
      }
    }
    const auto owner = c.shared.find(declared->name);  // declared before
    if (owner != c.shared.end() && arrays.contains(owner->second)) array = arrays.at(owner->second);
    arrays.emplace(declared->name, std::move(array));
  }
  return arrays;
}

Case at_medium_sizes(Case c) {
  c.sizes = c.medium;
  return c;
}

std::string describe(const Case& c) {
  std::string text = fmt::format("seed {}\n", c.seed);
  for (const auto& [name, value] : c.sizes) {
    const auto medium = c.medium.find(name);
    const bool two = medium != c.medium.end() && medium->second != value;
    text += fmt::format("{} = {}{}\n", name, value, two ? fmt::format(" ({} when compiled)", medium->second) : "");
  }
  for (const auto& [name, owner] : c.shared) text += fmt::format("'{}' has the memory of '{}'\n", name, owner);
  for (const auto& [name, value] : c.expected) text += fmt::format("expected: {} = {}\n", name, value);
  if (!c.left_out.empty()) text += fmt::format("passes left out: {}\n", fmt::join(c.left_out, ","));
  return text + c.program.str();
}

}  // namespace loopgrad::fuzz

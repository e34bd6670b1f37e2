// Sizes, arrays and the contents of index arrays.
#include "tools/fuzz/writer.h"

namespace loopgrad::fuzz {

void Writer::declare_sizes() {
  static const char* const names[] = {"n", "m", "p"};
  const std::int64_t count = 1 + below(3);
  for (std::int64_t i = 0; i < count; ++i) sizes_.push_back({names[i], builder_.size(names[i])});
}

int Writer::some_size() { return static_cast<int>(below(static_cast<std::int64_t>(sizes_.size()))); }

Extent Writer::random_extent() {
  Extent extent{.size = some_size()};
  switch (below(10)) {
    case 0: extent.scale = 2; break;
    case 1: extent.second = some_size(); break;
    case 2: extent.pad = 1 + static_cast<int>(below(2)); break;
    case 3: return {.size = -1, .pad = 1 + static_cast<int>(below(3))};
    default: break;
  }
  return extent;
}

Value Writer::value_of(const Extent& extent) {
  if (extent.size < 0) return extent.pad;
  Value value = sizes_[static_cast<std::size_t>(extent.size)].value;
  if (extent.scale != 1) value = extent.scale * value;
  if (extent.second >= 0) value = value + sizes_[static_cast<std::size_t>(extent.second)].value;
  if (extent.pad != 0) value = value + extent.pad;
  return value;
}

std::vector<Value> Writer::shape_of(const std::vector<Extent>& extents) {
  std::vector<Value> shape;
  for (const Extent& extent : extents) shape.push_back(value_of(extent));
  return shape;
}

ScalarType Writer::float_type() {
  if (options_.double_only) return ScalarType::F64;
  if (!chance(10)) return main_type_;
  return main_type_ == ScalarType::F64 ? ScalarType::F32 : ScalarType::F64;
}

std::string Writer::fresh(const char* stem) { return stem + std::to_string(++names_); }

ArrayInfo Writer::declare(ir::ArrayRole role, const char* stem, std::vector<Extent> extents) {
  const std::vector<Value> shape = shape_of(extents);
  const ScalarType type = float_type();
  const std::string name = fresh(stem);
  const bool input = role == ir::ArrayRole::Input;
  const auto handle = [&] {
    switch (role) {
      case ir::ArrayRole::Input: return builder_.input(type, name, shape);
      case ir::ArrayRole::Output: return builder_.output(type, name, shape);
      case ir::ArrayRole::InOut: return builder_.inout(type, name, shape);
      default: return builder_.local(type, name, shape);
    }
  };
  return {.handle = handle(), .extents = std::move(extents), .input = input, .writable = !input, .readable = true};
}

std::vector<Extent> Writer::random_extents() {
  std::vector<Extent> extents;
  if (chance(10)) return extents;
  const std::int64_t rank = chance(65) ? 1 : 2;
  for (std::int64_t i = 0; i < rank; ++i) extents.push_back(random_extent());
  return extents;
}

void Writer::declare_arguments() {
  for (std::int64_t i = 1 + below(3); i > 0; --i)
    arrays_.push_back(declare(ir::ArrayRole::Input, "x", random_extents()));
  for (std::int64_t i = below(3); i > 0; --i) arrays_.push_back(declare(ir::ArrayRole::InOut, "a", random_extents()));
  declare_indices();
  for (std::int64_t i = 1 + below(2); i > 0; --i) {
    ArrayInfo output = declare(ir::ArrayRole::Output, "y", random_extents());
    if (chance(12)) output.readable = false;  // only ever overwritten, perhaps not everywhere
    else initialise(output);
    arrays_.push_back(output);
  }
  const ArrayInfo total = declare(ir::ArrayRole::Output, "total", {});  // takes what fits nowhere else
  initialise(total);
  arrays_.push_back(total);
}

/// Integer inputs: indices below a size, permutations, and row pointers with or without the fact that says so.
void Writer::declare_indices() {
  const auto add = [&](const char* stem, const Extent& extent, const Extent& target, ScalarType type) {
    const std::string name = fresh(stem);
    IndexInfo info{builder_.input(type, name, {value_of(extent)}), extent, target};
    contents_[name] = {IndexContents::Kind::Below, ir::Expr(value_of(target).node())};
    if (chance(50)) builder_.in_range(info.handle, 0, value_of(target));
    indices_.push_back(info);
    return name;
  };
  for (std::int64_t i = below(3); i > 0; --i) {
    const Extent target{.size = some_size()};
    if (chance(25)) {
      const std::string name = add("perm", target, target, ScalarType::I64);
      contents_[name].kind = IndexContents::Kind::Permutation;
      if (chance(60)) builder_.injective(indices_.back().handle);
    } else {
      add("idx", random_extent(), target, chance(70) ? ScalarType::I32 : ScalarType::I64);
    }
  }
  if (!chance(40)) return;
  sizes_.push_back({"nnz", builder_.size("nnz")});
  const Extent entries{.size = static_cast<int>(sizes_.size()) - 1};
  const Extent rows{.size = static_cast<int>(below(static_cast<std::int64_t>(sizes_.size()) - 1)), .pad = 1};
  const std::string name = fresh("ptr");
  pointers_.push_back({builder_.input(ScalarType::I32, name, {value_of(rows)}), rows, entries});
  contents_[name] = {IndexContents::Kind::CsrPointer, ir::Expr(value_of(entries).node())};
  if (chance(70)) builder_.csr(pointers_.back().handle, value_of(entries));
  add("col", entries, {.size = static_cast<int>(below(entries.size))}, ScalarType::I32);
  arrays_.push_back(declare(ir::ArrayRole::Input, "v", {entries}));
}

void Writer::initialise(const ArrayInfo& array) {
  const bool zero = chance(30);
  std::vector<Operand> at;
  const std::function<void(std::size_t)> nest = [&](std::size_t dimension) {
    if (dimension == array.extents.size()) {
      const Value value = zero ? Value(0) : tame(1);
      array.handle.at(at) = value;
      return;
    }
    each(array.extents[dimension], [&](const Value& i) {
      at.push_back(i);
      nest(dimension + 1);
      at.pop_back();
    });
  };
  nest(0);
}

/// Small sizes, zero and one among them, such that every index array has something to point at.
Sizes Writer::choose_sizes() {
  Sizes sizes;
  for (const SizeInfo& size : sizes_) {
    const std::int64_t dice = below(25);
    sizes[size.name] = dice == 0 ? 0 : dice < 4 ? 1 : 2 + below(4);
  }
  const auto concrete = [&](const Extent& extent) {
    return extent.size < 0 ? 1 : sizes[sizes_[static_cast<std::size_t>(extent.size)].name];
  };
  for (const IndexInfo& pointer : pointers_) {
    std::int64_t& entries = sizes[sizes_[static_cast<std::size_t>(pointer.target.size)].name];
    entries = concrete(pointer.extent) == 0 ? 0 : below(9);
  }
  for (const IndexInfo& index : indices_) {
    std::int64_t& target = sizes[sizes_[static_cast<std::size_t>(index.target.size)].name];
    if (target == 0) target = 1;
  }
  return sizes;
}

}  // namespace loopgrad::fuzz

// Sizes and arrays.
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

/// One type for most programs, or all of them mixed.
void Writer::choose_types() {
  const std::int64_t dice = below(100);
  main_type_ = dice < 45   ? ScalarType::F64
               : dice < 80 ? ScalarType::F32
               : dice < 90 ? ScalarType::F16
                           : ScalarType::BF16;
  mixed_ = chance(15);
  rational_ = chance(30);
}

ScalarType Writer::float_type() {
  static constexpr ScalarType all[] = {ScalarType::F64, ScalarType::F32, ScalarType::F16, ScalarType::BF16};
  return mixed_ && chance(50) ? all[below(4)] : main_type_;
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
  return {.name = name,
          .type = type,
          .handle = handle(),
          .extents = std::move(extents),
          .input = input,
          .writable = !input,
          .readable = true};
}

std::vector<Extent> Writer::random_extents() {
  const std::int64_t dice = below(100);
  const int rank = dice < 10 ? 0 : dice < 62 ? 1 : dice < 88 ? 2 : dice < 96 ? 3 : 4;
  std::vector<Extent> extents;
  for (int i = 0; i < rank; ++i) extents.push_back(random_extent());
  return extents;
}

void Writer::declare_arguments() {
  for (std::int64_t i = 1 + below(3); i > 0; --i)
    arrays_.push_back(declare(ir::ArrayRole::Input, "x", random_extents()));
  for (std::int64_t i = below(3); i > 0; --i) arrays_.push_back(declare(ir::ArrayRole::InOut, "a", random_extents()));
  declare_indices();
  declare_integers();
  if (chance(8)) declare_twin();
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

}  // namespace loopgrad::fuzz

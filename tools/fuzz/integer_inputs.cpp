// Integer inputs and what is stated about them: indices, permutations, row pointers, data, flags; arrays that share.
#include "tools/fuzz/writer.h"

namespace loopgrad::fuzz {

/// Indices below a size, sorted ones and permutations, with or without the fact that says so.
void Writer::declare_indices() {
  for (std::int64_t i = below(3); i > 0; --i) {
    Extent target{.size = some_size()};
    if (!indices_.empty() && chance(60)) {  // so that one can be read through the other
      const Extent& other = indices_.back().extent;
      if (other == Extent{.size = other.size}) target = other;
    }
    const bool permutation = chance(25), sorted = !permutation && chance(25);
    IndexInfo info =
        add_index(permutation ? "perm"
                  : sorted    ? "seg"
                              : "idx",
                  permutation ? target : random_extent(), target,
                  permutation || chance(30) ? ScalarType::I64 : ScalarType::I32, !permutation && !sorted && chance(20));
    IndexContents& contents = contents_[names_of_indices_.back()];
    if (permutation) {
      contents.kind = IndexContents::Kind::Permutation;
      if (chance(60)) builder_.injective(info.handle);
    } else if (sorted) {
      contents.kind = IndexContents::Kind::Sorted;
      if (chance(75)) builder_.sorted(info.handle);
      segments_.push_back(info);
    }
  }
  if (chance(40)) declare_pointers();
}

IndexInfo Writer::add_index(const char* stem, const Extent& extent, const Extent& target, ScalarType type,
                            bool two_dimensions) {
  const std::string name = fresh(stem);
  std::vector<Value> shape = {value_of(extent)};
  std::optional<Extent> second;
  if (two_dimensions) {
    second = Extent{.pad = 2};
    shape.push_back(value_of(*second));
  }
  IndexInfo info{builder_.input(type, name, shape), extent, target, second};
  contents_[name] = {IndexContents::Kind::Below, ir::Expr(value_of(target).node())};
  if (chance(50)) builder_.in_range(info.handle, 0, value_of(target));
  indices_.push_back(info);
  names_of_indices_.push_back(name);
  return info;
}

/// The rows of a sparse matrix: a pointer, columns and values.
void Writer::declare_pointers() {
  const std::string total = pointers_.empty() ? "nnz" : fresh("nnz");
  sizes_.push_back({total, builder_.size(total)});
  const Extent entries{.size = static_cast<int>(sizes_.size()) - 1};
  const Extent rows{.size = static_cast<int>(below(static_cast<std::int64_t>(sizes_.size()) - 1)), .pad = 1};
  const std::string name = fresh("ptr");
  const ScalarType type = chance(70) ? ScalarType::I32 : ScalarType::I64;
  pointers_.push_back({builder_.input(type, name, {value_of(rows)}), rows, entries});
  contents_[name] = {IndexContents::Kind::CsrPointer, ir::Expr(value_of(entries).node())};
  if (chance(70)) builder_.csr(pointers_.back().handle, value_of(entries));
  add_index("col", entries, {.size = static_cast<int>(below(entries.size))}, ScalarType::I32, false);
  arrays_.push_back(declare(ir::ArrayRole::Input, "v", {entries}));
}

/// Integers that are data, and flags.
void Writer::declare_integers() {
  if (chance(15)) {
    const std::string name = fresh("whole");
    const std::vector<Extent> extents = random_extents();
    const ScalarType type = chance(50) ? ScalarType::I32 : ScalarType::I64;
    whole_.push_back({.name = name,
                      .type = type,
                      .handle = builder_.input(type, name, shape_of(extents)),
                      .extents = extents,
                      .input = true});
    contents_[name] = {IndexContents::Kind::Below, ir::int_const(9), -4};
  }
  if (chance(15)) {
    const std::string name = fresh("flag");
    const std::vector<Extent> extents = random_extents();
    flags_.push_back({.name = name,
                      .type = ScalarType::Bool,
                      .handle = builder_.input(ScalarType::Bool, name, shape_of(extents)),
                      .extents = extents,
                      .input = true});
    contents_[name] = {IndexContents::Kind::Below, ir::int_const(2)};
  }
}

/// A second array over the memory of a first one: two inputs, or an input and an in-out (which has no gradient).
void Writer::declare_twin() {
  std::vector<std::size_t> inputs;
  for (std::size_t k = 0; k < arrays_.size(); ++k)
    if (arrays_[k].input) inputs.push_back(k);
  if (inputs.empty()) return;
  const ArrayInfo first = arrays_[one_of(inputs)];
  const bool written = chance(20);
  const std::string name = fresh("twin");
  const ScalarType type = first.type;
  ArrayInfo twin = first;
  twin.handle = written ? builder_.inout(type, name, shape_of(first.extents))
                        : builder_.input(type, name, shape_of(first.extents));
  twin.input = !written;
  twin.writable = written;
  builder_.may_alias(first.handle, twin.handle);
  if (chance(70)) shared_[name] = first.name;
  arrays_.push_back(twin);
}

}  // namespace loopgrad::fuzz

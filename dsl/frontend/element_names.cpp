#include "dsl/frontend/element_names.h"

#include "dsl/frontend/recorder.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"

#include <limits>

namespace loopgrad::ir {
namespace {

/// An index as an expression and a constant that is added to it.
struct Offset {
  Expr base;  // null: none
  std::int64_t constant = 0;
};

Offset offset_of(const Expr& index) {
  if (const auto constant = as_int(index)) return {{}, *constant};
  const auto* sum = index.as<Binary>();
  if (!sum || (sum->op != BinaryOp::Add && sum->op != BinaryOp::Sub)) return {index, 0};
  const auto constant = as_int(sum->b);
  if (!constant || *constant == std::numeric_limits<std::int64_t>::min()) return {index, 0};
  return {sum->a, sum->op == BinaryOp::Add ? *constant : -*constant};
}

bool differ_at_any_time(const Expr& a, const Expr& b) {
  const Offset x = offset_of(a), y = offset_of(b);
  if (x.constant == y.constant || !x.base != !y.base) return false;
  return !x.base || (equal(x.base, y.base) && !has_load(x.base));  // what is loaded may change in between
}

}  // namespace

bool differ_at_any_time(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (differ_at_any_time(a[i], b[i])) return true;
  return false;
}

void ElementNames::add(const std::shared_ptr<ElementName>& name) {
  Names& of = of_array_[name->array->id];
  if (of.names.size() >= of.sweep_at) {
    std::erase_if(of.names, [](const auto& other) { return other.expired(); });
    of.sweep_at = 2 * of.names.size() + 8;
  }
  of.names.push_back(name);
}

void ElementNames::note_write(const ElementName& by, SourceLocation where) {
  for (const auto& weak : of_array_[by.array->id].names) {
    const auto name = weak.lock();
    if (!name) continue;
    if (name->id == by.id) {
      name->wrote_last = true;
    } else if (!differ_at_any_time(name->indices, by.indices)) {
      if (equal(name->indices, by.indices)) name->wrote_last = false;
      if (!by.copied_from.contains(name->id) && !name->written_elsewhere) name->written_elsewhere = where;
    }
  }
}

std::shared_ptr<const ElementName> ElementNames::hides(const ElementName& reader) const {
  const auto found = of_array_.find(reader.array->id);
  if (found == of_array_.end()) return nullptr;
  for (const auto& weak : found->second.names) {
    auto name = weak.lock();
    if (!name || !name->wrote_last || name->id == reader.id || reader.copied_from.contains(name->id)) continue;
    if (equal(name->indices, reader.indices)) return name;
  }
  return nullptr;
}

const ElementName& name_of(const std::shared_ptr<ElementName>& name, SourceLocation where) {
  if (!name) fail_empty("Element", where);
  return *name;
}

std::shared_ptr<ElementName> copy_of(const ElementName& name) {
  if (const auto recorder = name.recorder.lock()) return recorder->copy(name);
  return std::make_shared<ElementName>(name);  // of a program that is gone: every use is refused
}

}  // namespace loopgrad::ir

// What the builder and its arrays share.
#pragma once

#include "values.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace loopgrad::python {

/// What arrays, loops and branches of one builder share.
struct Recording {
  Recording(const std::string& name, const SourceLocation& where) : builder(name, where), scopes(1) {}

  std::shared_ptr<ElementSlot> keep(Element element) {
    auto slot = std::make_shared<ElementSlot>();
    slot->element.emplace(std::move(element));
    scopes.back().push_back(slot);
    return slot;
  }
  void open() {
    scopes.emplace_back();
    last_branch.reset();
  }
  /// Elements that were formed in the scope cannot be used any more, also where a variable of Python's holds them.
  void close() {
    for (const std::weak_ptr<ElementSlot>& one : scopes.back())
      if (const auto slot = one.lock()) slot->element.reset();
    scopes.pop_back();
    last_branch.reset();
  }

  ProgramBuilder builder;
  std::vector<std::vector<std::weak_ptr<ElementSlot>>> scopes;
  std::optional<Branch> last_branch;  // of the innermost scope, which `otherwise` belongs to
};
using SharedRecording = std::shared_ptr<Recording>;

/// An array, or a view of one: `x.row(i)`, `x.reshaped((n, m))`, `p.ring(..)`.
struct PyArray {
  ArrayView view;
  SharedRecording recording;
  std::string name;  // as it is written, for messages
  std::vector<Value> shape;
  std::optional<ArrayHandle> declared;  // nothing for a view
};

/// The array of a declaration. Throws UsageError for a view.
const ArrayHandle& declared(const PyArray& array, const SourceLocation& where);
/// Values from a tuple, a list, one value or None. `what` they are, for messages.
std::vector<Value> values_of(nb::handle object, const SourceLocation& where, const char* what);

void bind_arrays(nb::module_& m);
/// `p.custom_gradient`, a method of the builder.
void bind_custom_gradient(nb::module_& m, nb::class_<Recording>& builder);

}  // namespace loopgrad::python

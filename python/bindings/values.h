// Values and elements of the language as Python objects.
#pragma once

#include "location.h"

#include <loopgrad/program.h>

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <string>

namespace loopgrad::python {

namespace nb = nanobind;

/// A name for an element, empty once the body that it was formed in has ended: Python keeps variables of a loop's body
/// alive after it, the language does not.
struct ElementSlot {
  std::optional<Element> element;
};

/// `x[i]`, and what `p.scalar()` gives.
struct PyElement {
  std::shared_ptr<ElementSlot> slot;
  nb::object array, key;  // what it was formed from: Python hands the same objects to `x[i] = ...` after `x[i] += ...`
  bool updated = false;   // in place, so that the assignment that Python makes of `x[i] += v` has been done

  const Element& element(const SourceLocation& where) const;
};

/// The operand that a Python object is: a Value, an element, a number. Nothing for other objects.
std::optional<Value> try_value(nb::handle object, const SourceLocation& where);
/// Throws UsageError naming `what` for other objects.
Value value_of(nb::handle object, const SourceLocation& where, const char* what = "an operand");
/// The same as Operand, at that line.
Operand operand_of(nb::handle object, const SourceLocation& where, const char* what = "an operand");

[[noreturn]] void fail_usage(std::string message, std::string hint, const SourceLocation& where);

/// A type from "f32", lg.f32, float, a NumPy or PyTorch dtype. Throws UsageError.
ScalarType type_of(nb::handle object, const SourceLocation& where);

void bind_values(nb::module_& m);
void bind_recording(nb::module_& m);

}  // namespace loopgrad::python

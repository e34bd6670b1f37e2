// Regions whose gradient is the user's, from functions of Python.
#include "recording.h"

#include <loopgrad/error.h>

#include <fmt/format.h>
#include <nanobind/stl/shared_ptr.h>

#include <vector>

namespace loopgrad::python {
namespace {

/// A body that is a function of Python: elements that it forms end with it.
class Scope {
 public:
  explicit Scope(Recording& recording) : recording_(recording) { recording_.open(); }
  ~Scope() { recording_.close(); }
  Scope(const Scope&) = delete;

 private:
  Recording& recording_;
};

/// The `d` that rules are called with. Empty once the rule has been recorded: Python may keep it.
struct PyDerivatives {
  const Derivatives* of;
  SharedRecording recording;
};

PyArray derivative(const PyDerivatives& d, const PyArray& array) {
  const SourceLocation where = caller();
  if (!d.of) fail_usage("a derivative is named after its rule", "call d(x) in the function that d is passed to", where);
  const ArrayHandle& handle = (*d.of)(declared(array, where), where);
  return {handle, d.recording, fmt::format("d({})", array.name), array.shape, handle};
}

std::function<void(const Derivatives&)> rule_of(const SharedRecording& r, nb::handle function) {
  if (function.is_none()) return {};
  return [r, function](const Derivatives& derivatives) {
    const Scope scope(*r);
    const nb::object d = nb::cast(PyDerivatives{&derivatives, r});
    struct Ended {
      PyDerivatives& d;
      ~Ended() { d.of = nullptr; }
    } const ended{nb::cast<PyDerivatives&>(d)};
    function(d);
  };
}

std::vector<ArrayHandle> arrays_of(nb::handle object, const SourceLocation& where) {
  std::vector<ArrayHandle> arrays;
  const auto add = [&](nb::handle one) {
    if (!nb::isinstance<PyArray>(one))
      fail_usage("an output or input of a custom gradient is no array", "give arrays, as in [x, w]", where);
    arrays.push_back(declared(nb::cast<const PyArray&>(one), where));
  };
  if (nb::isinstance<nb::tuple>(object) || nb::isinstance<nb::list>(object)) {
    for (nb::handle one : object) add(one);
  } else {
    add(object);
  }
  return arrays;
}

void custom_gradient(const SharedRecording& r, nb::handle outputs, nb::handle inputs, nb::callable forward,
                     nb::callable adjoint, nb::handle tangent) {
  const SourceLocation where = caller();
  const auto record = [&] {
    const Scope scope(*r);
    forward();
  };
  r->builder.custom_gradient(arrays_of(outputs, where), arrays_of(inputs, where),
                             {.forward = record, .adjoint = rule_of(r, adjoint), .tangent = rule_of(r, tangent)},
                             where);
}

}  // namespace

void bind_custom_gradient(nb::module_& m, nb::class_<Recording>& builder) {
  nb::class_<PyDerivatives>(m, "Derivatives", "What rules of a custom gradient work on: d(x) is the derivative of x.")
      .def("__call__", &derivative, nb::arg("array"));
  builder.def("custom_gradient", &custom_gradient, nb::arg("outputs"), nb::arg("inputs"), nb::arg("forward"),
              nb::arg("adjoint"), nb::arg("tangent").none() = nb::none(),
              "Statements whose gradient is yours: `forward()` records what is computed, `adjoint(d)` what is added to "
              "d(x) of each input from d(y) of the outputs, `tangent(d)` what forward mode writes to d(y).");
}

}  // namespace loopgrad::python

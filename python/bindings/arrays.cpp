// Arrays of a program that is recorded, and views of them.
#include "recording.h"

#include <loopgrad/error.h>

#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <vector>

namespace loopgrad::python {

const ArrayHandle& declared(const PyArray& array, const SourceLocation& where) {
  if (!array.declared)
    fail_usage(fmt::format("'{}' is a view of an array", array.name), "name the array that was declared", where);
  return *array.declared;
}

std::vector<Value> values_of(nb::handle object, const SourceLocation& where, const char* what) {
  std::vector<Value> values;
  if (object.is_none()) return values;
  if (nb::isinstance<nb::tuple>(object) || nb::isinstance<nb::list>(object)) {
    for (nb::handle one : object) values.push_back(value_of(one, where, what));
  } else {
    values.push_back(value_of(object, where, what));
  }
  return values;
}

namespace {

Element element_of(const PyArray& array, nb::handle key, const SourceLocation& where) {
  std::vector<Operand> indices;
  if (nb::isinstance<nb::tuple>(key)) {
    for (nb::handle one : key) indices.push_back(operand_of(one, where, "an index"));
  } else if (key.ptr() != Py_Ellipsis) {
    if (PySlice_Check(key.ptr()))
      fail_usage("an index is a slice", "write the loop: elements are read and written one by one", where);
    indices.push_back(operand_of(key, where, "an index"));
  }
  return array.view.at(indices, where);
}

PyElement get_item(nb::handle self, nb::object key) {
  const PyArray& array = nb::cast<const PyArray&>(self);
  const SourceLocation where = caller();
  return {array.recording->keep(element_of(array, key, where)), nb::borrow(self), std::move(key)};
}

void set_item(nb::handle self, nb::handle key, nb::handle value) {
  const PyArray& array = nb::cast<const PyArray&>(self);
  if (nb::isinstance<PyElement>(value)) {  // the last step of x[i] += v, which has been recorded
    PyElement& element = nb::cast<PyElement&>(value);
    if (element.updated && element.array.is(self) && element.key.is(key)) {
      element.updated = false;
      return;
    }
  }
  const SourceLocation where = caller();
  const Operand operand = operand_of(value, where, "what is stored");
  element_of(array, key, where) = operand;
}

Value extent(const PyArray& array, int dimension) {
  const SourceLocation where = caller();
  if (array.declared) return array.declared->extent(dimension, where);
  if (dimension < 0 || static_cast<std::size_t>(dimension) >= array.shape.size())
    fail_usage(fmt::format("dimension {} of '{}', which has rank {}", dimension, array.name, array.shape.size()),
               "dimensions count from 0", where);
  return array.shape[static_cast<std::size_t>(dimension)];
}

PyArray row(const PyArray& array, nb::args indices) {
  const SourceLocation where = caller();
  PyArray rest = array;
  rest.declared.reset();
  rest.name += ".row(..)";
  if (indices.size() > array.shape.size())
    fail_usage(fmt::format("{} indices for the {} dimensions of '{}'", indices.size(), array.shape.size(), array.name),
               "give at most one for each dimension", where);
  for (nb::handle one : indices) rest.view = rest.view.row(operand_of(one, where, "an index"));
  rest.shape.erase(rest.shape.begin(), rest.shape.begin() + static_cast<std::ptrdiff_t>(indices.size()));
  return rest;
}

PyArray reshaped(const PyArray& array, nb::handle shape) {
  const SourceLocation where = caller();
  const std::vector<Value> extents = values_of(shape, where, "an extent");
  return {declared(array, where).reshaped(extents, where), array.recording, array.name + ".reshaped(..)", extents, {}};
}

/// An array in an expression, where an element is meant.
nb::object array_as_value(const PyArray& array, nb::args) {
  const std::string& name = array.name;
  const std::size_t rank = array.shape.size();
  fail_usage(fmt::format("the array '{}' is used as a value", name),
             rank == 0 ? fmt::format("write {}[...] for its only element", name)
                       : fmt::format("write an element of it, {}[{}]", name, rank == 1 ? "i" : "i, .."),
             caller());
}

/// Type checkers refuse them, too.
void bind_refusals(nb::class_<PyArray>& c) {
  for (const std::string name :
       {"add",       "sub",  "mul",  "truediv", "floordiv", "mod", "pow", "radd", "rsub", "rmul", "rtruediv",
        "rfloordiv", "rmod", "rpow", "lt",      "le",       "gt",  "ge",  "iadd", "isub", "imul", "itruediv"}) {
    const std::string signature = "def __" + name + "__(self, other: typing.NoReturn) -> typing.NoReturn";
    c.def(("__" + name + "__").c_str(), &array_as_value, nb::sig(signature.c_str()));
  }
}

}  // namespace

void bind_arrays(nb::module_& m) {
  nb::class_<PyArray> array(m, "Array", "A declared array, or a view; x[i, j] is an element, x[...] that of rank 0.");
  bind_refusals(array);
  array.def("__getitem__", &get_item)
      .def("__setitem__", &set_item)
      .def("extent", &extent, nb::arg("dimension"))
      .def_prop_ro("shape",
                   [](const PyArray& a) {
                     nb::list shape;
                     for (std::size_t d = 0; d < a.shape.size(); ++d) shape.append(extent(a, static_cast<int>(d)));
                     return nb::tuple(shape);
                   })
      .def("row", &row, nb::arg("indices"),
           "What is left when the first indices are these: `x.row(i)[j]` is `x[i, j]`. Nothing is copied.")
      .def("reshaped", &reshaped, nb::arg("shape"),
           "An array of rank one in another shape: `x.reshaped((n, m))[i, j]` is `x[i*m + j]`.")
      .def("__iter__", [](const PyArray&) -> nb::object {
        fail_usage("an array of a program has no elements while it is recorded", "use a loop: p.loop(\"i\", n)",
                   caller());
      });
}

}  // namespace loopgrad::python

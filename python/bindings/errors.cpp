#include "errors.h"

#include <loopgrad/error.h>

namespace nb = nanobind;

namespace loopgrad::python {
namespace {

const char* class_of(const Error& error) {
  if (dynamic_cast<const UsageError*>(&error)) return "UsageError";
  if (dynamic_cast<const TransformError*>(&error)) return "TransformError";
  if (dynamic_cast<const DifferentiationError*>(&error)) return "DifferentiationError";
  if (dynamic_cast<const CompileError*>(&error)) return "CompileError";
  if (dynamic_cast<const RuntimeError*>(&error)) return "RuntimeError";
  return "Error";
}

/// Texts from outside (names of files) may be no UTF-8.
nb::object text(const std::string& s) {
  return nb::steal(PyUnicode_DecodeUTF8(s.data(), static_cast<Py_ssize_t>(s.size()), "replace"));
}

void raise(const char* name, const std::string& what, const Error* error) {
  const nb::object type = nb::module_::import_("loopgrad.errors").attr(name);
  const nb::object exception = type(text(what));
  if (error) {
    exception.attr("code") = name_of(error->code());
    exception.attr("message") = text(error->info().message);
    exception.attr("program") = text(error->program());
    exception.attr("loop") = text(error->loop());
    exception.attr("array") = text(error->array());
    exception.attr("hint") = text(error->hint());
    exception.attr("file") = text(error->location().file);
    exception.attr("line") = error->location().line;
  }
  PyErr_SetObject(type.ptr(), exception.ptr());
}

void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    raise(class_of(error), error.what(), &error);
  } catch (const InternalError& error) {
    raise("InternalError", error.what(), nullptr);
  }
}

}  // namespace

void bind_errors() { nb::register_exception_translator(&translate); }

}  // namespace loopgrad::python

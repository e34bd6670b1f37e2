#include "location.h"

#include <nanobind/nanobind.h>

#include <set>
#include <string>
#include <string_view>

namespace nb = nanobind;

namespace loopgrad::python {
namespace {

std::string& package_folder() {
  static auto* folder = new std::string();
  return *folder;
}

/// Never freed: locations in programs point at it.
const char* kept(const char* text) {
  static auto* names = new std::set<std::string, std::less<>>();
  const auto found = names->find(std::string_view(text));
  return (found != names->end() ? found : names->emplace(text).first)->c_str();
}

const char* file_of(PyFrameObject* frame) {
  const nb::object code = nb::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
  const nb::object name = code.attr("co_filename");
  return kept(PyUnicode_AsUTF8(name.ptr()));
}

}  // namespace

void set_package_folder(const char* folder) { package_folder() = folder; }

SourceLocation caller() {
  nb::object frame = nb::borrow(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  while (frame) {
    auto* raw = reinterpret_cast<PyFrameObject*>(frame.ptr());
    const char* file = file_of(raw);
    if (package_folder().empty() || !std::string_view(file).starts_with(package_folder()))
      return {file, static_cast<std::uint32_t>(PyFrame_GetLineNumber(raw))};
    frame = nb::steal(reinterpret_cast<PyObject*>(PyFrame_GetBack(raw)));
  }
  return {};
}

}  // namespace loopgrad::python

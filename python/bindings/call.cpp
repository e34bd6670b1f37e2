#include "call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nanobind/stl/string.h>

#include <algorithm>

namespace loopgrad::python {
namespace {

constexpr std::int64_t not_given = -1;

/// The array itself.
nb::handle unwrapped(nb::handle object) {
  return nb::isinstance<PyVersioned>(object) ? nb::handle(nb::cast<PyVersioned&>(object).array) : object;
}

/// The object whose library makes missing outputs: the first that is no plain array of the host's.
nb::handle model_of(const std::vector<nb::object>& objects) {
  nb::handle first;
  for (const nb::object& object : objects) {
    if (!object.is_valid()) continue;
    const nb::handle array = unwrapped(object);
    if (!PyObject_CheckBuffer(array.ptr())) return array;
    if (!first.is_valid()) first = array;
  }
  return first;
}

/// What it counts is named in errors.
std::int64_t whole_number(const std::string& what, nb::handle value) {
  const nb::object number = nb::steal(PyNumber_Index(value.ptr()));
  if (number.is_valid()) {
    const long long found = PyLong_AsLongLong(number.ptr());
    if (found != -1 || !PyErr_Occurred()) return found;
  }
  PyErr_Clear();
  const auto type = nb::cast<std::string>(nb::str(value.type().attr("__name__")));
  throw UsageError({.code = number.is_valid() ? ErrorCode::BadSize : ErrorCode::BadArgument,
                    .message = number.is_valid() ? what + " does not fit in 64 bits"
                                                 : fmt::format("{} is a {}, and no whole number", what, type),
                    .hint = "pass an int"});
}

std::int64_t size_of(const std::string& name, nb::handle value) { return whole_number("size '" + name + "'", value); }

/// A key of a mapping.
std::string text_of(nb::handle name) {
  if (nb::isinstance<nb::str>(name)) return nb::cast<std::string>(name);
  throw UsageError({.code = ErrorCode::BadArgument,
                    .message = fmt::format("{} names no array and no size", nb::cast<std::string>(nb::repr(name))),
                    .hint = "arrays and sizes are named by text"});
}

void update(nb::dict& all, nb::handle mapping, const char* what) {
  try {
    all.update(mapping);
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError) && !error.matches(PyExc_ValueError) && !error.matches(PyExc_AttributeError))
      throw;
    const auto type = nb::cast<std::string>(nb::str(mapping.type().attr("__name__")));
    throw UsageError({.code = ErrorCode::BadArgument,
                      .message = fmt::format("{} are a {}, and no dictionary", what, type),
                      .hint = fmt::format("pass {} by name", what)});
  }
}

}  // namespace

Call::Call(const Program& program)
    : program_(program), name_(program.name()), arguments_(arguments_of(program)), sizes_(size_names(program)) {
  for (std::size_t i = 0; i < arguments_.size(); ++i) positions_[arguments_[i].name] = i;
}

void Call::refuse_name(const std::string& name) const {
  std::vector<std::string> names;
  for (const ArgumentInfo& info : arguments_) names.push_back(info.name);
  throw UsageError({.code = ErrorCode::BadArgument,
                    .message = fmt::format("there is no array or size '{}'", name),
                    .program = name_,
                    .array = name,
                    .hint = fmt::format("the arrays are: {}{}{}", fmt::join(names, ", "),
                                        sizes_.empty() ? "" : "; the sizes are: ", fmt::join(sizes_, ", "))});
}

std::vector<nb::object> Call::in_order(const nb::dict& named, Sizes& sizes,
                                       const std::function<bool(const std::string&)>& is_other) const {
  std::vector<nb::object> objects(arguments_.size());
  for (const auto& [key, value] : named) {
    const std::string name = text_of(key);
    if (const auto found = positions_.find(name); found != positions_.end()) {
      if (!value.is_none()) objects[found->second] = nb::borrow(value);
    } else if (std::find(sizes_.begin(), sizes_.end(), name) != sizes_.end()) {
      sizes[name] = size_of(name, value);
    } else if (!is_other || !is_other(name)) {
      refuse_name(name);
    }
  }
  return objects;
}

/// Looks the extents up again only when shapes or sizes are others than in the last call.
void Call::find_extents(const std::deque<std::optional<Borrowed>>& borrowed, const Sizes& sizes) {
  std::vector<std::int64_t> key;
  for (const auto& one : borrowed) {
    key.push_back(one ? static_cast<std::int64_t>(one->view.shape.size()) : not_given);
    if (one) key.insert(key.end(), one->view.shape.begin(), one->view.shape.end());
  }
  for (const std::string& name : sizes_) {
    const auto given = sizes.find(name);
    key.push_back(given == sizes.end() ? not_given : given->second);
  }
  if (extents_ && key == key_) return;
  Shapes known;
  for (std::size_t i = 0; i < borrowed.size(); ++i)
    if (borrowed[i]) known[arguments_[i].name] = borrowed[i]->view.shape;
  extents_ = std::make_shared<const Extents>(extents_of(program_, known, sizes));
  key_ = std::move(key);
}

void Call::borrow(nb::object& object, std::size_t at, std::optional<Borrowed>& to, bool may_require_grad) const {
  if (PyFloat_CheckExact(object.ptr()) || PyLong_CheckExact(object.ptr()) || PyBool_Check(object.ptr()))
    object = array_of_number(object, arguments_[at], name_);
  to.emplace(unwrapped(object), arguments_[at], name_, may_require_grad);
  if (nb::isinstance<PyVersioned>(object)) to->view.version = nb::cast<PyVersioned&>(object).version;
}

nb::tuple Call::run(std::vector<nb::object>& objects, const Sizes& sizes, nb::handle stream, const Run& run,
                    bool may_require_grad, const ShapeOf& shape_of) {
  std::deque<std::optional<Borrowed>> borrowed(objects.size());
  Arguments views;
  if (!spare_.empty()) {
    views = std::move(spare_.back());
    spare_.pop_back();
  }
  bool is_complete = true;
  for (std::size_t i = 0; i < objects.size(); ++i) {
    if (objects[i].is_valid()) borrow(objects[i], i, borrowed[i], may_require_grad);
    else if (arguments_[i].role == Role::Output) is_complete = false;
    else refuse_argument(ErrorCode::BadArgument, arguments_[i], name_, "the argument is missing", "pass an array");
  }
  if (!shape_of) find_extents(borrowed, sizes);
  const nb::handle model = is_complete ? nb::handle() : model_of(objects);
  RunOptions options;
  if (!stream.is_none())
    options.stream = reinterpret_cast<void*>(static_cast<std::uintptr_t>(whole_number("the stream", stream)));
  bool has_stream = !stream.is_none();
  nb::list outputs;
  for (std::size_t i = 0; i < objects.size(); ++i) {
    const ArgumentInfo& info = arguments_[i];
    if (!borrowed[i]) {
      const std::vector<std::int64_t>* shape = shape_of ? shape_of(info.name) : &extents_->shapes.at(info.name);
      if (shape) {
        objects[i] = make_array(model, info.type, *shape, info, name_);
        borrowed[i].emplace(objects[i], info, name_);
      }
    }
    if (!borrowed[i]) {  // the run says that it is missing
      views.erase(info.name);
      continue;
    }
    if (!has_stream && borrowed[i]->view.device == Device::Cuda) {
      options.stream = python::stream_of(unwrapped(objects[i]), borrowed[i]->device_index);
      has_stream = true;
    }
    views[info.name] = borrowed[i]->view;
    if (info.role == Role::Output) outputs.append(objects[i]);
  }
  {
    nb::gil_scoped_release others_may_run;
    run(views, sizes, options);
  }
  spare_.push_back(std::move(views));
  return nb::tuple(outputs);
}

nb::object Call::result(const nb::tuple& outputs) {
  if (nb::len(outputs) == 0) return nb::none();
  if (nb::len(outputs) == 1) return outputs[0];
  if (!tuple_type_.is_valid()) {
    nb::list names;
    for (const ArgumentInfo& info : arguments_)
      if (info.role == Role::Output) names.append(info.name);
    tuple_type_ = nb::module_::import_("collections").attr("namedtuple")("Outputs", names, nb::arg("rename") = true);
  }
  return tuple_type_.attr("_make")(outputs);
}

nb::dict merged(nb::handle mapping, const nb::kwargs& named) {
  nb::dict all;
  if (!mapping.is_none()) update(all, mapping, "arrays");
  all.update(named);
  return all;
}

Sizes sizes_of(nb::handle mapping) {
  Sizes sizes;
  if (mapping.is_none()) return sizes;
  nb::dict given;
  update(given, mapping, "sizes");
  for (const auto& [name, value] : given) sizes[text_of(name)] = size_of(text_of(name), value);
  return sizes;
}

}  // namespace loopgrad::python

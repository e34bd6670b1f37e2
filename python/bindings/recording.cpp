// The builder of programs.
#include "recording.h"

#include <loopgrad/error.h>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <vector>

namespace loopgrad::python {
namespace {

/// A loop as an iterator of Python that gives the iterator of the loop once.
class PyLoop {
 public:
  template <class Open>
  PyLoop(SharedRecording recording, Open open) : recording_(std::move(recording)), range_(open(recording_->builder)) {}
  ~PyLoop() {
    if (is_open_) recording_->close();
  }
  PyLoop(const PyLoop&) = delete;

  Value next() {
    if (!at_) {
      at_.emplace(range_.begin());
      recording_->open();
      is_open_ = true;
      return **at_;
    }
    if (is_open_) {
      is_open_ = false;
      recording_->close();
      ++*at_;
    }
    throw nb::stop_iteration();
  }

 private:
  SharedRecording recording_;
  LoopRange range_;
  std::optional<LoopRange::Iterator> at_;
  bool is_open_ = false;
};

/// A branch as a context of Python.
class PyBody {
 public:
  using Open = std::function<OpenBody(Recording&)>;
  PyBody(SharedRecording recording, Open open) : recording_(std::move(recording)), open_(std::move(open)) {}

  void enter() {
    if (!open_) fail_usage("a branch is entered twice", "call p.when() once for each branch", caller());
    body_.emplace(open_(*recording_));
    open_ = nullptr;
    recording_->open();
  }
  /// After an exception the body is dropped.
  void exit(nb::handle type) {
    if (!body_) return;
    recording_->close();
    if (type.is_none()) recording_->last_branch.emplace(body_->close(caller()));
    body_.reset();
  }

 private:
  SharedRecording recording_;
  Open open_;
  std::optional<OpenBody> body_;
};

std::unique_ptr<PyLoop> loop(const SharedRecording& r, const std::string& name, nb::handle first, nb::handle second,
                             nb::handle at_most, std::int64_t step, bool descending) {
  const SourceLocation where = caller();
  const bool from_zero = second.is_none();
  const Value lower = from_zero ? Value(0) : value_of(first, where, "the lower bound");
  const Value upper = value_of(from_zero ? first : second, where, "the upper bound");
  const LoopOptions options{.at_most = values_of(at_most, where, "at_most"), .step = step, .descending = descending};
  return std::make_unique<PyLoop>(r, [&](ProgramBuilder& p) { return p.loop(name, lower, upper, options, where); });
}

std::unique_ptr<PyLoop> loop_while(const SharedRecording& r, const std::string& name, nb::handle most,
                                   nb::callable condition) {
  const SourceLocation where = caller();
  const auto holds = [condition, where](const Value& i) {
    return value_of(condition(nb::cast(i)), where, "the condition");
  };
  return std::make_unique<PyLoop>(r, [&](ProgramBuilder& p) {
    return p.loop_while(name, value_of(most, where, "the largest trip count"), holds, where);
  });
}

PyBody when(const SharedRecording& r, nb::handle condition) {
  const SourceLocation where = caller();
  return {r, [value = value_of(condition, where, "the condition"), where](Recording& recording) {
            return recording.builder.open_when(value, where);
          }};
}

PyBody otherwise(const SharedRecording& r, nb::handle condition) {
  const SourceLocation where = caller();
  std::optional<Value> value;
  if (!condition.is_none()) value = value_of(condition, where, "the condition");
  return {r, [value, where](Recording& recording) {
            if (!recording.last_branch)
              fail_usage("otherwise() does not follow a branch", "write it directly after `with p.when(..):`", where);
            return value ? recording.last_branch->open_otherwise(*value, where)
                         : recording.last_branch->open_otherwise(where);
          }};
}

using Declare = ArrayHandle (ProgramBuilder::*)(ScalarType, const std::string&, std::vector<Value>, SourceLocation);

template <Declare declare>
PyArray array(const SharedRecording& r, const std::string& name, nb::handle shape, nb::handle dtype) {
  const SourceLocation where = caller();
  const std::vector<Value> extents = values_of(shape, where, "an extent");
  const ArrayHandle handle = (r->builder.*declare)(type_of(dtype, where), name, extents, where);
  return {handle, r, name, extents, handle};
}

PyArray ring(const SharedRecording& r, const std::string& name, std::int64_t count, nb::handle shape,
             nb::handle dtype) {
  const SourceLocation where = caller();
  std::vector<Value> extents = values_of(shape, where, "an extent");
  const ArrayView view = r->builder.ring(type_of(dtype, where), name, count, extents, where);
  extents.insert(extents.begin(), Value(count));
  return {view, r, name, extents, {}};
}

PyElement scalar(const SharedRecording& r, const std::string& name, nb::handle dtype, nb::handle init) {
  const SourceLocation where = caller();
  std::optional<Value> value;
  if (!init.is_none()) value = value_of(init, where, "the initial value");
  ScalarType type = ScalarType::F32;
  if (!dtype.is_none()) type = type_of(dtype, where);
  else if (value && !(value->weak() && is_float(value->type()))) type = value->type();
  const ArrayHandle handle = r->builder.local(type, name, {}, where);
  const Element element = handle(where);
  if (value) element = Operand(*value, where);
  return {r->keep(handle(where)), nb::none(), nb::none()};
}

void bind_facts(nb::class_<Recording>& c) {
  using A = const PyArray&;
  c.def(
      "in_range",
      [](SharedRecording r, A a, nb::handle lower, nb::handle upper) {
        const SourceLocation where = caller();
        r->builder.in_range(declared(a, where), value_of(lower, where), value_of(upper, where), where);
      },
      nb::arg("array"), nb::arg("lower"), nb::arg("upper"), "Fact: every element is in [lower, upper).");
  c.def(
      "sorted", [](SharedRecording r, A a) { r->builder.sorted(declared(a, caller()), caller()); }, nb::arg("array"),
      "Fact: never decreasing.");
  c.def(
      "injective", [](SharedRecording r, A a) { r->builder.injective(declared(a, caller()), caller()); },
      nb::arg("array"), "Fact: no value occurs twice.");
  c.def(
      "csr",
      [](SharedRecording r, A a, nb::handle total) {
        const SourceLocation where = caller();
        r->builder.csr(declared(a, where), value_of(total, where), where);
      },
      nb::arg("ptr"), nb::arg("total"), "Fact: row starts of `total` entries.");
  c.def(
      "may_alias",
      [](SharedRecording r, A a, A b) { r->builder.may_alias(declared(a, caller()), declared(b, caller()), caller()); },
      nb::arg("a"), nb::arg("b"), "The caller may pass the same memory for both.");
}

/// What a gradient does about a local, an array or a value by name.
void bind_tape(nb::class_<Recording>& c) {
  const auto bind = [&](const char* name, auto choose, const char* doc) {
    c.def(
        name,
        [choose](SharedRecording r, nb::handle local) {
          const SourceLocation where = caller();
          if (nb::isinstance<PyArray>(local))
            choose(r->builder, declared(nb::cast<const PyArray&>(local), where), where);
          else choose(r->builder, operand_of(local, where, "a local"));
        },
        nb::arg("local"), doc);
  };
  bind(
      "save", [](ProgramBuilder& p, auto&&... local) { p.save(local...); },
      "A gradient saves this local where it needs it, and never computes it again.");
  bind(
      "recompute", [](ProgramBuilder& p, auto&&... local) { p.recompute(local...); },
      "A gradient computes this local again where it needs it, and never saves it.");
}

void bind_builder(nb::module_& m) {
  nb::class_<Recording> c(m, "ProgramBuilder",
                          "Records one program. Mistakes are UsageErrors at the line they are on.");
  c.def(
      "__init__", [](Recording* self, const std::string& name) { new (self) Recording(name, caller()); },
      nb::arg("name"));
  c.def(
      "size", [](SharedRecording r, const std::string& name) { return r->builder.size(name, caller()); },
      nb::arg("name"), "A symbolic size, fixed when the program is run.");
  const auto declare = [&](const char* name, auto f, const char* doc) {
    c.def(name, f, nb::arg("name"), nb::arg("shape") = nb::tuple(), nb::arg("dtype") = ScalarType::F32, doc);
  };
  declare("input", &array<&ProgramBuilder::input>, "A read-only array.");
  declare("output", &array<&ProgramBuilder::output>, "An array that is written before it is read.");
  declare("inout", &array<&ProgramBuilder::inout>, "An array that is updated in place.");
  declare("local", &array<&ProgramBuilder::local>, "An array that lives until the end of the enclosing body.");
  c.def("ring", &ring, nb::arg("name"), nb::arg("count"), nb::arg("shape") = nb::tuple(),
        nb::arg("dtype") = ScalarType::F32,
        "So many local arrays that take turns: `u[t, i]` is element i of array t modulo `count`.");
  c.def("scalar", &scalar, nb::arg("name"), nb::arg("dtype") = nb::none(), nb::arg("init") = nb::none(),
        "A local of rank 0: `s[...] = v` or `s.set(v)` assigns, `s += v` adds. Of the type of `init`, else f32.");
  c.def(
      "let",
      [](SharedRecording r, const std::string& name, nb::handle value) {
        return r->builder.let(name, operand_of(value, caller(), "the value"));
      },
      nb::arg("name"), nb::arg("value"),
      "A value that is computed here, once, under a name: it stays what it is, whatever is written later.");
  c.def(
      "_let_each",
      [](SharedRecording r, const std::vector<std::string>& names, nb::sequence given) {
        const SourceLocation where = caller();
        return r->builder.let(names, values_of(given, where, "a component"), where);
      },
      nb::arg("names"), nb::arg("values"));
  c.def("loop", &loop, nb::arg("name"), nb::arg("lower_or_upper"), nb::arg("upper") = nb::none(), nb::kw_only(),
        nb::arg("at_most") = nb::none(), nb::arg("step") = 1, nb::arg("descending") = false,
        "`for i in p.loop(\"i\", n):` or `p.loop(\"i\", lower, upper)`.");
  c.def("loop_while", &loop_while, nb::arg("name"), nb::arg("most"), nb::arg("condition"),
        "At most `most` trips while `condition(i)` holds.");
  c.def("when", &when, nb::arg("condition"), "`with p.when(x[i] > 0):` records a branch.");
  c.def("otherwise", &otherwise, nb::arg("condition") = nb::none(),
        "`with p.otherwise():` directly after a branch, or `with p.otherwise(x[i] > 1):` for an else if.");
  c.def(
      "build", [](SharedRecording r) { return r->builder.build(caller()); }, "Ends recording; checks the program.");
  bind_facts(c);
  bind_tape(c);
  bind_custom_gradient(m, c);
}

}  // namespace

void bind_recording(nb::module_& m) {
  bind_arrays(m);
  nb::class_<PyLoop>(m, "Loop")
      .def("__iter__", [](nb::handle self) { return nb::borrow(self); })
      .def("__next__", &PyLoop::next);
  nb::class_<PyBody>(m, "Body")
      .def("__enter__",
           [](nb::handle self) {
             nb::cast<PyBody&>(self).enter();
             return nb::borrow(self);
           })
      .def(
          "__exit__", [](PyBody& self, nb::handle type, nb::handle, nb::handle) { self.exit(type); },
          nb::arg("type").none(), nb::arg("value").none(), nb::arg("traceback").none());
  bind_builder(m);
}

}  // namespace loopgrad::python

// Compiled programs and gradients.
#include "running.h"

#include "call.h"

#include <loopgrad/gradcheck.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace loopgrad::python {
namespace {

template <class T>
T named(const std::string& typed, const char* what, std::initializer_list<T> values) {
  std::string names;
  for (const T value : values) {
    if (typed == name_of(value)) return value;
    names += (names.empty() ? "" : ", ") + std::string(name_of(value));
  }
  throw UsageError({.code = ErrorCode::BadArgument,
                    .message = std::string("there is no ") + what + " '" + typed + "'",
                    .hint = "one of " + names});
}

/// Of an option; `bool` and `int` take what converts without loss.
template <class T>
T value_of(const std::string& name, nb::handle value) {
  T found{};
  if (nb::try_cast<T>(value, found)) return found;
  const auto type = nb::cast<std::string>(nb::str(value.type().attr("__name__")));
  const char* expected = std::is_same_v<T, bool> ? "True or False" : std::is_same_v<T, int> ? "an int" : "a text";
  throw UsageError({.code = ErrorCode::BadArgument,
                    .message = "the option '" + name + "' is a " + type,
                    .hint = std::string("pass ") + expected});
}

class PyExecutable {
 public:
  PyExecutable(const Program& program, Executable executable) : executable_(std::move(executable)), call_(program) {}

  nb::tuple run(std::vector<nb::object>& objects, const Sizes& sizes, nb::handle stream,
                bool may_require_grad = false) {
    return call_.run(
        objects, sizes, stream,
        [this](const Arguments& a, const Sizes& s, const RunOptions& o) { executable_.run(a, s, o); },
        may_require_grad);
  }
  nb::object call(nb::handle arrays, nb::handle sizes, nb::handle stream, const nb::kwargs& named) {
    Sizes given = sizes_of(sizes);
    std::vector<nb::object> objects = call_.in_order(merged(arrays, named), given);
    return call_.result(run(objects, given, stream));
  }
  const Executable& executable() const { return executable_; }
  const Call& signature() const { return call_; }

 private:
  Executable executable_;
  Call call_;
};

class PyGradientExecutable {
 public:
  explicit PyGradientExecutable(GradientExecutable executable)
      : executable_(std::move(executable)),
        forward_(executable_.gradient().forward),
        backward_(executable_.gradient().backward),
        several_(has_directions()) {}

  nb::tuple run_forward(std::vector<nb::object>& objects, const Sizes& sizes, nb::handle stream,
                        bool may_require_grad = false) {
    const nb::tuple outputs = forward_.run(
        objects, sizes, stream,
        [this](const Arguments& a, const Sizes& s, const RunOptions& o) { executable_.forward(a, s, o); },
        may_require_grad);
    extents_ = forward_.extents();
    return outputs;
  }
  nb::tuple run_backward(std::vector<nb::object>& objects, const Sizes& sizes, nb::handle stream,
                         bool may_require_grad = false) {
    const auto extents = extents_;
    const auto shape_of = [&](const std::string& name) -> const std::vector<std::int64_t>* {
      const auto found =
          extents && name.starts_with("d_") ? extents->shapes.find(name.substr(2)) : Shapes::const_iterator();
      return !extents || found == Shapes::const_iterator() || found == extents->shapes.end() ? nullptr : &found->second;
    };
    return backward_.run(
        objects, sizes, stream,
        [this](const Arguments& a, const Sizes& s, const RunOptions& o) { executable_.backward(a, s, o); },
        may_require_grad, several_ ? Call::ShapeOf() : shape_of);
  }
  nb::object forward(nb::handle arrays, nb::handle sizes, nb::handle stream, const nb::kwargs& named) {
    Sizes given = sizes_of(sizes);
    std::vector<nb::object> objects = forward_.in_order(merged(arrays, named), given);
    const nb::tuple outputs = run_forward(objects, given, stream);
    remembered_ = std::move(objects);
    return forward_.result(outputs);
  }
  /// Arrays of the last `forward` that the backward program reads need not be given again.
  nb::object backward(nb::handle arrays, nb::handle sizes, nb::handle stream, const nb::kwargs& named) {
    Sizes given = sizes_of(sizes);
    const auto is_of_forward = [&](const std::string& name) { return position(name) < remembered_.size(); };
    std::vector<nb::object> objects = backward_.in_order(merged(arrays, named), given, is_of_forward);
    for (std::size_t i = 0; i < objects.size(); ++i) {
      const std::size_t at = position(backward_.arguments()[i].name);
      if (!objects[i].is_valid() && at < remembered_.size()) objects[i] = remembered_[at];
    }
    return backward_.result(run_backward(objects, given, stream));
  }
  const GradientExecutable& executable() const { return executable_; }
  const Call& forward_signature() const { return forward_; }
  const Call& backward_signature() const { return backward_; }

 private:
  /// Of several incoming gradients: shapes are those of the backward program's own arguments then.
  bool has_directions() const {
    for (const ArgumentInfo& d : backward_.arguments())
      for (const ArgumentInfo& a : forward_.arguments())
        if (d.name == "d_" + a.name && d.shape.size() != a.shape.size()) return true;
    return false;
  }

  std::size_t position(const std::string& name) const {
    std::size_t at = 0;
    while (at < forward_.arguments().size() && forward_.arguments()[at].name != name) ++at;
    return at;
  }

  GradientExecutable executable_;
  Call forward_, backward_;
  bool several_;
  std::shared_ptr<const Extents> extents_;  // of the last forward run that came to its end, whose tape is there
  std::vector<nb::object> remembered_;
};

/// Lists of arrays in the order of declaration; None where there is none.
std::vector<nb::object> objects_of(nb::sequence list) {
  std::vector<nb::object> objects;
  objects.reserve(nb::len(list));
  for (nb::handle one : list) objects.push_back(one.is_none() ? nb::object() : nb::borrow(one));
  return objects;
}

template <auto run, class Self>
nb::tuple run_list(Self& self, nb::sequence list, nb::handle sizes, nb::handle stream, std::size_t expected) {
  std::vector<nb::object> objects = objects_of(list);
  if (objects.size() != expected)
    throw UsageError(
        {.code = ErrorCode::BadArgument, .message = "the list has another number of arrays than the program"});
  return (self.*run)(objects, sizes.is_none() ? Sizes() : sizes_of(sizes), stream, true);
}

PyExecutable compile_program(const Program& program, const nb::kwargs& options) {
  const CompileOptions compiling = options_of(options);
  nb::gil_scoped_release others_may_run;
  return {program, compile(program, compiling)};
}

PyGradientExecutable compile_for(const Gradient& gradient, const nb::kwargs& options) {
  const CompileOptions compiling = options_of(options);
  nb::gil_scoped_release others_may_run;
  return PyGradientExecutable(compile(gradient, compiling));
}

Variant variant_named(const std::string& typed) {
  return named(typed, "variant", {Variant::Restructured, Variant::Atomic, Variant::NaiveTape});
}

Gradient differentiate_program(const Program& program, const std::vector<std::string>& wrt,
                               const std::vector<std::string>& of, const std::string& variant,
                               const std::string& directions, std::int64_t max_tape_bytes) {
  const GradientOptions options{.wrt = wrt,
                                .of = of,
                                .variant = variant_named(variant),
                                .max_tape_bytes = max_tape_bytes,
                                .directions = directions};
  nb::gil_scoped_release others_may_run;
  return differentiate(program, options);
}

void bind_gradient(nb::module_& m) {
  nb::class_<Gradient>(m, "Gradient", "A program and its gradient as ordinary programs.")
      .def_ro("sizing", &Gradient::sizing)
      .def_ro("forward", &Gradient::forward)
      .def_ro("backward", &Gradient::backward)
      .def_prop_ro("variant", [](const Gradient& g) { return name_of(g.variant); })
      .def(
          "joined", [](const Gradient& g, const std::string& prefix) { return joined(g, prefix); },
          nb::arg("prefix") = "g_", "The gradient as one program, which can be differentiated again.");
  m.def("differentiate", &differentiate_program, nb::arg("program"), nb::arg("wrt") = std::vector<std::string>(),
        nb::arg("of") = std::vector<std::string>(), nb::arg("variant") = "restructured", nb::arg("directions") = "",
        nb::arg("max_tape_bytes") = 0,
        "The gradient of a program as two programs; `directions`: of so many incoming gradients at once.");
  m.def(
      "tangent",
      [](const Program& program, const std::vector<std::string>& wrt, const std::vector<std::string>& of,
         const std::string& directions) { return tangent(program, {.wrt = wrt, .of = of, .directions = directions}); },
      nb::arg("program"), nb::arg("wrt") = std::vector<std::string>(), nb::arg("of") = std::vector<std::string>(),
      nb::arg("directions") = "", "Forward mode: takes t_<x>, gives t_<y>; `directions`: so many at once.");
  m.def(
      "jacobian",
      [](const Program& program, const std::string& of, const std::string& wrt, bool reverse) {
        return jacobian(program, of, wrt, reverse ? JacobianMode::Reverse : JacobianMode::Forward);
      },
      nb::arg("program"), nb::arg("of"), nb::arg("wrt"), nb::arg("reverse") = false,
      "A program that gives j_<of>_<wrt>: shaped like `of` and a dimension over the elements of `wrt`, or the other "
      "way "
      "round.");
}

Gradcheck check_gradient(const Program& program, const nb::dict& arrays, nb::handle sizes,
                         const std::vector<std::string>& wrt, const std::vector<std::string>& of,
                         const std::string& variant, std::int64_t elements, double tolerance, std::uint64_t seed,
                         const nb::kwargs& options) {
  const GradcheckOptions checking{.gradient = {.wrt = wrt, .of = of, .variant = variant_named(variant)},
                                  .compile = options_of(options),
                                  .elements = elements,
                                  .tolerance = tolerance,
                                  .seed = seed};
  Sizes given = sizes_of(sizes);
  Call call(program);
  std::vector<nb::object> objects = call.in_order(arrays, given);
  Gradcheck result;
  call.run(
      objects, given, nb::none(),
      [&](const Arguments& a, const Sizes& s, const RunOptions&) { result = gradcheck(program, a, s, checking); },
      true);
  return result;
}

void bind_gradcheck(nb::module_& m) {
  nb::class_<GradcheckFinding>(m, "GradcheckFinding", "What is wrong along one direction, or a kink there.")
      .def_ro("test", &GradcheckFinding::test)
      .def_ro("array", &GradcheckFinding::array)
      .def_ro("element", &GradcheckFinding::element)
      .def_ro("expected", &GradcheckFinding::expected)
      .def_ro("found", &GradcheckFinding::found)
      .def_prop_ro("file", [](const GradcheckFinding& f) { return std::string(f.where.file); })
      .def_prop_ro("line", [](const GradcheckFinding& f) { return f.where.line; })
      .def("__str__", [](const GradcheckFinding& f) { return f.text; });
  nb::class_<Gradcheck>(m, "Gradcheck", "What `gradcheck` found; true when the gradient is right.")
      .def_prop_ro("ok", &Gradcheck::ok)
      .def("__bool__", &Gradcheck::ok)
      .def_ro("directions", &Gradcheck::directions)
      .def_ro("differences", &Gradcheck::differences)
      .def_ro("dot_product", &Gradcheck::dot_product)
      .def_ro("taylor_rate", &Gradcheck::taylor_rate)
      .def_ro("findings", &Gradcheck::findings)
      .def_ro("kinks", &Gradcheck::kinks)
      .def_ro("stopped", &Gradcheck::stopped)
      .def_ro("stopped_by", &Gradcheck::stopped_by)
      .def("__str__", &Gradcheck::str);
  m.def("gradcheck", &check_gradient, nb::arg("program"), nb::arg("arrays"), nb::arg("sizes") = nb::none(),
        nb::arg("wrt") = std::vector<std::string>(), nb::arg("of") = std::vector<std::string>(),
        nb::arg("variant") = "restructured", nb::arg("elements") = 64, nb::arg("tolerance") = 0.0, nb::arg("seed") = 1,
        nb::arg("options"), "Differences, dot product and Taylor tests of a gradient at these arrays (of the host).");
}

}  // namespace

CompileOptions options_of(const nb::kwargs& given) {
  CompileOptions options;
  for (const auto& [key, value] : given) {
    const auto name = nb::cast<std::string>(key);
    if (name == "target")
      options.target =
          named(value_of<std::string>(name, value), "target", {Target::OpenMP, Target::Cuda, Target::Interpreter});
    else if (name == "facts")
      options.facts = named(value_of<std::string>(name, value), "way to treat facts",
                            {Facts::Verify, Facts::Trust, Facts::CheckAccesses});
    else if (name == "checked") options.checked = value_of<bool>(name, value);
    else if (name == "trap_nan") options.trap_nan = value_of<bool>(name, value);
    else if (name == "f64") options.f64 = value_of<bool>(name, value);
    else if (name == "threads") options.threads = value_of<int>(name, value);
    else if (name == "threads_per_block") options.threads_per_block = value_of<int>(name, value);
    else if (name == "schedule") options.schedule = Schedule::parse(value_of<std::string>(name, value));
    else if (name == "backward_schedule")
      options.backward_schedule = Schedule::parse(value_of<std::string>(name, value));
    else if (name == "expected_sizes") options.expected_sizes = sizes_of(value);
    else
      throw UsageError({.code = ErrorCode::BadArgument,
                        .message = "there is no option '" + name + "'",
                        .hint = "the options are target, threads, threads_per_block, facts, schedule, "
                                "backward_schedule, expected_sizes, checked, trap_nan and f64"});
  }
  return options;
}

void bind_running(nb::module_& m) {
  bind_gradient(m);
  bind_gradcheck(m);
  nb::class_<PyVersioned>(m, "Versioned", "An array with a promise, see `versioned`.")
      .def_ro("array", &PyVersioned::array)
      .def_ro("version", &PyVersioned::version);
  m.def(
      "versioned",
      [](nb::object array, std::uint64_t version) {
        return PyVersioned{std::move(array), version};
      },
      nb::arg("array"), nb::arg("version"),
      "The same array with a promise: whenever its memory is passed with this version, it holds the same elements. "
      "Facts "
      "about it are verified once, and what follows from it is kept. Count up when the contents change.");
  const auto none = nb::none();
  nb::class_<PyExecutable>(m, "Executable", "A program ready to run.")
      .def("__call__", &PyExecutable::call, nb::arg("arrays") = none, nb::arg("sizes") = none, nb::arg("stream") = none,
           nb::arg("named"), "Runs on arrays by name. Outputs that are not given are made; returns them.")
      .def(
          "run_list",
          [](PyExecutable& e, nb::sequence list, nb::handle sizes, nb::handle stream) {
            return run_list<&PyExecutable::run>(e, list, sizes, stream, e.signature().arguments().size());
          },
          nb::arg("arrays"), nb::arg("sizes") = none, nb::arg("stream") = none,
          "The same for arrays in the order of declaration, None for outputs that are to be made.")
      .def_prop_ro("arguments", [](const PyExecutable& e) { return e.signature().arguments(); })
      .def_prop_ro("source", [](const PyExecutable& e) { return e.executable().source(); })
      .def_prop_ro("build_ms", [](const PyExecutable& e) { return e.executable().build_ms(); })
      .def_prop_ro("from_cache", [](const PyExecutable& e) { return e.executable().from_cache(); });
  using G = PyGradientExecutable;
  nb::class_<G>(m, "GradientExecutable", "A gradient ready to run, with the tape of its last forward run.")
      .def("forward", &G::forward, nb::arg("arrays") = none, nb::arg("sizes") = none, nb::arg("stream") = none,
           nb::arg("named"), "Runs the program and fills the tape; returns its outputs.")
      .def("backward", &G::backward, nb::arg("arrays") = none, nb::arg("sizes") = none, nb::arg("stream") = none,
           nb::arg("named"),
           "Takes d_<output>, returns d_<input>. Arrays of the last forward run are taken from there.")
      .def(
          "forward_list",
          [](G& e, nb::sequence list, nb::handle sizes, nb::handle stream) {
            return run_list<&G::run_forward>(e, list, sizes, stream, e.forward_signature().arguments().size());
          },
          nb::arg("arrays"), nb::arg("sizes") = none, nb::arg("stream") = none)
      .def(
          "backward_list",
          [](G& e, nb::sequence list, nb::handle sizes, nb::handle stream) {
            return run_list<&G::run_backward>(e, list, sizes, stream, e.backward_signature().arguments().size());
          },
          nb::arg("arrays"), nb::arg("sizes") = none, nb::arg("stream") = none)
      .def(
          "copy", [](const G& e) { return G(e.executable()); }, "The same code with a tape of its own.")
      .def_prop_ro("forward_arguments", [](const G& e) { return e.forward_signature().arguments(); })
      .def_prop_ro("backward_arguments", [](const G& e) { return e.backward_signature().arguments(); })
      .def_prop_ro("gradient", [](const G& e) { return e.executable().gradient(); })
      .def_prop_ro("tape_bytes", [](const G& e) { return e.executable().tape_bytes(); })
      .def_prop_ro("kernel_count", [](const G& e) { return e.executable().kernel_count(); })
      .def_prop_ro("source", [](const G& e) { return e.executable().source(); })
      .def_prop_ro("build_ms", [](const G& e) { return e.executable().build_ms(); })
      .def_prop_ro("from_cache", [](const G& e) { return e.executable().from_cache(); });
  m.def(
      "check_options", [](const nb::kwargs& options) { options_of(options); }, nb::arg("options"),
      "Refuses what `compile` would refuse of these.");
  m.def("compile", &compile_program, nb::arg("program"), nb::arg("options"), "Compiles a program.");
  m.def("compile", &compile_for, nb::arg("gradient"), nb::arg("options"), "Compiles a gradient.");
}

}  // namespace loopgrad::python

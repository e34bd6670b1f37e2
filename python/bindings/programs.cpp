#include "programs.h"

#include "call.h"

#include "dsl/ir/program.h"
#include "dsl/ir/visit.h"
#include "tools/programs/programs.h"

#include <loopgrad/loopgrad.h>
#include <loopgrad/main.h>
#include <loopgrad/plugin.h>

#include <dlfcn.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace loopgrad::python {
namespace {

const std::vector<ProgramEntry>& built_ins() {
  static const auto* entries = new std::vector<ProgramEntry>(programs::all());
  return *entries;
}

UsageError bad_input(std::string message, std::string hint) {
  return UsageError({.code = ErrorCode::BadInput, .message = std::move(message), .hint = std::move(hint)});
}

Program built_in(const std::string& name) {
  std::string names;
  for (const ProgramEntry& entry : built_ins()) {
    if (entry.name == name) return entry.build();
    names += (names.empty() ? "" : ", ") + entry.name;
  }
  throw bad_input("there is no built-in program '" + name + "'", "one of " + names);
}

/// Lets libraries that are opened from now on find the functions of loopgrad in this module, which Python keeps to
/// itself.
void offer_own_functions() {
  Dl_info own{};
  if (dladdr(reinterpret_cast<void*>(&built_in), &own) != 0)
    dlopen(own.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
}

/// The entries of a library, which stays open: programs refer to its texts.
const std::vector<ProgramEntry>& entries_of(const std::string& path) {
  offer_own_functions();
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) throw bad_input("the library cannot be opened: " + std::string(dlerror()), "link it without loopgrad");
  const auto entries = reinterpret_cast<const std::vector<ProgramEntry>* (*)()>(dlsym(library, plugin_symbol));
  if (!entries) throw bad_input("'" + path + "' has no programs", "name them with LOOPGRAD_PLUGIN in one of its files");
  return *entries();
}

std::map<std::string, Program> load(const std::string& path) {
  std::map<std::string, Program> programs;
  for (const ProgramEntry& entry : entries_of(path)) programs.emplace(entry.name, entry.build());
  return programs;
}

/// One program as a command line has it.
ProgramEntry entry_of(const Program& program, const Sizes& sizes, const std::vector<std::string>& wrt) {
  for (const ProgramEntry& entry : built_ins()) {
    if (entry.name != program.name() || entry.build().str() != program.str()) continue;
    ProgramEntry own = entry;
    for (const auto& [name, size] : sizes) own.sizes[name] = size;
    if (!wrt.empty()) own.wrt = wrt;
    return own;
  }
  Sizes all = sizes;
  for (const std::string& name : size_names(program)) all.try_emplace(name, 1024);
  return {.name = program.name(), .summary = "", .build = [program] { return program; }, .sizes = all, .wrt = wrt};
}

CommandOutput run_on(const std::string& command, const Program& program, std::vector<std::string> arguments,
                     const Sizes& sizes, const std::vector<std::string>& wrt) {
  arguments.insert(arguments.begin(), {command, program.name()});
  nb::gil_scoped_release others_may_run;
  return run_command(arguments, {entry_of(program, sizes, wrt)});
}

int main_of(std::vector<std::string> words) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  nb::gil_scoped_release others_may_run;
  return main_with(static_cast<int>(argv.size()), argv.data(), built_ins());
}

/// An expression of sizes for Python to evaluate: a number, the name of a size, or an operation's name with its
/// operands; "i32" is what wraps around.
nb::object tree_of(const ir::Expr& e) {
  const auto wrapped = [&](nb::object tree) -> nb::object {
    return e.type() == ScalarType::I32 ? nb::object(nb::make_tuple("i32", tree)) : tree;
  };
  return ir::visit(
      e, ir::overloaded{
             [](const ir::IntConst& c) -> nb::object { return nb::int_(c.value); },
             [](const ir::Var& v) -> nb::object { return nb::str(v.symbol.name.c_str()); },
             [&](const ir::Unary& u) { return wrapped(nb::make_tuple(name_of(u.op), tree_of(u.a))); },
             [&](const ir::Binary& b) { return wrapped(nb::make_tuple(name_of(b.op), tree_of(b.a), tree_of(b.b))); },
             [&](const ir::Select& s) -> nb::object {
               return nb::make_tuple("select", tree_of(s.condition), tree_of(s.a), tree_of(s.b));
             },
             [&](const ir::Cast& c) -> nb::object {
               return nb::make_tuple(c.type == ScalarType::Bool ? "bool" : name_of(c.type), tree_of(c.a));
             },
             [](const auto&) -> nb::object { throw InternalError("not an expression of sizes"); }});
}

/// Of all arrays that a caller passes.
nb::dict extent_trees(const Program& program) {
  nb::dict trees;
  for (const ir::Array& array : program.ir().arrays) {
    if (array->role == ir::ArrayRole::Tape) continue;
    nb::list extents;
    for (const ir::Expr& extent : array->callers_shape()) extents.append(tree_of(extent));
    trees[array->name.c_str()] = extents;
  }
  return trees;
}

void bind_device(nb::module_& m) {
  m.def(
      "has_cuda", [] { return has_cuda(); }, "Whether programs can run on a GPU.");
  m.def(
      "why_no_cuda",
      [] {
        std::string why;
        has_cuda(&why);
        return why;
      },
      "What is missing to run programs on a GPU; empty when nothing is.");
}

}  // namespace

void bind_programs(nb::module_& m) {
  nb::class_<ArgumentInfo>(m, "ArgumentInfo", "One array that a caller passes.")
      .def_ro("name", &ArgumentInfo::name)
      .def_prop_ro("role", [](const ArgumentInfo& a) { return name_of(a.role); })
      .def_ro("dtype", &ArgumentInfo::type)
      .def_ro("shape", &ArgumentInfo::shape)
      .def("__repr__", [](const ArgumentInfo& a) {
        std::string shape;
        for (const std::string& extent : a.shape) shape += (shape.empty() ? "" : ", ") + extent;
        return std::string(name_of(a.role)) + " " + a.name + ": " + name_of(a.type) + "[" + shape + "]";
      });
  nb::class_<Program>(m, "Program", "A finished program.")
      .def_prop_ro("name", [](const Program& p) { return p.name(); })
      .def_prop_ro("arguments", [](const Program& p) { return arguments_of(p); })
      .def_prop_ro("sizes", [](const Program& p) { return size_names(p); })
      .def("__str__", &Program::str)
      .def("__repr__", [](const Program& p) { return "<loopgrad program '" + p.name() + "'>"; });
  nb::class_<CommandOutput>(m, "CommandOutput")
      .def_ro("status", &CommandOutput::status)
      .def_ro("text", &CommandOutput::text)
      .def_ro("json", &CommandOutput::json);
  m.def("builtin", &built_in, nb::arg("name"), "A built-in program by name.");
  m.def("builtin_names", [] {
    std::vector<std::string> names;
    for (const ProgramEntry& entry : built_ins()) names.push_back(entry.name);
    return names;
  });
  m.def("load", &load, nb::arg("path"), "The programs of a C++ library by name.");
  m.def("command", &run_on, nb::arg("command"), nb::arg("program"), nb::arg("arguments") = std::vector<std::string>(),
        nb::arg("sizes") = Sizes(), nb::arg("wrt") = std::vector<std::string>());
  m.def("main", &main_of, nb::arg("words"), "The command line on the built-in programs; returns its status.");
  m.def(
      "extents",
      [](const Program& p, const Shapes& known, const Sizes& sizes) {
        const Extents extents = extents_of(p, known, sizes);
        return nb::make_tuple(extents.sizes, extents.shapes);
      },
      nb::arg("program"), nb::arg("shapes"), nb::arg("sizes") = Sizes(),
      "Sizes and shapes that follow from some shapes.");
  m.def("extent_trees", &extent_trees, nb::arg("program"), "The declared extents of all arrays, as trees.");
  m.def("token", &make_token, nb::arg("number"), nb::arg("owner"));
  bind_device(m);
}

}  // namespace loopgrad::python

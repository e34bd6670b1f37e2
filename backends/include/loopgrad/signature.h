// What a program is called with, for code that passes arguments to programs it does not know: bindings, command lines.
#pragma once

#include <loopgrad/arrays.h>
#include <loopgrad/program.h>

#include <map>
#include <string>
#include <vector>

namespace loopgrad {

/// What a program does with an argument.
enum class Role { Input, Output, InOut };
const char* name_of(Role role);  // "input", "output", "in-out"

/// One array that a caller passes.
struct ArgumentInfo {
  std::string name;
  Role role = Role::Input;
  ScalarType type = ScalarType::F32;
  std::vector<std::string> shape;  // expressions in sizes, as printed, e.g. "n + k - 1"
  SourceLocation where;            // the user's line that declares it
};

/// Arrays in the order of their declaration. Tapes, which an executable owns, are not among them.
std::vector<ArgumentInfo> arguments_of(const Program& program);
/// Names of the sizes in the order of their declaration.
std::vector<std::string> size_names(const Program& program);

using Shapes = std::map<std::string, std::vector<std::int64_t>>;

/// The shapes of all arrays of a run, and the sizes that occur in them.
struct Extents {
  Sizes sizes;
  Shapes shapes;
};

/// Solves for the sizes as a run does, from the shapes of some arrays and from sizes that are given, and evaluates the
/// shapes of all. Names in `known` and `given` that the program does not have are skipped. Throws UsageError where a
/// shape has the wrong rank or fits no size, and where a size does not follow. That known shapes agree with the sizes
/// is checked by the run.
Extents extents_of(const Program& program, const Shapes& known, const Sizes& given = {});

}  // namespace loopgrad

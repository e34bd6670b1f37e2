/// @file
/// What a program is called with, for code that passes arguments to programs it does not know: bindings, command lines.
#pragma once

#include <loopgrad/arrays.h>
#include <loopgrad/program.h>

#include <map>
#include <string>
#include <vector>

namespace loopgrad {
/// @addtogroup running
/// @{

/// What a program does with an argument.
enum class Role {
  Input,   ///< reads it
  Output,  ///< writes it first
  InOut,   ///< both: what it holds before is used
};
/// For messages: "input", "output", "in-out".
const char* name_of(Role role);

/// One array that a caller passes.
struct ArgumentInfo {
  std::string name;                   ///< the key in Arguments
  Role role = Role::Input;            ///< what is done with it
  ScalarType type = ScalarType::F32;  ///< of its elements, as stored
  std::vector<std::string> shape;     ///< expressions in sizes, as printed, e.g. "n + k - 1"
  SourceLocation where;               ///< the user's line that declares it
};

/// Arrays in the order of their declaration. Tapes, which an executable owns, are not among them.
std::vector<ArgumentInfo> arguments_of(const Program& program);
/// Names of the sizes in the order of their declaration.
std::vector<std::string> size_names(const Program& program);

/// Extents by array name.
using Shapes = std::map<std::string, std::vector<std::int64_t>>;

/// The shapes of all arrays of a run, and the sizes that occur in them.
struct Extents {
  Sizes sizes;    ///< by size name
  Shapes shapes;  ///< by array name, of all arguments
};

/// Solves for the sizes as a run does, from the shapes of some arrays and from sizes that are given, and evaluates the
/// shapes of all. Names in `known` and `given` that the program does not have are skipped. Throws UsageError where a
/// shape has the wrong rank or fits no size, and where a size does not follow. That known shapes agree with the sizes
/// is checked by the run.
Extents extents_of(const Program& program, const Shapes& known, const Sizes& given = {});

/// @}
}  // namespace loopgrad

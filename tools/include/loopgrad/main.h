/// @file
/// The command line of loopgrad as a library: `list`, `show`, `explain`, `report`, `check`, `compare` for your own
/// programs.
#pragma once

#include <loopgrad/arrays.h>
#include <loopgrad/program.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace loopgrad {
/// @addtogroup command_line
/// @{

/// A program's input and in-out arrays by name, allocated by the command line and ready to be filled.
using InputArrays = std::map<std::string, HostArray>;

/// Overwrites the arrays whose default contents do not suit the program; must depend on its arguments only.
/// On entry floats are uniform in [-1, 1) and integers respect the stated facts (`in_range`, `sorted`, `injective`,
/// `csr`); integers without a fact are zero. Use `HostArray::set`, which converts to the array's type.
using Fill = std::function<void(const Sizes& sizes, std::uint64_t seed, InputArrays& arrays)>;

/// One program of a command line.
struct ProgramEntry {
  std::string name;                ///< as typed: no spaces
  std::string summary;             ///< one line for `list`
  std::function<Program()> build;  ///< records the program
  Sizes sizes;             ///< for `compare` and `explain`, unless --size says otherwise; every size of the program
  Sizes check_sizes = {};  ///< for `check`, which interprets: small, not multiples of anything; empty: `sizes`
  std::vector<std::string> wrt = {};  ///< inputs to differentiate by; empty: every one of float type
  Fill fill = {};                     ///< contents of the inputs; empty: the defaults described above
};

/// Runs the command line on these programs and returns the exit status: 0, 1 when `check` or a checked run found
/// something wrong or the output cannot be written, 2 for a mistake on the command line or in a program (the reason is
/// on standard error). Never throws.
///
/// **Example**
/// ```
/// int main(int argc, char** argv) {
///   return loopgrad::main_with(argc, argv, {{"scale", "y = 2 x", build_scale, {{"n", 1000}}}});
/// }
/// ```
int main_with(int argc, char** argv, const std::vector<ProgramEntry>& programs);

/// What a command line says, for notebooks and other languages.
struct CommandOutput {
  int status = 0;  ///< as of `main_with`
  /// What is printed.
  std::string text, json;  ///< The document of `--json`.
};

/// Runs one command, as `{"explain", "heat2d", "--size", "n=100"}`, and returns what it would print and what `--json`
/// would write. Throws Error for mistakes on the command line or in a program. `fuzz` prints by itself.
CommandOutput run_command(const std::vector<std::string>& arguments, const std::vector<ProgramEntry>& programs);

/// @}
}  // namespace loopgrad

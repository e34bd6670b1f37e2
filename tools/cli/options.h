// What the user asked for on the command line, checked.
#pragma once

#include <loopgrad/compile.h>
#include <loopgrad/main.h>

#include <optional>
#include <string>
#include <vector>

namespace loopgrad::cli {

enum class Command { List, Show, Explain, Report, Emit, Check, Compare, Fuzz, Cache };
/// What `check` checks: a gradient, forward mode, or either of them applied to the gradient as one program.
enum class Mode { Gradient, Tangent, HessianVector, SecondGradient };
enum class Stage { Program, Adjoint, Summation, Loops, Schedule, Code };

/// What `fuzz` takes besides a seed and a target.
struct FuzzOptions {
  double seconds = 30;     // 0: no limit, as many as `count` says
  std::int64_t count = 0;  // 0: until the time is over
  int jobs = 0;            // processes; 0: one for each core
  int compiled = 10;       // percent of the programs
  bool keep_going = false;
  std::string features;              // the file that the table of features goes to, or empty
  std::vector<std::string> without;  // axes that are left out
};

/// Several values of one size, from small to large.
struct Sweep {
  std::string size;
  std::vector<std::int64_t> values;  // empty: no sweep
};

struct Options {
  Command command = Command::List;
  const ProgramEntry* program = nullptr;  // null for `list`, `fuzz` and `cache`
  Stage stage = Stage::Program;
  Mode mode = Mode::Gradient;    // of `check`
  std::int64_t elements = 64;    // of `check`: so many of each array are directions of their own
  std::optional<Target> target;  // not given: each command has its own default
  Variant variant = Variant::Restructured;
  std::optional<Variant> only;  // of `compare`: not given: all
  Sizes sizes;                  // those given; see `sizes_of`
  int threads = 0;
  int threads_per_block = 0;                       // of the target cuda
  Facts facts = Facts::Verify;                     // of `compare` and `emit`
  bool versioned = false;                          // of `compare`
  loopgrad::Schedule schedule, backward_schedule;  // of `show`: of the forward and the backward program
  std::int64_t max_tape_bytes = 0;                 // of `show`, `explain`, `check` and `compare`; 0: no limit
  std::uint64_t seed = 1;
  FuzzOptions fuzz;
  std::string out,
      name;  // of `emit`: the folder, and the name of files and functions (empty: the program's); of `report`: the file
  std::vector<std::string> details;  // of `explain`: groups of tables
  std::string remarks;               // of `explain`: a file name, "-" for standard output, empty for none
  bool measure = false;              // of `report`
  Sweep sweep;                       // of `compare`
  std::string plot;                  // of `compare`: a file name, or empty
  bool clear = false;                // of `cache`
  std::string json;                  // a file name, "-" for standard output, empty for none
  CommandOutput* output = nullptr;   // where what is said goes, in place of standard output and the file; or null
};

/// All variants, in the order of tables.
const std::vector<Variant>& variants();

/// Parses and checks a command line. Throws UsageError(BadInput) with a hint for anything that is not understood. When
/// the user asked for help, prints it and returns nothing.
std::optional<Options> parse(int argc, char** argv, const std::vector<ProgramEntry>& programs);

/// `defaults` overridden by the sizes of the command line.
Sizes sizes_of(const Options& options, const Sizes& defaults);

/// The hint "did you mean 'conv1d'?" or, when nothing is near, "one of a, b, c".
std::string suggest(const std::string& typed, const std::vector<std::string>& names);

[[noreturn]] void bad_input(const std::string& message, const std::string& hint = {});

}  // namespace loopgrad::cli

// What is known of a program's gradient without running it: the facts that `explain`, its JSON and `report` print.
#pragma once

#include "tools/cli/options.h"
#include "tools/cli/parts.h"
#include "tools/cli/tape_table.h"
#include "tools/cli/work.h"

#include <nlohmann/json.hpp>

namespace loopgrad::cli {

/// One of the programs of a gradient.
struct ExplainedProgram {
  std::string name;       // "forward" or "backward"
  Work work;              // of the program as differentiated
  Report decisions;       // from lowering
  ProgramParts parts;     // of what is emitted, with estimates of time
  double work_bytes = 0;  // memory of its own that lives outside of threads' stacks, at most
  int atomics = 0, parallel_loops = 0;
  double microseconds() const { return parts.microseconds(); }
};

/// What both sweeps need together.
struct ExplainedMemory {
  double arrays = 0;                 // of the caller's, read or written or not
  double tapes = 0;                  // as far as sizes decide
  double work = 0;                   // of the program that needs more, outside of threads' stacks
  std::vector<std::string> by_data;  // bytes of the tapes whose extents data decide, as formulas
};

struct Explanation {
  std::string program;
  Variant variant = Variant::Restructured;
  Target target = Target::OpenMP;
  Sizes sizes;
  transforms::Machine machine;
  std::vector<TapeRow> tape;
  ExplainedMemory memory;
  std::vector<ExplainedProgram> programs;  // forward, backward
  std::vector<Remark> remarks;
};

/// Lowers the gradient as `options` say. Nothing runs, and no array is made.
Explanation explain(const Options& options, Variant variant);

/// "an OpenMP machine with 16 threads", that the estimates are for.
std::string name_of_machine(const Explanation& e);

/// What a person would change first; may be empty.
std::vector<std::string> advice(const Explanation& e);

nlohmann::ordered_json json_of(const Explanation& e);
nlohmann::ordered_json json_of(const SourceLocation& where);

/// The letter: times, tape, what is not parallel, what to change.
std::string letter(const Explanation& e);
/// Tables, of these groups: "tape", "sums", "loops", "remarks".
std::string details(const Explanation& e, const std::vector<std::string>& groups);
const std::vector<std::string>& detail_groups();

/// The decisions as a stream of YAML documents, as compilers write remarks for editors (LLVM:
/// -fsave-optimization-record).
std::string remarks_yaml(const Explanation& e);

}  // namespace loopgrad::cli

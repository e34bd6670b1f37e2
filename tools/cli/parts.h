// What the parts of a program (see backends/c_text/parts.h) take, by the model of a machine.
#pragma once

#include "dsl/ir/program.h"
#include "tools/cli/work_counter.h"
#include "transforms/pass/machine.h"

#include <string>
#include <vector>

namespace loopgrad::cli {

/// One part, all of its runs together.
struct PartWork {
  std::string loops;  // "i, j"
  SourceLocation where;
  bool is_shared = false;        // by threads, or the blocks of a kernel
  bool is_product = false;       // of matrices: by a library where there is one
  bool waits_for_steps = false;  // a kernel that takes as long as the steps of one of its blocks
  double runs = 0;               // how often, as loops around it say
  double flops = 0, operations = 0;
  double bytes = 0;     // of arrays from outside: what a run reads and what it writes, no more than there is of each
  double parallel = 1;  // iterations that may run at once
  double microseconds = 0;  // on the machine
};

/// A loop that runs in order around parts, or is one.
struct OrderedLoop {
  std::string loop;
  SourceLocation where;
  double trips = 0;         // of one run
  double microseconds = 0;  // of the parts in it
  bool has_shared = false;  // some of them are
  bool in_block = false;    // of each iteration of a kernel: what its threads, or one of them, wait for
};

struct ProgramParts {
  std::vector<PartWork> parts;       // in the order of the program
  std::vector<OrderedLoop> ordered;  // in the order of the program
  bool exact = true;                 // as of WorkCounter
  double microseconds() const;
};

/// Of a program whose loops are parallel, or as it is emitted for a CPU. Where data decide, facts tell what is likely
/// (see WorkCounter).
ProgramParts parts_of(const ir::Program& lowered, const Sizes& sizes, const transforms::Machine& machine);

}  // namespace loopgrad::cli

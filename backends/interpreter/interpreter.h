// The checked interpreter: slow, trusted, and a debugger. It runs any stage's IR.
#pragma once

#include "backends/runtime/binding.h"

namespace loopgrad::backend {

/// Work done by a run, counted exactly, for roofline numbers at scaled-down sizes.
struct WorkCount {
  std::int64_t flops = 0;   // float add, sub, mul, div, min, max and math functions, one each; Reduces included.
                            // Not negation, abs, comparisons, selections and conversions
  std::int64_t loads = 0;   // elements of arguments and tape arrays that are read (a Reduce reads), and Pops
  std::int64_t stores = 0;  // elements of arguments and tape arrays that are written, and Pushes
};

struct InterpreterOptions {
  bool f64 = false;           // compute and store in f64 whatever the declared float types
  bool checked = false;       // bounds, uninitialised reads, races, false facts
  bool trap_nan = false;      // with `checked`: the first operation that makes a NaN from non-NaN operands is an error
  std::uint64_t seed = 1;     // order in which the iterations of parallel loops run (checked mode)
  WorkCount* work = nullptr;  // when given, the run's work is added to it
};

/// The run-time stack of the naive tape, shared by a forward and a backward run.
struct ValueStack {
  struct Entry {
    ScalarType type;
    double number;         // float types
    std::int64_t integer;  // bool and integer types
  };
  std::vector<Entry> entries;
  std::int64_t bytes = 0, peak_bytes = 0;
};

/// Runs the program on bound arguments.
///
/// In checked mode parallel loops run in a shuffled order and every access is logged: two iterations of one parallel
/// loop that touch one element, at least one writing, are a Race unless both are atomic Reduces with one op; so are two
/// threads of a block that has barriers, wherever they do it between two of these. Locals are
/// fresh and uninitialised on every Allocate; outputs start uninitialised. To read an element without a value is
/// UninitialisedRead; a Reduce by the identity leaves it without one. An index outside the declared shape is BadIndex.
/// Facts are verified before the first statement (BadFact). A trip count above `at_most` is BadIndex. Errors are
/// RuntimeError naming program, loop, array, the concrete iterator values and the user's line. In every mode an index
/// out of range is an error, never undefined behaviour.
void interpret(const ir::Program& program, const Binding& binding, const InterpreterOptions& options = {},
               ValueStack* stack = nullptr);

/// Verifies every fact about an array that is given from outside. Throws RuntimeError(BadFact) naming array, element
/// and the line of the fact.
void verify_facts(const ir::Program& program, const Binding& binding);

}  // namespace loopgrad::backend

// How long the segments of checkpointed loops are, found when sizes are known: a program of integers that runs first.
//
// A loop of n iterations either runs with a tape for all of them, or in `blocks` blocks of `leaves` segments of `leaf`
// iterations. Its state is saved before each block by the forward run, and before each segment but the last one of a
// block by the backward run, which then has a tape of one segment. So a loop has
//   blocks + leaves - 1 states and the tape of `leaf` iterations  in memory, and runs
//   n iterations for their tapes, and those of all segments but the last of their blocks once more:
// schedules of two levels, as in A. Griewank, A. Walther, "Algorithm 799: revolve" (ACM TOMS 26, 2000), with the tape
// of several steps in place of the last levels, as tapes cost no more than states here. The shortest of those that fit
// is taken: for 1000 iterations whose state is as large as their tape, and room for 29 of them, 10, 10 and 10.
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::tape {

/// What is decided about a loop: sizes of the gradient's programs.
struct LoopLengths {
  ir::Symbol taped;   // all iterations, or 0 where they are checkpointed
  ir::Symbol blocks;  // 0 where not
  ir::Symbol leaves, leaf;
};

/// A loop to decide about.
struct LoopToDecide {
  LoopLengths lengths;
  ir::Expr trips;                                                     // never negative
  ir::Expr bytes_of_state;                                            // for each time it is saved
  std::function<ir::Expr(const ir::Expr& iterations)> bytes_of_tape;  // for as many in a row
  SourceLocation where;
};

/// Bytes of an array; extents below 0 count as 0.
ir::Expr bytes_of_array(ScalarType type, const std::vector<ir::Expr>& shape);

/// The size that tells how much memory the tape and the checkpoints take.
inline constexpr const char* needed_tape_bytes = "needed_tape_bytes";

/// Statements that set rank-0 i64 arrays named like the symbols, which are added to `outputs`: lengths for which all
/// loops and `fixed`, in bytes, take `most` at most, else those that take least; and `needed_tape_bytes`.
ir::Stmt decide_lengths(const std::vector<LoopToDecide>& loops, const ir::Expr& fixed, std::int64_t most,
                        std::vector<ir::Array>& outputs);

}  // namespace loopgrad::tape

/// @file
/// What loopgrad decided and why: filled by the passes, printed by `explain`.
#pragma once

#include <loopgrad/types.h>

#include <string>
#include <vector>

namespace loopgrad {
/// @addtogroup reports
/// @{

/// One needed value of the primal program and where the gradient gets it from.
struct TapeDecision {
  std::string value;     ///< the read as in the source, e.g. "x[i + j]"
  SourceLocation where;  ///< the user's line that reads it
  std::string decision;  ///< "direct", "tape (writer's index)", "tape (reader's index)", "tape (whole array)", "stack",
                         ///< "recomputed"
  std::string storage;   ///< the tape array and index, e.g. "x_tape[t, i]"; empty when direct
  std::string elements;  ///< the number of elements saved as an expression in sizes; empty when direct
  std::string reason;    ///< why it is there and not in another place
};

/// One way of doing a sum, with what it is estimated to cost on the machine that the plan is for.
struct SumCandidate {
  std::string plan;         ///< as in SumDecision
  double operations = 0;    ///< arithmetic
  double bytes = 0;         ///< moved between memory and a cache
  double parallel = 1;      ///< iterations that may run at once
  double microseconds = 0;  ///< estimated time
  bool possible = true;     ///< false: `note` says why not
  std::string note = {};    ///< why it is not possible, or not taken
  std::string level = {};   ///< of partial results, as in SumDecision
};

/// One sum and how it is done without (or with) atomics.
struct SumDecision {
  std::string sum;       ///< "d_x[i + j] += d_y[i]*w[j]"
  SourceLocation where;  ///< the user's line that it comes from
  std::string plan;  ///< "none", "gather", "apart" (a nest of its own), "segments" (by the order of elements that data
                     ///< choose), "exact" (in whole numbers, whose order does not matter), "tree" (a few partial
                     ///< results), "partials" (arrays of them), "serial", "atomic"
  std::string reason;                         ///< why this plan
  std::vector<SumCandidate> candidates = {};  ///< what there was to choose from; empty where nothing was chosen
  std::string basis = {};                     ///< the sizes of the estimates, e.g. "n = 1048576, k = 1024 (assumed)"
  std::string level = {};  ///< who has a partial result: "register" (a block of iterations), "lanes" (each thread of a
                           ///< GPU's block), "block" (its threads together), "grid" (an element of an array); or empty
};

/// One loop and whether it runs in parallel.
struct LoopDecision {
  std::string loop;       ///< its iterator
  SourceLocation where;   ///< the user's line
  bool parallel = false;  ///< its iterations may run at once, and do
  std::string reason;     ///< why it may, or what keeps it in order
};

/// One array whose elements live elsewhere than where the program stores them.
struct StorageDecision {
  std::string array;     ///< its name
  SourceLocation where;  ///< the user's line that declares it, or copies it
  /// "alias" of another array, "folded" (an index modulo a number), "windowed" (rows of a strip).
  std::string decision;
  std::string place;   ///< where an element lives: `v[.., t%2, ..]`, `u_tape[t - 1, ..]`
  std::string reason;  ///< why the elements may live there
};

/// One sum of products over a nest of loops, and whether a library of matrix products may do it.
struct ContractionDecision {
  std::string sum;           ///< as in SumDecision
  SourceLocation where;      ///< the user's line that it comes from
  bool handed_over = false;  ///< to the library; else loops do it
  std::string reason;        ///< why, or what stands in the way
};

/// One nest of loops and how the threads of a GPU share it: one entry for each shape that the host chooses from.
struct KernelDecision {
  std::string loops;     ///< "i, j"; empty for statements outside of loops
  SourceLocation where;  ///< the user's line of the outermost one
  std::string shape;     ///< "threads", "rows", "row tiles", "one block", "long sum", ...
  std::string reason;    ///< why, and when the host takes it
};

/// How a CPU runs one loop, or where a local array lives.
struct RunDecision {
  std::string what;      ///< "i", or "i, j" of loops that threads share together; or "local x[n]"
  SourceLocation where;  ///< the user's line
  std::string decision;  ///< "threads", "lanes", "one region", "past the caches", "per thread", ...
  std::string reason;    ///< why, and when
};

/// Anything else worth telling, e.g. a budget that ran out.
struct Remark {
  std::string text;      ///< a sentence
  SourceLocation where;  ///< the user's line, if it is about one
};

/// All decisions about a program or a gradient: what `explain` and `report` print.
struct Report {
  std::vector<TapeDecision> tape;                 ///< of gradients: each value that the backward program needs
  std::vector<SumDecision> sums;                  ///< each sum of the program
  std::vector<LoopDecision> loops;                ///< of the transformed program
  std::vector<StorageDecision> storage;           ///< of arrays that live elsewhere
  std::vector<ContractionDecision> contractions;  ///< of sums of products
  std::vector<KernelDecision> kernels;            ///< of the target cuda
  std::vector<RunDecision> runs;                  ///< of other targets
  std::vector<Remark> remarks;                    ///< everything else
};

/// @}
}  // namespace loopgrad

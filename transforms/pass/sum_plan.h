// The summation plan: for each sum that was decided about, what there was to choose from, what was chosen, and why.
//
// A plan is a value. `recognize_contractions` makes those of products of matrices, `plan_sums`
// (transforms/sums/plan_sums.h) those of sums that iterations share, once; parallelize_loops adds those for which loops
// as they stand are enough, or atomic operations. A sum has one: what the loops of a product do where there is no
// library goes into the product's (see add_plan). Passes act by it, and what the mapping to a machine has to know of it
// is an attribute of the Reduce. A pass that does a sum in another way says so (see replan): the report is printed from
// the plans as they are after all passes.
#pragma once

#include "dsl/ir/program.h"

#include <loopgrad/report.h>

#include <optional>
#include <vector>

namespace loopgrad::transforms {

/// How the terms of a sum come together.
enum class Strategy : std::uint8_t {
  None,      // each element is summed in one iteration of the parallel loops as they stand
  Gather,    // loops over the elements are outermost: one iteration owns each
  Segments,  // data choose the elements: the mapping does the iterations in their order, by a sort or an inverse
  Partials,  // partial results, combined in a fixed order
  Split,     // as Gather, but with partial results of blocks of terms
  Apart,     // a nest of its own, in which no two iterations of the outermost loop add to one element
  Serial,    // the loop keeps its order
  Exact,     // in whole numbers, by atomic operations, whose order does not matter to these
  Atomic,    // at any time
  Library,   // a product of matrices that a library may do, else the loops that the Contraction has
};

/// Who has a partial result.
enum class Level : std::uint8_t {
  None,
  Register,  // a block of iterations, in a few scalars
  Lanes,     // each thread of a block of a GPU, in the block's memory
  Block,     // the threads of a block of a GPU together: the mapping shares out the loop as it stands
  Grid,      // a block of iterations, in an array of all of them
};

/// One way of doing a sum.
struct PlanCandidate {
  Strategy strategy;
  Level level = Level::None;
  double operations = 0, bytes = 0, parallel = 1;  // as in SumCandidate
  double microseconds = 0;                         // on the machine that the plan is for; 0: no estimate
  bool possible = true;
  std::string note = {};
};

/// A Reduce as it was when its plan was made.
struct PlannedSum {
  std::string text;
  SourceLocation where;
  std::int64_t array;  // its id
};

/// The plan for sums of one nest into one target that may meet in its elements.
struct SumPlan {
  std::vector<PlannedSum> sums;
  Strategy strategy = Strategy::Partials;
  Level level = Level::None;
  std::string reason = {};
  std::vector<PlanCandidate> candidates = {};
  std::string basis = {};           // sizes that the estimates used
  bool assumed = false;             // and nobody stated some of them
  std::vector<SumPlan> loops = {};  // of a product: what its loops do, where they are planned

  /// Null where it was none.
  const PlanCandidate* candidate(Strategy which) const;
};

/// "gather", "tree", ..: what reports call it.
std::string name_of(Strategy strategy, Level level);

/// One entry for each sum of the plan.
std::vector<SumDecision> decisions_of(const SumPlan& plan);

}  // namespace loopgrad::transforms

// How each loop of a program runs: on threads, in vector lanes, or as it stands; and where the memory of locals comes
// from.
#pragma once

#include "backends/openmp/simd_plan.h"

#include <map>
#include <set>

namespace loopgrad::backend {

/// Where the elements of an Allocate live.
enum class Storage {
  Variable,     // rank 0: a C++ variable
  Stack,        // of constant extent and small, also with those around it: a C++ array
  Shared,       // from the heap, reserved once before `before` (or in place)
  PerThread,    // one part for each thread, reserved before `before`
  InIteration,  // inside a parallel loop, of an extent that only the iteration knows
};

struct LocalPlan {
  Storage storage = Storage::Variable;
  const ir::StmtNode* before = nullptr;  // the loop before which the memory is reserved; null: at the Allocate
};

struct LoopPlan {
  bool threads = false;  // the outermost parallel loop: runs on all threads
  bool uneven = false;   // its iterations differ in work, so that threads fetch small shares
  int collapse = 1;      // loops shared out together, this one included
  bool simd = false;     // iterations may run in vector lanes
  SimdReductions simd_reductions;
};

struct FunctionPlan {
  std::map<const ir::StmtNode*, LoopPlan> loops;
  std::map<const ir::StmtNode*, LocalPlan> locals;
  std::map<const ir::StmtNode*, std::vector<ir::Stmt>> reserved_before;  // the Allocates of a loop, in textual order
  bool has_stack = false;                                                // pushes or pops
  bool has_threads = false;                                              // runs something in parallel
  bool has_contractions = false;                                         // may call a matrix library
  bool has_heap = false;                                                 // reserves memory from the workspace
};

FunctionPlan plan_function(const ir::Program& program);

/// The end of the run of statements from `first` on that threads can do in one parallel region, one after the other
/// with a barrier in between: loops on threads over the same range, which reads no data. `first + 1` if there is no
/// such run.
std::size_t end_of_region(const std::vector<ir::Stmt>& body, std::size_t first, const FunctionPlan& plan);

/// An estimate of the operations that one trip of a loop executes, as an expression in symbols bound outside of the
/// loop. Trip counts of inner loops that depend on data or on the iterators in between count as what the
/// loop makes at most, if that is stated, or as a constant.
ir::Expr work_of_trip(const ir::For& loop);

}  // namespace loopgrad::backend

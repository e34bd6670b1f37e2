// Readable, self-contained C++ with OpenMP from programs whose parallel loops are marked.
#pragma once

#include "backends/c_text/prelude.h"
#include "backends/openmp/stmt_text.h"
#include "dsl/ir/program.h"

#include <set>
#include <string>
#include <vector>

namespace loopgrad::backend {

/// One generated function, `extern "C" int NAME_(const struct NAME_args*)`. It returns a KernelStatus. The members of
/// its arguments are spelled like it: the array `x` is `x_` (see `generated_name`).
///
/// Every member of the argument struct takes 8 bytes, in this order: the sizes (int64_t), the arrays (pointers), then
/// `stack` (loopgrad_stack*, used by programs that push or pop), `workspace` (loopgrad_block[workspace_blocks] that
/// keeps the memory of local arrays from call to call, or null) and `num_threads` (0: the OpenMP default).
struct EmittedFunction {
  std::string name;
  int workspace_blocks = 0;
  bool uses_stack = false;
  bool uses_blas = false;  // then `blas` (loopgrad_blas*, or null) is the last member
  bool uses_threads = false;
  int timed_parts = 0;  // then there is an array of so many doubles, "NAME_seconds": what each part took so far
};

/// A parameter of the function that does the work, `static int NAME_run(..)`: what stands for it, by kind.
struct EmittedParameter {
  enum class Kind { Size, Array, Stack, Workspace, Blas, Threads };
  Kind kind;
  std::string name;                 // of a size or an array, as in the program
  std::string declaration, member;  // "int64_t n_", and of the argument struct: "n_"
};

/// What does the work of a program, without the way in for other languages.
struct WorkFunction {
  std::string name, definition;  // "conv1d_forward_run"
  std::vector<EmittedParameter> parameters;
  std::vector<WorkspaceBlock> blocks;  // extents in sizes of the program; those that others decide have none
  std::set<Helper> helpers;
  bool uses_stack = false;
};

/// One translation unit.
struct EmittedUnit {
  std::string header;                      // C declarations of the functions and their argument structs
  std::string source;                      // C++20 that includes standard headers only (and `header_name`, if given)
  std::vector<EmittedFunction> functions;  // one per program, in order
};

/// The flags that the generated C++ is right under, besides -std=c++20 -fopenmp. Integer arithmetic wraps around, and
/// floating point is rounded as written: fused multiply-adds are explicit (see docs/numerics.md). g++ 12.2, which
/// Debian 12 has, distributes loops in a wrong order where two statements of a nest read each other's results of
/// earlier iterations (of the kind of GCC bug 107323); what pays has been distributed before.
inline constexpr const char* required_flags = "-fwrapv -ffp-contract=off -fno-tree-loop-distribution";
/// Flags that make it fast and change no result. Predictive commoning takes accumulators out of registers again;
/// unrolling and jamming leaves the second copy's index in the loop over lanes, `x[src[e + 1]*D + lane]`, which then
/// gathers; jump threading makes several copies of what lanes then have to do all of.
inline constexpr const char* speed_flags =
    "-O3 -march=native -fno-predictive-commoning -fno-loop-unroll-and-jam -fno-thread-jumps -fno-math-errno "
    "-fno-trapping-math";

/// Emits one function per program, named after it. With a `header_name` the source includes that file instead of
/// repeating the declarations. `timed`: each part (see backends/c_text/parts.h) is timed. Throws nothing but
/// InternalError.
EmittedUnit emit_openmp(const std::vector<ir::Program>& programs, const std::string& header_name = {},
                        bool timed = false);

/// The same code for a file with a way in of its own.
std::vector<WorkFunction> emit_work_functions(const std::vector<ir::Program>& programs);

/// The C structs that work functions are given: a block of memory, a library for products.
extern const char* const block_type_text;
extern const char* const blas_type_text;

}  // namespace loopgrad::backend

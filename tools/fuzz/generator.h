// Random loop programs that are legal by construction: every index is in range, every element read has been written,
// every value stays finite and well conditioned.
#pragma once

#include "tools/fuzz/case.h"

namespace loopgrad::fuzz {

/// Kinds of programs and checks that can be left out.
struct Axes {
  /// Programs whose branches, indices and extrema depend on rounded products, and on ties.
  bool rounded_control = true;
  /// Compiled and interpreted runs must give the same bits where docs/numerics.md promises them (see exactness.h).
  bool same_bits = true;
  /// Compiled code must refuse a false fact, as the checked interpreter does.
  bool false_facts_compiled = true;
  /// Some programs are lowered without some of the passes: none relies on another one, but where it says so.
  bool left_out_passes = true;
  /// What users write beside loops over plain arrays: views, rings, tables, keys that may be none, computed trip
  /// counts, gradients of their own.
  bool users_shapes = true;
  /// In half of the programs integers go from step to step and decide on indices, branches and bounds; values are read
  /// that a trip before or a branch has left; rows, masks and loops change while they are in use.
  bool changing_state = true;
  /// Places that the program gives out by counters or chooses in each step, rows that data choose, parts of rows.
  bool places = true;
  /// Some programs are lowered with sizes that are expected of them, true or not.
  bool expected_sizes = true;
  /// In some programs locals have names that others have as well.
  bool common_names = true;
};

/// The program of a seed: the same for ever on every machine. It mixes random nests (overwrites, in-place updates,
/// sums, products, minima and maxima, branches on data and iterators, triangular and data-dependent loops, indirect,
/// nested and computed indices, locals at any level) with shapes that are known to be hard: time loops with double
/// buffers, recurrences, CSR loops with and without the fact, bounded while loops, compaction, argmax, products of
/// matrices, stencils, integer results, scalars carried through loops. All element types, ranks to four, true facts.
Case generate(std::uint64_t seed, const Axes& axes = {});

/// In a fifth of the seeds: locals with the names of arguments, sizes, loops, other locals, or such as gradients and
/// passes give.
Program with_common_names(const Program& program, std::uint64_t seed);

/// Sizes that a third of the seeds expect of their program, be they true or not; none for the others.
Sizes sizes_to_expect(std::uint64_t seed, const ir::Program& program);

/// The passes that the program of a seed goes without: none for most seeds, few for some, a third for the others. Those
/// that are required are never among them. Whether a pass is, does not depend on which others there are.
std::set<std::string> passes_to_leave_out(std::uint64_t seed);

}  // namespace loopgrad::fuzz

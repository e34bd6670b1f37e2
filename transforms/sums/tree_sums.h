// Sums shared by all iterations of a loop: partial results of blocks of iterations, then one combination in fixed
// order.
//
//                                          local f32 loss_part[64]
//   for s in 0..batch:                     parallel for block in 0..64:
//     ...                                    loss_part[block] = 0
//     loss += f(s)                 ->        for s in block's share of 0..batch:
//                                              ...
//                                              loss_part[block] += f(s)
//                                          for block in 0..64:
//                                            loss += loss_part[block]
#pragma once

#include "dsl/ir/program.h"
#include "dsl/poly/model.h"
#include "transforms/pass/machine.h"

namespace loopgrad::transforms {

/// Arrays of up to this many elements are accumulated in a local of the block, so that threads do not share cache
/// lines.
inline constexpr std::int64_t small_array = 64;

/// Whether the sums may be held back until the end of the nest: nothing else in it touches the elements they add to.
/// `model` is the nest's.
bool can_be_held_back(const poly::Model& model, const std::vector<ir::Stmt>& sums);

/// The iterations of a loop whose length changes with loops around it, as in a factorisation; null for others, and
/// where data decide.
ir::Expr varying_trips(const ir::Program& program, const ir::For& loop);

/// Rewrites a loop that carries nothing but the given sums. Each group holds sums into one target that can be held
/// back. Partial results cover the dimensions of the target in which the sums move, as far as they do. The number of
/// blocks is bounded so that they stay well below the work: a quarter of the nest's iterations per element, from sizes
/// alone. The block loop is marked parallel; a block runs its iterations in their original order. `model` is the
/// nest's. There are at most `machine.most_partials` blocks, whatever the number of threads: results do not depend on
/// it. For a GPU, a loop of nothing but sums into single elements stays as it is: the mapping shares it out. A loop
/// whose length changes with loops around it may be short: on a GPU it has no more blocks than iterations. On a CPU it
/// stays as it is where it turns out to be short, as one whose length data decide does. Where the loop right inside
/// has rows whose length data decide, with nothing that their iterations share but the sums, and there are few rows,
/// each block has pieces of rows.
ir::Stmt tree_sums(const ir::Program& program, const poly::Model& model, const ir::Stmt& nest,
                   const std::vector<std::vector<ir::Stmt>>& groups, const Machine& machine);

}  // namespace loopgrad::transforms

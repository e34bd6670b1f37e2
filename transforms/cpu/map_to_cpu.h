// What a lowered program needs to run well on a CPU: the passes after `lower` that other targets do differently.
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::transforms {

/// search_loops, invert_scatters, fuse_rows, sink_sum_loops, split_loops_at_guards, unswitch_rows,
/// accumulate_in_registers, merge_updates, tile_lanes, split_outer_loops_at_guards, jam_sums, then hoist_indices.
/// Requires parallel loops marked. Guarantees the same operations on every element in the same order: the same bits,
/// but for -0 (see search_loops.h).
ir::Program map_to_cpu(const ir::Program& program);

}  // namespace loopgrad::transforms

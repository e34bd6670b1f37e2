// What a lowered program needs to run well on a CPU: the passes after `lower` that other targets do differently.
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::transforms {

/// split_loops_at_guards, accumulate_in_registers, merge_updates, then tile_lanes. Requires parallel loops marked.
/// Guarantees the same operations on every element in the same order: the same bits.
ir::Program map_to_cpu(const ir::Program& program);

}  // namespace loopgrad::transforms

#include "transforms/cpu/map_to_cpu.h"

#include "transforms/cpu/accumulate_in_registers.h"
#include "transforms/cpu/fuse_rows.h"
#include "transforms/cpu/hoist_indices.h"
#include "transforms/cpu/invert_scatters.h"
#include "transforms/cpu/jam_sums.h"
#include "transforms/cpu/sink_sum_loops.h"
#include "transforms/cpu/split_loops_at_guards.h"
#include "transforms/cpu/tile_lanes.h"
#include "transforms/merge_updates.h"
#include "transforms/search_loops.h"
#include "transforms/unswitch.h"

namespace loopgrad::transforms {

ir::Program map_to_cpu(const ir::Program& program) {
  ir::Program unguarded =
      unswitch_rows(split_loops_at_guards(sink_sum_loops(fuse_rows(invert_scatters(search_loops(program))))));
  ir::Program in_lanes = tile_lanes(merge_updates(accumulate_in_registers(unguarded), Updates::All));
  // Later than the lanes, which want rectangles and mask what a branch leaves out.
  return hoist_indices(jam_sums(split_outer_loops_at_guards(in_lanes)));
}

}  // namespace loopgrad::transforms

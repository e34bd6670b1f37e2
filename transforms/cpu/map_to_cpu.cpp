#include "transforms/cpu/map_to_cpu.h"

#include "transforms/cpu/accumulate_in_registers.h"
#include "transforms/cpu/split_loops_at_guards.h"
#include "transforms/cpu/tile_lanes.h"
#include "transforms/merge_updates.h"

namespace loopgrad::transforms {

ir::Program map_to_cpu(const ir::Program& program) {
  ir::Program unguarded = split_loops_at_guards(program);
  return tile_lanes(merge_updates(accumulate_in_registers(unguarded), Updates::All));
}

}  // namespace loopgrad::transforms

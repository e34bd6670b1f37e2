#include "transforms/cpu/map_to_cpu.h"

#include "transforms/cpu/accumulate_in_registers.h"
#include "transforms/cpu/split_loops_at_guards.h"
#include "transforms/cpu/tile_lanes.h"

namespace loopgrad::transforms {

ir::Program map_to_cpu(const ir::Program& program) {
  return tile_lanes(accumulate_in_registers(split_loops_at_guards(program)));
}

}  // namespace loopgrad::transforms

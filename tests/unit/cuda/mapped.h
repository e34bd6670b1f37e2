// Programs as they are mapped to a GPU, for tests that look at the result and run it in the checked interpreter.
#pragma once

#include "backends/cuda/emitter.h"
#include "tests/unit/transforms/lowered.h"

namespace loopgrad::transforms {

/// For a device that a few threads fill, so that small sizes take the kernels of large ones.
inline LoweredProgram mapped_to_small_gpu(const Program& program, SumMode sums = SumMode::Restructured,
                                          const Machine& machine = gpu_machine()) {
  LoweredProgram result;
  result.before = program.ir();
  result.after = shared_passes(program.ir(), sums, result.report, machine);
  result.after = mapped_to(small_gpu(1), result.after, 32);
  ir::verify(result.after, "map_to_gpu");
  result.text = ir::print(result.after.body);
  return result;
}

inline std::string cuda_of(const LoweredProgram& result) { return backend::emit_cuda({result.after}).source(); }

}  // namespace loopgrad::transforms

// Programs as they are mapped to a GPU, for tests that look at the result and run it in the checked interpreter.
#pragma once

#include "backends/cuda/emitter.h"
#include "tests/unit/transforms/lowered.h"
#include "transforms/gpu/map_to_gpu.h"

namespace loopgrad::transforms {

/// For a device that a few threads fill, so that small sizes take the kernels of large ones.
inline Lowered mapped_to_small_gpu(const Program& program) {
  Lowered result;
  result.before = program.ir();
  result.after = lower(program.ir(), SumMode::Restructured, result.report, {{}, {}, gpu_tree_blocks});
  result.after = map_to_gpu(result.after, {.threads_per_block = 32, .enough_threads = 1});
  ir::verify(result.after, "map_to_gpu");
  result.text = ir::print(result.after.body);
  return result;
}

inline std::string cuda_of(const Lowered& result) { return backend::emit_cuda({result.after}).source(); }

}  // namespace loopgrad::transforms

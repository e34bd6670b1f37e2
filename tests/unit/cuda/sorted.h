// Programs with sums through index arrays as they are sorted for a GPU, for tests that look at the result and run it in
// the checked interpreter. Pieces and tiles are a few iterations, so that small programs have many of them.
#pragma once

#include "backends/cuda/emitter.h"
#include "tests/unit/transforms/lowered.h"
#include "transforms/sums/sort_scatters.h"

namespace loopgrad::transforms {

inline LoweredProgram passed_for_gpu(const Program& program, ir::Program (*pass)(const ir::Program&)) {
  LoweredProgram result;
  result.before = program.ir();
  result.after = pass(shared_passes(program.ir(), SumMode::Restructured, result.report, sorting_gpu()));
  ir::verify(result.after, "a pass");
  result.text = ir::print(result.after.body);
  return result;
}

inline ir::Program sorted(const ir::Program& program) { return sort_scatters(program, 4); }
inline ir::Program mapped(const ir::Program& program) { return mapped_to(small_gpu(4), program, 32); }
inline ir::Program mapped_by_default(const ir::Program& program) { return mapped_to_gpu(program); }

/// As a program of loops, and on the grid of a small device and a usual one.
inline void expect_sorted(const Program& program, const std::vector<Sizes>& all) {
  for (const auto pass : {sorted, mapped, mapped_by_default}) {
    const LoweredProgram result = passed_for_gpu(program, pass);
    EXPECT_NE(result.text.find("local i64 words["), std::string::npos) << result.text;
    for (const Sizes& sizes : all) expect_same_results(result, sizes);
  }
}

}  // namespace loopgrad::transforms

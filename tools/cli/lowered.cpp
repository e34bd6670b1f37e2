#include "tools/cli/lowered.h"

#include "dsl/ir/visit.h"
#include "transforms/gpu/map_to_gpu.h"

namespace loopgrad::cli {

transforms::SumMode sum_mode(Variant variant) {
  switch (variant) {
    case Variant::NaiveTape: return transforms::SumMode::Serial;
    case Variant::Atomic: return transforms::SumMode::Atomic;
    case Variant::Restructured: break;
  }
  return transforms::SumMode::Restructured;
}

ir::Program mapped_to_gpu(const Program& program, Variant variant, int threads_per_block) {
  Report decisions;
  const transforms::SumMode mode = sum_mode(variant);
  const ir::Program lowered = transforms::lower(program.ir(), mode, decisions, {{}, {}, transforms::gpu_tree_blocks});
  if (mode == transforms::SumMode::Serial) return lowered;  // a stack is one thread's
  return transforms::map_to_gpu(lowered, {threads_per_block});
}

int count_parallel_loops(const ir::Program& program) {
  int count = 0;
  ir::walk_stmts(program.body, [&](const ir::Stmt& s) {
    const auto* loop = s.as<ir::For>();
    count += loop && loop->mode == ir::LoopMode::Parallel;
  });
  return count;
}

int count_atomics(const ir::Program& program) {
  int count = 0;
  ir::walk_stmts(program.body, [&](const ir::Stmt& s) {
    const auto* sum = s.as<ir::Reduce>();
    count += sum && sum->atomic;
  });
  return count;
}

}  // namespace loopgrad::cli

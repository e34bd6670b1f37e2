#include "tools/cli/lowered.h"

#include "dsl/ir/notes.h"
#include "dsl/ir/visit.h"

namespace loopgrad::cli {

CompileOptions compile_options(const Options& options, Target fallback, const Sizes& sizes) {
  return {.target = options.target.value_or(fallback),
          .facts = options.facts,
          .threads = options.threads,
          .threads_per_block = options.threads_per_block,
          .schedule = options.schedule,
          .backward_schedule = options.backward_schedule,
          .expected_sizes = sizes};
}

int count_parallel_loops(const ir::Program& program) {
  int count = 0;
  ir::walk_stmts(program.body, [&](const ir::Stmt& s) {
    const auto* loop = s.as<ir::For>();
    count += loop && (loop->mode == ir::LoopMode::Parallel || loop->mode == ir::LoopMode::Grid);
  });
  return count;
}

int count_atomics(const ir::Program& program) {
  int count = 0;
  ir::walk_stmts(program.body, [&](const ir::Stmt& s) {
    const auto* sum = s.as<ir::Reduce>();
    count += sum && sum->atomic && !sum->of_block && !ir::is_order_free(s);
  });
  return count;
}

}  // namespace loopgrad::cli

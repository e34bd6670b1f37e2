// Programs as the backends see them: parallel loops marked and sums restructured.
#pragma once

#include "dsl/ir/program.h"
#include "transforms/pipeline.h"

#include <loopgrad/autodiff.h>
#include <loopgrad/program.h>

namespace loopgrad::cli {

/// How sums of a variant are done.
transforms::SumMode sum_mode(Variant variant);

/// A program of a gradient as it is handed to the CUDA emitter.
ir::Program mapped_to_gpu(const Program& program, Variant variant, int threads_per_block = 0);

int count_parallel_loops(const ir::Program& program);
int count_atomics(const ir::Program& program);

}  // namespace loopgrad::cli

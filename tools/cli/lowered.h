// Programs as the backends see them: parallel loops marked and sums restructured.
#pragma once

#include "dsl/ir/program.h"
#include "transforms/pipeline.h"

#include <loopgrad/autodiff.h>

namespace loopgrad::cli {

/// How sums of a variant are done.
transforms::SumMode sum_mode(Variant variant);

int count_parallel_loops(const ir::Program& program);
int count_atomics(const ir::Program& program);

}  // namespace loopgrad::cli

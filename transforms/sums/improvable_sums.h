// Sums that may do better in other loops although no iterations share their elements.
#pragma once

#include "dsl/ir/program.h"
#include "transforms/pass/machine.h"

namespace loopgrad::transforms {

/// Sums of the nest, other than the `shared` ones, for which loops over the elements of the target would give more
/// parallel loops, or an innermost loop that runs through memory better. Judged by their indices alone, so that nests
/// without any are passed by quickly.
std::vector<ir::Stmt> improvable_sums(const ir::Stmt& nest, const std::vector<std::vector<ir::Stmt>>& shared,
                                      const Machine& machine);

}  // namespace loopgrad::transforms

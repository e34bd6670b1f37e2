// The strictest check of a gradient that is affordable at small sizes: every element of it, against forward mode in
// f64.
#pragma once

#include <loopgrad/autodiff.h>

#include "backends/runtime/binding.h"

#include <gtest/gtest.h>

namespace loopgrad::test {

/// Inputs of one check. Float arrays not given are random in [0.25, 1.25]; integer arrays must be given.
struct Inputs {
  Sizes sizes;
  std::map<std::string, std::vector<double>> values;
  GradientOptions options;  // the variant is ignored: all are checked
};

/// For NaiveTape and the direct-indexed tape (as generated, before any restructuring): runs forward and backward in the
/// checked interpreter in f64 and compares
///   - the outputs of forward with those of the primal program, bit for bit;
///   - the gradient with forward mode, one run per input element, and with a central difference in one random
///   direction.
/// Buffers that backward only reads are checked to be unchanged.
::testing::AssertionResult gradient_is_right(const Program& program, const Inputs& inputs);

/// The bytes of tape arrays that the direct-indexed tape of `program` takes under `sizes` (f32 counted as 4).
std::int64_t tape_bytes(const Program& program, const Sizes& sizes, const GradientOptions& options = {});

}  // namespace loopgrad::test

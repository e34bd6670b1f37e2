// Derivatives other than a gradient: forward mode as backends get it, and several directions at once.
#pragma once

#include "tools/fuzz/reference.h"

namespace loopgrad::fuzz {

struct ModeRun {
  Form form = Form::AsWritten;
  transforms::LowerOptions lowering = {};
  std::uint64_t seed = 1;  // of the order of parallel iterations
};

/// The lowered tangent program along a few of the reference's directions, of which there must be some. These throw
/// Disagreement.
void check_tangent(const Reference& reference, const ModeRun& how);
/// The same directions in one run, by a size or a number as the seed says.
void check_tangents_at_once(const Reference& reference, const ModeRun& how);
/// A backward program that takes multiples of the incoming gradient at once: each gives that multiple of the gradient.
void check_adjoints_at_once(const Reference& reference, const ModeRun& how);
/// A gradient that is added to random numbers, for some of the inputs as the seed says. False where there are none.
bool check_accumulated(const Reference& reference, const ModeRun& how);

}  // namespace loopgrad::fuzz

// The property: every way of running a program and its gradient agrees with the plain one.
#pragma once

#include "tools/fuzz/case.h"

#include <optional>

namespace loopgrad::fuzz {

struct CheckOptions {
  bool openmp = false;  // also compile for OpenMP and run with 1 and 2 threads (needs a program of doubles)
};

/// A disagreement or an error that must not happen.
struct Failure {
  std::string stage;  // what was being run, e.g. "restructured: backward, lowered"; "primal" is the generator's fault
  std::string message;
};

struct Outcome {
  std::optional<Failure> failure;
  double largest_derivative = 0;  // along the directions tried; zero means that there was nothing to compare
  std::string refusal;            // message of the DifferentiationError, when the program was refused
};

/// Runs the program in the checked interpreter in f64: plain, lowered, its tangent, and for each variant forward and
/// backward program, plain and lowered, with the iterations of parallel loops shuffled. Outputs must agree with the
/// plain primal program, and gradients with forward mode along single elements and random directions.
Outcome check(const Case& c, const CheckOptions& options = {});

}  // namespace loopgrad::fuzz

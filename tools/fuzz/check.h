// The property: every way of running a program and its gradient agrees with the plain one.
#pragma once

#include "tools/fuzz/case.h"
#include "tools/fuzz/generator.h"

#include <loopgrad/autodiff.h>

#include <optional>

namespace loopgrad::fuzz {

struct CheckOptions {
  Axes axes = {};
  bool thorough = false;   // every form of every variant, where otherwise the seed draws some
  double cpu_seconds = 0;  // after these no further form of the program is begun; 0: no limit
};

/// A disagreement or an error that must not happen.
struct Failure {
  std::string stage;  // what was being run, e.g. "restructured: backward, for a CPU"; "primal" is the generator's fault
  std::string message;
};

struct Outcome {
  std::optional<Failure> failure;
  double largest_derivative = 0;  // along the directions tried; zero means that there was nothing to compare
  std::string refusal;            // message of the DifferentiationError, when the program was refused
  std::string not_finite;         // what is not, when the program itself computes infinity or NaN in f64
  std::set<std::string> tried;    // what was done with the program, for the table of features
  bool unfinished = false;        // there was no time, or no device any more
};

/// Runs the program in the checked interpreter in f64: plain, lowered, its tangent, and for variants of its gradient
/// forward and backward program, plain and lowered for CPU and GPU, with the iterations of parallel loops shuffled.
/// A program whose outputs are not finite then is no finding, and goes no further.
/// Outputs must agree with the plain primal program, and gradients with forward mode along single elements and random
/// directions. Some programs are also run with random schedules, with false facts (which must be found), by a gradient
/// with respect to some arrays only, or are differentiated twice.
Outcome check(const Case& c, const CheckOptions& options = {});

/// The gradient that is asked for: of all arrays, or of a random few.
GradientOptions gradient_options(const Case& c);

}  // namespace loopgrad::fuzz

// Runs of derivatives on a target, for comparison with what `measure_directions` finds.
#pragma once

#include "tools/cli/directions.h"

namespace loopgrad::cli {

/// What rounding may do to a derivative, for programs of order-one numbers.
struct Precision {
  double tolerance = 0;
  double half_ulp = 0;  // of the type that is computed in
  /// The least that an error is relative to, so that one of a few roundings is within the tolerance however far the
  /// terms cancel.
  double least_scale(double terms) const;
};
Precision precision_of(const Program& program, bool f64);

/// Largest relative errors.
struct Errors {
  double output = 0, forward_mode = 0, difference = 0;
  void compare_outputs(const Precision& precision, const Reference& reference, const Buffers& buffers);
  /// `value` is the derivative along the direction.
  void compare_along(const Precision& precision, const Direction& direction, double value);
};

/// Results of one run of a variant. The in-outs' `d_a` is both incoming and result: `inputs` has it for the first.
Buffers run_variant(const Problem& problem, Variant variant, const CompileOptions& options);

/// The array whose gradient is not finite, if any, as a sentence; or the result that is not, where the program itself
/// computes that.
std::string not_finite(const Problem& problem, const Buffers& gradient);

/// Runs of the tangent program, one for each direction.
class TangentRun {
 public:
  /// `problem` must outlive this.
  TangentRun(const Problem& problem, const CompileOptions& options);
  Buffers along(const Direction& direction) const;

 private:
  const Problem& problem_;
  CompileOptions options_;
  Program program_;
  Executable run_;
};

}  // namespace loopgrad::cli

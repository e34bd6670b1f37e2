/// @file
/// Is a gradient right at these arguments? Three tests that share no code with it.
#pragma once

#include <loopgrad/compile.h>

#include <string>
#include <vector>

namespace loopgrad {
/// @addtogroup checking
/// @{

/// What is checked, and how closely.
struct GradcheckOptions {
  GradientOptions gradient = {};  ///< what is differentiated, by what, and the variant
  CompileOptions compile = {};    ///< the target whose gradient is checked
  std::int64_t elements = 64;     ///< of each array: so many are directions of their own, all of smaller arrays
  double tolerance = 0;           ///< of the target's errors; 0: as fits its precision
  std::uint64_t seed = 1;         ///< of random directions and incoming gradients
};

/// Something that is not as it should be, or (at a kink) that explains why nothing can be said.
struct GradcheckFinding {
  std::string test;          ///< "differences", "dot product", "Taylor", "finite" or "kink"
  std::string array;         ///< of the direction: one element of it; empty: all arrays at random
  std::int64_t element = 0;  ///< its row-major position
  /// The derivative of `<incoming gradient, outputs>` along the direction, as it should be.
  double expected = 0, found = 0;  ///< As it is.
  SourceLocation where;  ///< of a kink: the line of the branch or extremum that changes sides, if it was found
  std::string text;      ///< all of it in a sentence
};

/// What a check found.
struct Gradcheck {
  /// The program's name.
  std::string program, target;  ///< The target's.
  int directions = 0;           ///< along which it was looked
  double differences = 0;       ///< largest relative error of forward mode against central differences, in f64
  double dot_product = 0;       ///< and of the target's gradient against forward mode: `<d_y, t_y> = <d_x, t_x>`
  double tolerance = 0;         ///< of `dot_product`
  /// How fast the error of the linear model falls with the step: 2 for a right derivative, 1 for a wrong one, infinite
  /// where the outputs are linear. The least of the random directions that no kink spoils; NaN if there is none.
  double taylor_rate = 0;
  std::vector<GradcheckFinding> findings;  ///< empty when the gradient is right
  std::vector<GradcheckFinding> kinks;     ///< directions along which differences lie over a kink or a jump
  int stopped = 0;         ///< directions along which differences see through `stopped_by`: there forward mode decides
  std::string stopped_by;  ///< stop_gradient, and the tangent of a custom gradient: what the program has of these
  /// True when there is no finding.
  bool ok() const { return findings.empty(); }
  /// A few lines for people.
  std::string str() const;
};

/// Checks the gradient of `program` at the arguments, of which all inputs and in-outs are needed, in memory of the
/// host. They are copied: nothing that is passed is written. The reference is the checked interpreter in f64, with one
/// run for each direction and step: choose small sizes. Throws UsageError for arguments that do not fit,
/// DifferentiationError where there is no gradient, and RuntimeError for what checked execution finds.
///
/// **Example:** `auto check = gradcheck(program, {{"x", view(x.data(), {n})}}); if (!check.ok())
/// puts(check.str().c_str());`
Gradcheck gradcheck(const Program& program, const Arguments& arguments, const Sizes& sizes = {},
                    const GradcheckOptions& options = {});

/// @}
}  // namespace loopgrad

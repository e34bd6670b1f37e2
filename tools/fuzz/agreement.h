// How closely a compiled run must agree with the interpreter.
#pragma once

#include "tools/fuzz/execution.h"

#include <optional>
#include <set>
#include <vector>

namespace loopgrad::fuzz {

/// A program and its gradient in the interpreter, in the declared types: the naive tape's programs as they are written.
class NativeReference {
 public:
  NativeReference(const Case& c, const GradientOptions& what, bool with_gradient);

  /// What a run starts from: all arrays of the program, and the incoming gradients.
  const Arrays& inputs() const { return inputs_; }
  /// The programs that are run, one after the other.
  std::vector<Program> programs() const;
  /// Throws Disagreement. Of the arrays in `same_bits` there is no tolerance. Otherwise it is small at first. Where it
  /// is exceeded, the reference is run on inputs that differ by what the program's types cannot tell apart, and with
  /// errors in its sums as rounding makes them (rough_values.h); results may differ by a multiple of what that makes of
  /// them, of sums by element.
  void expect(const Arrays& arrays, const std::set<std::string>& same_bits);
  /// Whether some array has never been compared, because it changes by much then.
  bool was_unstable() const { return was_unstable_; }

 private:
  /// With a seed of `rough_values`: with errors in sums.
  Arrays run_on(const Arrays& inputs, bool f64, std::optional<std::uint64_t> rough = {}) const;
  void expect_array(const std::string& name, const HostArray& actual, bool same_bits);
  void find_spread();
  void find_errors_of_rounding();

  const Case& case_;
  Gradient gradient_;
  bool with_gradient_;
  Arrays inputs_, results_;
  std::map<std::string, double> spread_;  // largest change of any element; empty: not known yet
  std::map<std::string, std::vector<double>> errors_of_rounding_;  // of each element; known when spread_ is
  double tolerance_ = 0, step_ = 0;
  bool is_half_ = false;  // some values are stored as f16 or bf16
  bool was_unstable_ = false;
};

}  // namespace loopgrad::fuzz

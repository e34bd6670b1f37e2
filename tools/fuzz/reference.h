// What a program and its gradient must give: the plain program in f64, and forward mode along directions.
#pragma once

#include "tools/fuzz/execution.h"

namespace loopgrad::fuzz {

class Reference {
 public:
  /// `inputs` holds every array of the program. `what` says which gradients are meant.
  Reference(const Program& program, Arrays inputs, Sizes sizes, GradientOptions what, std::uint64_t seed);

  /// Runs the program; throws NotFinite when a result is not finite.
  void run_primal();
  /// Runs forward mode along single elements and random directions.
  void run_tangent(int elements);

  const Arrays& inputs() const { return inputs_; }
  const Arrays& outputs() const { return outputs_; }
  const Arrays& incoming() const { return incoming_; }  // d_<array> for each that is given one
  const Sizes& sizes() const { return sizes_; }
  const GradientOptions& what() const { return what_; }
  double largest() const { return largest_; }  // derivative
  const Program& program() const { return program_; }

  /// Throw Disagreement. Outputs may differ by what rounding in another order makes of them (rough_values.h).
  void expect_outputs(const Arrays& arrays) const;
  void expect_gradient(const Arrays& arrays) const;
  /// `arrays` are those of a tangent program after a run along the direction.
  struct Direction {
    Arrays tangents;        // t_<x> for every array that is differentiated by
    double derivative = 0;  // of <incoming, outputs>
    std::string name;
  };
  void expect_tangent(const Direction& direction, const Arrays& arrays) const;
  const std::vector<Direction>& directions() const { return directions_; }

 private:
  void add_direction(std::string name, const std::string& array, std::int64_t element, std::uint64_t seed);
  Arrays run_along(const Direction& direction, const ir::Program& tangent, bool checked = true) const;
  double derivative_in(const Arrays& tangents) const;
  double error_of_rounding(const std::string& name, std::int64_t element) const;
  double error_of_rounding(const Direction& direction) const;
  void expect_derivative(const Direction& direction, double value) const;

  Program program_;
  ir::Program tangent_;
  Arrays inputs_, outputs_, incoming_;
  Sizes sizes_;
  GradientOptions what_;
  std::uint64_t seed_;
  std::vector<Direction> directions_;
  double largest_ = 0;
  mutable std::map<std::string, std::vector<double>> errors_of_rounding_;  // empty: not needed yet
};

/// Differentiates and runs forward and backward program in each of the forms; `stage` says what is going on.
/// Schedules, and what is asked of the lowering, are for the lowered forms.
struct GradientRun {
  Variant variant = Variant::Restructured;
  std::vector<Form> forms = {Form::AsWritten};
  Schedule forward_schedule = {}, backward_schedule = {};
  transforms::LowerOptions lowering = {};
  /// Lowered programs run twice, the second time with what the first one has kept of index arrays; `Other`: as if these
  /// had been others then.
  enum class Kept { Nothing, Same, Other } kept = Kept::Nothing;
};
void check_gradient(const Reference& reference, const Gradient& gradient, const GradientRun& how, std::uint64_t seed,
                    std::string& stage);

}  // namespace loopgrad::fuzz

// What the gradient must be along chosen directions, by two methods that share no code with it.
#pragma once

#include "tools/cli/buffers.h"
#include "tools/support/progress.h"

#include <loopgrad/compile.h>

#include <functional>

namespace loopgrad::cli {

constexpr double kDifferenceTolerance = 1e-5;  // of a central difference in f64
constexpr double kWidestStep = 1e-4;           // of the steps of differences

/// A direction in the space of the inputs: one element, or all elements at random.
struct Direction {
  std::string array;  // empty: all of `wrt`, with the weights of `random_tangent`
  std::int64_t element = 0;
  double forward_mode = 0;  // derivative of <incoming, outputs>, by the tangent program in f64
  double difference = 0;    // the same by a central difference in f64
  double scale = 1;         // what an error is relative to: the largest derivative by that array's elements
  /// About the sum of the absolute values of the terms that derivatives by that array are sums of, as rounding errors
  /// of a run in f32 show it: where the terms cancel, errors are relative to them.
  double terms = 0;
  double difference_scale = 1;  // what an error of a difference is relative to
  /// The difference disagrees with forward mode here and agrees nearby: it lies over a kink or a jump and judges
  /// nothing.
  bool kink = false;
  /// The difference disagrees, and the program has what differences see through: forward mode decides.
  bool stopped = false;
  bool has_difference() const { return !kink && !stopped; }
};

/// A program with inputs and an incoming gradient, to be differentiated by `wrt`.
struct Problem {
  Program program;
  std::vector<std::string> wrt, of;
  Sizes sizes;
  Arrays inputs, incoming;
  std::uint64_t seed = 1;
  std::int64_t max_tape_bytes = 0;  // of gradients; 0: no limit

  /// The naive tape has no budget.
  GradientOptions gradient_options(Variant variant) const {
    return {
        .wrt = wrt, .of = of, .variant = variant, .max_tape_bytes = variant == Variant::NaiveTape ? 0 : max_tape_bytes};
  }
};

Problem make_problem(const ProgramEntry& entry, const Sizes& sizes, std::uint64_t seed);

/// The gradient of `problem` as a problem of its own: its program is that of `joined`, to be differentiated by what
/// the gradient is by and by the incoming gradient `g_<y>`, whose contents are those of `problem`.
Problem problem_of_gradient(const Problem& problem);

/// By what derivatives of the program are told to be other than those of what it computes, in words: stop_gradient and
/// the tangent of a custom gradient. Empty: by nothing.
std::string seen_through(const Program& program);

/// "x[2, 3]", or "a random direction".
std::string name_of(const Problem& problem, const Direction& direction);

/// All elements of arrays of up to `elements`, a random choice of as many of larger ones, and two dense directions, the
/// last of all; figures not filled in.
std::vector<Direction> choose_directions(const Problem& problem, std::int64_t elements = 64);

/// Fills in the figures by running the tangent program and the program itself in the checked interpreter. `step` is
/// called before each direction. Throws what checked execution finds.
void measure_directions(const Problem& problem, std::vector<Direction>& directions, const std::function<void()>& step);

/// The derivative along a direction according to a gradient: `d_<x>` for each x in wrt.
double along(const Problem& problem, const Direction& direction, const Buffers& gradient);

/// What a gradient is compared with: inputs moved by `step` along a direction, and <incoming, outputs> there.
class Line {
 public:
  /// `problem` must outlive this.
  Line(const Problem& problem, const Direction& direction);
  Arrays inputs_at(double step) const;
  double value_at(double step) const;

 private:
  const Problem& problem_;
  Arrays tangent_;
  Executable run_;
};

/// The inputs of the tangent program along a direction: those of the problem and `t_<x>`.
Arrays inputs_along(const Problem& problem, const Direction& direction);
/// The derivative of <incoming, outputs> according to a run of the tangent program: `t_<y>` for each y in `of`.
double along_incoming(const Problem& problem, const Buffers& tangents);

/// The outputs according to the checked interpreter in f64, and the magnitude of the terms that they are sums of.
struct Reference {
  Arrays outputs;
  std::map<std::string, double> terms;
};
Reference reference_outputs(const Problem& problem);

}  // namespace loopgrad::cli

/// @file
/// Gradients of loop programs.
#pragma once

#include <loopgrad/program.h>
#include <loopgrad/report.h>

#include <optional>
#include <string>
#include <vector>

namespace loopgrad {
/// @addtogroup gradients
/// @{

/// How a gradient is generated.
enum class Variant {
  NaiveTape,     ///< run-time stack, exact reverse order, one thread: the baseline and an oracle
  Atomic,        ///< direct-indexed tape; parallel loops of the primal stay parallel, sums become atomics
  Restructured,  ///< direct-indexed tape; sums restructured so that no atomics are needed (the default)
};
/// As on the command line: "naive-tape", "atomic", "restructured".
const char* name_of(Variant variant);

/// What is differentiated, and how. Names that the program does not have are a UsageError.
struct GradientOptions {
  /// Inputs and in-outs whose gradient is asked for; empty: every one of float type.
  std::vector<std::string> wrt = {};
  /// Outputs and in-outs that are given an incoming gradient; empty: every one of float type.
  std::vector<std::string> of = {};
  Variant variant = Variant::Restructured;  ///< forward mode has none
  /// Tapes and checkpoints of both programs take no more bytes than this: where they would, loops run again in the
  /// backward program, in segments, from values saved between these. Where that is not possible for the sizes of a
  /// run, forward() says how much it takes at least. 0: no limit, and nothing runs again. Not for Variant::NaiveTape.
  std::int64_t max_tape_bytes = 0;
  /// Inputs in `wrt` whose gradient is added to what `d_<input>` holds: in-outs of the backward program.
  std::vector<std::string> accumulate = {};
  /// The name of a new size, or a number ("8"): derivatives are taken along that many directions at once. Every `d_<x>`
  /// and `t_<x>` has an extra last dimension of that size, and what the directions share is computed once. Empty: along
  /// one. Refused with Variant::NaiveTape.
  std::string directions = {};
};

/// A program and its gradient as ordinary programs.
///
/// `forward` computes the outputs and fills the arrays of role Tape. `backward` takes every array of `forward` that it
/// still needs (same names), the tape, the incoming gradient `d_<output>` as inputs, and gives `d_<input>` as outputs;
/// for an in-out `a` there is one in-out `d_a`, incoming gradient on entry and gradient w.r.t. the initial value on
/// return. Gradients have the type of their array, except that f16 and bf16 arrays have f32 gradients.
/// `sizing`, when its body is not empty, must run first: its rank-0 i64 outputs are sizes (of the same names) of the
/// two others, for tapes whose extent depends on data.
struct Gradient {
  Program sizing;                           ///< computes extents of tapes
  Program forward;                          ///< the primal program, which fills the tape
  Program backward;                         ///< the gradient
  Variant variant = Variant::Restructured;  ///< as asked for
  Report report;                            ///< where the values that `backward` needs come from
  std::int64_t max_tape_bytes = 0;          ///< as asked for; then `sizing` also computes the size `needed_tape_bytes`
  /// Where loops may run in segments, whose lengths are found last: `forward` without these and without a tape.
  std::optional<Program> without_tape = {};
  /// The accesses to the caller's arrays that are checked before a run.
  const Program& verified() const { return without_tape ? *without_tape : forward; }
};

/// Differentiates `program`. Throws DifferentiationError, naming the line, where no correct gradient can be guaranteed.
Gradient differentiate(const Program& program, const GradientOptions& options = {});

/// The gradient as one ordinary program, which can be differentiated again: forward and backward program one after the
/// other. Its inputs are those of the forward program and the incoming gradients, its outputs those of both; tapes are
/// locals. `d_x` is called `g_x` there, or by another prefix, since its own gradient has an array `d_x`.
/// Throws DifferentiationError for a gradient with a stack, for tapes whose extent depends on data, and where a name is
/// taken. Facts that arrays may share memory are left out: arguments of the result may not.
Program joined(const Gradient& gradient, const std::string& prefix = "g_");

/// Forward mode: a program with an extra input `t_<x>` for each x in `wrt` and an extra output `t_<y>` for each y in
/// `of` (in-outs: one in-out `t_<a>`), the directional derivative of y along t. The oracle of the tests.
///
/// Of a gradient as one program it is forward over reverse, a product with the Hessian:
/// `tangent(joined(differentiate(p)), {.wrt = {"x"}, .of = {"g_x"}})` takes t_x and gives t_g_x.
Program tangent(const Program& program, const GradientOptions& options = {});

/// How a Jacobian is computed: along all inputs at once (cheap where they are few) or from all outputs.
enum class JacobianMode {
  Forward,  ///< one direction for each element of `wrt`
  Reverse,  ///< one for each element of `of`
};

/// The Jacobian of the array `of` by the array `wrt` as a program: `program` with one more output `j_<of>_<wrt>`. In
/// forward mode its shape is that of `of` and a last dimension over the elements of `wrt` in row-major order; in
/// reverse mode that of `wrt` and a last dimension over those of `of`. Throws as `tangent`, `differentiate` and
/// `joined` do.
///
/// **Example:** for `x[n]` and `y[m]`, `jacobian(p, "y", "x")` gives `j_y_x[m, n]`, and with JacobianMode::Reverse
/// `j_y_x[n, m]`.
Program jacobian(const Program& program, const std::string& of, const std::string& wrt,
                 JacobianMode mode = JacobianMode::Forward);

/// @}
}  // namespace loopgrad

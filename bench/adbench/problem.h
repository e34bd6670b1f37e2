// Objective and Jacobian of a problem of ADBench, compiled for a target.
#pragma once

#include "bench/adbench/data.h"
#include "bench/experiments/timing.h"

#include <memory>

namespace adbench {

namespace lg = loopgrad;

/// Results as ADBench has them.
struct Result {
  Numbers objective;  // gmm, lstm: one number; ba: reprojection errors, then weight errors; hand: errors
  /// gmm: by alphas, means and icf. lstm: by main and extra parameters. hand: a row for each error, first the two us of
  /// its point where there are us. ba: for each observation its two rows of 15 (camera, point, weight), and then
  /// for each observation the derivative of the weight error.
  Numbers jacobian;
};

/// A problem that is ready to run: everything is compiled, and its arrays are where it runs.
class Problem {
 public:
  virtual ~Problem() = default;
  /// Each returns when its results are there (on a GPU: in its memory).
  virtual void objective() = 0;
  virtual void jacobian() = 0;
  /// Of the last runs.
  virtual Result result() = 0;
};

/// The place called "openmp", "serial", "cuda" or "interpreter". Throws std::runtime_error where there is none.
experiments::Place place_of(const std::string& target);

/// How the logarithm of the prior counts: ADBench subtracts it from the likelihood, GradBench adds it.
enum class Prior { ADBench, GradBench };
std::unique_ptr<Problem> make_problem(const Gmm& gmm, const experiments::Place& place, Prior prior = Prior::ADBench);
std::unique_ptr<Problem> make_problem(const Ba& ba, const experiments::Place& place);
std::unique_ptr<Problem> make_problem(const Hand& hand, const experiments::Place& place);
std::unique_ptr<Problem> make_problem(const Lstm& lstm, const experiments::Place& place);

/// x^2: what a session of GradBench begins with.
std::unique_ptr<Problem> make_square(double x, const experiments::Place& place);

/// The Jacobian of bundle adjustment as ADBench's sparse matrix: rows are 2p reprojection and p weight errors, columns
/// 11n cameras, 3m points and p weights.
struct SparseJacobian {
  std::int64_t rows = 0, columns = 0;
  std::vector<std::int64_t> row_starts, column_of;
};
SparseJacobian structure_of(const Ba& ba);

}  // namespace adbench

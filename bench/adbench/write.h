// Results in ADBench's files: <prefix><problem>_F_loopgrad.txt, .._J_loopgrad.txt and .._times_loopgrad.txt.
#pragma once

#include "bench/adbench/problem.h"

namespace adbench {

/// Where the results of a problem go. Each throws std::runtime_error where it cannot write.
struct ResultFiles {
  std::string prefix, problem;

  void write_times(double objective_seconds, double jacobian_seconds) const;
  void write_scalar(const Result& result) const;  // gmm and lstm
  void write_bundle(const Result& result, const Ba& ba) const;
  void write_hand(const Result& result, const Hand& hand) const;

 private:
  std::string path(const std::string& kind) const { return prefix + problem + "_" + kind + "_loopgrad.txt"; }
};

}  // namespace adbench

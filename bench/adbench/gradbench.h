// GradBench's protocol: messages of an eval in, answers of a tool out, both JSON
// (github.com/gradbench/gradbench, CONTRIBUTING.md).
#pragma once

#include "bench/experiments/timing.h"

#include <nlohmann/json.hpp>

namespace adbench {

/// The tool's side of a session. Modules: hello, gmm, ba, ht (hand tracking, with and without us) and lstm.
class GradBench {
 public:
  /// `target` as place_of has it. Throws std::runtime_error where there is none.
  explicit GradBench(const std::string& target);
  /// Answers a message. What is wrong with a module, a function or an input is told by "success" and "error".
  nlohmann::json answer(const nlohmann::json& message) const;

 private:
  nlohmann::json evaluated(const nlohmann::json& message) const;
  std::string target_;
  experiments::Place place_;
};

}  // namespace adbench

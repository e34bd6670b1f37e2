// Gradient over primal: forward and backward sweep together, in times of the program itself.
#pragma once

#include "bench/experiments/timing.h"

#include <loopgrad/main.h>

#include <nlohmann/json.hpp>

#include <set>

namespace experiments {

using Json = nlohmann::ordered_json;

/// Sizes of a program, and what was scaled to get them.
struct Scaled {
  std::string what;  // "iterations side by side" or "work of each"
  double factor = 1;
  lg::Sizes sizes;
};

/// The five programs of "Reverse-Mode Automatic Differentiation and Optimization of GPU Kernels via Enzyme" (Moses et
/// al., SC 2021), and the four of ADBench.
const std::vector<std::string>& programs_of_papers();

/// The program's sizes times each factor: first those that make more iterations that run side by side, then those that
/// give each more to do, where there are such.
std::vector<Scaled> scaled(const lg::ProgramEntry& entry, const std::vector<double>& factors);

/// {"primal_ms", "forward_ms", "backward_ms", "ratio"}, without the passes in `skip`; or {"failure"}.
Json ratio(const lg::ProgramEntry& entry, const Place& place, const lg::Sizes& sizes,
           const std::set<std::string>& skip = {});

/// Passes that can be left out for this place, in their order.
std::vector<std::string> optional_passes(const Place& place);

/// Code of the gradient without the passes in `skip`.
std::string gradient_code(const lg::ProgramEntry& entry, const Place& place, const lg::Sizes& sizes,
                          const std::set<std::string>& skip = {});

}  // namespace experiments

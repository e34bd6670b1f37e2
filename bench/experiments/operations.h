// Fifteen tensor operations, forward and backward, over sizes and over threads per block.
#pragma once

#include "bench/experiments/timing.h"

#include <nlohmann/json.hpp>

namespace experiments {

using Json = nlohmann::ordered_json;

struct Settings {
  std::vector<std::int64_t> sizes, widths;  // of square matrices; of the network's hidden layers
  std::vector<int> blocks;                  // threads per block
  std::int64_t block_sweep_size = 2048;
  double most_seconds = 2;  // a measurement that would take longer is left out, and listed
  std::vector<Place> places;
  std::vector<std::string> operations;
};

std::vector<std::string> operation_names();

/// [{"op", "n", "target", "threads_per_block", "forward_ms", "backward_ms", "bytes", "skipped"}]: `threads_per_block`
/// is null where the program chooses, times are null where `skipped` says why.
Json sweep_operations(const Settings& settings, const std::function<void(const std::string&)>& progress);

/// Only compiles everything that the sweeps need, which fills the kernel cache.
void compile_operations(const Settings& settings, const std::string& operation);

}  // namespace experiments

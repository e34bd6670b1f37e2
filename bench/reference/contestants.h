// Everything that computes one program and its gradient, on the same arrays.
#pragma once

#include "bench/reference/reference.h"
#include "tools/cli/directions.h"

#include <string>
#include <vector>

namespace loopgrad::bench {

/// All hand-written programs.
const std::vector<Reference>& references();

struct Contestant {
  std::string name;  // "hand", "tape per thread", or a variant: "restructured", "atomic", "naive-tape"
  std::function<Implementation()> make;
  double tape_bytes = 0;  // of a naive tape; 0 for the others
};

/// The arrays of a problem: its inputs and incoming gradients, shared, and room for all results.
Data make_data(const cli::Problem& problem);

/// The names of all results: the outputs, and `d_<x>` for each x that the gradient is asked for.
std::vector<std::string> result_names(const cli::Problem& problem);

/// All that exist for the program, `hand` first if there is one. `data` must outlive them.
std::vector<Contestant> contestants(const cli::Problem& problem, const Data& data);

}  // namespace loopgrad::bench

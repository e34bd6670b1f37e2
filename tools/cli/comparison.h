// The variants of a gradient, run and timed on one problem.
#pragma once

#include "tools/cli/ceilings.h"
#include "tools/cli/directions.h"
#include "tools/cli/options.h"
#include "tools/cli/work.h"
#include "tools/support/progress.h"

#include <nlohmann/json.hpp>

namespace loopgrad::cli {

struct ComparedVariant {
  Variant variant = Variant::Restructured;
  double forward_ms = 0, backward_ms = 0;  // medians
  std::int64_t tape_bytes = 0, device_bytes = 0;
  int atomics = 0, parallel_loops = 0, kernels = 0;
  double error = 0;
  bool bitwise = true;
  double roofline = 0;
  std::string failure;  // then nothing above counts
  Arrays results;       // outputs and gradients
};

/// What the machine could do at best.
struct Roofline {
  Work forward, backward;
  Ceilings ceilings;

  double floor_ms() const { return floor_ms(forward) + floor_ms(backward); }
  double floor_ms(const Work& work) const;
};

struct Comparison {
  std::string program;
  Target target = Target::OpenMP;
  Sizes sizes;
  std::vector<ComparedVariant> variants;
  int runs = 0;           // of each variant, or more
  std::string reference;  // what errors are relative to
  Roofline roofline;
};

/// The sizes that `compare` takes where the command line says nothing.
Sizes sizes_of_comparison(const Options& options);

/// Compiles, runs and times each variant; `progress` advances by `steps_of_comparison`. A variant that has not the
/// memory has a failure in place of figures.
Comparison compare(const Options& options, const Sizes& sizes, tools::Progress& progress);
double steps_of_comparison(const Options& options);

/// "k=64,n=1000".
std::string sizes_text(const Sizes& sizes);
std::string text_of(const Comparison& comparison);
nlohmann::ordered_json json_of(const Comparison& comparison);

}  // namespace loopgrad::cli

#include "tools/report/part_times.h"

#include "backends/compile_together.h"
#include "tools/cli/directions.h"
#include "tools/cli/lowered.h"
#include "tools/cli/timed_gradient.h"

namespace loopgrad::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kLeastRuns = 3, kMostRuns = 30;
constexpr double kEnoughMilliseconds = 500;

Json microseconds_of(const std::vector<double>& before, const std::vector<double>& after, int runs) {
  Json list = Json::array();
  for (std::size_t k = 0; k < after.size(); ++k) list.push_back(1e6 * (after[k] - before[k]) / runs);
  return list;
}

}  // namespace

Json time_parts(const Options& options) {
  Problem problem = make_problem(*options.program, sizes_of(options, options.program->sizes), options.seed);
  problem.max_tape_bytes = options.max_tape_bytes;
  const CompileOptions compiling = compile_options(options, Target::OpenMP, problem.sizes);
  if (compiling.target != Target::OpenMP) return nullptr;
  const Gradient gradient = differentiate(problem.program, problem.gradient_options(options.variant));
  std::vector<backend::PartTimes> times;
  const std::vector<GradientExecutable> compiled = backend::compile_together({gradient}, {compiling}, &times);
  Arrays initial = problem.inputs;
  initial.insert(problem.incoming.begin(), problem.incoming.end());
  Buffers buffers({gradient.forward, gradient.backward}, problem.sizes, initial, false);
  TimedGradient timed(compiled.front(), buffers, compiling.target);
  timed.run();  // warms up
  const std::vector<double> forward = times.front().forward(), backward = times.front().backward();
  int runs = 0;
  for (double all = 0; runs < kLeastRuns || (runs < kMostRuns && all < kEnoughMilliseconds); ++runs) {
    const TimedGradient::Milliseconds ms = timed.run();
    all += ms.forward + ms.backward;
  }
  return {{"forward", microseconds_of(forward, times.front().forward(), runs)},
          {"backward", microseconds_of(backward, times.front().backward(), runs)}};
}

}  // namespace loopgrad::cli

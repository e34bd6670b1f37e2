#include "bench/reference/measure.h"

#include "bench/median.h"
#include "tools/cli/ceilings.h"
#include "tools/cli/work.h"

#include <loopgrad/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>

namespace loopgrad::bench {
namespace {

constexpr double kMostMs = 8000;  // of all rounds of a contestant: a slow one takes part in the first only, or in none
constexpr double kBatchMs = 20;   // short ones run several times in a row
constexpr int kLargestBatch = 20;

double milliseconds(const std::function<void()>& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

struct Runner {
  Row row;
  Implementation implementation = {};
  double warm_ms = 0;
  std::vector<double> forward_ms = {}, backward_ms = {};

  void run() {
    forward_ms.push_back(milliseconds(implementation.forward));
    backward_ms.push_back(milliseconds(implementation.backward));
  }
};

/// Results of an implementation must not be those of the one before.
void spoil(const std::vector<std::string>& names, const Data& data) {
  for (const std::string& name : names) {
    const HostArray& array = data.arrays.at(name);
    std::fill_n(array.as<float>(), array.size(), std::numeric_limits<float>::quiet_NaN());
  }
}

cli::Arrays results(const std::vector<std::string>& names, const Data& data) {
  cli::Arrays copies;
  for (const std::string& name : names) copies[name] = cli::copy_of(data.arrays.at(name));
  return copies;
}

Runner prepare(const Contestant& contestant, const MeasureOptions& options) {
  Runner runner{.row = {.name = contestant.name}};
  if (contestant.tape_bytes > options.tape_limit) {
    runner.row.skipped = fmt::format("its tape would take {:.1f} GiB", contestant.tape_bytes / (1ll << 30));
    return runner;
  }
  try {
    runner.implementation = contestant.make();
  } catch (const Error& error) {
    runner.row.skipped = error.what();
  }
  return runner;
}

/// The first run of each: allocates, and is compared.
void compare(std::vector<Runner>& runners, const std::vector<std::string>& names, const Data& data,
             const std::function<void(const std::string&)>& step) {
  std::optional<cli::Arrays> expected;
  for (Runner& runner : runners) {
    if (!runner.row.skipped.empty()) continue;
    step(runner.row.name + " compared");
    spoil(names, data);
    try {
      runner.run();
    } catch (const Error& error) {
      runner.row.skipped = error.what();
      continue;
    } catch (const std::bad_alloc&) {
      runner.row.skipped = "out of memory";
      continue;
    }
    if (!expected) expected = results(names, data);
    for (const std::string& name : names)
      runner.row.error = std::max(runner.row.error, cli::relative_error(data.arrays.at(name), expected->at(name)));
    runner.warm_ms = runner.forward_ms.back() + runner.backward_ms.back();
    if (runner.warm_ms > kMostMs) continue;  // that run will have to do
    runner.forward_ms.clear();
    runner.backward_ms.clear();
    runner.run();  // with memory in place
    runner.warm_ms = runner.forward_ms.back() + runner.backward_ms.back();
    runner.forward_ms.clear();
    runner.backward_ms.clear();
  }
}

void time_rounds(std::vector<Runner>& runners, int rounds, const std::function<void(const std::string&)>& step) {
  for (int round = 0; round < rounds; ++round) {
    for (Runner& runner : runners) {
      const double least_ms = std::max(1, round) * runner.warm_ms;  // that it has run for, or will at once
      if (!runner.row.skipped.empty() || least_ms > kMostMs) continue;
      step(fmt::format("{} round {}", runner.row.name, round + 1));
      const double batch = std::clamp(kBatchMs / std::max(runner.warm_ms, 1e-3), 1.0, double{kLargestBatch});
      for (int i = 0; i < static_cast<int>(batch); ++i) runner.run();
    }
  }
}

void fill_floor(const cli::Problem& problem, Result& result) {
  const Gradient gradient = differentiate(problem.program, {.wrt = problem.wrt, .of = problem.of});
  const cli::Work forward = cli::count_work(problem.program, problem.sizes, problem.inputs);
  const cli::Work backward = cli::count_work(gradient.backward, problem.sizes, problem.inputs);
  const cli::Ceilings ceilings = cli::measure_ceilings(0, std::max(forward.bytes, backward.bytes));
  result.forward_bytes = forward.bytes;
  result.backward_bytes = backward.bytes;
  for (const cli::Work& work : {forward, backward})
    result.floor_ms += 1e3 * std::max(work.bytes / ceilings.bytes_per_second, work.flops / ceilings.flops_per_second);
}

}  // namespace

Result measure(const Case& c, const MeasureOptions& options, const std::function<void(const std::string&)>& step) {
  const cli::Problem problem = cli::make_problem(*c.program, c.sizes, options.seed);
  const Data data = make_data(problem);
  std::vector<Runner> runners;
  for (const Contestant& contestant : contestants(problem, data)) {
    if (!options.only.empty() && std::ranges::find(options.only, contestant.name) == options.only.end()) continue;
    step(contestant.name + " built");
    runners.push_back(prepare(contestant, options));
  }
  compare(runners, result_names(problem), data, step);
  time_rounds(runners, options.rounds, step);

  Result result{.measured = &c, .rows = {}};
  for (Runner& runner : runners) {
    runner.row.forward_ms = median(runner.forward_ms);
    runner.row.backward_ms = median(runner.backward_ms);
    runner.row.runs = static_cast<int>(runner.forward_ms.size());
    result.rows.push_back(runner.row);
  }
  if (options.rounds > 0) fill_floor(problem, result);
  return result;
}

const Row* find_row(const Result& result, const std::string& name) {
  for (const Row& row : result.rows)
    if (row.name == name && row.skipped.empty()) return &row;
  return nullptr;
}

}  // namespace loopgrad::bench

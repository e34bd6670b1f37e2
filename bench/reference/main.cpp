// bench_reference: generated gradients against hand-written ones, all compared with each other. See bench/README.md.
#include "bench/reference/export.h"
#include "bench/reference/report.h"
#include "tools/programs/programs.h"
#include "tools/support/progress.h"

#include <loopgrad/error.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <fstream>

namespace {

using namespace loopgrad;

constexpr double kTolerance = 1e-3;  // of results in f32 whose sums are in different orders

struct Options {
  std::vector<std::string> programs, peers;
  std::string cases = "bench/cases.json", json, data;
  bool check = false;
  bench::MeasureOptions measure = {};
  double tape_limit_gib = 6;
};

/// Whether all contestants agree; tells on standard error which do not.
bool agrees(const bench::Result& result) {
  bool all = true;
  for (const bench::Row& row : result.rows) {
    if (!row.skipped.empty() || row.error <= kTolerance) continue;
    fmt::print(stderr, "{}: '{}' differs from '{}' by {:.1e}\n", result.measured->program->name, row.name,
               result.rows.front().name, row.error);
    all = false;
  }
  return all;
}

bench::Result measure(const bench::Case& c, const bench::MeasureOptions& options) {
  tools::Progress progress(5.0 * (2 + options.rounds));
  return bench::measure(c, options,
                        [&](const std::string& what) { progress.next(fmt::format("{}: {}", c.program->name, what)); });
}

int check(const std::vector<bench::Case>& cases, bench::MeasureOptions options) {
  options.rounds = 0;
  std::vector<bench::Result> results;
  std::size_t failed = 0;
  for (const bench::Case& c : cases) {
    results.push_back(measure(c, options));
    failed += !agrees(results.back());
  }
  fmt::print("{}{} passed, {} failed\n", bench::differences_of(results), results.size() - failed, failed);
  return failed > 0;
}

int run(const Options& options, const std::string& command) {
  const std::vector<ProgramEntry> entries = programs::all();
  const std::vector<bench::Case> cases = bench::read_cases(options.cases, entries, options.programs);
  if (!options.data.empty()) {
    bench::export_data(cases, options.measure.seed, options.data);
    return 0;
  }
  bench::MeasureOptions measure_options = options.measure;
  measure_options.tape_limit = options.tape_limit_gib * (1ll << 30);
  if (options.check) return check(cases, measure_options);
  bench::Json json = bench::json_of_run(command);
  std::vector<bench::Json> peers;
  for (const std::string& file : options.peers) {
    peers.push_back(bench::read_peers(file));
    json["peers"].update(peers.back().value("peers", bench::Json::object()));
  }
  fmt::print("{}", bench::heading_of(json));
  bool all_agree = true;
  for (const bench::Case& c : cases) {
    const bench::Result result = measure(c, measure_options);
    all_agree = agrees(result) && all_agree;
    json["programs"].push_back(bench::json_of(result, peers));
    fmt::print("{}", bench::text_of(json["programs"].back()));
    std::fflush(stdout);  // a long run is read while it goes on, and stopped
    if (!options.json.empty() && !(std::ofstream(options.json) << json.dump(1) << '\n')) {
      fmt::print(stderr, "cannot write '{}'\n", options.json);
      return 2;
    }
  }
  return !all_agree;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Generated gradients against hand-written ones; exit status 1 when results differ.");
  app.add_option("programs", options.programs, "programs of the cases to run (default: all)");
  app.add_option("--cases", options.cases, "programs and sizes")->capture_default_str();
  app.add_option("--rounds", options.measure.rounds, "rounds that every contestant is timed in")->capture_default_str();
  app.add_option("--seed", options.measure.seed, "seed of the inputs")->capture_default_str();
  app.add_option("--only", options.measure.only, "contestants to run, such as hand,restructured")->delimiter(',');
  app.add_option("--tape-limit", options.tape_limit_gib, "GiB that a naive tape may take")->capture_default_str();
  app.add_option("--peers", options.peers, "JSON files of bench/peers, to be shown in the same tables");
  app.add_option("--json", options.json, "file for the results");
  app.add_flag("--check", options.check, "compare all results and measure nothing");
  app.add_option("--export", options.data,
                 "write inputs and results of the cases into this folder and measure nothing");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(options, fmt::format("{}", fmt::join(argv, argv + argc, " ")));
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 3;
  }
}

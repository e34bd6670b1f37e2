// Gradient over primal of the programs of two papers: with each pass left out in turn, and over a range of sizes.
#include "bench/experiments/ratios.h"
#include "tools/programs/programs.h"
#include "tools/support/progress.h"

#include <loopgrad/error.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <fstream>
#include <functional>
#include <thread>

namespace {

using namespace experiments;

struct Arguments {
  std::string what, json;
  std::vector<std::string> targets, programs, passes;
  std::vector<double> factors = {0.25, 0.5, 1, 2, 4};
  double scale = 1;
};

using Note = std::function<void(const std::string& what_goes_on)>;

std::string number(const Json& row) {
  if (row.contains("failure")) return "-";
  return fmt::format("{:.4g} + {:.4g} / {:.4g} ms = {:.2f}", row["forward_ms"].get<double>(),
                     row["backward_ms"].get<double>(), row["primal_ms"].get<double>(), row["ratio"].get<double>());
}

/// Every optional pass that changes the gradient's code is left out once; the whole is measured before and after, as a
/// measure of how much times vary.
Json without_each_pass(const lg::ProgramEntry& entry, const Place& place, const Arguments& arguments,
                       const Note& note) {
  const std::vector<std::string>& chosen = arguments.passes;
  const std::vector<Scaled> points = scaled(entry, {arguments.scale});
  const lg::Sizes& sizes = points.empty() ? entry.sizes : points.front().sizes;
  const auto measured = [&](const std::set<std::string>& skip) { return ratio(entry, place, sizes, skip); };
  Json result = {{"program", entry.name}, {"target", place.name}, {"all", measured({})}, {"without", Json::object()}};
  const std::string code = gradient_code(entry, place, sizes);
  for (const std::string& pass : chosen.empty() ? optional_passes(place) : chosen) {
    note(fmt::format("{} on {} without {}", entry.name, place.name, pass));
    if (gradient_code(entry, place, sizes, {pass}) != code) result["without"][pass] = measured({pass});
  }
  result["all_again"] = measured({});
  return result;
}

void print_passes(const Json& result) {
  fmt::print("{} on {}: {}\n", result["program"].get<std::string>(), result["target"].get<std::string>(),
             number(result["all"]));
  if (result["all"].contains("failure")) return;
  const auto total = [](const Json& row) { return row["forward_ms"].get<double>() + row["backward_ms"].get<double>(); };
  const double all = std::min(total(result["all"]), total(result["all_again"]));
  std::vector<std::pair<double, std::string>> rows;
  for (const auto& [pass, row] : result["without"].items()) {
    if (row.contains("failure")) fmt::print("  {:28} {}\n", pass, row["failure"].get<std::string>());
    else rows.emplace_back(total(row) / all, pass);
  }
  std::sort(rows.rbegin(), rows.rend());
  for (const auto& [factor, pass] : rows) fmt::print("  {:28} x {:.2f}\n", pass, factor);
}

Json over_sizes(const lg::ProgramEntry& entry, const Place& place, const std::vector<double>& factors,
                const Note& note) {
  Json points = Json::array();
  for (const Scaled& point : scaled(entry, factors)) {
    note(fmt::format("{} on {}: {} x {}", entry.name, place.name, point.what, point.factor));
    Json row = {{"scaled", point.what}, {"factor", point.factor}, {"sizes", point.sizes}};
    row.update(ratio(entry, place, point.sizes));
    points.push_back(std::move(row));
  }
  return {{"program", entry.name}, {"target", place.name}, {"points", std::move(points)}};
}

void print_sizes(const Json& result) {
  fmt::print("{} on {}\n", result["program"].get<std::string>(), result["target"].get<std::string>());
  for (const Json& point : result["points"])
    fmt::print("  {:27} x {:<5} {}\n", point["scaled"].get<std::string>(), point["factor"].get<double>(),
               number(point));
}

void run(const Arguments& arguments) {
  const bool of_passes = arguments.what == "passes";
  const std::vector<Place> all_places = places(arguments.targets);
  const std::vector<std::string>& names = arguments.programs.empty() ? programs_of_papers() : arguments.programs;
  lg::tools::Progress progress(static_cast<double>(all_places.size() * names.size()));
  Json results = Json::array();
  for (const Place& place : all_places) {
    for (const std::string& name : names) {
      const lg::ProgramEntry entry = lg::programs::named(name);
      const Note here = [&](const std::string& text) { progress.show(static_cast<double>(results.size()), text); };
      results.push_back(of_passes ? without_each_pass(entry, place, arguments, here)
                                  : over_sizes(entry, place, arguments.factors, here));
      progress.clear();
      of_passes ? print_passes(results.back()) : print_sizes(results.back());
      std::fflush(stdout);
    }
  }
  if (arguments.json.empty()) return;
  const Json all = {{"experiment", arguments.what},
                    {"gpu", lg::has_cuda() ? lg::cuda_device_name() : "none"},
                    {"cpu_threads", std::thread::hardware_concurrency()},
                    {"results", std::move(results)}};
  std::ofstream file(arguments.json);
  file << all.dump(1) << "\n";
  if (!file.flush()) throw std::runtime_error("cannot write '" + arguments.json + "'");
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app{"Gradient over primal: without each pass, or over sizes"};
  app.add_option("experiment", arguments.what, "passes or sizes")
      ->required()
      ->check(CLI::IsMember({"passes", "sizes"}));
  app.add_option("--json", arguments.json, "file for the results");
  app.add_option("--targets", arguments.targets, "of serial, openmp, cuda (default: all that there are)")
      ->delimiter(',')
      ->check(CLI::IsMember({"serial", "openmp", "cuda"}));
  app.add_option("--programs", arguments.programs, "built-in programs (default: those of the papers)")->delimiter(',');
  app.add_option("--passes", arguments.passes, "to leave out (default: each that can be)")->delimiter(',');
  app.add_option("--factors", arguments.factors, "of sizes")->delimiter(',')->check(CLI::PositiveNumber);
  app.add_option("--scale", arguments.scale, "of passes: how many times the iterations that run side by side")
      ->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  try {
    run(arguments);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 2;
  }
}

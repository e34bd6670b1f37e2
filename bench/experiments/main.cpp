// Times the fifteen tensor operations and the training of a three-layer network on one CPU thread, on all of them and
// on the GPU. bash bench/experiments/run.sh runs it, PyTorch beside it, and makes a table and plots.
#include "bench/experiments/network.h"
#include "tools/support/progress.h"

#include <loopgrad/error.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <thread>

namespace {

using namespace experiments;

struct Arguments {
  bool quick = false, names = false;
  std::string json, compile_only;
  std::vector<std::string> targets, operations;
  double most_seconds = 2;
};

Settings settings_of(const Arguments& arguments) {
  Settings settings;
  const std::int64_t largest = arguments.quick ? 256 : 8192, widest = arguments.quick ? 128 : 4096;
  for (std::int64_t n = 32; n <= largest; n *= 2) settings.sizes.push_back(n);
  for (std::int64_t n = 32; n <= widest; n *= 2) settings.widths.push_back(n);
  for (int block = 32; block <= 1024; block *= arguments.quick ? 32 : 2) settings.blocks.push_back(block);
  if (arguments.quick) settings.block_sweep_size = 256;
  settings.most_seconds = arguments.most_seconds;
  settings.places = places(arguments.targets);
  settings.operations = arguments.operations.empty() ? operation_names() : arguments.operations;
  return settings;
}

std::string device_name() { return lg::has_cuda() ? lg::cuda_device_name() : "none"; }

void write(const Arguments& arguments, const Settings& settings, Json operations, Json network) {
  const Json result = {{"gpu", device_name()},
                       {"cpu_threads", std::thread::hardware_concurrency()},
                       {"most_seconds", settings.most_seconds},
                       {"block_sweep_size", settings.block_sweep_size},
                       {"operations", std::move(operations)},
                       {"network", std::move(network)}};
  std::ofstream file(arguments.json);
  file << result.dump(1) << "\n";
  if (!file.flush()) throw std::runtime_error("cannot write '" + arguments.json + "'");
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app{"Times tensor operations and the training of a network"};
  app.add_flag("--quick", arguments.quick, "small sizes only");
  app.add_option("--json", arguments.json, "file for the results");
  app.add_option("--targets", arguments.targets, "of serial, openmp, cuda (default: all that there are)")
      ->delimiter(',')
      ->check(CLI::IsMember({"serial", "openmp", "cuda"}));
  app.add_option("--operations", arguments.operations, "some of the fifteen")
      ->delimiter(',')
      ->check(CLI::IsMember(operation_names()));
  app.add_option("--most-seconds", arguments.most_seconds, "leave out what would take longer")
      ->check(CLI::PositiveNumber);
  app.add_option("--compile-only", arguments.compile_only, "fill the kernel cache for this operation, or 'network'");
  app.add_flag("--operation-names", arguments.names, "print the fifteen names");
  CLI11_PARSE(app, argc, argv);
  if (arguments.names) {
    for (const std::string& name : operation_names()) fmt::print("{}\n", name);
    return 0;
  }
  try {
    const Settings settings = settings_of(arguments);
    if (!arguments.compile_only.empty()) {
      if (arguments.compile_only == "network") compile_network(settings);
      else compile_operations(settings, arguments.compile_only);
      return 0;
    }
    if (arguments.json.empty()) throw std::runtime_error("--json FILE is needed");
    const std::size_t per_operation = settings.sizes.size() + (lg::has_cuda() ? settings.blocks.size() : 0);
    lg::tools::Progress progress(static_cast<double>(settings.operations.size() * per_operation +
                                                     settings.places.size() * settings.widths.size()));
    auto next = [&](const std::string& what) { progress.next(what); };
    Json operations = sweep_operations(settings, next);
    write(arguments, settings, std::move(operations), train_networks(settings, next));
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 2;
  }
}

#include "bench/reference/export.h"

#include "tools/cli/directions.h"
#include "tools/cli/options.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>

namespace loopgrad::bench {
namespace {

void write(const std::filesystem::path& path, const char* bytes, std::int64_t count) {
  std::ofstream out(path, std::ios::binary);
  out.write(bytes, count);
  if (!out) cli::bad_input(fmt::format("cannot write '{}'", path.string()));
}

/// Inputs and incoming gradients become outputs and gradients.
cli::Buffers run_gradient(const cli::Problem& problem, CompileOptions options) {
  options.expected_sizes = problem.sizes;
  const GradientExecutable gradient =
      compile_gradient(problem.program, problem.gradient_options(Variant::Restructured), options);
  cli::Arrays initial = problem.inputs;
  initial.insert(problem.incoming.begin(), problem.incoming.end());
  cli::Buffers buffers({gradient.gradient().forward, gradient.gradient().backward}, problem.sizes, initial, false);
  gradient.forward(buffers.arguments(0), problem.sizes);
  gradient.backward(buffers.arguments(1), problem.sizes);
  return buffers;
}

}  // namespace

void export_data(const std::vector<Case>& cases, std::uint64_t seed, const std::string& folder,
                 const CompileOptions& options) {
  std::filesystem::create_directories(folder);
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Case& c : cases) {
    const cli::Problem problem = cli::make_problem(*c.program, c.sizes, seed);
    nlohmann::ordered_json arrays, results;
    const auto add = [&](nlohmann::ordered_json& to, const char* kind, const std::string& name,
                         const HostArray& array) {
      const std::string file = fmt::format("{}_{}_{}_{}.bin", list.size(), c.program->name, kind, name);
      write(std::filesystem::path(folder) / file, static_cast<const char*>(array.data()), array.bytes());
      to[name] = {{"type", name_of(array.type())}, {"shape", array.shape()}, {"file", file}};
    };
    for (const auto& [name, array] : problem.inputs) add(arrays, "in", name, array);
    for (const auto& [name, array] : problem.incoming) add(arrays, "in", name, array);
    const cli::Buffers buffers = run_gradient(problem, options);
    for (const std::string& name : problem.of) add(results, "out", name, buffers.at(name));
    for (const std::string& x : problem.wrt) add(results, "out", "d_" + x, buffers.at("d_" + x));
    list.push_back({{"program", c.program->name},
                    {"sizes", c.sizes},
                    {"wrt", problem.wrt},
                    {"of", problem.of},
                    {"arrays", arrays},
                    {"results", results}});
  }
  const std::string text = list.dump(1) + "\n";
  write(std::filesystem::path(folder) / "cases.json", text.data(), static_cast<std::int64_t>(text.size()));
}

}  // namespace loopgrad::bench

#include "bench/reference/export.h"

#include "bench/reference/contestants.h"
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

}  // namespace

void export_data(const std::vector<Case>& cases, std::uint64_t seed, const std::string& folder) {
  std::filesystem::create_directories(folder);
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Case& c : cases) {
    const cli::Problem problem = cli::make_problem(*c.program, c.sizes, seed);
    const Data data = make_data(problem);
    for (const Contestant& contestant : contestants(problem, data)) {
      if (contestant.name != name_of(Variant::Restructured)) continue;
      const Implementation implementation = contestant.make();
      implementation.forward();
      implementation.backward();
    }
    nlohmann::ordered_json arrays;
    for (const auto& [name, array] : data.arrays) {
      const std::string file = fmt::format("{}_{}_{}.bin", list.size(), c.program->name, name);
      write(std::filesystem::path(folder) / file, static_cast<const char*>(array.data()), array.bytes());
      arrays[name] = {{"type", name_of(array.type())}, {"shape", array.shape()}, {"file", file}};
    }
    list.push_back({{"program", c.program->name},
                    {"sizes", c.sizes},
                    {"wrt", problem.wrt},
                    {"of", problem.of},
                    {"arrays", arrays}});
  }
  const std::string text = list.dump(1) + "\n";
  write(std::filesystem::path(folder) / "cases.json", text.data(), static_cast<std::int64_t>(text.size()));
}

}  // namespace loopgrad::bench

#include "bench/reference/cases.h"

#include "tools/cli/options.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>

namespace loopgrad::bench {
namespace {

const ProgramEntry& find(const std::vector<ProgramEntry>& entries, const std::string& name) {
  for (const ProgramEntry& entry : entries)
    if (entry.name == name) return entry;
  cli::bad_input(fmt::format("there is no program '{}'", name), "loopgrad list names them");
}

bool wanted(const std::string& program, const std::vector<std::string>& programs) {
  return programs.empty() || std::find(programs.begin(), programs.end(), program) != programs.end();
}

std::optional<double> target(const nlohmann::json& row, const char* name) {
  if (!row.contains("target") || !row.at("target").contains(name)) return std::nullopt;
  return row.at("target").at(name).get<double>();
}

}  // namespace

std::vector<Case> read_cases(const std::string& file, const std::vector<ProgramEntry>& entries,
                             const std::vector<std::string>& programs) {
  for (const std::string& program : programs) find(entries, program);
  std::ifstream in(file);
  if (!in) cli::bad_input(fmt::format("cannot read '{}'", file), "run from the root of the sources, or give --cases");
  std::vector<Case> cases;
  try {
    for (const nlohmann::json& row : nlohmann::json::parse(in)) {
      const ProgramEntry& entry = find(entries, row.at("program").get<std::string>());
      if (!wanted(entry.name, programs)) continue;
      const Case c{&entry, row.at("sizes").get<Sizes>(), target(row, "hand"), target(row, "naive")};
      for (const auto& size : entry.sizes)
        if (!c.sizes.contains(size.first) || c.sizes.size() != entry.sizes.size())
          cli::bad_input(fmt::format("the sizes of '{}' in '{}' are not those of the program", entry.name, file));
      cases.push_back(c);
    }
  } catch (const nlohmann::json::exception& error) {
    cli::bad_input(fmt::format("'{}' is not a list of cases ({})", file, error.what()));
  }
  return cases;
}

}  // namespace loopgrad::bench

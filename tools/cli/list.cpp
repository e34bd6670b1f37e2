#include "tools/cli/commands.h"
#include "tools/cli/table.h"

#include <fmt/format.h>

namespace loopgrad::cli {

int list_programs(const Options& options, const std::vector<ProgramEntry>& programs) {
  auto json = nlohmann::ordered_json::array();
  std::vector<std::vector<std::string>> rows = {{"program", "sizes", "summary"}};
  for (const ProgramEntry& entry : programs) {
    std::string sizes;
    for (const auto& [name, value] : entry.sizes)
      sizes += fmt::format("{}{}={}", sizes.empty() ? "" : ",", name, value);
    rows.push_back({entry.name, sizes, entry.summary});
    json.push_back({{"name", entry.name}, {"summary", entry.summary}, {"sizes", entry.sizes}});
  }
  report(options, table(rows), json);
  return 0;
}

}  // namespace loopgrad::cli

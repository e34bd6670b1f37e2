#include "tools/cli/commands.h"

#include <fmt/format.h>
#include <cstdio>
#include <fstream>

namespace loopgrad::cli {

void report(const Options& options, const std::string& text, const nlohmann::ordered_json& json) {
  if (options.json == "-") {
    fmt::print("{}\n", json.dump(2));
    return;
  }
  if (!options.json.empty()) {
    std::ofstream file(options.json);
    file << json.dump(2) << '\n';
    file.close();
    if (!file) bad_input(fmt::format("cannot write '{}'", options.json));
  }
  fmt::print("{}", text);
}

}  // namespace loopgrad::cli

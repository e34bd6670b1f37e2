// The table and the JSON of a run.
#pragma once

#include "bench/reference/measure.h"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace loopgrad::bench {

using Json = nlohmann::ordered_json;

/// {"date", "cpu", "threads", "compiler", "command", "peers": {}, "programs": []}; see bench/README.md.
Json json_of_run(const std::string& command);

/// A program of "programs", with the rows of the peers' files for the same sizes.
Json json_of(const Result& result, const std::vector<Json>& peers);

/// A file of bench/peers. Throws UsageError for anything else.
Json read_peers(const std::string& file);

/// The machine, in a line.
std::string heading_of(const Json& run);

/// The table of a program, from its JSON.
std::string text_of(const Json& program);

/// A line per case with the largest relative difference of each contestant.
std::string differences_of(const std::vector<Result>& results);

}  // namespace loopgrad::bench

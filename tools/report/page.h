// The report as one HTML file that needs nothing else: made from facts as `explain --json` and `compare --json` write
// them, and from nothing but these.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace loopgrad::cli::page {

/// `facts`:
///   summary    of the program, one line
///   explained  list of what `explain --json` says: of the variant that the page is about, then of the others
///   listings   {program, forward, backward}: lists of [text, line of the user's or ""]
///   compared   what `compare --json` says, or null where nothing was measured
///   profile    null, or {forward, backward}: for each of `explained[0].programs[..].parts` its measured microseconds
std::string page_of(const nlohmann::ordered_json& facts);

// Its sections, in HTML.
std::string tiles(const nlohmann::ordered_json& facts);
std::string change_section(const nlohmann::ordered_json& facts);
std::string code_section(const nlohmann::ordered_json& facts);
std::string tape_section(const nlohmann::ordered_json& facts);
std::string sums_section(const nlohmann::ordered_json& facts);
std::string loops_section(const nlohmann::ordered_json& facts);
std::string variants_section(const nlohmann::ordered_json& facts);
std::string more_section(const nlohmann::ordered_json& facts);

}  // namespace loopgrad::cli::page

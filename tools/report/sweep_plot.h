// Times of the variants over a size, as a drawing.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace loopgrad::cli::page {

/// SVG of its own, for light and dark. `sweep`: {program, size, points: list of what `compare --json` says}. A variant
/// is a colour; forward is drawn through, backward dashed.
std::string sweep_plot(const nlohmann::ordered_json& sweep);

}  // namespace loopgrad::cli::page

// Text tables with aligned columns.
#pragma once

#include <string>
#include <vector>

namespace loopgrad::cli {

/// The first row is the header. Columns whose cells below the header all start with a digit, '-' or '<' are aligned
/// right.
std::string table(const std::vector<std::vector<std::string>>& rows, const std::string& indent = "");

/// The text, or its beginning and "..." when it is longer than `most` characters.
std::string shortened(const std::string& text, std::size_t most);

/// "1.5 MiB".
std::string human_bytes(double bytes);

}  // namespace loopgrad::cli

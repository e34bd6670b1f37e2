// Files that other processes may read and write at the same time.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace loopgrad::backend {

/// The whole file, or nullopt when it cannot be read.
std::optional<std::string> read_file(const std::filesystem::path& path);

/// A name next to `path` that no other thread or process uses.
std::filesystem::path unique_name(const std::filesystem::path& path);

/// Writes under a unique name, then renames, so that readers see all of `content` or none. Returns an errno value, 0 if
/// well.
int publish_file(const std::filesystem::path& path, std::string_view content);

}  // namespace loopgrad::backend

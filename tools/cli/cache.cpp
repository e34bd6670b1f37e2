#include "backends/jit/cache_folder.h"
#include "tools/cli/commands.h"
#include "tools/cli/table.h"

#include <fmt/format.h>
#include <map>

namespace loopgrad::cli {
namespace {

using backend::CacheFile;

std::uint64_t bytes_of(const std::vector<CacheFile>& files) {
  std::uint64_t bytes = 0;
  for (const CacheFile& file : files) bytes += file.bytes;
  return bytes;
}

/// A row for each kind of file.
std::string kinds_table(const std::vector<CacheFile>& files) {
  std::map<CacheFile::Kind, std::pair<int, std::uint64_t>> kinds;
  for (const CacheFile& file : files) {
    ++kinds[file.kind].first;
    kinds[file.kind].second += file.bytes;
  }
  std::vector<std::vector<std::string>> rows = {{"kind", "files", "size"}};
  for (const auto& [kind, total] : kinds)
    rows.push_back({name_of(kind), std::to_string(total.first), human_bytes(static_cast<double>(total.second))});
  return kinds.empty() ? "" : table(rows, "  ");
}

nlohmann::ordered_json json_of(const std::vector<CacheFile>& files) {
  auto list = nlohmann::ordered_json::array();
  for (const CacheFile& file : files)
    list.push_back({{"name", file.name},
                    {"kind", name_of(file.kind)},
                    {"bytes", file.bytes},
                    {"last_used", static_cast<double>(file.last_used) / 1e9}});
  return list;
}

}  // namespace

int show_cache(const Options& options) {
  const backend::CacheFolder folder("", false);
  const std::uint64_t limit = backend::cache_limit("");
  const std::vector<CacheFile> removed = options.clear ? folder.clear() : std::vector<CacheFile>{};
  const std::vector<CacheFile> files = folder.files();
  const std::string place = folder.path().string();
  std::string text = fmt::format("folder  {}\nlimit   {} (LOOPGRAD_CACHE_LIMIT)\n",
                                 place.empty()     ? "none: set LOOPGRAD_CACHE_DIR to keep compiled code"
                                 : folder.usable() ? place
                                                   : place + " (not there, or it cannot be read)",
                                 human_bytes(static_cast<double>(limit)));
  if (options.clear)
    text +=
        fmt::format("removed {} in {} files\n", human_bytes(static_cast<double>(bytes_of(removed))), removed.size());
  text += fmt::format("size    {} in {} files\n{}", human_bytes(static_cast<double>(bytes_of(files))), files.size(),
                      kinds_table(files));
  nlohmann::ordered_json json = {{"folder", place},
                                 {"usable", folder.usable()},
                                 {"limit", limit},
                                 {"bytes", bytes_of(files)},
                                 {"entries", json_of(files)}};
  if (options.clear) json["removed"] = json_of(removed);
  report(options, text, json);
  return 0;
}

}  // namespace loopgrad::cli

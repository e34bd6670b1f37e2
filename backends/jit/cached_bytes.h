// Compiled code, found again by everything that it depends on.
#pragma once

#include "backends/jit/cache_folder.h"

#include <functional>
#include <string>
#include <vector>

namespace loopgrad::backend {

/// What an entry is found by: everything that the compiled code depends on, and an ending.
struct CacheKey {
  CacheKey(const std::vector<std::string>& parts, std::string ending);
  std::string text;  // all parts; the entry holds it and must hold the same
  std::string stem;  // of file names: a hash of the text
  std::string ending;
  std::string entry() const { return stem + ending; }
};

/// The content of the entry, or nullopt when there is none that can be trusted. An entry ends in its key, its sizes and
/// a checksum: one that is torn, damaged, of another key under this name, not a regular file or of another user counts
/// as none and is removed. What no folder has taken is found in the memory of this process.
std::optional<std::string> find_entry(const CacheFolder& folder, const CacheKey& key);

/// Keeps an entry in the folder, or in the memory of this process where the folder does not take it.
void write_entry(const CacheFolder& folder, const CacheKey& key, const std::string& content);

/// Calls `use` with the bytes of the key: those of the folder, else those that `build` gives, which are then kept.
/// Returns true for those of the folder. Of many processes one builds; the others wait for it.
///
/// What `use` throws as an Error for bytes of the folder removes the entry, and they are built anew, once; what it
/// throws for those that were just built, and what `build` throws, goes to the caller.
bool with_cached_bytes(const CacheFolder& folder, const CacheKey& key, const std::function<std::string()>& build,
                       const std::function<void(const std::string&)>& use);

}  // namespace loopgrad::backend

#include "backends/jit/cached_bytes.h"

#include "backends/jit/build_lock.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <loopgrad/error.h>
#include <xxhash.h>

#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

namespace loopgrad::backend {
namespace {

/// The end of an entry, after the content and the key.
struct Trailer {
  char magic[8];
  std::uint64_t content_bytes, key_bytes;
  XXH128_canonical_t checksum;  // of both
};
constexpr char trailer_magic[8] = {'l', 'o', 'o', 'p', 'g', 'r', 'a', '2'};

Trailer trailer_of(std::string_view content_and_key, std::size_t key_bytes) {
  Trailer trailer{};
  std::memcpy(trailer.magic, trailer_magic, sizeof trailer_magic);
  trailer.content_bytes = content_and_key.size() - key_bytes;
  trailer.key_bytes = key_bytes;
  XXH128_canonicalFromHash(&trailer.checksum, XXH3_128bits(content_and_key.data(), content_and_key.size()));
  return trailer;
}

/// Bytes of content in a whole entry of this key.
std::optional<std::size_t> content_of(std::string_view entry, std::string_view key) {
  if (entry.size() < sizeof(Trailer) + key.size()) return std::nullopt;
  const std::string_view body = entry.substr(0, entry.size() - sizeof(Trailer));
  const Trailer expected = trailer_of(body, key.size());
  if (std::memcmp(entry.data() + body.size(), &expected, sizeof expected) != 0 || !body.ends_with(key))
    return std::nullopt;
  return body.size() - key.size();
}

/// What this process has built and no folder has taken, as much as a folder would keep.
class ProcessMemory {
 public:
  std::optional<std::string> find(const CacheKey& key) {
    const std::lock_guard lock(mutex_);
    const auto found = contents_.find(key.text);
    return found == contents_.end() ? std::nullopt : std::optional(found->second);
  }
  void add(const CacheKey& key, const std::string& content) {
    const std::lock_guard lock(mutex_);
    const std::uint64_t bytes = key.text.size() + content.size();
    if (bytes_ + bytes <= cache_limit("") && contents_.emplace(key.text, content).second) bytes_ += bytes;
  }
  void remove(const CacheKey& key) {
    const std::lock_guard lock(mutex_);
    const auto found = contents_.find(key.text);
    if (found == contents_.end()) return;
    bytes_ -= found->first.size() + found->second.size();
    contents_.erase(found);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> contents_;
  std::uint64_t bytes_ = 0;
};

ProcessMemory& process_memory() {
  static ProcessMemory memory;
  return memory;
}

}  // namespace

CacheKey::CacheKey(const std::vector<std::string>& parts, std::string ending_) : ending(std::move(ending_)) {
  for (const std::string& part : parts) text += std::to_string(part.size()) + ":" + part;
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  stem = fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::optional<std::string> find_entry(const CacheFolder& folder, const CacheKey& key) {
  if (folder.contains(key.entry())) {  // if not: what another process adds from here on is not removed
    auto entry = folder.read(key.entry());
    if (const auto content_bytes = entry ? content_of(*entry, key.text) : std::nullopt) {
      entry->resize(*content_bytes);
      return entry;
    }
    folder.remove(key.entry());
  }
  return process_memory().find(key);
}

void write_entry(const CacheFolder& folder, const CacheKey& key, const std::string& content) {
  std::string entry = content + key.text;
  const Trailer trailer = trailer_of(entry, key.text.size());
  entry.append(reinterpret_cast<const char*>(&trailer), sizeof trailer);
  if (!folder.write(key.entry(), entry)) process_memory().add(key, content);
}

bool with_cached_bytes(const CacheFolder& folder, const CacheKey& key, const std::function<std::string()>& build,
                       const std::function<void(const std::string&)>& use) {
  bool refused = false;
  auto use_entry = [&] {
    const auto found = refused ? std::nullopt : find_entry(folder, key);
    if (!found) return false;
    try {
      use(*found);
      return true;
    } catch (const Error& error) {
      if (error.code() == ErrorCode::OutOfMemory) throw;
      refused = true;
      folder.remove(key.entry());
      process_memory().remove(key);
      return false;
    }
  };
  if (use_entry()) return true;
  const BuildLock lock(folder, key.entry());
  if (use_entry()) return true;  // another process has built it meanwhile
  const std::string built = build();
  write_entry(folder, key, built);
  use(built);
  return false;
}

}  // namespace loopgrad::backend

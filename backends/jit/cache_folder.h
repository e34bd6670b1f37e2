// The folder in which compiled code is kept: who may use it, what lies in it, and how it is kept small. Any number of
// processes, containers and hosts may use one folder at once.
#pragma once

#include "backends/jit/files.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace loopgrad::backend {

/// A file of the cache, by the name that it has there. Other files are neither counted nor touched.
struct CacheFile {
  enum class Kind { Kernels, DeviceCode, CompilerVersion, FailedSource, Lock, Temporary };
  std::string name;
  Kind kind = Kind::Kernels;
  std::uint64_t bytes = 0;
  std::int64_t last_used = 0;  // nanoseconds since 1970
};
const char* name_of(CacheFile::Kind kind);

/// The cache folder, opened once, so that all that follows happens in the folder that was checked. Where it cannot be
/// used (no place is named, the disk is read-only or full, rights are missing) it is empty and takes nothing: compiled
/// code then lives in memory only, and LOOPGRAD_TIME=1 says so once.
class CacheFolder {
 public:
  /// LOOPGRAD_CACHE_DIR, else XDG_CACHE_HOME/loopgrad, else HOME/.cache/loopgrad; made when `make` says so, for the
  /// owner alone whatever the umask. Throws CompileError(BadCache), with what to do, for what is no folder and for a
  /// folder that belongs to another user than this one and root or that others may write to: code from there would be
  /// run as this user.
  explicit CacheFolder(const std::string& program, bool make = true);

  const std::filesystem::path& path() const { return path_; }  // empty: no place is named
  bool usable() const { return static_cast<bool>(folder_); }

  /// The content of a regular file that only this user or root may write to, and marks it as used now. Never waits and
  /// follows no link: anything else is nullopt.
  std::optional<std::string> read(const std::string& name) const;
  bool contains(const std::string& name) const;
  /// Writes a file as a whole, then makes room. False when the folder takes it not.
  bool write(const std::string& name, std::string_view content) const;
  /// Removes whatever has this name.
  void remove(const std::string& name) const;
  /// A file to lock, or an empty descriptor.
  Descriptor open_lock(const std::string& name) const;
  /// Whether `lock` still is the file of this name.
  bool is_current(const Descriptor& lock, const std::string& name) const;

  /// All files of the cache, the last used first.
  std::vector<CacheFile> files() const;
  /// Removes all of them, and returns those. Processes that are building lose their work, no more.
  std::vector<CacheFile> clear() const;

 private:
  bool is_left_over(const CacheFile& file) const;
  void make_room() const;
  void give_up(int failure) const;

  std::filesystem::path path_;
  Descriptor folder_;
};

/// LOOPGRAD_CACHE_LIMIT in bytes, 1 GiB where it is not set. Throws CompileError(BadCache) for anything but a number.
std::uint64_t cache_limit(const std::string& program);

}  // namespace loopgrad::backend

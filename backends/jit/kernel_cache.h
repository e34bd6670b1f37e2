// Compiled kernels on disk, found again by their content. Safe for any number of processes at once.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace loopgrad::backend {

/// A loaded shared library; unloaded with the last copy.
class KernelLibrary {
 public:
  /// The address of a function; InternalError when there is none of that name.
  void* function(const std::string& name) const;
  bool from_cache() const { return from_cache_; }

 private:
  friend KernelLibrary load_kernels(const std::string& source, const std::string& program);
  std::shared_ptr<void> handle_;
  bool from_cache_ = false;
};

/// LOOPGRAD_CACHE_DIR, else XDG_CACHE_HOME/loopgrad, else HOME/.cache/loopgrad.
/// Throws CompileError(BadCache) when none is set.
std::filesystem::path cache_folder(const std::string& program);

/// Other compiled code, kept in the same way: what `build` gives for a key (a list of everything that it depends on).
/// Throws CompileError(BadCache) and what `build` throws.
struct CachedBytes {
  std::string bytes;
  bool from_cache = false;
};
CachedBytes cached_bytes(const std::vector<std::string>& key, const std::string& extension, const std::string& program,
                         const std::function<std::string()>& build);

/// The library that `source` compiles to: from the cache when a complete entry is there, else compiled and added to it.
///
/// An entry is named after a hash of the source, the flags, the compiler's path and version, the processor and the
/// version of the interface; it ends in its own size and checksum, so that a torn or damaged file is noticed before it
/// is loaded, and rebuilt. The source is kept next to it. Throws CompileError: NoCompiler, CompileFailed, BadCache (the
/// folder cannot be written; names the folder).
KernelLibrary load_kernels(const std::string& source, const std::string& program);

}  // namespace loopgrad::backend

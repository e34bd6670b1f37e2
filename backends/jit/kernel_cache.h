// Compiled kernels of the host: from the cache or from the compiler, loaded.
#pragma once

#include <memory>
#include <string>

namespace loopgrad::backend {

/// A loaded shared library; unloaded with the last copy.
class KernelLibrary {
 public:
  /// The address of a function; InternalError when there is none of that name.
  void* function(const std::string& name) const;
  bool from_cache() const { return from_cache_; }

 private:
  friend KernelLibrary load_kernels(const std::string& source, const std::string& flags, const std::string& program);
  std::shared_ptr<void> handle_;
  bool from_cache_ = false;
};

/// The library that `source` compiles to with these flags for code generation: from the cache when a complete entry is
/// there, else compiled and added to it. An entry depends on the source, the flags, the compiler's path and version,
/// the processor and the version of the interface. Throws CompileError: NoCompiler, CompileFailed, BadCache (others can
/// write to the cache folder, or there is no place to compile in).
KernelLibrary load_kernels(const std::string& source, const std::string& flags, const std::string& program);

}  // namespace loopgrad::backend

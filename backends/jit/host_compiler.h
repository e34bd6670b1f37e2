// The C++ compiler that turns generated sources into loadable code.
#pragma once

#include "backends/jit/cache_folder.h"

#include <filesystem>
#include <string>

namespace loopgrad::backend {

struct HostCompiler {
  std::filesystem::path path;
  std::string version;  // what it prints for --version
};

/// LOOPGRAD_CXX (a name or a path); without it the compiler that built loopgrad if it still exists, else `c++`. The
/// version is asked for once and then remembered in `folder`, as starting a compiler costs more than loading a kernel.
/// Throws CompileError(NoCompiler) naming `program`.
HostCompiler find_host_compiler(const CacheFolder& folder, const std::string& program);

/// All flags that this compiler has, those for code generation included, as one line for people and for hashing.
std::string host_compiler_flags(const HostCompiler& compiler, const std::string& flags);

/// Compiles `source` in a private temporary folder, which is gone afterwards, and returns the content of the shared
/// library. Throws CompileError: NoCompiler, BadCache when there is no place for temporary files either, or
/// CompileFailed with the compiler's log and the path of the source, which is then kept in `folder` under `stem`.
std::string compile_shared_library(const HostCompiler& compiler, const std::string& source, const std::string& flags,
                                   const CacheFolder& folder, const std::string& stem, const std::string& program);

}  // namespace loopgrad::backend

// The C++ compiler that turns generated sources into loadable code.
#pragma once

#include <filesystem>
#include <string>

namespace loopgrad::backend {

struct HostCompiler {
  std::filesystem::path path;
  std::string version;  // what it prints for --version
};

/// LOOPGRAD_CXX (a name or a path); without it the compiler that built loopgrad if it still exists, else `c++`. The
/// version is asked for once and then remembered in `cache_folder`, as starting a compiler costs more than loading a
/// kernel. Throws CompileError(NoCompiler) naming `program`.
HostCompiler find_host_compiler(const std::filesystem::path& cache_folder, const std::string& program);

/// All flags, as one line for people and for hashing.
std::string host_compiler_flags();

/// Compiles `source` into the shared library `output`. Throws CompileError: NoCompiler, or CompileFailed with the
/// compiler's log and the path of the source.
void compile_shared_library(const HostCompiler& compiler, const std::filesystem::path& source,
                            const std::filesystem::path& output, const std::string& program);

}  // namespace loopgrad::backend

#include "backends/jit/host_compiler.h"

#include "backends/jit/cached_bytes.h"
#include "backends/jit/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <loopgrad/error.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <sstream>
#include <vector>

namespace loopgrad::backend {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void no_compiler(const std::string& program, const std::string& what) {
  throw CompileError({.code = ErrorCode::NoCompiler,
                      .message = what,
                      .program = program,
                      .hint = "install g++ 12 or newer, or set LOOPGRAD_CXX to a C++20 compiler with OpenMP"});
}

bool is_executable_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0;
}

/// Looks a name up as a shell would: a path stands for itself, a plain name is searched in PATH.
std::optional<fs::path> resolve(const std::string& name) {
  if (name.find('/') != std::string::npos)
    return is_executable_file(name) ? std::optional(fs::absolute(name)) : std::nullopt;
  const char* const search = std::getenv("PATH");
  std::istringstream folders(search ? search : "/usr/local/bin:/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path candidate = fs::path(folder.empty() ? "." : folder) / name;
    if (is_executable_file(candidate)) return fs::absolute(candidate);
  }
  return std::nullopt;
}

fs::path compiler_path(const std::string& program) {
  if (const char* const chosen = std::getenv("LOOPGRAD_CXX"); chosen && *chosen) {
    if (const auto found = resolve(chosen)) return *found;
    no_compiler(program, fmt::format("the compiler '{}' named by LOOPGRAD_CXX cannot be found or executed", chosen));
  }
  for (const char* const name : {LOOPGRAD_DEFAULT_CXX, "c++"})
    if (const auto found = resolve(name)) return *found;
  no_compiler(program, fmt::format("no C++ compiler: neither '{}' nor 'c++' can be found", LOOPGRAD_DEFAULT_CXX));
}

/// What the version of this very compiler is remembered by.
CacheKey version_key(const fs::path& compiler) {
  struct stat status {};
  ::stat(compiler.c_str(), &status);
  return CacheKey({"compiler version", compiler.string(), std::to_string(status.st_size),
                   fmt::format("{}.{}", status.st_mtim.tv_sec, status.st_mtim.tv_nsec)},
                  ".version");
}

/// Passes of g++ that generated code is better without. clang has none of them, and refuses the names of some.
bool is_for_gcc(const std::string& flag) {
  return flag == "-fno-tree-loop-distribution" || flag == "-fno-predictive-commoning" ||
         flag == "-fno-loop-unroll-and-jam" || flag == "-fno-thread-jumps";
}

std::vector<std::string> flag_list(const HostCompiler& compiler, const std::string& for_code) {
  const bool is_clang = compiler.version.find("clang") != std::string::npos;
  std::istringstream words("-std=c++20 -fopenmp -shared -fPIC -w " + for_code);
  std::vector<std::string> flags;
  for (std::string word; words >> word;)
    if (!is_clang || !is_for_gcc(word)) flags.push_back(word);
  return flags;
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out.append(out.empty() ? "" : " ").append(word);
  return out;
}

void check_started(const ProcessResult& result, const fs::path& compiler, const std::string& program) {
  if (result.start_error != 0)
    no_compiler(program, fmt::format("the compiler '{}' cannot be started ({})", compiler.string(),
                                     std::strerror(result.start_error)));
}

}  // namespace

std::string host_compiler_flags(const HostCompiler& compiler, const std::string& flags) {
  return joined(flag_list(compiler, flags));
}

HostCompiler find_host_compiler(const CacheFolder& folder, const std::string& program) {
  HostCompiler compiler;
  compiler.path = compiler_path(program);
  const CacheKey key = version_key(compiler.path);
  if (auto version = find_entry(folder, key)) {
    compiler.version = std::move(*version);
    return compiler;
  }
  const ProcessResult result = run_process({compiler.path.string(), "--version"});
  check_started(result, compiler.path, program);
  compiler.version = result.output;
  if (result.succeeded && !compiler.version.empty()) write_entry(folder, key, compiler.version);
  return compiler;
}

std::string compile_shared_library(const HostCompiler& compiler, const std::string& source, const std::string& flags,
                                   const CacheFolder& folder, const std::string& stem, const std::string& program) {
  const WorkFolder work;
  const Descriptor place(work.failure() ? -1 : ::open(work.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const int failure = work.failure() ? work.failure() : place ? publish_file(place, "kernels.cpp", source) : errno;
  if (failure != 0)
    throw CompileError({.code = ErrorCode::BadCache,
                        .message = fmt::format("there is no place to compile in: the folder for temporary files "
                                               "cannot be used ({})",
                                               std::strerror(failure)),
                        .program = program,
                        .hint = "set TMPDIR to a folder of your own that can be written and has room"});
  std::vector<std::string> command = {compiler.path.string()};
  for (std::string& flag : flag_list(compiler, flags)) command.push_back(std::move(flag));
  const fs::path input = work.path() / "kernels.cpp", output = work.path() / "kernels.so";
  command.insert(command.end(), {"-o", output.string(), input.string()});
  const ProcessResult result = run_process(command, work.path());
  check_started(result, compiler.path, program);
  auto library = read_all(Descriptor(::openat(place.value(), "kernels.so", O_RDONLY | O_NOFOLLOW | O_CLOEXEC)));
  if (result.succeeded && library && !library->empty()) return std::move(*library);
  const bool kept = folder.write(stem + ".cpp", source);
  const std::string where =
      kept ? fmt::format("source '{}'", (folder.path() / (stem + ".cpp")).string()) : "source, which could not be kept";
  const std::string ending = result.succeeded ? "no output file" : result.ending;
  throw CompileError({.code = ErrorCode::CompileFailed,
                      .message = fmt::format("the compiler '{}' failed on the generated {} ({}):\n{}",
                                             compiler.path.string(), where, ending, result.output),
                      .program = program,
                      .hint = "check LOOPGRAD_CXX; the command was: " + joined(command)});
}

}  // namespace loopgrad::backend

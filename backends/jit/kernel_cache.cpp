#include "backends/jit/kernel_cache.h"

#include "backends/jit/files.h"
#include "backends/jit/host_compiler.h"

#define XXH_INLINE_ALL
#include <dlfcn.h>
#include <fmt/format.h>
#include <loopgrad/error.h>
#include <xxhash.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>

namespace loopgrad::backend {
namespace {

namespace fs = std::filesystem;

/// Changes whenever the interface between the runtime and generated functions does.
constexpr int interface_version = 1;

/// The end of a cache entry. What comes before it is the shared library as the linker wrote it.
struct Trailer {
  char magic[8];
  std::uint64_t bytes;
  XXH128_canonical_t checksum;
};
constexpr char trailer_magic[8] = {'l', 'o', 'o', 'p', 'g', 'r', 'a', 'd'};

Trailer trailer_of(std::string_view library) {
  Trailer trailer{};
  std::memcpy(trailer.magic, trailer_magic, sizeof trailer_magic);
  trailer.bytes = library.size();
  XXH128_canonicalFromHash(&trailer.checksum, XXH3_128bits(library.data(), library.size()));
  return trailer;
}

bool is_complete(const std::string& entry) {
  if (entry.size() < sizeof(Trailer)) return false;
  const std::string_view library(entry.data(), entry.size() - sizeof(Trailer));
  const Trailer expected = trailer_of(library);
  return std::memcmp(entry.data() + library.size(), &expected, sizeof expected) == 0;
}

/// What -march=native depends on: the description of the first processor, without what changes from moment to moment.
std::string read_processor() {
  static const std::set<std::string> lasting = {"vendor_id",        "cpu family",  "model",    "model name",
                                                "stepping",         "flags",       "Features", "CPU implementer",
                                                "CPU architecture", "CPU variant", "CPU part", "CPU revision"};
  std::ifstream info("/proc/cpuinfo");
  std::string out;
  for (std::string line; std::getline(info, line) && !line.empty();) {
    const std::string key = line.substr(0, line.find_first_of("\t:"));
    if (lasting.count(key)) out += line + "\n";
  }
  return out;
}

const std::string& processor() {
  static const std::string text = read_processor();
  return text;
}

std::string key_of(const std::vector<std::string>& parts) {
  std::string all;
  for (const std::string& part : parts) all += std::to_string(part.size()) + ":" + part;
  const XXH128_hash_t hash = XXH3_128bits(all.data(), all.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

[[noreturn]] void bad_cache(const fs::path& folder, const std::string& program, const std::string& why) {
  throw CompileError({.code = ErrorCode::BadCache,
                      .message = fmt::format("the kernel cache folder '{}' cannot be used ({})", folder.string(), why),
                      .program = program,
                      .hint = "set LOOPGRAD_CACHE_DIR to a folder that can be written"});
}

void require_written(int failure, const fs::path& folder, const std::string& program) {
  if (failure != 0) bad_cache(folder, program, std::strerror(failure));
}

/// Compiles the source and publishes the entry.
void build_entry(const fs::path& folder, const std::string& key, const std::string& source,
                 const HostCompiler& compiler, const std::string& program) {
  const fs::path source_file = folder / (key + ".cpp"), entry = folder / (key + ".so");
  require_written(publish_file(source_file, source), folder, program);
  const fs::path compiled = unique_name(entry);
  compile_shared_library(compiler, source_file, compiled, program);
  auto library = read_file(compiled);
  std::error_code ignored;
  fs::remove(compiled, ignored);
  if (!library) bad_cache(folder, program, "the compiled library cannot be read back");
  const Trailer trailer = trailer_of(*library);
  library->append(reinterpret_cast<const char*>(&trailer), sizeof trailer);
  require_written(publish_file(entry, *library), folder, program);
}

/// Unloading a kernel must not unload the OpenMP library under its sleeping threads.
void keep_openmp_loaded(void* handle) {
  Dl_info info;
  void* const address = ::dlsym(handle, "omp_get_max_threads");
  if (address && ::dladdr(address, &info)) ::dlopen(info.dli_fname, RTLD_NOW | RTLD_NODELETE | RTLD_NOLOAD);
}

}  // namespace

void* KernelLibrary::function(const std::string& name) const {
  void* const address = ::dlsym(handle_.get(), name.c_str());
  if (!address) throw InternalError("the compiled code has no function '" + name + "'");
  return address;
}

fs::path cache_folder(const std::string& program) {
  auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return fs::path(value ? value : "");
  };
  if (const fs::path chosen = variable("LOOPGRAD_CACHE_DIR"); !chosen.empty()) return fs::absolute(chosen);
  if (const fs::path base = variable("XDG_CACHE_HOME"); base.is_absolute()) return base / "loopgrad";
  if (const fs::path home = variable("HOME"); home.is_absolute()) return home / ".cache" / "loopgrad";
  bad_cache("", program, "neither LOOPGRAD_CACHE_DIR, XDG_CACHE_HOME nor HOME is set");
}

CachedBytes cached_bytes(const std::vector<std::string>& key, const std::string& extension, const std::string& program,
                         const std::function<std::string()>& build) {
  const fs::path folder = cache_folder(program);
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure) bad_cache(folder, program, failure.message());
  const fs::path entry = folder / (key_of(key) + extension);
  auto found = read_file(entry);
  if (found && is_complete(*found)) {
    found->resize(found->size() - sizeof(Trailer));
    return {std::move(*found), true};
  }
  CachedBytes built{build(), false};
  const Trailer trailer = trailer_of(built.bytes);
  const std::string all = built.bytes + std::string(reinterpret_cast<const char*>(&trailer), sizeof trailer);
  require_written(publish_file(entry, all), folder, program);
  return built;
}

KernelLibrary load_kernels(const std::string& source, const std::string& program) {
  const fs::path folder = cache_folder(program);
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure) bad_cache(folder, program, failure.message());

  const HostCompiler compiler = find_host_compiler(folder, program);
  const std::string key = key_of({source, host_compiler_flags(), compiler.path.string(), compiler.version, processor(),
                                  std::to_string(interface_version)});
  const fs::path entry = folder / (key + ".so");
  const auto found = read_file(entry);
  KernelLibrary kernels;
  kernels.from_cache_ = found && is_complete(*found);
  if (!kernels.from_cache_) build_entry(folder, key, source, compiler, program);

  void* const handle = ::dlopen(entry.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* const why = ::dlerror();
    throw CompileError({.code = ErrorCode::CompileFailed,
                        .message = fmt::format("the compiled library '{}' cannot be loaded ({})", entry.string(),
                                               why ? why : "unknown reason"),
                        .program = program,
                        .hint =
                            "check that the compiler's OpenMP library is installed and that LOOPGRAD_CACHE_DIR is on a "
                            "file system that allows execution"});
  }
  kernels.handle_ = std::shared_ptr<void>(handle, [](void* h) { ::dlclose(h); });
  keep_openmp_loaded(handle);
  return kernels;
}

}  // namespace loopgrad::backend

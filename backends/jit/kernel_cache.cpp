#include "backends/jit/kernel_cache.h"

#include "backends/jit/cached_bytes.h"
#include "backends/jit/host_compiler.h"
#include "backends/jit/open_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <loopgrad/error.h>

#include <fstream>
#include <set>

namespace loopgrad::backend {
namespace {

/// Changes whenever the interface between the runtime and generated functions does.
constexpr int interface_version = 1;

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

KernelLibrary load_kernels(const std::string& source, const std::string& flags, const std::string& program) {
  const CacheFolder folder(program);
  const HostCompiler compiler = find_host_compiler(folder, program);
  const CacheKey key({source, host_compiler_flags(compiler, flags), compiler.path.string(), compiler.version,
                      processor(), std::to_string(interface_version)},
                     ".so");
  KernelLibrary kernels;
  kernels.from_cache_ = with_cached_bytes(
      folder, key, [&] { return compile_shared_library(compiler, source, flags, folder, key.stem, program); },
      [&](const std::string& library) {
        std::string why;
        void* const handle = open_library(library, why);
        if (!handle)
          throw CompileError({.code = ErrorCode::CompileFailed,
                              .message = fmt::format("the compiled library cannot be loaded ({})", why),
                              .program = program,
                              .hint = "check that the compiler's OpenMP library is installed"});
        kernels.handle_ = std::shared_ptr<void>(handle, [](void* h) { ::dlclose(h); });
        keep_openmp_loaded(handle);
      });
  return kernels;
}

}  // namespace loopgrad::backend

#include "backends/cuda/nvrtc.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <loopgrad/error.h>

#include <cstdlib>

namespace loopgrad::backend {
namespace {

/// The part of nvrtc.h that is used, so that building needs no toolkit. The interface is stable since CUDA 11.1.
struct Nvrtc {
  using Handle = void*;
  int (*version)(int*, int*) = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*create)(Handle*, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
  int (*compile)(Handle, int, const char* const*) = nullptr;
  int (*log_size)(Handle, std::size_t*) = nullptr;
  int (*log)(Handle, char*) = nullptr;
  int (*cubin_size)(Handle, std::size_t*) = nullptr;
  int (*cubin)(Handle, char*) = nullptr;
  int (*destroy)(Handle*) = nullptr;
  bool found = false;
};

const std::vector<const char*> flags = {"--std=c++17", "--device-as-default-execution-space", "-lineinfo"};

std::vector<std::string> candidates() {
  std::vector<std::string> paths;
  const std::vector<std::string> names = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* const home = std::getenv(variable); home && *home)
      for (const std::string& name : names) paths.push_back(std::string(home) + "/lib64/" + name);
  paths.insert(paths.end(), names.begin(), names.end());
  for (const std::string& name : names) paths.push_back("/usr/local/cuda/lib64/" + name);
  return paths;
}

template <class F>
bool find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(::dlsym(library, name));
  return function != nullptr;
}

Nvrtc open_nvrtc() {
  for (const std::string& path : candidates()) {
    void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) continue;
    Nvrtc n;
    n.found = find(library, "nvrtcVersion", n.version) && find(library, "nvrtcGetErrorString", n.error_string) &&
              find(library, "nvrtcCreateProgram", n.create) && find(library, "nvrtcCompileProgram", n.compile) &&
              find(library, "nvrtcGetProgramLogSize", n.log_size) && find(library, "nvrtcGetProgramLog", n.log) &&
              find(library, "nvrtcGetCUBINSize", n.cubin_size) && find(library, "nvrtcGetCUBIN", n.cubin) &&
              find(library, "nvrtcDestroyProgram", n.destroy);
    if (n.found) return n;
  }
  return {};
}

const Nvrtc& nvrtc() {
  static const Nvrtc opened = open_nvrtc();
  return opened;
}

const Nvrtc& required(const std::string& program) {
  if (!nvrtc().found)
    throw CompileError({.code = ErrorCode::NoCompiler,
                        .message = "libnvrtc, the run-time compiler of the CUDA toolkit, is not found",
                        .program = program,
                        .hint = "install the CUDA toolkit (12.8 or later), set CUDA_HOME, or use Target::OpenMP"});
  return nvrtc();
}

}  // namespace

bool has_nvrtc() { return nvrtc().found; }

std::string nvrtc_version(const std::string& program) {
  int major = 0, minor = 0;
  required(program).version(&major, &minor);
  return fmt::format("{}.{}", major, minor);
}

std::string nvrtc_flags() {
  std::string all;
  for (const char* flag : flags) all += std::string(flag) + " ";
  return all;
}

std::string compile_cubin(const std::string& source, const std::string& architecture, const std::string& program) {
  const Nvrtc& n = required(program);
  auto refuse = [&](const std::string& why) {
    throw CompileError({.code = ErrorCode::CompileFailed, .message = why, .program = program});
  };
  Nvrtc::Handle handle = nullptr;
  const std::string file = program + ".cu";
  if (const int status = n.create(&handle, source.c_str(), file.c_str(), 0, nullptr, nullptr))
    refuse(fmt::format("nvrtcCreateProgram failed ({})", n.error_string(status)));
  std::vector<const char*> options = flags;
  const std::string arch = "--gpu-architecture=" + architecture;
  options.push_back(arch.c_str());
  const int status = n.compile(handle, static_cast<int>(options.size()), options.data());
  std::string log, cubin;
  std::size_t bytes = 0;
  if (status != 0) {
    if (n.log_size(handle, &bytes) == 0) {
      log.resize(bytes);
      n.log(handle, log.data());
    }
    n.destroy(&handle);
    refuse(fmt::format("NVRTC refused the generated code for {} ({}):\n{}", architecture, n.error_string(status), log));
  }
  n.cubin_size(handle, &bytes);
  cubin.resize(bytes);
  n.cubin(handle, cubin.data());
  n.destroy(&handle);
  return cubin;
}

}  // namespace loopgrad::backend

#include "backends/cuda/nvrtc.h"

#include "backends/cuda/assembler.h"
#include "backends/cuda/device_checks.h"
#include "backends/runtime/shared_library.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <loopgrad/error.h>

#include <cstdlib>

namespace loopgrad::backend {
namespace {

/// The part of nvrtc.h that is used, so that building needs no toolkit. The interface is stable since CUDA 11.2.
struct Nvrtc {
  using Handle = void*;
  int (*version)(int*, int*) = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*count_architectures)(int*) = nullptr;
  int (*architectures)(int*) = nullptr;
  int (*create)(Handle*, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
  int (*compile)(Handle, int, const char* const*) = nullptr;
  int (*log_size)(Handle, std::size_t*) = nullptr;
  int (*log)(Handle, char*) = nullptr;
  int (*cubin_size)(Handle, std::size_t*) = nullptr;
  int (*cubin)(Handle, char*) = nullptr;
  int (*ptx_size)(Handle, std::size_t*) = nullptr;
  int (*ptx)(Handle, char*) = nullptr;
  int (*destroy)(Handle*) = nullptr;
  bool found = false;
};

constexpr std::string_view common_flags[] = {"--std=c++17", "--device-as-default-execution-space", "-lineinfo",
                                             "--fmad=false"};

/// NVRTC opens a second library by name; where it is not in a system folder it is beside the first.
void open_builtins(const std::string& path, const Nvrtc& n) {
  const std::size_t slash = path.rfind('/');
  int major = 0, minor = 0;
  if (slash == std::string::npos || n.version(&major, &minor) != 0) return;
  const std::string beside = fmt::format("{}/libnvrtc-builtins.so.{}.{}", path.substr(0, slash), major, minor);
  ::dlopen(beside.c_str(), RTLD_NOW | RTLD_GLOBAL);
}

Nvrtc open_nvrtc() {
  for (const std::string& path : toolkit_paths("LOOPGRAD_NVRTC", {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"})) {
    void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) continue;
    Nvrtc n;
    n.found = find_symbol(library, "nvrtcVersion", n.version) &&
              find_symbol(library, "nvrtcGetErrorString", n.error_string) &&
              find_symbol(library, "nvrtcGetNumSupportedArchs", n.count_architectures) &&
              find_symbol(library, "nvrtcGetSupportedArchs", n.architectures) &&
              find_symbol(library, "nvrtcCreateProgram", n.create) &&
              find_symbol(library, "nvrtcCompileProgram", n.compile) &&
              find_symbol(library, "nvrtcGetProgramLogSize", n.log_size) &&
              find_symbol(library, "nvrtcGetProgramLog", n.log) &&
              find_symbol(library, "nvrtcGetCUBINSize", n.cubin_size) &&
              find_symbol(library, "nvrtcGetCUBIN", n.cubin) && find_symbol(library, "nvrtcGetPTXSize", n.ptx_size) &&
              find_symbol(library, "nvrtcGetPTX", n.ptx) && find_symbol(library, "nvrtcDestroyProgram", n.destroy);
    if (!n.found) continue;
    open_builtins(path, n);
    return n;
  }
  return {};
}

const Nvrtc& nvrtc() {
  static const Nvrtc opened = open_nvrtc();
  return opened;
}

std::vector<int> known_architectures(const Nvrtc& n) {
  int count = 0;
  if (n.count_architectures(&count) != 0 || count <= 0) return {};
  std::vector<int> known(static_cast<std::size_t>(count));
  return n.architectures(known.data()) == 0 ? known : std::vector<int>{};
}

const Nvrtc& required(const std::string& program) {
  if (!nvrtc().found)
    throw CompileError(
        {.code = ErrorCode::NoCompiler,
         .message = "libnvrtc, the run-time compiler of the CUDA toolkit, is not found",
         .program = program,
         .hint = "install the CUDA toolkit (12.8 or later), set CUDA_HOME, name the library in LOOPGRAD_NVRTC, or use "
                 "Target::OpenMP"});
  return nvrtc();
}

/// What NVRTC makes of a source.
struct Compiled {
  std::string assembly, machine_code;
};

Compiled compiled_with(const std::vector<std::string>& flags, const std::string& source,
                       const std::string& architecture, const std::string& program) {
  const Nvrtc& n = required(program);
  auto refuse = [&](const std::string& why) {
    throw CompileError({.code = ErrorCode::CompileFailed, .message = why, .program = program});
  };
  Nvrtc::Handle handle = nullptr;
  const std::string file = program + ".cu";
  if (const int status = n.create(&handle, source.c_str(), file.c_str(), 0, nullptr, nullptr))
    refuse(fmt::format("nvrtcCreateProgram failed ({})", n.error_string(status)));
  std::vector<const char*> options;
  for (const std::string& flag : flags) options.push_back(flag.c_str());
  const int status = n.compile(handle, static_cast<int>(options.size()), options.data());
  const auto get = [&](auto get_size, auto get_text) {
    std::string text;
    std::size_t bytes = 0;
    if (get_size(handle, &bytes) != 0) return text;
    text.resize(bytes);
    get_text(handle, text.data());
    return text;
  };
  const std::string log = status != 0 ? get(n.log_size, n.log) : "";
  Compiled result;
  if (status == 0) result = {get(n.ptx_size, n.ptx), get(n.cubin_size, n.cubin)};
  n.destroy(&handle);
  if (status != 0)
    refuse(fmt::format("NVRTC refused the generated code for {} ({}):\n{}", architecture, n.error_string(status), log));
  return result;
}

std::vector<std::string> flags_for(const std::string& architecture, const std::string& program) {
  cuda::check_architecture(architecture, known_architectures(required(program)), nvrtc_version(program), program);
  std::vector<std::string> flags(std::begin(common_flags), std::end(common_flags));
  flags.push_back("--gpu-architecture=" + architecture);
  return flags;
}

Compiled compiled(const std::string& source, const std::string& architecture, const std::string& program) {
  std::vector<std::string> flags = flags_for(architecture, program);
  Compiled result = compiled_with(flags, source, architecture, program);
  const bool has_extrema_of_three = std::stoi(architecture.substr(3)) >= 90;  // "sm_90"
  if (!has_extrema_of_three || !may_lose_minus(result.assembly)) return result;
  const std::string separate = separate_extrema + source;
  result = compiled_with(flags, separate, architecture, program);
  if (!may_lose_minus(result.assembly)) return result;
  flags.push_back("--ptxas-options=-O0");  // where the compiler itself writes such maxima
  return compiled_with(flags, separate, architecture, program);
}

}  // namespace

bool has_nvrtc() { return nvrtc().found; }

std::string nvrtc_version(const std::string& program) {
  int major = 0, minor = 0;
  required(program).version(&major, &minor);
  return fmt::format("{}.{}", major, minor);
}

std::string nvrtc_flags() { return fmt::format("{} (assembly looked through)", fmt::join(common_flags, " ")); }

bool needs_separate_extrema(const std::string& source, const std::string& architecture, const std::string& program) {
  return may_lose_minus(compiled_with(flags_for(architecture, program), source, architecture, program).assembly);
}

std::string compile_cubin(const std::string& source, const std::string& architecture, const std::string& program) {
  return compiled(source, architecture, program).machine_code;
}

std::string compile_quickly(const std::string& source, const std::string& architecture, const std::string& program) {
  std::vector<std::string> flags = flags_for(architecture, program);
  int major = 0, minor = 0;
  required(program).version(&major, &minor);
  if (major > 12) flags.push_back("--Ofast-compile=mid");
  return compiled_with(flags, source, architecture, program).machine_code;
}

std::string compile_ptx(const std::string& source, const std::string& architecture, const std::string& program) {
  return compiled(source, architecture, program).assembly;
}

}  // namespace loopgrad::backend

#include "backends/jit/open_library.h"

#include "backends/jit/files.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>

namespace loopgrad::backend {
namespace {

/// A path of the descriptor that no other library has had. The loader takes a library for open when its path is that of
/// one that is, and numbers of descriptors come again: counting with "/" and "/." gives each opening a path of its own.
std::string unique_path(int descriptor) {
  static std::atomic<std::uint64_t> counter{0};
  std::string path = "/proc/self/fd";
  for (std::uint64_t n = counter++; n != 0; n /= 2) path += n % 2 ? "/." : "/";
  return path + "/" + std::to_string(descriptor);
}

void* open_path(const std::string& path, std::string& why) {
  void* const handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* const reason = ::dlerror();
    why = reason ? reason : "unknown reason";
  }
  return handle;
}

void* open_from_memory(const std::string& content, std::string& why) {
  const Descriptor file(::memfd_create("loopgrad", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file || write_all(file, content) != 0) return nullptr;
  ::fcntl(file.value(), F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
  return open_path(unique_path(file.value()), why);
}

void* open_from_file(const std::string& content, std::string& why) {
  const WorkFolder folder;
  if (folder.failure() != 0) {
    why = std::strerror(folder.failure());
    return nullptr;
  }
  const Descriptor parent(::open(folder.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const int failure = parent ? publish_file(parent, "kernels.so", content) : errno;
  if (failure != 0) {
    why = std::strerror(failure);
    return nullptr;
  }
  return open_path(folder.path() / "kernels.so", why);
}

}  // namespace

void* open_library(const std::string& content, std::string& why) {
  void* const handle = open_from_memory(content, why);
  return handle ? handle : open_from_file(content, why);
}

}  // namespace loopgrad::backend

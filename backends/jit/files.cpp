#include "backends/jit/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>

namespace loopgrad::backend {
namespace {

class Descriptor {
 public:
  Descriptor(const std::filesystem::path& path, int flags) : value_(::open(path.c_str(), flags | O_CLOEXEC, 0644)) {}
  Descriptor(const Descriptor&) = delete;
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  int value() const { return value_; }

 private:
  int value_;
};

int write_file(const std::filesystem::path& path, std::string_view content) {
  const Descriptor file(path, O_WRONLY | O_CREAT | O_EXCL);
  if (file.value() < 0) return errno;
  while (!content.empty()) {
    const ssize_t written = ::write(file.value(), content.data(), content.size());
    if (written < 0 && errno != EINTR) return errno;
    if (written > 0) content.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

}  // namespace

std::optional<std::string> read_file(const std::filesystem::path& path) {
  const Descriptor file(path, O_RDONLY);
  if (file.value() < 0) return std::nullopt;
  std::string out;
  std::size_t size = 0;
  for (;;) {
    out.resize(size + 65536);
    const ssize_t got = ::read(file.value(), out.data() + size, out.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    size += static_cast<std::size_t>(got);
    if (got == 0) break;
  }
  out.resize(size);
  return out;
}

std::filesystem::path unique_name(const std::filesystem::path& path) {
  static std::atomic<unsigned> counter{0};
  return path.string() + "." + std::to_string(::getpid()) + "." + std::to_string(counter++) + ".tmp";
}

int publish_file(const std::filesystem::path& path, std::string_view content) {
  const std::filesystem::path temporary = unique_name(path);
  int failure = write_file(temporary, content);
  if (failure == 0 && std::rename(temporary.c_str(), path.c_str()) != 0) failure = errno;
  if (failure != 0) std::remove(temporary.c_str());
  return failure;
}

}  // namespace loopgrad::backend

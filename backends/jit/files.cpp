#include "backends/jit/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace loopgrad::backend {
namespace {

namespace fs = std::filesystem;

constexpr const char* work_prefix = "loopgrad-build-";

/// Nobody else can replace what we make in it: others may not write there, or not rename what is not theirs.
bool is_safe_parent(const fs::path& folder) {
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0) return false;
  return is_trusted(status) || (status.st_mode & S_ISVTX) != 0;
}

void remove_leftovers(const fs::path& parent) {
  std::error_code ignored;
  for (fs::directory_iterator at(parent, ignored), end; !ignored && at != end; at.increment(ignored)) {
    struct stat status {};
    if (!at->path().filename().string().starts_with(work_prefix)) continue;
    if (::lstat(at->path().c_str(), &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != ::geteuid()) continue;
    std::error_code failure;
    if (status.st_mtime + leftover_age < std::time(nullptr)) fs::remove_all(at->path(), failure);
  }
}

}  // namespace

Descriptor::~Descriptor() {
  if (value_ >= 0) ::close(value_);
}

std::optional<std::string> read_all(const Descriptor& file) {
  if (!file) return std::nullopt;
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

namespace {

/// While it lives, a file that would grow beyond the process's limit is an errno of this thread (EFBIG) and no SIGXFSZ,
/// which ends the user's process.
class FileLimitAsErrno {
 public:
  FileLimitAsErrno() {
    ::sigemptyset(&limit_);
    ::sigaddset(&limit_, SIGXFSZ);
    ::pthread_sigmask(SIG_BLOCK, &limit_, &before_);
  }
  ~FileLimitAsErrno() {
    // What the kernel sent for this thread's write waits for it; another one's own would be sent to that thread.
    const timespec at_once = {};
    if (!::sigismember(&before_, SIGXFSZ)) ::sigtimedwait(&limit_, nullptr, &at_once);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  FileLimitAsErrno(const FileLimitAsErrno&) = delete;
  FileLimitAsErrno& operator=(const FileLimitAsErrno&) = delete;

 private:
  sigset_t limit_ = {}, before_ = {};
};

}  // namespace

int write_all(const Descriptor& file, std::string_view content) {
  const FileLimitAsErrno limited;
  while (!content.empty()) {
    const ssize_t written = ::write(file.value(), content.data(), content.size());
    if (written < 0 && errno != EINTR) return errno;
    if (written > 0) content.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

bool is_trusted(const struct stat& status) {
  return (status.st_uid == ::geteuid() || status.st_uid == 0) && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

std::string temporary_name(const std::string& name) {
  std::uint64_t random = 0;
  while (::getrandom(&random, sizeof random, 0) < 0 && errno == EINTR) {
  }
  return fmt::format("{}.{:016x}.tmp", name, random);
}

int publish_file(const Descriptor& folder, const std::string& name, std::string_view content) {
  const std::string temporary = temporary_name(name);
  // O_EXCL also follows no link. The mode is set again, as the umask may have taken away the owner's rights.
  const Descriptor file(
      ::openat(folder.value(), temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return errno;
  int failure = ::fchmod(file.value(), 0600) == 0 ? write_all(file, content) : errno;
  if (failure == 0 && ::renameat(folder.value(), temporary.c_str(), folder.value(), name.c_str()) != 0) failure = errno;
  if (failure != 0) ::unlinkat(folder.value(), temporary.c_str(), 0);
  return failure;
}

WorkFolder::WorkFolder() {
  std::error_code none;
  failure_ = ENOENT;
  for (const fs::path& parent : {fs::temp_directory_path(none), fs::path("/tmp")}) {
    if (parent.empty() || !is_safe_parent(parent)) continue;
    remove_leftovers(parent);
    std::string name = (fs::absolute(parent, none) / work_prefix).string() + "XXXXXX";
    failure_ = ::mkdtemp(name.data()) ? 0 : errno;
    if (failure_ != 0) continue;
    path_ = name;
    ::chmod(name.c_str(), 0700);  // mkdtemp is subject to the umask
    return;
  }
}

WorkFolder::~WorkFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

}  // namespace loopgrad::backend

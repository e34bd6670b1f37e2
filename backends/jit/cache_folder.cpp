#include "backends/jit/cache_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <loopgrad/error.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>

namespace loopgrad::backend {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& folder, const std::string& program, const std::string& why,
                         const std::string& hint) {
  throw CompileError({.code = ErrorCode::BadCache,
                      .message = fmt::format("the kernel cache folder '{}' cannot be used ({})", folder.string(), why),
                      .program = program,
                      .hint = hint});
}

/// Empty when no place is named, or a relative one while the current folder is gone.
fs::path place() {
  auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return fs::path(value ? value : "");
  };
  std::error_code failure;
  if (const fs::path chosen = variable("LOOPGRAD_CACHE_DIR"); !chosen.empty()) return fs::absolute(chosen, failure);
  if (const fs::path base = variable("XDG_CACHE_HOME"); base.is_absolute()) return base / "loopgrad";
  if (const fs::path home = variable("HOME"); home.is_absolute()) return home / ".cache" / "loopgrad";
  return {};
}

/// Makes the folder and those above it. Returns an errno value, 0 if it is there.
int make_folders(const fs::path& path) {
  fs::path upto;
  for (const fs::path& part : path) {
    upto /= part;
    if (::mkdir(upto.c_str(), 0700) == 0) {
      ::chmod(upto.c_str(), 0700);  // the umask may have taken rights away
      continue;
    }
    const int failure = errno;
    if (struct stat status; ::stat(upto.c_str(), &status) != 0) return failure == EEXIST ? errno : failure;
  }
  return 0;
}

/// Throws what the class says.
void check_folder(const fs::path& path, const Descriptor& folder, const std::string& program) {
  struct stat status {
  }, link{};
  if (::fstat(folder.value(), &status) != 0) refuse(path, program, std::strerror(errno), "set LOOPGRAD_CACHE_DIR");
  const bool is_link = ::lstat(path.c_str(), &link) == 0 && S_ISLNK(link.st_mode);
  for (const uid_t owner : {status.st_uid, is_link ? link.st_uid : status.st_uid})
    if (owner != ::geteuid() && owner != 0)
      refuse(path, program,
             fmt::format("it belongs to user {}, and kernels in it would be run as user {}", owner, ::geteuid()),
             "set LOOPGRAD_CACHE_DIR to a folder of your own");
  if (!is_trusted(status))
    refuse(path, program,
           fmt::format("others may write to it (mode {:03o}), and kernels in it would be run as you",
                       status.st_mode & 07777),
           fmt::format("remove what others may have put there, then chmod 700 '{}'; or set LOOPGRAD_CACHE_DIR to a "
                       "folder of your own",
                       path.string()));
}

bool is_hexadecimal(std::string_view text, std::size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// What a name says, as the functions of this folder and earlier versions make names; nullopt for files of others.
std::optional<CacheFile::Kind> kind_of(std::string_view name) {
  using Kind = CacheFile::Kind;
  const std::size_t dot = name.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const std::string_view stem = name.substr(0, dot), ending = name.substr(dot);
  const bool version = stem.starts_with("compiler-") && is_hexadecimal(stem.substr(9), 16);
  if (!version && !is_hexadecimal(stem, 32)) return std::nullopt;
  if (name.ends_with(".tmp")) return Kind::Temporary;
  if (version) return ending == ".txt" ? std::optional(Kind::CompilerVersion) : std::nullopt;
  static constexpr std::array<std::pair<std::string_view, Kind>, 4> endings = {{{".so", Kind::Kernels},
                                                                                {".cubin", Kind::DeviceCode},
                                                                                {".version", Kind::CompilerVersion},
                                                                                {".cpp", Kind::FailedSource}}};
  for (const auto& [known, kind] : endings) {
    if (ending == known) return kind;
    if (ending == std::string(known) + ".lock") return Kind::Lock;
  }
  return std::nullopt;
}

}  // namespace

const char* name_of(CacheFile::Kind kind) {
  switch (kind) {
    case CacheFile::Kind::Kernels: return "kernels";
    case CacheFile::Kind::DeviceCode: return "device code";
    case CacheFile::Kind::CompilerVersion: return "compiler version";
    case CacheFile::Kind::FailedSource: return "source that failed";
    case CacheFile::Kind::Lock: return "lock";
    case CacheFile::Kind::Temporary: return "temporary";
  }
  return "?";
}

std::uint64_t cache_limit(const std::string& program) {
  const char* const text = std::getenv("LOOPGRAD_CACHE_LIMIT");
  if (!text || !*text) return std::uint64_t{1} << 30;
  std::uint64_t limit = 0;
  const auto [end, error] = std::from_chars(text, text + std::strlen(text), limit);
  if (error != std::errc{} || *end != 0)
    throw CompileError({.code = ErrorCode::BadCache,
                        .message = fmt::format("LOOPGRAD_CACHE_LIMIT is not a number of bytes: '{}'", text),
                        .program = program,
                        .hint = "write it in digits, e.g. 1073741824"});
  return limit;
}

CacheFolder::CacheFolder(const std::string& program, bool make) : path_(place()) {
  cache_limit(program);  // a limit that is no number is told before anything is built
  int failure = path_.empty() ? ENOENT : make ? make_folders(path_) : 0;
  if (failure == 0) {
    folder_ = Descriptor(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    failure = folder_ ? 0 : errno;
  }
  if (failure == ENOTDIR || failure == ELOOP)
    refuse(path_, program, std::strerror(failure), "set LOOPGRAD_CACHE_DIR to a folder that can be written");
  if (folder_) check_folder(path_, folder_, program);
  else if (make) give_up(failure);
}

void CacheFolder::give_up(int failure) const {
  static std::atomic_flag told = ATOMIC_FLAG_INIT;
  const char* const wanted = std::getenv("LOOPGRAD_TIME");
  if (!wanted || !*wanted || *wanted == '0' || told.test_and_set()) return;
  fmt::print(stderr, "loopgrad: compiled code is not kept: {}\n",
             path_.empty() ? "neither LOOPGRAD_CACHE_DIR, XDG_CACHE_HOME nor HOME is set"
                           : fmt::format("the cache folder '{}': {}", path_.string(), std::strerror(failure)));
}

std::optional<std::string> CacheFolder::read(const std::string& name) const {
  if (!usable()) return std::nullopt;
  // Opening a FIFO would wait for a writer without O_NONBLOCK.
  const Descriptor file(::openat(folder_.value(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  if (!file || ::fstat(file.value(), &status) != 0 || !S_ISREG(status.st_mode) || !is_trusted(status))
    return std::nullopt;
  auto content = read_all(file);
  if (content) ::futimens(file.value(), nullptr);
  return content;
}

bool CacheFolder::contains(const std::string& name) const {
  return usable() && ::faccessat(folder_.value(), name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

bool CacheFolder::write(const std::string& name, std::string_view content) const {
  if (!usable()) return false;
  const int failure = publish_file(folder_, name, content);
  if (failure != 0) give_up(failure);
  else make_room();
  return failure == 0;
}

void CacheFolder::remove(const std::string& name) const {
  if (usable() && ::unlinkat(folder_.value(), name.c_str(), 0) != 0 && errno == EISDIR)
    ::unlinkat(folder_.value(), name.c_str(), AT_REMOVEDIR);
}

Descriptor CacheFolder::open_lock(const std::string& name) const {
  if (!usable()) return Descriptor();
  Descriptor lock(
      ::openat(folder_.value(), name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
  struct stat status {};
  if (!lock || ::fstat(lock.value(), &status) != 0 || !S_ISREG(status.st_mode)) return Descriptor();
  return lock;
}

bool CacheFolder::is_current(const Descriptor& lock, const std::string& name) const {
  struct stat ours {
  }, there{};
  return ::fstat(lock.value(), &ours) == 0 &&
         ::fstatat(folder_.value(), name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 && ours.st_ino == there.st_ino &&
         ours.st_dev == there.st_dev;
}

std::vector<CacheFile> CacheFolder::files() const {
  std::vector<CacheFile> found;
  if (!usable()) return found;
  const int again = ::openat(folder_.value(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(again < 0 ? nullptr : ::fdopendir(again), ::closedir);
  while (const dirent* const entry = listing ? ::readdir(listing.get()) : nullptr) {
    struct stat status {};
    const auto kind = kind_of(entry->d_name);
    if (!kind || ::fstatat(folder_.value(), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    found.push_back({entry->d_name, *kind, static_cast<std::uint64_t>(status.st_size),
                     std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec});
  }
  std::sort(found.begin(), found.end(), [](const CacheFile& a, const CacheFile& b) {
    return a.last_used != b.last_used ? a.last_used > b.last_used : a.name < b.name;
  });
  return found;
}

std::vector<CacheFile> CacheFolder::clear() const {
  std::vector<CacheFile> removed;
  for (const CacheFile& file : files()) {
    remove(file.name);
    if (!contains(file.name)) removed.push_back(file);
  }
  return removed;
}

bool CacheFolder::is_left_over(const CacheFile& file) const {
  if (file.last_used / 1'000'000'000 + leftover_age > std::time(nullptr)) return false;
  if (file.kind != CacheFile::Kind::Lock) return true;
  const Descriptor lock = open_lock(file.name);
  return lock && ::flock(lock.value(), LOCK_EX | LOCK_NB) == 0;
}

void CacheFolder::make_room() const {
  const std::uint64_t limit = cache_limit("");
  std::uint64_t kept = 0;
  for (const CacheFile& file : files()) {
    if (file.kind == CacheFile::Kind::Temporary || file.kind == CacheFile::Kind::Lock) {
      if (is_left_over(file)) remove(file.name);
    } else if ((kept += file.bytes) > limit) {
      remove(file.name);
    }
  }
}

}  // namespace loopgrad::backend

// Files that other processes may read, write and remove at the same time, and folders that nobody else sees.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

struct stat;

namespace loopgrad::backend {

/// An open file, closed at the end; negative when there is none.
class Descriptor {
 public:
  explicit Descriptor(int value = -1) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    const Descriptor old(std::exchange(value_, std::exchange(other.value_, -1)));
    return *this;
  }
  ~Descriptor();
  int value() const { return value_; }
  explicit operator bool() const { return value_ >= 0; }

 private:
  int value_;
};

/// What is left of the file, or nullopt when it cannot be read.
std::optional<std::string> read_all(const Descriptor& file);

/// Returns an errno value, 0 if well.
int write_all(const Descriptor& file, std::string_view content);

/// Belongs to this user or to root, and nobody else may write to it.
bool is_trusted(const struct stat& status);

/// `name` and 64 random bits, as a temporary name. Never made of process ids: containers and hosts that share a folder
/// share those as well.
std::string temporary_name(const std::string& name);

/// Writes the file `name` of `folder` under a temporary name, then renames, so that readers see all of `content` or
/// none. Only the owner may read it, whatever the umask. Returns an errno value, 0 if well.
int publish_file(const Descriptor& folder, const std::string& name, std::string_view content);

/// A new folder under the one for temporary files (TMPDIR, else /tmp) that only this user can look into, removed with
/// all its files at the end.
class WorkFolder {
 public:
  /// Also removes what processes that were killed left there an hour ago or earlier.
  WorkFolder();
  WorkFolder(const WorkFolder&) = delete;
  ~WorkFolder();
  /// An errno value, 0 when there is a folder.
  int failure() const { return failure_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int failure_ = 0;
};

/// Seconds after which a temporary belongs to nobody any more.
constexpr long leftover_age = 3600;

}  // namespace loopgrad::backend

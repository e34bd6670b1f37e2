// Code in the kernel cache is run: what others have put there, or what is damaged, is not.
#include "backends/jit/cached_bytes.h"
#include "tests/error/cache_fixture.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <chrono>
#include <cstring>
#include <functional>

namespace loopgrad::test {
namespace {

using backend::CacheFolder;
using backend::CacheKey;

constexpr uid_t nobody = 65534;

/// A name that an entry could have.
std::string entry_name(char digit) { return std::string(32, digit) + ".so"; }

class Umask {
 public:
  explicit Umask(mode_t value) : before_(::umask(value)) {}
  Umask(const Umask&) = delete;
  ~Umask() { ::umask(before_); }

 private:
  mode_t before_;
};

void set_age(const fs::path& path, int seconds) {
  fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::seconds(seconds));
}

TEST_F(Cache, IsMadeForTheOwnerAlone) {
  for (const mode_t umask : {0, 0777}) {
    {
      const Umask here(umask);
      EXPECT_TRUE(works(build(2), 2));
    }
    EXPECT_EQ(mode_of(kernels()), S_IFDIR | 0700u);
    for (const auto& entry : fs::directory_iterator(kernels())) EXPECT_EQ(mode_of(entry.path()), S_IFREG | 0600u);
    fs::remove_all(kernels());
  }
}

TEST_F(Cache, RefusesAFolderThatOthersMayWriteTo) {
  build(2);
  for (const mode_t mode : {0777, 01777, 0770, 0702}) {
    ASSERT_EQ(::chmod(kernels().c_str(), mode), 0);
    expect_error<CompileError>(
        ErrorCode::BadCache, {"'times'", kernels().string(), "others may write to it", "chmod 700"}, [] { build(2); });
  }
  ASSERT_EQ(::chmod(kernels().c_str(), 0755), 0);  // others may read
  EXPECT_TRUE(build(2).from_cache());
}

TEST_F(Cache, RefusesAFolderOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  build(2);
  ASSERT_EQ(::chown(kernels().c_str(), nobody, nobody), 0);
  expect_error<CompileError>(ErrorCode::BadCache, {"belongs to user 65534", "a folder of your own"}, [] { build(2); });
  ASSERT_EQ(::chown(kernels().c_str(), 0, 0), 0);
  const fs::path link = folder / "link";
  fs::create_directory_symlink(kernels(), link);
  const Variable by_link("LOOPGRAD_CACHE_DIR", link);
  EXPECT_TRUE(build(2).from_cache());
  ASSERT_EQ(::lchown(link.c_str(), nobody, nobody), 0);
  expect_error<CompileError>(ErrorCode::BadCache, {"belongs to user 65534"}, [] { build(2); });
}

TEST_F(Cache, DoesNotRunAPlantedKernel) {
  build(2);
  const fs::path entry = kernel();
  ASSERT_EQ(::chmod(entry.c_str(), 0666), 0);  // whole, but anybody could have written it
  EXPECT_FALSE(build(2).from_cache());
  EXPECT_EQ(mode_of(entry), S_IFREG | 0600u);
  EXPECT_TRUE(build(2).from_cache());
  if (::geteuid() != 0) return;
  ASSERT_EQ(::chown(entry.c_str(), nobody, nobody), 0);
  EXPECT_FALSE(build(2).from_cache());
  EXPECT_TRUE(build(2).from_cache());
}

TEST_F(Cache, AnEntryOfAnotherKeyIsRebuilt) {
  build(2);
  const fs::path entry = kernel(), other = folder / "three.so";
  fs::rename(entry, other);
  build(3);
  fs::rename(kernel(), entry);
  const Executable executable = build(2);
  EXPECT_FALSE(executable.from_cache());
  EXPECT_TRUE(works(executable, 2));
  EXPECT_TRUE(build(2).from_cache());
}

TEST_F(Cache, OnlyRegularFilesAreEntries) {
  build(2);
  const fs::path entry = kernel(), elsewhere = folder / "elsewhere.so", lock = entry.string() + ".lock";
  const std::vector<std::function<void()>> plants = {[&] {
                                                       fs::rename(entry, elsewhere);
                                                       fs::create_symlink(elsewhere, entry);
                                                     },
                                                     [&] {
                                                       fs::remove(entry);
                                                       EXPECT_EQ(::mkfifo(entry.c_str(), 0600), 0);
                                                     },
                                                     [&] {
                                                       fs::remove(entry);
                                                       EXPECT_EQ(::mkfifo(lock.c_str(), 0600), 0);
                                                     },
                                                     [&] {
                                                       fs::remove(entry);
                                                       fs::remove(lock);
                                                       fs::create_directory(entry);
                                                     }};
  for (const auto& plant : plants) {
    plant();
    const Executable executable = build(2);
    EXPECT_FALSE(executable.from_cache());
    EXPECT_TRUE(works(executable, 2));
    EXPECT_EQ(mode_of(entry), S_IFREG | 0600u);
    EXPECT_TRUE(build(2).from_cache());
  }
  fs::remove(entry);
  build(8);
  const fs::path another = kernel();
  fs::remove(another);
  fs::create_directories(another / "full");  // cannot be replaced: in memory only
  EXPECT_FALSE(build(8).from_cache());
  EXPECT_TRUE(build(8).from_cache());
  EXPECT_TRUE(works(build(8), 8));
}

TEST_F(Cache, WhatTheLoaderRefusesIsBuiltOnceMore) {
  build(2);
  const fs::path entry = kernel();
  // An entry with the right key and checksum that is no library. Its key stands before a trailer of 40 bytes.
  const std::string good = content_of(entry);
  std::uint64_t key_bytes = 0;
  std::memcpy(&key_bytes, good.data() + good.size() - 24, sizeof key_bytes);
  CacheKey key({}, ".so");
  key.text = good.substr(good.size() - 40 - key_bytes, key_bytes);
  key.stem = entry.stem();
  const CacheFolder there("");
  write_entry(there, key, "no library");
  ASSERT_EQ(find_entry(there, key), "no library");
  const Executable executable = build(2);
  EXPECT_FALSE(executable.from_cache());
  EXPECT_TRUE(works(executable, 2));
  EXPECT_TRUE(build(2).from_cache());
}

TEST_F(Cache, LibrariesThatAreOpenAtOnceAreToldApart) {
  std::vector<Executable> executables;
  for (int round = 0; round < 2; ++round)
    for (const int factor : {2, 3}) executables.push_back(build(factor));
  for (int k = 0; k < 4; ++k) EXPECT_TRUE(works(executables[k], 2 + k % 2)) << k;
}

TEST_F(Cache, WhatIsRefusedWhenNewIsAnError) {
  const CacheFolder there("");
  const CacheKey key({"source"}, ".cubin");
  int built = 0, used = 0;
  const auto build_it = [&] { return ++built, std::string("code"); };
  const auto refuse = [&](const std::string&) {
    ++used;
    throw RuntimeError({.code = ErrorCode::DeviceFailed, .message = "no image", .hint = "none"});
  };
  EXPECT_FALSE(with_cached_bytes(there, key, build_it, [&](const std::string& code) { EXPECT_EQ(code, "code"); }));
  EXPECT_TRUE(with_cached_bytes(there, key, build_it, [](const std::string&) {}));
  EXPECT_EQ(built, 1);
  expect_error<RuntimeError>(ErrorCode::DeviceFailed, {"no image"},
                             [&] { with_cached_bytes(there, key, build_it, refuse); });
  EXPECT_EQ(built, 2);
  EXPECT_EQ(used, 2);
}

TEST_F(Cache, AFileThatMayNotGrowIsAnErrorAndNoSignal) {
  rlimit limit = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit none = {0, limit.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &none);
  EXPECT_THROW(build(2), CompileError);
  ::setrlimit(RLIMIT_FSIZE, &limit);
  EXPECT_TRUE(works(build(2), 2));
}

TEST_F(Cache, LeastRecentlyUsedGoFirst) {
  const Variable limit("LOOPGRAD_CACHE_LIMIT", "350");
  const CacheFolder there("");
  const std::string content(100, 'x');
  for (const char digit : {'a', 'b', 'c'}) {
    ASSERT_TRUE(there.write(entry_name(digit), content));
    set_age(kernels() / entry_name(digit), 100 - digit % 16);  // a is the oldest
  }
  std::ofstream(kernels() / "somebody.else") << std::string(1000, 'x');
  EXPECT_TRUE(there.read(entry_name('a')));  // now the last used
  ASSERT_TRUE(there.write(entry_name('d'), content));
  EXPECT_FALSE(there.contains(entry_name('b')));
  for (const char digit : {'a', 'c', 'd'}) EXPECT_TRUE(there.contains(entry_name(digit))) << digit;
  const Variable none("LOOPGRAD_CACHE_LIMIT", "0");
  there.write(entry_name('e'), content);
  EXPECT_TRUE(there.files().empty());
  EXPECT_TRUE(fs::exists(kernels() / "somebody.else"));
}

TEST_F(Cache, TheLimitIsAWholeNumber) {
  for (const char* text : {"1GB", "-1", "1e9", "99999999999999999999", " 1"}) {
    const Variable limit("LOOPGRAD_CACHE_LIMIT", text);
    expect_error<CompileError>(ErrorCode::BadCache, {"'times'", "LOOPGRAD_CACHE_LIMIT", text}, [] { build(2); });
  }
}

TEST_F(Cache, RemovesWhatKilledProcessesLeft) {
  const CacheFolder there("");
  const std::string stem(32, 'a');
  const std::vector<fs::path> old = {kernels() / (stem + ".so.0123456789abcdef.tmp"),
                                     kernels() / (stem + ".so.7.0.tmp"),  // as earlier versions named them
                                     kernels() / (stem + ".so.lock"), folder / "tmp" / "loopgrad-build-old"},
                              kept = {kernels() / (stem + ".so.fedcba9876543210.tmp"),
                                      kernels() / (stem + ".cubin.lock"), kernels() / "notes.tmp",
                                      folder / "tmp" / "loopgrad-build-new", folder / "tmp" / "other"};
  for (const auto* paths : {&old, &kept})
    for (const fs::path& path : *paths)
      path.parent_path() == kernels() ? void(std::ofstream(path)) : void(fs::create_directory(path));
  std::ofstream(old.back() / "kernels.cpp") << "half a source";
  for (const fs::path& path : old) set_age(path, 7200);
  for (const fs::path& path : {kept[1], kept[2], kept[4]}) set_age(path, 7200);
  const backend::Descriptor held(::open(kept[1].c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::flock(held.value(), LOCK_EX), 0);  // old, but somebody is at work
  build(2);
  for (const fs::path& path : old) EXPECT_FALSE(fs::exists(path)) << path;
  for (const fs::path& path : kept) EXPECT_TRUE(fs::exists(path)) << path;
}

TEST_F(Cache, ReadersOfAFolderThatTheyMayNotWriteTo) {
  build(2);
  const bool root = ::geteuid() == 0;
  for (const auto& entry : fs::directory_iterator(kernels())) fs::permissions(entry, fs::perms(0444));
  fs::permissions(kernels(), fs::perms(0555));
  fs::permissions(folder, fs::perms(0755));
  fs::permissions(folder / "tmp", fs::perms(root ? 01777 : 0700));
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    bool good = !root || ::setresuid(nobody, nobody, nobody) == 0;
    try {
      good = good && build(2).from_cache() && works(build(2), 2) && !build(3).from_cache() && works(build(3), 3);
    } catch (const std::exception& e) {
      good = false;
      std::fprintf(stderr, "%s\n", e.what());
    }
    ::_exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  fs::permissions(kernels(), fs::perms::owner_all);
}

}  // namespace
}  // namespace loopgrad::test

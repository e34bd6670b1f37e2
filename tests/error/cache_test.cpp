// The JIT compiler and the kernel cache when something is wrong with them.
#include "tests/error/cache_fixture.h"

#include <sys/wait.h>

#include <cerrno>

namespace loopgrad::test {
namespace {

TEST_F(Cache, SecondBuildIsFastAndStartsNoCompiler) {
  EXPECT_FALSE(build(2).from_cache());
  const Executable again = build(2);
  EXPECT_TRUE(again.from_cache());
  EXPECT_TRUE(works(again, 2));
  EXPECT_FALSE(build(3).from_cache());
  EXPECT_EQ(leftovers(), 0);
}

TEST_F(Cache, AnotherCompilerMeansAnotherEntry) {
  EXPECT_FALSE(build(2).from_cache());
  const fs::path wrapper = script("exec c++ \"$@\"");
  const Variable compiler("LOOPGRAD_CXX", wrapper);
  EXPECT_FALSE(build(2).from_cache());
  EXPECT_TRUE(build(2).from_cache());
}

TEST_F(Cache, ClangIsGivenNoFlagsOfGcc) {
  const Variable compiler("LOOPGRAD_CXX",
                          script("[ \"$1\" = --version ] && echo Debian clang version 14.0.6 && exit 0\n"
                                 "for word; do [ \"$word\" = -fno-thread-jumps ] && exit 1; done\n"
                                 "exec c++ \"$@\""));
  EXPECT_FALSE(build(2).from_cache());
}

TEST_F(Cache, NoCompiler) {
  for (const char* name : {"/nonexistent/c++", "no-such-compiler-anywhere", "/etc/passwd"}) {
    const Variable compiler("LOOPGRAD_CXX", name);
    expect_error<CompileError>(ErrorCode::NoCompiler, {"'times'", name, "LOOPGRAD_CXX"}, [] { build(2); });
  }
}

TEST_F(Cache, NothingThatCanBeStarted) {
  const fs::path broken = folder / "broken";
  std::ofstream(broken) << "this is no program";
  fs::permissions(broken, fs::perms::owner_all);
  const Variable compiler("LOOPGRAD_CXX", broken);
  expect_error<CompileError>(ErrorCode::NoCompiler, {"'times'", broken.string(), "cannot be started"},
                             [] { build(2); });
}

TEST_F(Cache, CompilerThatFails) {
  const Variable compiler("LOOPGRAD_CXX", script("[ \"$1\" = --version ] && echo stub 1.0 && exit 0\n"
                                                 "echo the disk of the compiler is on fire >&2\nexit 3"));
  const ErrorInfo info = expect_error<CompileError>(
      ErrorCode::CompileFailed, {"'times'", "the disk of the compiler is on fire", "exit status 3", ".cpp"},
      [] { build(2); });
  // The source is kept where the message says.
  const std::size_t begin = info.message.find(folder.string() + "/kernels/");
  ASSERT_NE(begin, std::string::npos) << info.message;
  const fs::path source = info.message.substr(begin, info.message.find(".cpp", begin) + 4 - begin);
  EXPECT_NE(content_of(source).find("int times_("), std::string::npos) << source;
  EXPECT_TRUE(kernel().empty());
  EXPECT_EQ(leftovers(), 0);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);  // nor a process that nobody has waited for
  EXPECT_EQ(errno, ECHILD);
}

TEST_F(Cache, CompilerThatSucceedsWithoutAFile) {
  const Variable compiler("LOOPGRAD_CXX", "/bin/true");
  expect_error<CompileError>(ErrorCode::CompileFailed, {"'times'", "no output file"}, [] { build(2); });
}

TEST_F(Cache, NoFolder) {
  const fs::path file = folder / "file";
  std::ofstream(file) << "in the way";
  const Variable below("LOOPGRAD_CACHE_DIR", file / "kernels");
  expect_error<CompileError>(ErrorCode::BadCache, {"'times'", (file / "kernels").string(), "LOOPGRAD_CACHE_DIR"},
                             [] { build(2); });
  const Variable itself("LOOPGRAD_CACHE_DIR", file);
  expect_error<CompileError>(ErrorCode::BadCache, {"'times'", file.string(), "LOOPGRAD_CACHE_DIR"}, [] { build(2); });
}

TEST_F(Cache, FoldersByEnvironment) {
  ::unsetenv("LOOPGRAD_CACHE_DIR");
  {
    const Variable base("XDG_CACHE_HOME", folder / "xdg");
    build(2);
    EXPECT_TRUE(fs::is_directory(folder / "xdg" / "loopgrad"));
  }
  const Variable relative("XDG_CACHE_HOME", "");  // unset or relative: not used
  {
    const Variable home("HOME", folder / "home");
    build(2);
    EXPECT_TRUE(fs::is_directory(folder / "home" / ".cache" / "loopgrad"));
  }
  const Variable none("HOME", "");  // in memory only
  EXPECT_FALSE(build(7).from_cache());
  EXPECT_TRUE(build(7).from_cache());
  EXPECT_TRUE(works(build(7), 7));
}

TEST_F(Cache, DamagedEntriesAreRebuilt) {
  EXPECT_TRUE(works(build(2), 2));
  const fs::path entry = kernel();
  const std::string good = content_of(entry);
  std::vector<std::string> damaged = {"",
                                      "short",
                                      good.substr(0, good.size() / 2),
                                      good.substr(0, good.size() - 1),
                                      good + "x",
                                      std::string(good.size(), '\0')};
  for (const std::size_t position : {std::size_t{0}, good.size() / 3, good.size() - 40, good.size() - 1}) {
    damaged.push_back(good);
    damaged.back()[position] ^= 1;
  }
  for (const std::string& content : damaged) {
    std::ofstream(entry, std::ios::binary | std::ios::trunc) << content;
    const Executable executable = build(2);
    EXPECT_FALSE(executable.from_cache()) << content.size();
    EXPECT_TRUE(works(executable, 2));
    EXPECT_EQ(content_of(entry).size(), good.size());
    EXPECT_TRUE(build(2).from_cache());
  }
}

}  // namespace
}  // namespace loopgrad::test

// The JIT compiler and the kernel cache when something is wrong with them, and many processes at once.
#include "tests/error/expect_error.h"

#include <loopgrad/compile.h>

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace loopgrad::test {
namespace {

namespace fs = std::filesystem;

/// Sets an environment variable for the length of a scope.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old, had_ = true;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() { had_ ? ::setenv(name_, old_.c_str(), 1) : ::unsetenv(name_); }

 private:
  const char* name_;
  std::string old_;
  bool had_ = false;
};

class Cache : public testing::Test {
 protected:
  Cache() : folder(make_folder()), cache("LOOPGRAD_CACHE_DIR", folder / "kernels") {}
  ~Cache() override { fs::remove_all(folder); }

  static fs::path make_folder() {
    std::string name = (fs::temp_directory_path() / "loopgrad-test-XXXXXX").string();
    return ::mkdtemp(name.data());
  }

  /// A program of its own for each `factor`.
  static Executable build(int factor) {
    ProgramBuilder p("times");
    auto n = p.size("n");
    auto x = p.inout<float>("x", {n});
    for (auto i : p.loop("i", 0, n)) x(i) *= factor;
    return compile(p.build());
  }
  static bool works(const Executable& executable, int factor) {
    std::vector<float> x = {1, 2, 3};
    executable.run({{"x", view(x.data(), {3})}});
    return x == std::vector<float>{1.0f * factor, 2.0f * factor, 3.0f * factor};
  }

  fs::path kernel() const {
    for (const auto& entry : fs::directory_iterator(folder / "kernels"))
      if (entry.path().extension() == ".so") return entry.path();
    return {};
  }
  /// Files that are neither entries, kept sources nor the remembered compiler.
  int leftovers() const {
    int count = 0;
    for (const auto& entry : fs::directory_iterator(folder / "kernels")) {
      const std::string kind = entry.path().extension();
      count += kind != ".so" && kind != ".cpp" && kind != ".txt";
    }
    return count;
  }
  fs::path script(const std::string& text) const {
    const fs::path path = folder / "compiler.sh";
    std::ofstream(path) << "#!/bin/sh\n" << text << "\n";
    fs::permissions(path, fs::perms::owner_all);
    return path;
  }

  fs::path folder;
  Variable cache;
};

std::string content_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

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
  EXPECT_NE(content_of(source).find("int times("), std::string::npos) << source;
  EXPECT_TRUE(kernel().empty());
  EXPECT_EQ(leftovers(), 0);
}

TEST_F(Cache, CompilerThatSucceedsWithoutAFile) {
  const Variable compiler("LOOPGRAD_CXX", "/bin/true");
  expect_error<CompileError>(ErrorCode::CompileFailed, {"'times'", "no output file"}, [] { build(2); });
}

TEST_F(Cache, UnwritableFolder) {
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
  const Variable none("HOME", "");
  expect_error<CompileError>(ErrorCode::BadCache, {"'times'", "LOOPGRAD_CACHE_DIR"}, [] { build(2); });
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

TEST_F(Cache, ManyProcessesBuildOneKernel) {
  std::vector<pid_t> children;
  for (int c = 0; c < 6; ++c) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      bool good = false;
      try {
        good = works(build(5), 5) && works(build(5), 5) && works(build(6 + c % 2), 6 + c % 2);
      } catch (const std::exception& e) {
        std::fprintf(stderr, "%s\n", e.what());
      }
      ::_exit(good ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  EXPECT_EQ(leftovers(), 0);
  EXPECT_TRUE(build(5).from_cache());
}

}  // namespace
}  // namespace loopgrad::test

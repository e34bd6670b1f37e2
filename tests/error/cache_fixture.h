// A kernel cache of its own for each test, and programs to compile.
#pragma once

#include "tests/error/expect_error.h"

#include <loopgrad/compile.h>
#include <loopgrad/program.h>

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace loopgrad::test {

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
  Cache()
      : folder(make_folder()), cache("LOOPGRAD_CACHE_DIR", folder / "kernels"), temporaries("TMPDIR", folder / "tmp") {
    fs::create_directory(folder / "tmp");
  }
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

  fs::path kernels() const { return folder / "kernels"; }
  fs::path kernel() const {
    for (const auto& entry : fs::directory_iterator(kernels()))
      if (entry.path().extension() == ".so") return entry.path();
    return {};
  }
  /// Files that are neither entries nor kept sources, in the cache and in the folder for temporary files.
  int leftovers() const {
    int count = 0;
    for (const auto& entry : fs::directory_iterator(kernels())) {
      const std::string kind = entry.path().extension();
      count += kind != ".so" && kind != ".cpp" && kind != ".version";
    }
    for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder / "tmp")) ++count;
    return count;
  }
  fs::path script(const std::string& text) const {
    const fs::path path = folder / "compiler.sh";
    std::ofstream(path) << "#!/bin/sh\n" << text << "\n";
    fs::permissions(path, fs::perms::owner_all);
    return path;
  }

  fs::path folder;
  Variable cache, temporaries;
};

inline std::string content_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

inline mode_t mode_of(const fs::path& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 ? status.st_mode : 0;
}

}  // namespace loopgrad::test

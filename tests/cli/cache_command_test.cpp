// `loopgrad cache`: what it shows and what --clear removes.
#include "tests/cli/run_cli.h"
#include "tools/programs/programs.h"

#include <nlohmann/json.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace loopgrad::test {
namespace {

namespace fs = std::filesystem;

class CacheCommand : public testing::Test {
 protected:
  CacheCommand() {
    if (const char* old = std::getenv("LOOPGRAD_CACHE_DIR")) old_ = old;
    std::string name = (fs::temp_directory_path() / "loopgrad-test-XXXXXX").string();
    folder = ::mkdtemp(name.data());
    ::setenv("LOOPGRAD_CACHE_DIR", (folder / "kernels").c_str(), 1);
  }
  ~CacheCommand() override {
    old_.empty() ? ::unsetenv("LOOPGRAD_CACHE_DIR") : ::setenv("LOOPGRAD_CACHE_DIR", old_.c_str(), 1);
    fs::remove_all(folder);
  }
  nlohmann::json json(std::vector<std::string> words) const {
    words.insert(words.begin(), "cache");
    words.insert(words.end(), {"--json", "-"});
    const CliResult result = run_cli(programs::all(), words);
    EXPECT_EQ(result.status, 0) << result.err;
    return nlohmann::json::parse(result.out);
  }

  fs::path folder;

 private:
  std::string old_;
};

TEST_F(CacheCommand, ShowsAndClears) {
  EXPECT_EQ(json({})["usable"], false);
  EXPECT_FALSE(fs::exists(folder / "kernels"));  // looking makes nothing
  EXPECT_EQ(run_cli(programs::all(), {"check", "copy"}).status, 0);
  std::ofstream(folder / "kernels" / "notes.txt") << "of somebody else";

  const auto shown = json({});
  EXPECT_EQ(shown["folder"], (folder / "kernels").string());
  EXPECT_EQ(shown["usable"], true);
  EXPECT_EQ(shown["limit"], 1 << 30);
  std::uint64_t bytes = 0;
  int kernels = 0;
  for (const auto& entry : shown["entries"]) {
    EXPECT_EQ(entry["bytes"], fs::file_size(folder / "kernels" / entry["name"].get<std::string>()));
    EXPECT_GT(entry["last_used"], 1.7e9);
    bytes += entry["bytes"].get<std::uint64_t>();
    kernels += entry["kind"] == "kernels";
  }
  EXPECT_GE(kernels, 3);  // one for each variant
  EXPECT_EQ(shown["bytes"], bytes);
  const CliResult text = run_cli(programs::all(), {"cache"});
  EXPECT_NE(text.out.find("folder  " + (folder / "kernels").string() + "\n"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("limit   1.0 GiB"), std::string::npos) << text.out;

  const auto cleared = json({"--clear"});
  EXPECT_EQ(cleared["removed"].size(), shown["entries"].size());
  EXPECT_TRUE(cleared["entries"].empty());
  EXPECT_EQ(cleared["bytes"], 0);
  EXPECT_TRUE(fs::exists(folder / "kernels" / "notes.txt"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / "kernels"), fs::directory_iterator()), 1);
}

TEST_F(CacheCommand, RefusesAFolderOfOthers) {
  fs::create_directory(folder / "kernels");
  fs::permissions(folder / "kernels", fs::perms::all);
  const CliResult result = run_cli(programs::all(), {"cache", "--clear"});
  EXPECT_EQ(result.status, 2);
  EXPECT_NE(result.err.find("chmod 700"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace loopgrad::test

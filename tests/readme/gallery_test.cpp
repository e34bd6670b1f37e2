// The programs of examples/gallery: their losses fall, they find what they look for, and docs/gallery has the pictures
// that they write. LOOPGRAD_UPDATE_GOLDEN=1 puts them there.
#include "tests/readme/png.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace loopgrad::test {
namespace {

namespace fs = std::filesystem;

const fs::path shown = fs::path(LOOPGRAD_ROOT) / "docs/gallery";

/// A program that has been run, with the pictures that it wrote and no others.
class ProgramRun {
 public:
  explicit ProgramRun(const std::string& name) : folder_(fs::path(LOOPGRAD_BUILD) / "gallery" / name) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    const std::string command = "LOOPGRAD_CACHE_DIR='" LOOPGRAD_TEST_CACHE "' '" LOOPGRAD_BUILD "/examples/gallery_" +
                                name + "' '" + folder_.string() + "'";
    std::FILE* pipe = popen(command.c_str(), "r");
    std::array<char, 4096> part;
    for (std::size_t n; pipe != nullptr && (n = std::fread(part.data(), 1, part.size(), pipe)) > 0;)
      printed_.append(part.data(), n);
    const int status = pipe == nullptr ? -1 : pclose(pipe);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << command << "\n" << printed_;
  }

  /// The numbers that stand between these words; there are at least two.
  std::vector<double> printed(const std::string& before, const std::string& after) const {
    const std::regex number(before + " +([-+.0-9e]+)" + after);
    std::vector<double> numbers;
    for (std::sregex_iterator it(printed_.begin(), printed_.end(), number), end; it != end; ++it)
      numbers.push_back(std::stod((*it)[1]));
    EXPECT_GE(numbers.size(), 2u) << before << "\n" << printed_;
    numbers.resize(std::max<std::size_t>(numbers.size(), 2));
    return numbers;
  }

  Png picture(const std::string& name) const { return read_png(folder_ / name); }

  void expect_that_the_page_shows_its_pictures() const {
    const std::set<fs::path> written = pictures_in(folder_);
    for (const fs::path& name : written) {
      if (std::getenv("LOOPGRAD_UPDATE_GOLDEN"))
        fs::copy_file(folder_ / name, shown / name, fs::copy_options::overwrite_existing);
      EXPECT_LT(difference(read_png(folder_ / name), read_png(shown / name)), 1) << name;
    }
    EXPECT_EQ(pictures_in(shown), written);
  }

 private:
  /// Pictures of this program are called after it.
  std::set<fs::path> pictures_in(const fs::path& folder) const {
    std::set<fs::path> names;
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.path().filename().string().starts_with(folder_.filename().string() + "_"))
        names.insert(entry.path().filename());
    return names;
  }

  fs::path folder_;
  std::string printed_;
};

TEST(Gallery, ShapeIsRecovered) {
  const ProgramRun run("shape");
  const std::vector<double> loss = run.printed("loss", "\n");
  EXPECT_LT(loss.back(), loss.front() / 20);
  const Png target = run.picture("shape_target.png");
  EXPECT_LT(difference(run.picture("shape_after.png"), target),
            difference(run.picture("shape_before.png"), target) / 10);
  run.expect_that_the_page_shows_its_pictures();
}

TEST(Gallery, HeatSourcesAreFound) {
  const ProgramRun run("heat");
  const std::vector<double> loss = run.printed("loss", " "), off = run.printed("source off by", " %");
  EXPECT_LT(loss.back(), loss.front() / 100);
  EXPECT_EQ(off.front(), 100);
  EXPECT_LT(off.back(), 30);
  const Png source = run.picture("heat_true.png");
  EXPECT_LT(difference(run.picture("heat_recovered.png"), source),
            difference(run.picture("heat_measured.png"), source) / 5);
  run.expect_that_the_page_shows_its_pictures();
}

TEST(Gallery, NeighboursMakeUpForLabels) {
  const ProgramRun run("graph");
  const std::vector<double> loss = run.printed("loss", " "), right = run.printed("loss [.0-9]+", " %");
  ASSERT_EQ(loss.size() % 2, 0u);
  ASSERT_EQ(right.size(), loss.size());
  const std::size_t half = loss.size() / 2;  // without edges; the others are with them
  EXPECT_LT(loss[half - 1], loss[0] / 100);
  EXPECT_LT(loss.back(), loss[half] / 100);
  EXPECT_GT(right[half - 1], 85);
  EXPECT_GT(right.back(), right[half - 1] + 2);
  EXPECT_GT(difference(run.picture("graph_before.png"), run.picture("graph_after.png")), 5);
  run.expect_that_the_page_shows_its_pictures();
}

}  // namespace
}  // namespace loopgrad::test

// Sums into places of a ring, each in a nest of its own (transforms/sums/strategies/apart.cpp).
#include "tests/unit/transforms/lowered.h"

namespace loopgrad::transforms {
namespace {

TEST(RingPlaces, SumsIntoThemGoByThePlaces) {
  ProgramBuilder p("ring");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.input<double>("a", {n, m});
  auto y = p.inout<double>("y", {n, m});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m)) {
      auto v = p.scalar<double>("v");
      v = sin(a(i, j));
      y((i + 1) % n, j) += v * 2.0;
      y((i - 2 + n) % n, (j + m - 1) % m) += v * 3.0;
      y(i, (j + 5) % m) += v;
    }
  const LoweredProgram result = lowered(p.build());
  EXPECT_EQ(result.text.find("y[(i"), std::string::npos) << result.text;
  EXPECT_NE(result.text.find("(i + 2)%n, (j + 1)%m]"), std::string::npos) << result.text;
  EXPECT_NE(result.text.find("(i - 1)%n, j]"), std::string::npos) << result.text;
  for (const auto& [rows, columns] : {std::pair{1, 1}, {2, 3}, {7, 5}, {3, 1}})
    expect_same_results(result, {{"n", rows}, {"m", columns}});
}

TEST(RingPlaces, PartsOfARingStayAsTheyAre) {
  ProgramBuilder p("part_of_a_ring");
  auto n = p.size("n");
  auto a = p.input<double>("a", {n});
  auto y = p.inout<double>("y", {n});
  for (auto i : p.loop("i", 1, n)) {  // n - 1 places
    y((i + 1) % n) += a(i);
    y((i + 2) % n) += 2.0 * a(i);
  }
  const LoweredProgram result = lowered(p.build());
  EXPECT_NE(result.text.find("y[(i + 1)%n] += a[i]"), std::string::npos) << result.text;
  for (const std::int64_t size : {1, 2, 7}) expect_same_results(result, {{"n", size}});
}

}  // namespace
}  // namespace loopgrad::transforms

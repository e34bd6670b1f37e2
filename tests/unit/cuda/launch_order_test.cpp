// Which launches wait for which: on memory places that stand for arrays.
#include "backends/cuda/launch_order.h"

#include <gtest/gtest.h>

#include <random>

namespace cuda = loopgrad::backend::cuda;

namespace {

const int places[8] = {};
const void* place(std::size_t k) { return &places[k]; }

TEST(LaunchOrder, LaunchesOnOtherMemoryAreSideBySide) {
  cuda::LaunchOrder order(4);
  order.add({place(0)}, {place(1)});
  order.add({place(0)}, {place(2)});  // reads the same, writes elsewhere
  order.add({place(1), place(2)}, {place(3)});
  const auto& steps = order.steps();
  EXPECT_NE(steps[0].lane, steps[1].lane);
  EXPECT_TRUE(steps[1].after.empty());
  EXPECT_EQ(steps[2].lane, steps[1].lane);
  EXPECT_EQ(steps[2].after, std::vector<std::size_t>{0});
  EXPECT_TRUE(steps[0].awaited);
  EXPECT_TRUE(order.uses_several_lanes());
}

TEST(LaunchOrder, WritersWaitForReaders) {
  cuda::LaunchOrder order(2);
  order.add({}, {place(0)});
  order.add({place(0)}, {place(1)});
  order.add({}, {place(0)});
  EXPECT_EQ(order.steps()[2].lane, order.steps()[1].lane);
  EXPECT_TRUE(order.steps()[2].after.empty());
}

/// Empty arrays may all be in one place, and those that may share memory are.
TEST(LaunchOrder, ALaunchDoesNotWaitForItself) {
  cuda::LaunchOrder order(2);
  order.add({}, {place(0), place(1), place(0)});
  order.add({place(0)}, {place(0), place(0)});
  EXPECT_TRUE(order.steps()[0].after.empty());
  EXPECT_EQ(order.steps()[1].lane, order.steps()[0].lane);
  EXPECT_TRUE(order.steps()[1].after.empty());
}

TEST(LaunchOrder, OneLaneKeepsTheSequence) {
  cuda::LaunchOrder order(1);
  for (std::size_t k = 0; k < 8; ++k) order.add({}, {place(k)});
  for (const auto& step : order.steps()) {
    EXPECT_EQ(step.lane, 0u);
    EXPECT_TRUE(step.after.empty());
  }
  EXPECT_FALSE(order.uses_several_lanes());
}

/// Whether launch a is surely over when b starts: along lanes and waits.
std::vector<std::vector<bool>> orders(const cuda::LaunchOrder& order) {
  const auto& steps = order.steps();
  std::vector<std::vector<bool>> before(steps.size(), std::vector<bool>(steps.size()));
  for (std::size_t b = 0; b < steps.size(); ++b) {
    auto follow = [&](std::size_t a) {
      before[b][a] = true;
      for (std::size_t c = 0; c < a; ++c)
        if (before[a][c]) before[b][c] = true;
    };
    for (const std::size_t a : steps[b].after) {
      EXPECT_TRUE(steps[a].awaited);
      follow(a);
    }
    for (std::size_t a = b; a-- > 0;)
      if (steps[a].lane == steps[b].lane) {
        follow(a);
        break;
      }
  }
  return before;
}

TEST(LaunchOrder, ConflictsAreAlwaysOrdered) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    cuda::LaunchOrder order(1 + random() % 4);
    std::vector<std::pair<unsigned, unsigned>> sets;  // bits of what is read and written
    for (int k = 0; k < 20; ++k) {
      const unsigned reads = random() & random() & 255u, writes = random() & random() & random() & 255u;
      std::vector<const void*> read, written;
      for (std::size_t p = 0; p < 8; ++p) {
        if (reads >> p & 1) read.push_back(place(p));
        if (writes >> p & 1) written.push_back(place(p));
      }
      order.add(read, written);
      sets.emplace_back(reads, writes);
    }
    const auto before = orders(order);
    for (std::size_t b = 0; b < sets.size(); ++b)
      for (std::size_t a = 0; a < b; ++a) {
        const bool conflict = (sets[a].second & (sets[b].first | sets[b].second)) || (sets[a].first & sets[b].second);
        if (conflict) {
          ASSERT_TRUE(before[b][a]) << "round " << round << ": " << b << " does not wait for " << a;
        }
      }
  }
}

}  // namespace

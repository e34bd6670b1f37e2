// The access log in exact orders of accesses, which shuffled loops reach only by chance.
#include "backends/interpreter/shadow.h"

#include "backends/interpreter/machine.h"

#include <gtest/gtest.h>

namespace loopgrad::backend::interpreter {
namespace {

using ir::ReduceOp;

/// One parallel loop over one element; an access by an iteration says whether it conflicts, and with which iteration.
struct ShadowTest : testing::Test {
  Shadow shadow;
  ParallelStack parallel;
  Site site;
  ShadowTest() {
    shadow.reset(1, 0);
    parallel.frames.push_back({.instance = 1, .iteration = 0, .loop = nullptr});
  }
  static constexpr std::int64_t none = -1;

  std::int64_t access(std::int64_t iteration, AccessKind kind, ReduceOp op = ReduceOp::Add) {
    parallel.frames.back().iteration = iteration;
    const auto conflict = shadow.access(0, kind, op, site, parallel);
    if (!conflict) return none;
    EXPECT_EQ(conflict->this_iteration, iteration);
    EXPECT_EQ(conflict->other_site, &site);
    return conflict->other_iteration;
  }
  std::int64_t read(std::int64_t i) { return access(i, AccessKind::Read); }
  std::int64_t write(std::int64_t i) { return access(i, AccessKind::Write); }
  std::int64_t atomic(std::int64_t i, ReduceOp op) { return access(i, AccessKind::AtomicReduce, op); }
};

TEST_F(ShadowTest, RemembersTheSecondReader) {
  EXPECT_EQ(read(3), none);
  EXPECT_EQ(read(5), none);
  EXPECT_EQ(read(7), none);
  EXPECT_EQ(write(3), 5);  // iteration 3 read first itself, but not alone
}

TEST_F(ShadowTest, RemembersTheSecondAtomic) {
  EXPECT_EQ(atomic(3, ReduceOp::Add), none);
  EXPECT_EQ(atomic(5, ReduceOp::Add), none);
  EXPECT_EQ(read(3), 5);
}

TEST_F(ShadowTest, ReadAfterWriteAndWriteAfterRead) {
  EXPECT_EQ(write(3), none);
  EXPECT_EQ(read(3), none);
  EXPECT_EQ(read(4), 3);
  EXPECT_EQ(write(4), 3);
}

TEST_F(ShadowTest, MixedOpsOfOneIterationCommuteWithNoOther) {
  EXPECT_EQ(atomic(3, ReduceOp::Add), none);
  EXPECT_EQ(atomic(3, ReduceOp::Mul), none);
  EXPECT_EQ(atomic(4, ReduceOp::Add), 3);
  EXPECT_EQ(atomic(4, ReduceOp::Mul), 3);
}

TEST_F(ShadowTest, ForgetsWhenTheLoopIsEnteredAgain) {
  EXPECT_EQ(write(3), none);
  parallel.frames.back().instance = 2;
  EXPECT_EQ(write(4), none);
  EXPECT_EQ(write(3), 4);
}

TEST_F(ShadowTest, PrivateLevelsDoNotConflict) {
  shadow.reset(1, 1);
  EXPECT_EQ(write(3), none);
  EXPECT_EQ(write(4), none);
  parallel.frames.push_back({.instance = 2, .iteration = 0, .loop = nullptr});
  EXPECT_EQ(write(5), none);
  EXPECT_EQ(write(6), 5);
}

TEST_F(ShadowTest, FollowsAChangedExtent) {
  EXPECT_EQ(write(3), none);
  shadow.reset(10, 0);
  EXPECT_FALSE(shadow.initialised(9));
  shadow.set_initialised(9);
  EXPECT_TRUE(shadow.initialised(9));
  EXPECT_FALSE(shadow.access(9, AccessKind::Write, {}, site, parallel));
}

}  // namespace
}  // namespace loopgrad::backend::interpreter

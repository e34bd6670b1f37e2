// Iterations that share sums, side by side: see transforms/loops/lane_loops.h and transforms/map/cpu/tile_lanes.h.
#include "tests/unit/passes/expect_pass.h"

namespace loopgrad::transforms {
namespace {

constexpr const char* header = R"(
    program p(n, k)
      input  f32 g[n]
      input  f32 x[k, n]
      input  i32 at[n]
      inout  f32 b[k]
      inout  f32 d[k, n]
      inout  f32 e[n]
    )";

TEST(LaneLoops, LanesAddUpWhatTheyShare) {
  expect_pass("tile_lanes", header,
              R"(
    for j in 0..n reversed:
      local f32 s
      s = g[j]*2
      for i in 0..k:
        b[i] += s*x[i, j]
        d[i, j] += s
    )",
              R"(
    for j_tile in 0..n//64:
      local f32 s[64]
      parallel for lane in 0..64:
        s[lane] = g[j_tile*64 + lane]*2
      for i in 0..k:
        local f32 b_lanes
        b_lanes = 0
        for lane in 0..64:
          b_lanes += s[lane]*x[i, j_tile*64 + lane]
          d[i, j_tile*64 + lane] += s[lane]
        b[i] += b_lanes
    if n - 64*(n//64) >= 16:
      local f32 s[64]
      parallel for lane in 0..n - 64*(n//64):
        s[lane] = g[n//64*64 + lane]*2
      for i in 0..k:
        local f32 b_lanes
        b_lanes = 0
        for lane in 0..n - 64*(n//64):
          b_lanes += s[lane]*x[i, n//64*64 + lane]
          d[i, n//64*64 + lane] += s[lane]
        b[i] += b_lanes
    else:
      for j in n//64*64..n:
        local f32 s
        s = g[j]*2
        for i in 0..k:
          b[i] += s*x[i, j]
          d[i, j] += s
    )");
}

// What no lane decides is asked around them, but only once for a tile: in one loop with what the lanes do then.
TEST(LaneLoops, BranchesThatAllLanesTakeAreAroundThem) {
  expect_pass("tile_lanes", header,
              R"(
    parallel for j in 0..n:
      local f32 s
      s = 0
      for i in 0..k:
        if i < 3:
          s += g[j]*b[i]
        s += x[i, j]
        if at[j] < i:
          s += 1
      if k < 3:
        s += 2
      e[j] = s
    )",
              R"(
    parallel for j_tile in 0..n//64:
      local f32 s[64]
      parallel for lane in 0..64:
        s[lane] = 0
      for i in 0..k:
        if i < 3:
          parallel for lane in 0..64:
            s[lane] += g[j_tile*64 + lane]*b[i]
        parallel for lane in 0..64:
          s[lane] += x[i, j_tile*64 + lane]
          if at[j_tile*64 + lane] < i:
            s[lane] += 1
      parallel for lane in 0..64:
        if k < 3:
          s[lane] += 2
        e[j_tile*64 + lane] = s[lane]
    parallel for j in n//64*64..n:
      local f32 s
      s = 0
      for i in 0..k:
        if i < 3:
          s += g[j]*b[i]
        s += x[i, j]
        if at[j] < i:
          s += 1
      if k < 3:
        s += 2
      e[j] = s
    )");
}

// The scalar is the same for all lanes, the largest value is too, and the sum may be one that nobody adds to.
TEST(LaneLoops, WhatAllLanesHaveIsThereOnce) {
  expect_pass("tile_lanes", R"(
    program p(n, k)
      input  f32 g[k]
      input  f32 x[k, n]
      inout  f32 b[k]
      inout  f32 d[k, n]
    )",
              R"(
    for j in 0..n:
      for i in 0..k:
        local f32 s
        s = exp(g[i])
        if x[i, j] > 0:
          b[i] += s*x[i, j]
        d[i, j] += s*x[i, j]
    )",
              R"(
    for j_tile in 0..n//64:
      for i in 0..k:
        local f32 s
        s = exp(g[i])
        local f32 b_lanes
        b_lanes = 0
        for lane in 0..64:
          if x[i, j_tile*64 + lane] > 0:
            b_lanes += s*x[i, j_tile*64 + lane]
          d[i, j_tile*64 + lane] += s*x[i, j_tile*64 + lane]
        if b_lanes != 0:
          b[i] += b_lanes
    if n - 64*(n//64) >= 16:
      for i in 0..k:
        local f32 s
        s = exp(g[i])
        local f32 b_lanes
        b_lanes = 0
        for lane in 0..n - 64*(n//64):
          if x[i, n//64*64 + lane] > 0:
            b_lanes += s*x[i, n//64*64 + lane]
          d[i, n//64*64 + lane] += s*x[i, n//64*64 + lane]
        if b_lanes != 0:
          b[i] += b_lanes
    else:
      for j in n//64*64..n:
        for i in 0..k:
          local f32 s
          s = exp(g[i])
          if x[i, j] > 0:
            b[i] += s*x[i, j]
          d[i, j] += s*x[i, j]
    )");
}

TEST(LaneLoops, SumsThatMoveWithTheLaneMeetNextToIt) {
  expect_kept("tile_lanes", header, R"(
    for j in 0..n:
      for i in 0..k:
        if j + 1 < n:
          d[i, j + 1] += x[i, j]
        d[i, j] += x[i, j]
    )");
}

TEST(LaneLoops, ElementsThatDataChooseAreNotShared) {
  expect_kept("tile_lanes", header, R"(
    for j in 0..n:
      for i in 0..k:
        b[at[j]] += x[i, j]
        d[i, j] += x[i, j]
    )");
}

TEST(LaneLoops, WhatIsReadInTheLoopIsNoSum) {
  expect_kept("tile_lanes", header, R"(
    for j in 0..n:
      for i in 0..k:
        b[i] += x[i, j]
        d[i, j] += b[i]*x[i, j]
    )");
}

TEST(LaneLoops, LoopsThatHaveLanesStay) {
  expect_kept("tile_lanes", R"(
    program p(n, k)
      input  f32 x[n, k]
      input  f32 y[n, k]
      inout  f32 b[k]
    )",
              R"(
    for j in 0..n:
      for i in 0..k:
        b[i] += x[j, i]*y[j, i]
    )");
}

// One of the two jumps whatever comes innermost, and lanes would have to be added up.
TEST(LaneLoops, AddingUpCostsAboutAJump) {
  expect_kept("tile_lanes", header, R"(
    for j in 0..n:
      for i in 0..k:
        b[i] += x[i, j]
        e[0] += x[i, j]*2
    )");
}

TEST(LaneLoops, TheLoopFurtherInThatAllStatementsMoveWith) {
  expect_pass("tile_lanes", R"(
    program p(n, m, k)
      input  f32 g[n, m]
      input  f32 x[k, m]
      input  f32 y[k, n]
      inout  f32 b[k]
      inout  f32 d[k, m]
    )",
              R"(
    for a in 0..n:
      for j in 0..m:
        local f32 s
        s = g[a, j]
        for i in 0..k:
          b[i] += s*x[i, j]
          d[i, j] += s*y[i, a]
    )",
              R"(
    for a in 0..n:
      for j_tile in 0..m//64:
        local f32 s[64]
        parallel for lane in 0..64:
          s[lane] = g[a, j_tile*64 + lane]
        for i in 0..k:
          local f32 b_lanes
          b_lanes = 0
          for lane in 0..64:
            b_lanes += s[lane]*x[i, j_tile*64 + lane]
            d[i, j_tile*64 + lane] += s[lane]*y[i, a]
          b[i] += b_lanes
      if m - 64*(m//64) >= 16:
        local f32 s[64]
        parallel for lane in 0..m - 64*(m//64):
          s[lane] = g[a, m//64*64 + lane]
        for i in 0..k:
          local f32 b_lanes
          b_lanes = 0
          for lane in 0..m - 64*(m//64):
            b_lanes += s[lane]*x[i, m//64*64 + lane]
            d[i, m//64*64 + lane] += s[lane]*y[i, a]
          b[i] += b_lanes
      else:
        for j in m//64*64..m:
          local f32 s
          s = g[a, j]
          for i in 0..k:
            b[i] += s*x[i, j]
            d[i, j] += s*y[i, a]
    )");
}

}  // namespace
}  // namespace loopgrad::transforms

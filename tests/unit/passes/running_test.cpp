// How a CPU runs loops: each pass of the last part of its list alone.
#include "tests/unit/passes/expect_pass.h"

#include "dsl/ir/printer.h"
#include "transforms/map/cpu/loop_work.h"
#include "transforms/map/cpu/vector_lanes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace loopgrad::transforms {
namespace {

TEST(VectorizeLoops, SumsOfLanesInASequentialLoop) {
  expect_pass("vectorize_loops", R"(
    program p(n, k)
      input  f32 x[n + k - 1]
      input  f32 w[k]
      output f32 y[n]
    )",
              R"(
    parallel for i in 0..n:
      local f32 s
      s = 0
      for j in 0..k:
        s += x[i + j]*w[j]
      y[i] = s
    )",
              R"(
    parallel for i in 0..n:
      local f32 s
      s = 0
      for j in 0..k (lanes):
        s += (lanes) x[i + j]*w[j]
      y[i] = s
    )",
              "j: lanes: iterations share nothing but a scalar that they sum into");
}

// A compiler finds no lanes around a loop that stays one.
TEST(VectorizeLoops, ShortLoopsInsideOfLanesAreWrittenInARow) {
  expect_pass("vectorize_loops", R"(
    program p(n)
      input  f32 x[n]
      output f32 y[n, 3]
    )",
              R"(
    parallel for i in 0..n:
      local f32 s
      s = x[i]
      for k in 0..3:
        s = s*x[i]
        y[i, k] = s
    )",
              R"(
    parallel for i in 0..n (lanes):
      local f32 s
      s = x[i]
      for k in 0..3 (unroll 3):
        s = s*x[i]
        y[i, k] = s
    )");
}

TEST(VectorizeLoops, ManySumsTakeFewLanes) {
  expect_pass("vectorize_loops", R"(
    program p(n)
      input  f32 x[4, n]
      input  f64 z[4, n]
      output f64 y[8]
    )",
              R"(
    local f32 a
    a = 0
    local f64 b
    b = 0
    local f32 c
    c = 0
    local f64 d
    d = 0
    for i in 0..n:
      a += x[0, i]
      b max= z[1, i]
      c += x[2, i]
      d max= z[3, i]
    y[0] = f64(a) + b
    y[1] = f64(c) + d
    )",
              R"(
    local f32 a
    a = 0
    local f64 b
    b = 0
    local f32 c
    c = 0
    local f64 d
    d = 0
    for i in 0..n (lanes 4):
      a += (lanes) x[0, i]
      b max= (lanes) z[1, i]
      c += (lanes) x[2, i]
      d max= (lanes) z[3, i]
    y[0] = f64(a) + b
    y[1] = f64(c) + d
    )",
              "i: 4 lanes: iterations share nothing but 4 scalars that they sum into");
}

/// Eight sums into a0..a7, "(lanes) " where they are of lanes, of x[k, i]*`factor`.
std::string eight_sums(const std::string& loop, const std::string& note, const std::string& factor) {
  std::string text;
  for (int k = 0; k < 8; ++k) text += "local f32 a" + std::to_string(k) + "\na" + std::to_string(k) + " = 0\n";
  text += loop + ":\n";
  for (int k = 0; k < 8; ++k)
    text += "  a" + std::to_string(k) + " += " + note + "x[" + std::to_string(k) + ", i]*" + factor + "\n";
  for (int k = 0; k < 8; ++k) text += "y[" + std::to_string(k) + "] = a" + std::to_string(k) + "\n";
  return text;
}

constexpr const char* rows_and_factor = R"(
    program p(n)
      input  f32 x[8, n]
      input  f32 w[n]
      output f32 y[8]
    )";

TEST(VectorizeLoops, AddsUpTheLanesOfEightSumsAtOnce) {
  expect_pass("vectorize_loops", rows_and_factor, eight_sums("for i in 0..n", "", "w[i]"),
              eight_sums("for i in 0..n (lanes 8) (sums of lanes)", "(lanes) ", "w[i]"),
              "i: 8 lanes: eight sums, whose lanes are added up all at once");
  // A function is no arithmetic of lanes.
  expect_pass("vectorize_loops", rows_and_factor, eight_sums("for i in 0..n", "", "exp(w[i])"),
              eight_sums("for i in 0..n (lanes 8)", "(lanes) ", "exp(w[i])"));
}

TEST(VectorizeLoops, LeavesAloneWhatIterationsShareOrScatter) {
  const char* const declarations = R"(
    program p(n)
      input  f32 x[n + 1, n]
      input  i64 at[n]
      inout  f32 y[n + 1]
      inout  f32 z[2]
      fact   at in 0..n
    )";
  expect_kept("vectorize_loops", declarations, "for i in 0..n:\n  y[i + 1] = y[i]*2\n",
              "i: one by one: iterations share 'y'");
  expect_kept("vectorize_loops", declarations, "for i in 0..n:\n  z[0] += x[0, i]\n",
              "i: one by one: iterations share 'z'");
  expect_kept("vectorize_loops", declarations, R"(
    local f32 s
    s = 1
    for i in 0..n:
      s += s*x[0, i]
    z[0] = s
    )",
              "i: one by one: iterations share 's', which they not only sum into");
  expect_kept("vectorize_loops", declarations, "parallel for i in 0..n:\n  y[i] = x[i, 0] + x[at[i], 1] + x[i, 2]\n",
              "most accesses are not to neighbouring elements");
  expect_kept("vectorize_loops", declarations, "parallel for i in 0..n:\n  z[0] += (atomic) x[0, i]\n",
              "there is an atomic sum inside");
  expect_kept("vectorize_loops", declarations, "parallel for i in 0..1:\n  y[i] = x[0, i]\n");
}

/// Of the parallel loop one iteration sums into t, but all would write the total of their lanes to it.
TEST(VectorizeLoops, LeavesAloneSumsThatAParallelLoopShares) {
  expect_kept("vectorize_loops", R"(
    program p(n)
      input  f32 x[n, n]
      output f32 y[n]
      output f32 total
    )",
              R"(
    local f32 t
    t = 0
    parallel for i in 0..n:
      local f32 s
      s = 0
      for j in 0..n:
        s += x[i, j]
        if i + j < 1:
          t += x[i, j]
      y[i] = s
    total = t
    )",
              "j: one by one: iterations share 't' with those of a parallel loop around");
}

/// An estimate for the first loop of a program, in terms of what is outside.
std::string work_in(const std::string& body) {
  const ir::Program program = program_of(R"(
    program p(n, m)
      input  f32 x[n, m]
      inout  i64 ptr[n + 1]
      inout  f32 y[n]
    )",
                                         body);
  return ir::print(work_of_trip(program, *program.body.as<ir::For>()));
}

TEST(WorkOfTrip, CountsWhatIsInsideInTermsOfWhatIsOutside) {
  EXPECT_EQ(work_in("for i in 0..n:\n  y[i] = x[i, 0]*2 + x[i, 1]\n"), "5");
  EXPECT_EQ(work_in("for i in 0..n:\n  for j in 0..m:\n    y[i] += exp(x[i, j])\n"), "m*15");
  // Data count as eight trips, triangles as half of the most, the block of a sum as its size, a band as its width.
  EXPECT_EQ(work_in("for i in 0..n:\n  for j in ptr[i]..ptr[i + 1]:\n    y[i] += 1\n"), "32");
  EXPECT_EQ(work_in("for i in 0..n:\n  for j in 0..i:\n    y[i] += 1\n"), "(n - 1)//2*4");
  EXPECT_EQ(work_in("for i in 0..n:\n  for j in ptr[i]..ptr[i + 1] (at most m):\n    y[i] += 1\n"), "m*4");
  EXPECT_EQ(work_in("for i in 0..n:\n  for j in max(i - 3, 0)..min(i + 4, n):\n    y[j] += 1\n"),
            "max(min(7, n), 0)*4");
  EXPECT_EQ(work_in("for i in 0..n:\n  for j in 0..m (lanes):\n    y[j] += x[i, j]*2 + x[i, 0]*3 + 1\n"), "m*2");
  EXPECT_EQ(work_in("for b in 0..m:\n  for j in b*8..min(b*8 + 8, n):\n    y[j] += 1\n"), "32");
  // What is computed once for all trips costs nothing in each of them.
  EXPECT_EQ(work_in("for i in 0..n:\n  y[i] = f32(i + min(m//2, n//3))\n"), "2");
}

TEST(WorkOfTrip, CountsRowsByTheirAverage) {
  const ir::Program program = program_of(R"(
    program p(n, entries, rows)
      input  i64 ptr[n + 1]
      input  i64 begin[rows]
      input  i64 end[rows]
      input  f32 x[entries]
      inout  f32 y[n]
      fact   ptr csr pointer of entries
    )",
                                         R"(
    for i in 0..n:
      for j in ptr[i]..ptr[i + 1]:
        y[i] += 1
    for r in 0..rows:
      for p in begin[r]..end[r]:
        y[0] += x[p]
    )");
  const auto& loops = program.body.as<ir::Block>()->body;
  EXPECT_EQ(ir::print(work_of_trip(program, *loops[0].as<ir::For>())), "(entries//max(n, 1) + 1)*4");
  EXPECT_EQ(ir::print(work_of_trip(program, *loops[1].as<ir::For>())), "(entries//max(rows, 1) + 1)*5");
}

TEST(VectorLanes, NeedFewerScatteredAccessesThanContiguousOnes) {
  const ir::Program program = program_of(R"(
    program p(n)
      input  f32 x[n, n]
      inout  f32 y[n]
      inout  f32 z[n]
    )",
                                         R"(
    for i in 0..n:
      y[i] = x[i, 0] + z[i]
    for i in 0..n:
      y[i] = x[i, 0] + x[i, 1]
    for i in 0..n:
      y[i] += z[i]
    )");
  const auto& loops = program.body.as<ir::Block>()->body;
  EXPECT_TRUE(plan_lanes(*loops[0].as<ir::For>(), {}, {}).fits);
  EXPECT_EQ(plan_lanes(*loops[1].as<ir::For>(), {}, {}).why_not, "most accesses are not to neighbouring elements");
  EXPECT_TRUE(plan_lanes(*loops[2].as<ir::For>(), {}, {}).fits);
  EXPECT_EQ(plan_lanes(*loops[2].as<ir::For>(), {program.arrays[1]}, {}).why_not, "iterations share 'y'");
  EXPECT_FALSE(is_eight_sums(*loops[2].as<ir::For>()));
}

TEST(ShareLoops, TheOutermostParallelLoopWhereItPays) {
  expect_pass("share_loops", R"(
    program p(n, m)
      input  f32 x[n, m]
      inout  f32 y[n]
    )",
              R"(
    for t in 0..3:
      parallel for i in 0..n:
        for j in 0..m:
          y[i] += x[i, j]
    parallel for i in 0..n:
      y[i] = y[i]*2
    parallel for i in 0..10000:
      if i < n:
        y[i] = y[i]*2
    )",
              R"(
    for t in 0..3:
      parallel for i in 0..n (threads) (pays from 20000 at m*5) (or alone):
        for j in 0..m:
          y[i] += x[i, j]
    parallel for i in 0..n (threads) (pays from 20000 at 3):
      y[i] = y[i]*2
    parallel for i in 0..10000 (threads):
      if i < n:
        y[i] = y[i]*2
    )",
              "i: threads: the outermost parallel loop; equal shares; where there are 20000 operations or more, else "
              "without a region");
}

/// In a loop in order, too: a second text of them would take compilers longer than entering a region takes.
TEST(ShareLoops, ManyStatementsAreNotWrittenTwice) {
  for (const int statements : {64, 65}) {
    std::string body;
    for (int k = 0; k < statements; ++k) body += "\n        y[i] = y[i]*2";
    const std::string threads =
        fmt::format(" (threads) (pays from 20000 at {}){}", 3 * statements, statements > 64 ? "" : " (or alone)");
    expect_pass("share_loops", R"(
    program p(n)
      inout f32 y[n]
    )",
                "\n    for t in 0..3:\n      parallel for i in 0..n:" + body + "\n    ",
                "\n    for t in 0..3:\n      parallel for i in 0..n" + threads + ":" + body + "\n    ");
  }
}

TEST(ShareLoops, NestsTogetherAndInSmallSharesWhereWorkDiffers) {
  expect_pass("share_loops", R"(
    program p(n, m)
      input  f32 x[n, m, m]
      output f32 y[n, m]
    )",
              R"(
    parallel for i in 0..n:
      parallel for j in 0..m (lanes):
        y[i, j] = 0
        for k in 0..2:
          y[i, j] += x[i, j, k]
    parallel for i in 0..m:
      for k in 0..i:
        y[0, i] += x[0, i, k]
    )",
              R"(
    parallel for i in 0..n (threads) (together 2) (pays from 20000 at m*13):
      parallel for j in 0..m:
        y[i, j] = 0
        for k in 0..2:
          y[i, j] += x[i, j, k]
    parallel for i in 0..m (threads) (uneven) (pays from 20000 at (m - 1)//2*5):
      for k in 0..i:
        y[0, i] += x[0, i, k]
    )",
              "iterations may differ in work: threads fetch small shares");
}

TEST(ShareLoops, NotInALoopOverLanesNorForOneTrip) {
  expect_kept("share_loops", R"(
    program p(n)
      input  f32 x[n, 3]
      inout  f32 y[n, 3]
    )",
              R"(
    for i in 0..n (lanes):
      parallel for j in 0..3:
        y[i, j] = x[i, j]
    parallel for i in 0..1:
      y[i, 0] = 0
    )");
}

constexpr const char* two_matrices = R"(
    program p(n, m)
      input  f32 x[n, m]
      inout  f32 y[n, m]
      output f32 z[n]
    )";

TEST(StreamRows, RowsThatNobodyReads) {
  expect_pass("stream_rows", two_matrices, R"(
    parallel for i in 0..n (threads):
      parallel for j in 0..m (lanes):
        y[i, j] = x[i, j]*2
    )",
              R"(
    parallel for i in 0..n (threads):
      parallel for j in 0..m (lanes) (streams 4*n*m + 4*n*m):
        y[i, j] = (streamed) x[i, j]*2
    )",
              "j: past the caches: stores of rows that nobody reads, where 4*n*m + 4*n*m bytes");
}

TEST(StreamRows, NotWhatIsReadOrShortOrDearOrOnThreads) {
  for (const char* const value : {"y[i, j]*2", "exp(x[i, j])"})
    expect_kept("stream_rows", two_matrices,
                "parallel for i in 0..n (threads):\n  parallel for j in 0..m (lanes):\n    y[i, j] = " +
                    std::string(value) + "\n");
  expect_kept("stream_rows", two_matrices, R"(
    parallel for i in 0..n (threads):
      parallel for j in 0..200 (lanes):
        y[i, j] = x[i, j]*2
    )");
  expect_kept("stream_rows", two_matrices, "parallel for i in 0..n (threads) (lanes):\n  z[i] = x[i, 0]\n");
  expect_kept("stream_rows", two_matrices, "parallel for i in 0..n:\n  z[i] = x[i, 0]\n");
}

TEST(PlaceArrays, AsFarOutAsExtentsAreKnown) {
  expect_pass("place_arrays", R"(
    program p(n, m)
      inout  f32 y[n]
    )",
              R"(
    for t in 0..3:
      local f32 next[n]:
        parallel for i in 0..n (threads):
          local f32 s
          local f32 few[3]
          local f32 row[m + t]
          local f32 part[i + 1]
          few[2] = y[i]
          row[0] = few[2]
          part[i] = row[0]
          s = part[i]
          next[i] = s
        parallel for i in 0..n (threads):
          y[i] = next[i]
    )",
              R"(
    for t in 0..3:
      local f32 next[n] (call) (out 1):
        parallel for i in 0..n (threads):
          local f32 s
          local f32 few[3] (stack)
          local f32 row[m + t] (per thread) (out 1)
          local f32 part[i + 1] (iteration)
          few[2] = y[i]
          row[0] = few[2]
          part[i] = row[0]
          s = part[i]
          next[i] = s
        parallel for i in 0..n (threads):
          y[i] = next[i]
    )",
              "local next[n]: memory of the call: reserved once, outside of 1 loop");
}

TEST(PlaceArrays, TheStackIsSmall) {
  expect_pass("place_arrays", R"(
    program p()
      inout  f32 y[1]
    )",
              R"(
    local f32 large[5000]
    local f32 small[4000]
    large[0] = y[0]
    small[0] = large[0]
    y[0] = small[0]
    )",
              R"(
    local f32 large[5000] (call)
    local f32 small[4000] (stack)
    large[0] = y[0]
    small[0] = large[0]
    y[0] = small[0]
    )",
              "local large[5000]: memory of the call: too large for the stack");
}

TEST(JoinRegions, LoopsOverOneRange) {
  expect_pass("join_regions", R"(
    program p(n)
      inout  f32 x[n]
      inout  f32 y[n]
    )",
              R"(
    parallel for i in 0..n (threads):
      y[i] = x[n - 1 - i]
    parallel for i in 0..n (threads):
      x[i] = y[n - 1 - i]
    parallel for i in 0..n (threads):
      y[i] += x[n - 1 - i]
    parallel for i in 1..n (threads):
      x[i] = 0
    )",
              R"(
    parallel for i in 0..n (threads):
      y[i] = x[n - 1 - i]
    parallel for i in 0..n (joined) (threads):
      x[i] = y[n - 1 - i]
    parallel for i in 0..n (joined) (threads):
      y[i] += x[n - 1 - i]
    parallel for i in 1..n (threads):
      x[i] = 0
    )",
              "i: one region: 3 loops over one range in a row");
}

TEST(JoinRegions, NotWhereDataDecideTheRangeOrMemoryCanRunOut) {
  const char* const declarations = R"(
    program p(n)
      input  i64 k
      inout  f32 x[n]
    )";
  expect_kept("join_regions", declarations, R"(
    parallel for i in 0..min(k, n) (threads):
      x[i] = 1
    parallel for i in 0..min(k, n) (threads):
      x[i] = x[i]*2
    )");
  expect_kept("join_regions", declarations, R"(
    parallel for i in 0..n (threads):
      local f32 part[i + 1] (iteration)
      part[i] = x[i]
      x[i] = part[i]*2
    parallel for i in 0..n (threads):
      x[i] = x[i]*2
    )");
  expect_kept("join_regions", declarations, R"(
    parallel for i in 0..n (threads):
      x[i] = 1
    parallel for i in 0..n:
      x[i] = x[i]*2
    )");
}

}  // namespace
}  // namespace loopgrad::transforms

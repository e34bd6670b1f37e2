// How a GPU runs loops: each pass of the last part of its list alone.
#include "tests/unit/passes/expect_pass.h"

#include "tests/unit/transforms/lowered.h"

#include <loopgrad/error.h>

#include <gtest/gtest.h>

#include <sstream>

namespace loopgrad::transforms {
namespace {

constexpr const char* running_vectors = R"(
    program p(n, m)
      input  f32 x[n]
      input  f32 a[n, m]
      input  f32 w[m]
      output f32 y[n]
      output f32 z[m]
      output f32 b[m, n]
    )";

TEST(WidenAccesses, MovesWhatNeighboursTouchAtOnce) {
  expect_pass("widen_accesses", running_vectors, R"(
    grid for g in 0..(n + 127)//128:
      threads for t in 0..32:
        for i in (g*32 + t)*4..min((g*32 + t)*4 + 4, n) (chunk of 4):
          y[i] = 2*x[i]
          y[i] += x[i]
    )",
              R"(
    grid for g in 0..(n + 127)//128:
      threads for t in 0..32:
        for i in (g*32 + t)*4..min((g*32 + t)*4 + 4, n) (chunk of 4) (wide loads x[i], stores y[i]):
          y[i] = 2*x[i]
          y[i] += x[i]
    )");
}

TEST(WidenAccesses, TilesMoveRowsAlongEachOfTheirLoops) {
  expect_pass("widen_accesses", running_vectors, R"(
    grid for g in 0..(m + 3)//4:
      threads for t in 0..(n + 3)//4:
        for j in g*4..min(g*4 + 4, m) (chunk of 4):
          for i in t*4..min(t*4 + 4, n) (chunk of 4):
            b[j, i] = a[i, j]
    )",
              R"(
    grid for g in 0..(m + 3)//4:
      threads for t in 0..(n + 3)//4:
        for j in g*4..min(g*4 + 4, m) (chunk of 4):
          for i in t*4..min(t*4 + 4, n) (chunk of 4) (wide loads a[i, j], stores b[j, i]):
            b[j, i] = a[i, j]
    )");
}

TEST(WidenAccesses, RowsOfATileMayBeAlignedInAnyWay) {
  expect_pass("widen_accesses", running_vectors, R"(
    grid for g in 0..(n + 3)//4:
      threads for t in 0..(m + 3)//4:
        for i in g*4..min(g*4 + 4, n) (chunk of 4):
          for j in t*4..min(t*4 + 4, m) (chunk of 4):
            b[j, i] = a[max(i - 1, 0), j]
    )",
              R"(
    grid for g in 0..(n + 3)//4:
      threads for t in 0..(m + 3)//4:
        for i in g*4..min(g*4 + 4, n) (chunk of 4):
          for j in t*4..min(t*4 + 4, m) (chunk of 4) (wide loads a[max(i - 1, 0), j] unevenly, stores b[j, i]):
            b[j, i] = a[max(i - 1, 0), j]
    )");
}

TEST(WidenAccesses, AsksOnceBeforeALoopWhoseTripsAreAlike) {
  expect_pass("widen_accesses", running_vectors, R"(
    grid for g in 0..1:
      threads for t in 0..(m + 3)//4:
        for start in t*4..t*4 + 1:
          local f32 s[4] (thread)
          for j in start..min(start + 4, m) (chunk of 4):
            s[j - start] = 0
          for i in 0..n:
            for j in start..min(start + 4, m) (chunk of 4):
              s[j - start] += a[i, j]
          for j in start..min(start + 4, m) (chunk of 4):
            z[j] = s[j - start]
    )",
              R"(
    grid for g in 0..1:
      threads for t in 0..(m + 3)//4:
        for start in t*4..t*4 + 1:
          local f32 s[4] (thread)
          for j in start..min(start + 4, m) (chunk of 4) (unroll 4):
            s[j - start] = 0
          for i in 0..n (wide in all trips):
            for j in start..min(start + 4, m) (chunk of 4) (unroll 4) (wide loads a[i, j]):
              s[j - start] += a[i, j]
          for j in start..min(start + 4, m) (chunk of 4) (unroll 4) (wide stores z[j]):
            z[j] = s[j - start]
    )");
}

TEST(WidenAccesses, LeavesAloneWhatIsAliasedOrSkipped) {
  const char* const declarations = R"(
    program p(n)
      input  f32 x[2*n]
      inout  f32 y[n]
      fact   y may alias x
    )";
  expect_kept("widen_accesses", declarations, R"(
    grid for g in 0..(n + 127)//128:
      threads for t in 0..32:
        for i in (g*32 + t)*4..min((g*32 + t)*4 + 4, n) (chunk of 4):
          y[i] = x[2*i]
    )");
}

TEST(WidenAccesses, UnrollsShortLoopsOfAThreadButNoneThatPops) {
  expect_pass("widen_accesses", running_vectors, R"(
    grid for g in 0..n:
      for k in 0..2:
        threads for t in 0..1:
          y[g] = 0
          for l in 0..3:
            y[g] += x[g]
          for l in 0..17:
            y[g] += x[g]
    )",
              R"(
    grid for g in 0..n:
      for k in 0..2:
        threads for t in 0..1:
          y[g] = 0
          for l in 0..3 (unroll 3):
            y[g] += x[g]
          for l in 0..17:
            y[g] += x[g]
    )");
  expect_pass("widen_accesses", running_vectors, R"(
    for i in 0..n:
      push(x[i])
    for i in 0..n reversed:
      y[i] = pop()
    )",
              R"(
    for i in 0..n (unroll 1):
      push(x[i])
    for i in 0..n reversed (unroll 1):
      y[i] = pop()
    )");
}

TEST(ReserveLocals, ComesWithTheLaunchWhereItIsLargeOrAsSizesAre) {
  expect_pass("reserve_locals", running_vectors, R"(
    for s in 0..n:
      grid for g in 0..n:
        local f32 small[64] (block)
        local f32 large[6000] (block)
        local f32 row[s + g + 1] (block)
        threads for t in 0..1:
          local f32 own[9, 3] (thread)
          local f32 much[512] (thread)
          own[0, 0] = x[g]
          much[0] = own[0, 0]
          small[0] = much[0]
          large[0] = small[0]
          row[0] = large[0]
          y[g] = row[0]
    )",
              R"(
    for s in 0..n:
      grid for g in 0..n:
        local f32 small[64] (block)
        local f32 large[6000] (block) (of the launch: 6000)
        local f32 row[s + g + 1] (block) (of the launch: s + (n - 1) + 1)
        threads for t in 0..1:
          local f32 own[9, 3] (thread)
          local f32 much[512] (thread) (of the launch: 512)
          own[0, 0] = x[g]
          much[0] = own[0, 0]
          small[0] = much[0]
          large[0] = small[0]
          row[0] = large[0]
          y[g] = row[0]
    )");
}

TEST(ReserveLocals, LeavesAloneWhatDataDecide) {
  expect_kept("reserve_locals", R"(
    program p(n)
      input  i64 ptr[n + 1]
      output i64 y[n]
    )",
              R"(
    grid for g in 0..n:
      threads for t in 0..1:
        for e in ptr[g]..ptr[g + 1]:
          local i64 row[e + 1] (thread)
          row[0] = e
          y[g] = row[0]
    )");
}

TEST(ShapeBlocks, SaysHowManyThreadsABlockHas) {
  expect_pass("shape_blocks", running_vectors, R"(
    for threads_x in select(m > 64, 16, 8)..select(m > 64, 16, 8) + 1:
      for threads_y in 64//threads_x..64//threads_x + 1:
        grid for g in 0..(n + threads_y - 1)//threads_y:
          threads for t in 0..threads_y:
            threads for u in 0..threads_x:
              for i in g*threads_y + t..min(g*threads_y + t + 1, n) (chunk of 1):
                if u == 0:
                  y[i] = x[i]
    grid for g in 0..n:
      threads for t in 0..1:
        y[g] = x[g]
      threads for t in 0..m:
        if t == g:
          z[t] = w[t]
    grid for g in 0..n:
      threads for t in 0..1:
        y[g] = x[g]
    )",
              R"(
    for threads_x in select(m > 64, 16, 8)..select(m > 64, 16, 8) + 1:
      for threads_y in 64//threads_x..64//threads_x + 1:
        grid for g in 0..(n + threads_y - 1)//threads_y (block of threads_x x threads_y, at most 64):
          threads for t in 0..threads_y:
            threads for u in 0..threads_x:
              for i in g*threads_y + t..min(g*threads_y + t + 1, n) (chunk of 1):
                if u == 0:
                  y[i] = x[i]
    grid for g in 0..n (block of m, at most 1024):
      threads for t in 0..1:
        y[g] = x[g]
      threads for t in 0..m:
        if t == g:
          z[t] = w[t]
    grid for g in 0..n:
      threads for t in 0..1:
        y[g] = x[g]
    )");
}

/// A sum of `loads` neighbours of x[i], in columns of four.
std::string column(int loads, const std::string& block) {
  std::string text =
      "grid for g in 0..(n + 1023)//1024" + block +
      ":\n  threads for t in 0..256:\n    for i in (g*256 + t)*4..min((g*256 + t)*4 + 4, n) (chunk of 4):\n"
      "      y[i] = x[i, 0]";
  for (int k = 1; k < loads; ++k) text += " + x[i, " + std::to_string(k) + "]";
  return text + "\n";
}

TEST(ShapeBlocks, LongColumnsWantManyBlocks) {
  const char* const declarations = R"(
    program p(n)
      input  f32 x[n, 16]
      output f32 y[n]
    )";
  expect_pass("shape_blocks", declarations, column(13, ""), column(13, " (block of 256, at most 256) (many blocks)"));
  expect_pass("shape_blocks", declarations, column(12, ""), column(12, " (block of 256, at most 256)"));
}

TEST(ShapeBlocks, ManyBlocksOfAWarpShareOne) {
  const auto rows = [](const std::string& extent, const std::string& run) {
    return "grid for g in 0..n" + run + ":\n  local f32 s" + extent +
           " (block):\n    threads for t in 0..32:\n      if t == 0:\n        y[g] = x[g]\n";
  };
  expect_pass("shape_blocks", running_vectors, rows("", ""),
              rows("", " (block of 32 x select(16384 <= n, 8, 1), at most 256) (teams)"));
  // Where sizes decide how many threads a row has, they decide that, too.
  const auto chosen = [](const std::string& run) {
    return "for threads in select(64 < n, 128, 32)..select(64 < n, 128, 32) + 1:\n  grid for g in 0..n" + run +
           ":\n    threads for t in 0..threads:\n      if t == 0:\n        y[g] = x[g]\n";
  };
  expect_pass("shape_blocks", running_vectors, chosen(""),
              chosen(" (block of threads x select(threads == 32 && 16384 <= n, 8, 1), at most 256) (teams)"));
  const auto always = [&](const std::string& run) {
    return "for threads in select(64 < n, 128, 32)..select(64 < n, 128, 32) + 1:\n  grid for g in 0..65536" + run +
           ":\n    threads for t in 0..threads:\n      if t == 0 && g < n:\n        y[g] = x[g]\n";
  };
  expect_pass("shape_blocks", running_vectors, always(""),
              always(" (block of threads x select(threads == 32, 8, 1), at most 256) (teams)"));
  // Eight times as much of what a block shares leaves few of them on a multiprocessor.
  expect_pass("shape_blocks", running_vectors, rows("[257]", ""), rows("[257]", " (block of 32, at most 32)"));
}

constexpr const char* rows = R"(
    program p(rows)
      input  f32 x[rows, 8]
      inout  f32 d[rows, 16]
      output f32 y[rows, 8]
    )";

TEST(PlaceBarriers, WhereThreadsMeetInMemory) {
  expect_pass("place_barriers", rows, R"(
    grid for r in 0..rows (block of 8, at most 8):
      local f32 tile[8] (block)
      threads for t in 0..8:
        tile[t] = x[r, t]
      threads for t in 0..8:
        y[r, t] = tile[7 - t]
    )",
              R"(
    grid for r in 0..rows (block of 8, at most 8) (barriers):
      local f32 tile[8] (block):
        threads for t in 0..8:
          tile[t] = x[r, t]
        barrier
        threads for t in 0..8:
          y[r, t] = tile[7 - t]
      barrier
    )");
}

TEST(PlaceBarriers, NoneWhereAnIndexKeepsThemApart) {
  expect_pass("place_barriers", rows, R"(
    grid for r in 0..rows (block of 8, at most 8):
      threads for t in 0..8:
        d[r, t] = x[r, t]
      threads for t in 0..8:
        d[r, t + 8] = d[r, t + 8]*2
    grid for r in 0..rows:
      threads for t in 0..1:
        y[r, 0] = 1
      threads for t in 0..1:
        y[r, 1] = y[r, 0]
    )",
              R"(
    grid for r in 0..rows (block of 8, at most 8) (barriers):
      threads for t in 0..8:
        d[r, t] = x[r, t]
      threads for t in 0..8:
        d[r, t + 8] = d[r, t + 8]*2
    grid for r in 0..rows:
      threads for t in 0..1:
        y[r, 0] = 1
      threads for t in 0..1:
        y[r, 1] = y[r, 0]
    )");
}

TEST(PlaceBarriers, AroundControlFlowThatThreadsTakeTogether) {
  expect_pass("place_barriers", rows, R"(
    grid for r in 0..rows (block of 8, at most 8):
      threads for t in 0..8:
        d[r, t] = x[r, t]
      for k in 0..3:
        threads for t in 0..8:
          y[r, t] = d[r, 7 - t]
        threads for t in 0..8:
          d[r, t] = y[r, t]
      for k in 0..5 while d[r, 0] < 0:
        threads for t in 0..1:
          d[r, 0] = d[r, 0] + 1
    )",
              R"(
    grid for r in 0..rows (block of 8, at most 8) (barriers):
      threads for t in 0..8:
        d[r, t] = x[r, t]
      barrier
      for k in 0..3:
        threads for t in 0..8:
          y[r, t] = d[r, 7 - t]
        barrier
        threads for t in 0..8:
          d[r, t] = y[r, t]
        barrier
      for k in 0..5 while d[r, 0] < 0:
        barrier
        threads for t in 0..1:
          d[r, 0] = d[r, 0] + 1
        barrier
    )");
}

TEST(PlaceBarriers, ForThreadsThatAreStillAskingWhatABodyThatDidNotRunWasFor) {
  // No thread gets to the end of the body in a row where the condition does not hold.
  expect_pass("place_barriers", rows, R"(
    grid for r in 0..rows (block of 8, at most 8):
      if d[r, 0] > 0:
        threads for t in 0..8:
          y[r, t] = x[r, t]
      threads for t in 0..1:
        d[r, 0] = 1
    )",
              R"(
    grid for r in 0..rows (block of 8, at most 8) (barriers):
      if d[r, 0] > 0:
        threads for t in 0..8:
          y[r, t] = x[r, t]
        barrier
      barrier
      threads for t in 0..1:
        d[r, 0] = 1
    )");
  // The same behind the last trip of a `while`.
  expect_pass("place_barriers", rows, R"(
    grid for r in 0..rows (block of 8, at most 8):
      for k in 0..3 while d[r, 8] < 0:
        threads for t in 0..1:
          d[r, 8] = 0
      threads for t in 0..1:
        d[r, 8] = 1
    )",
              R"(
    grid for r in 0..rows (block of 8, at most 8) (barriers):
      for k in 0..3 while d[r, 8] < 0:
        barrier
        threads for t in 0..1:
          d[r, 8] = 0
        barrier
      barrier
      threads for t in 0..1:
        d[r, 8] = 1
    )");
}

/// What is waited for is the same after each of them: it used to double.
TEST(PlaceBarriers, BehindManyBranches) {
  std::string before = "grid for r in 0..rows (block of 8, at most 8):\n", after = before;
  after.insert(after.find(":\n"), " (barriers)");
  for (int k = 0; k < 48; ++k) {
    const std::string branch = "  if x[r, 0] > d[r, 0]:\n    threads for t in 0..8:\n      y[r, t] = x[r, t]\n";
    before += branch;
    after += branch + "    barrier\n";
  }
  const std::string last = "  threads for t in 0..1:\n    d[r, 0] = 1\n";
  expect_pass("place_barriers", rows, before + last, after + "  barrier\n" + last);
}

/// What the checked interpreter says of a program; "" where it has no objection. `barriers`: with its lines that say
/// so.
std::string objection(const std::string& body, bool barriers) {
  std::istringstream lines(dedented(body));
  std::string text;
  for (std::string line; std::getline(lines, line);)
    if (barriers || line.find("barrier") == std::string::npos || line.starts_with("grid")) text += line + "\n";
  try {
    run_checked(program_of(rows, text), {{"rows", 3}});
    return "";
  } catch (const RuntimeError& error) {
    return error.what();
  }
}

TEST(Interpreter, FindsABarrierThatIsMissing) {
  const char* const exchange = R"(
    grid for r in 0..rows (block of 8, at most 8) (barriers):
      local f32 tile[8] (block)
      threads for t in 0..8:
        tile[t] = x[r, t]
      barrier
      threads for t in 0..8:
        y[r, t] = tile[7 - t]
    )";
  EXPECT_EQ(objection(exchange, true), "");
  EXPECT_NE(objection(exchange, false).find("no barrier is between them"), std::string::npos)
      << objection(exchange, false);
  const char* const own = R"(
    grid for r in 0..rows (block of 8, at most 8) (barriers):
      local f32 tile[8] (block)
      threads for t in 0..8:
        tile[t] = x[r, t]
      threads for t in 0..8:
        y[r, t] = tile[t]
    )";
  EXPECT_EQ(objection(own, true), "") << "each thread reads what it has stored";
}

TEST(Interpreter, NumbersThreadsOfSeveralLoopsAlike) {
  const char* const exchange = R"(
    grid for r in 0..rows (block of 4 x 2, at most 8) (barriers):
      threads for u in 0..2:
        threads for t in 0..4:
          d[r, u*4 + t] = x[r, u*4 + t]
      barrier
      threads for u in 0..2:
        threads for t in 0..4:
          y[r, u*4 + t] = d[r, (1 - u)*4 + t]
    )";
  EXPECT_EQ(objection(exchange, true), "");
  EXPECT_NE(objection(exchange, false), "");
}

TEST(Interpreter, FindsWhatAllThreadsReadTooEarly) {
  const char* const choice = R"(
    grid for r in 0..rows (block of 8, at most 8) (barriers):
      threads for t in 0..1:
        d[r, 0] = 1
      barrier
      if d[r, 0] > 0:
        threads for t in 0..8:
          y[r, t] = x[r, t]
    )";
  EXPECT_EQ(objection(choice, true), "");
  EXPECT_NE(objection(choice, false).find("every thread"), std::string::npos) << objection(choice, false);
}

}  // namespace
}  // namespace loopgrad::transforms

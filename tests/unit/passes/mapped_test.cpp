// The loops of a GPU, and who shares the locals in them.
#include "dsl/ir/printer.h"
#include "dsl/ir/verifier.h"
#include "tests/unit/passes/expect_pass.h"

#include <gtest/gtest.h>

namespace loopgrad::transforms {
namespace {

TEST(MapToGpu, GivesThreadsWideAccessesAlongARow) {
  expect_pass("map_to_gpu", R"(
    program p(n)
      input  f32 a[n]
      output f32 b[n]
    )",
              R"(
    parallel for i in 0..n:
      b[i] = a[i]
    )",
              R"(
    for blocks_x in (n + 1023)//1024..(n + 1023)//1024 + 1:
      grid for block_x in 0..blocks_x:
        threads for thread_x in 0..256:
          for i in (block_x*256 + thread_x)*4..min((block_x*256 + thread_x)*4 + 4, n) (chunk of 4):
            b[i] = a[i]
    )",
              "a thread for each iteration");
}

TEST(MapToGpu, GivesThreadsTilesOfATransposition) {
  expect_pass("map_to_gpu", R"(
    program p(n, m)
      input  f32 a[n, m]
      output f32 b[m, n]
    )",
              R"(
    parallel for i in 0..n:
      parallel for j in 0..m:
        b[j, i] = a[i, j]
    )",
              R"(
    for threads_x in 8..9:
      for threads_y in 256//threads_x..256//threads_x + 1:
        for blocks_y in (m + (threads_y*4 - 1))//(threads_y*4)..(m + (threads_y*4 - 1))//(threads_y*4) + 1:
          for blocks_x in (n + (threads_x*4 - 1))//(threads_x*4)..(n + (threads_x*4 - 1))//(threads_x*4) + 1:
            grid for block_y in 0..blocks_y:
              grid for block_x in 0..blocks_x:
                threads for thread_y in 0..threads_y:
                  threads for thread_x in 0..threads_x:
                    for j in (block_y*threads_y + thread_y)*4..min((block_y*threads_y + thread_y)*4 + 4, m) (chunk of 4):
                      for i in (block_x*threads_x + thread_x)*4..min((block_x*threads_x + thread_x)*4 + 4, n) (chunk of 4):
                        b[j, i] = a[i, j]
    )",
              "a thread for each iteration");
}

constexpr const char* rows_of_matrices = R"(
  program p(n, m)
    input  i32 at[n]
    input  f32 x[n, m]
    input  f32 w[m, m]
    inout  f32 y[n, m]
    inout  f32 s[n]
)";

ir::Program mapped(const std::string& body, std::string& reasons) {
  const PassResult result = run_passes("map_to_gpu", rows_of_matrices, body, gpu_machine());
  reasons = reasons_in(result.report);
  return result.after;
}

TEST(MapToGpu, GivesThreadsShortRowsThatTheyOnlyRead) {
  std::string reasons;
  mapped(R"(
    parallel for i in 0..n:
      s[i] = 0
      for j in 0..m:
        s[i] += x[i, j]*x[i, j]
  )",
         reasons);
  EXPECT_NE(reasons.find("fewer than 64 are to share"), std::string::npos) << reasons;
  mapped(R"(
    parallel for i in 0..n:
      for j in 0..m:
        s[i] += x[i, j]
      parallel for j in 0..m:
        y[i, j] = x[i64(at[i]), j]*s[i]
  )",
         reasons);
  EXPECT_NE(reasons.find("fewer than 16 are to share"), std::string::npos) << reasons;
}

/// A row that stays in registers, but where a product with it is a thread's for each of its elements.
TEST(MapToGpu, DoesNotKeepShortRowsWithAProductInside) {
  std::string reasons;
  const auto kept_while = [&](const std::string& product) {
    const ir::Program program = mapped(R"(
      parallel for i in 0..n:
        local f32 h[m]
        local f32 next[m]
        parallel for j in 0..m:
          h[j] = x[i, j]
        for t in 0..8:
          parallel for j in 0..m:
            next[j] = h[j]
)" + product + R"(
          parallel for j in 0..m:
            h[j] = next[j]*next[j]
        parallel for j in 0..m:
          y[i, j] = h[j]
    )",
                                       reasons);
    ir::verify(program, "map_to_gpu");
    const std::string text = ir::print(program);
    EXPECT_NE(text.find("m <= 4096"), std::string::npos) << "rows are kept: " << text;
    return text.find("m <= 256") == std::string::npos;
  };
  EXPECT_TRUE(kept_while(""));
  EXPECT_FALSE(kept_while(R"(
          parallel for j in 0..m:
            local f32 sum
            sum = 0
            for l in 0..m:
              sum += w[l, j]*h[l]
            next[j] = sum)"));
  // How many elements the product has changes inside, so the host cannot ask.
  EXPECT_TRUE(kept_while(R"(
          parallel for j in 0..min(t, m):
            local f32 sum
            sum = 0
            for l in 0..m:
              sum += w[l, j]*h[l]
            next[j] = sum)"));
}

TEST(PlaceLocals, SaysWhoSharesEachLocal) {
  expect_pass("place_locals", R"(
    program p(rows)
      input  f32 x[rows, 64]
      output f32 y[rows, 64]
      output f32 z[rows]
    )",
              R"(
    local f32 before[rows]
    grid for r in 0..rows:
      local f32 row[64, 1]
      local f32 tile[64]
      local f32 sum
      local f32 last
      sum = 0
      threads for t in 0..64:
        local f32 part
        part = x[r, t]
        row[t, 0] = part
        tile[t] = part
        sum += (atomic) part
      threads for t in 0..1:
        last = sum
      threads for t in 0..64:
        y[r, t] = row[t, 0]/last + tile[63 - t]
      threads for t in 0..1:
        before[r] = last
    grid for r in 0..rows:
      threads for t in 0..1:
        z[r] = before[r]
    )",
              R"(
    local f32 before[rows] (grid)
    grid for r in 0..rows:
      local f32 row[64, 1] (thread)
      local f32 tile[64] (block)
      local f32 sum (thread)
      local f32 last (block)
      sum = 0
      threads for t in 0..64:
        local f32 part (thread)
        part = x[r, t]
        row[t, 0] = part
        tile[t] = part
        sum += (block) part
      threads for t in 0..1:
        last = sum
      threads for t in 0..64:
        y[r, t] = row[t, 0]/last + tile[63 - t]
      threads for t in 0..1:
        before[r] = last
    grid for r in 0..rows:
      threads for t in 0..1:
        z[r] = before[r]
    )");
}

/// A device has no atomic sums in memory of a thread.
TEST(PlaceLocals, SumsIntoWhatIsAThreadsAreNotAtomic) {
  expect_pass("place_locals", R"(
    program p(n)
      input  f32 x[n]
      inout  f32 y[n]
    )",
              R"(
    grid for b in 0..1:
      for i in 0..n:
        local f32 s
        s = 0
        for j in 0..2:
          s += (atomic) x[i]
          y[j] += (atomic) x[i]
        y[i] = s
    )",
              R"(
    grid for b in 0..1:
      for i in 0..n:
        local f32 s (thread)
        s = 0
        for j in 0..2:
          s += x[i]
          y[j] += (atomic) x[i]
        y[i] = s
    )");
}

TEST(PlaceLocals, GivesTheOneThreadOfAStackAllOfThem) {
  expect_pass("place_locals", R"(
    program p(n)
      input  f32 x[n]
      output f32 y[n]
    )",
              R"(
    for i in 0..n:
      local f32 t
      t = x[i]
      y[i] = t*t
    )",
              R"(
    for i in 0..n:
      local f32 t (thread)
      t = x[i]
      y[i] = t*t
    )");
}

}  // namespace
}  // namespace loopgrad::transforms

// Loops, and sums of threads: rewrites and analyses that are no row of the list, each alone.
#include "tests/unit/passes/parts.h"
#include "transforms/analysis/accesses.h"
#include "transforms/analysis/analyses.h"
#include "transforms/analysis/strides.h"
#include "transforms/loops/shift_loop.h"
#include "transforms/loops/split_loops_at_guards.h"
#include "transforms/map/gpu/long_sums.h"
#include "transforms/map/gpu/parallel_nest.h"
#include "transforms/map/gpu/row_classes.h"
#include "transforms/map/gpu/shared_sums.h"
#include "transforms/map/gpu/spread_loops.h"
#include "transforms/storage/settle_scalars.h"

#include <gtest/gtest.h>

namespace loopgrad::transforms {
namespace {

using ir::Program;

TEST(ShiftedAlong, CountsFromTheOuterIterator) {
  const char* declarations = R"(
    program p(n, r)
      input  f32 g[n]
      input  f32 w[2*r + 1]
      inout  f32 s[n]
  )";
  const ir::Program program = program_of(declarations, R"(
    for c in 0..n:
      for j in max(0, c - r)..min(n, c + 1):
        s[c] += g[j]*w[c - j + r]
  )");
  const auto* outer = program.body.as<ir::For>();
  const auto shifted = shifted_along(*outer->body.as<ir::For>(), outer->iterator);
  ASSERT_TRUE(shifted);
  expect_body(program, ir::for_loop(outer->iterator, outer->lower, outer->upper, *shifted), declarations, R"(
    for c in 0..n:
      for j in max(0 - c, 0 - r)..min(n - c, 1):
        s[c] += g[j + c]*w[r - j]
  )");
}

TEST(ShiftedAlong, KeepsALoopWhoseBoundsStay) {
  const ir::Program program = program_of(R"(
    program p(n)
      input  f32 g[n]
      inout  f32 s[n]
  )",
                                         R"(
    for c in 0..n:
      for j in 0..n:
        s[c] += g[j]
  )");
  const auto* outer = program.body.as<ir::For>();
  EXPECT_FALSE(shifted_along(*outer->body.as<ir::For>(), outer->iterator));
}

TEST(WithTightBounds, RunsBetweenTheBoundsOfABranch) {
  const char* declarations = R"(
    program p(n, k)
      inout  f32 y[n]
  )";
  const ir::Program program = program_of(declarations, R"(
    for c in 0..n:
      if c >= 2 && c < k:
        y[c] = 1
  )");
  expect_body(program, with_tight_bounds(program.body), declarations, R"(
    for c in max(0, 2)..min(n, k):
      y[c] = 1
  )");
}

TEST(ParallelNest, WidensBoundsAndGuardsTheBody) {
  const ir::Program program = program_of(R"(
    program p(n)
      output f32 y[n + 2, n + 2]
  )",
                                         R"(
    parallel for i in 0..n + 2:
      if i >= 1:
        parallel for j in 0..i:
          y[i, j] = 1
  )");
  const ParallelNest nest = parallel_nest(program.body);
  ASSERT_EQ(nest.loops.size(), 2u);
  EXPECT_EQ(ir::print(nest.loops[0]->lower), "1");
  EXPECT_EQ(ir::print(nest.loops[0]->upper), "n + 2");
  EXPECT_EQ(ir::print(nest.loops[1]->upper), "n + 1");
  EXPECT_EQ(ir::print(nest.body), "if j < i:\n  y[i, j] = 1\n");
}

TEST(Strides, RunsThreadsAlongNeighbours) {
  const ir::Program program = program_of(R"(
    program p(n, m)
      input  f32 a[n, m]
      output f32 b[m, n]
      output f32 c[m, n]
  )",
                                         R"(
    parallel for i in 0..n:
      parallel for j in 0..m:
        b[j, i] = a[i, j]
        c[j, i] = 1
  )");
  const ParallelNest nest = parallel_nest(program.body);
  EXPECT_GT(coalescing_score(nest.body, nest.loops[0]->iterator), coalescing_score(nest.body, nest.loops[1]->iterator));
  EXPECT_EQ(best_along_threads(nest.body, nest.loops), 0u);
}

TEST(SharedSums, AreAllThatIterationsShare) {
  const ir::Program program = program_of(R"(
    program p(n)
      input  f32 x[n]
      inout  f32 s
      inout  f32 y[n + 1]
  )",
                                         R"(
    s = 1
    for c in 0..n:
      s += x[c]
    for c in 0..n:
      y[c + 1] += y[c]
    for c in 0..n:
      y[c] += x[c]
  )");
  Analyses known;
  const auto sums = shared_sums({program, known}, first<ir::For>(program.body));
  ASSERT_TRUE(sums && sums->size() == 1);
  EXPECT_EQ((*sums)[0].array->name, "s");
  EXPECT_FALSE(shared_sums({program, known}, first<ir::For>(program.body, 1)))
      << "each iteration reads what another one wrote";
  const auto none = shared_sums({program, known}, first<ir::For>(program.body, 2));
  EXPECT_TRUE(none && none->empty()) << "the iterations share nothing";
}

TEST(SpreadLoops, GivesThreadsPartialResults) {
  const char* declarations = R"(
    program p(n)
      input  f32 x[n]
      output f32 y[n]
  )";
  const ir::Program program = program_of(declarations, R"(
    local f32 sum
    sum = 0
    for c in 0..n:
      sum += x[c]*x[c]
    parallel for c in 0..n:
      y[c] = x[c]/sum
  )");
  Analyses known;
  expect_body(program, spread_loops({program, known}, program.body, ir::int_const(32)), declarations, R"(
    local f32 sum
    sum = 0
    local f32 sum_all:
      sum_all = 0
      threads for t in 0..32:
        local f32 sum_part
        sum_part = 0
        for c_step in 0..(n - t*4 + 127)//128 (strided):
          for c in t*4 + c_step*128..min(t*4 + c_step*128 + 4, n) (chunk of 4):
            sum_part += x[c]*x[c]
        sum_all += (atomic) sum_part
      sum += sum_all
    threads for t in 0..32:
      for c_step in 0..(n - t*4 + 127)//128 (strided):
        for c in t*4 + c_step*128..min(t*4 + c_step*128 + 4, n) (chunk of 4):
          y[c] = x[c]/sum
  )");
}

TEST(LongSum, IsDoneByManyBlocksAndThenOne) {
  const char* declarations = R"(
    program p(n)
      input  f32 x[n]
      inout  f32 s
  )";
  const ir::Program program = program_of(declarations, R"(
    for c in 0..n:
      s += x[c]
  )");
  Analyses known;
  const auto sums = shared_sums({program, known}, program.body);
  ASSERT_TRUE(sums);
  expect_body(program, long_sum(*program.body.as<ir::For>(), *sums, 64), declarations, R"(
    for blocks in min(max((n + 255)//256, 1), 1024)..min(max((n + 255)//256, 1), 1024) + 1:
      if 0 < n:
        local f32 s_partial[blocks]
        grid for b in 0..blocks:
          local f32 s_all
          s_all = 0
          threads for t in 0..64:
            local f32 s_part
            s_part = 0
            for c_step in 0..(n - (b*64 + t)*4 + (blocks*64*4 - 1))//(blocks*64*4) (strided):
              for c in (b*64 + t)*4 + c_step*(blocks*64*4)..min((b*64 + t)*4 + c_step*(blocks*64*4) + 4, n) (chunk of 4):
                s_part += x[c]
            s_all += (atomic) s_part
          threads for t in 0..1:
            s_partial[b] = s_all
        grid for b in 0..1:
          local f32 s_all
          s_all = 0
          threads for t in 0..64:
            local f32 s_part
            s_part = 0
            for p_step in 0..(blocks - t*4 + 255)//256 (strided):
              for p in t*4 + p_step*256..min(t*4 + p_step*256 + 4, blocks) (chunk of 4):
                s_part += s_partial[p]
            s_all += (atomic) s_part
          threads for t in 0..1:
            s += s_all
  )");
}

TEST(SettleScalars, OneThreadSetsWhatOneThreadSetsElsewhere) {
  const char* declarations = R"(
    program p(n)
      input  f32 x
      input  f32 y
      output f32 z
  )";
  const ir::Program program = program_of(declarations, R"(
    local f32 t
    t = 2*x
    threads for u in 0..1:
      t += y
    threads for u in 0..1:
      z = t
  )");
  expect_body(program, settle_scalars(program.body), declarations, R"(
    local f32 t
    threads for t_1 in 0..1:
      t = 2*x
      t += y
      z = t
  )");
}

TEST(RaggedRows, AreThoseOfWhichDataTellTheLength) {
  const char* declarations = R"(
    program p(n, m)
      input  i32 ptr[n + 1]
      input  f32 x[m]
      output f32 y[n]
      fact   ptr csr pointer of m
  )";
  const Program ragged = program_of(declarations, R"(
    parallel for v in 0..n:
      y[v] = 0
      for e in ptr[v]..ptr[v + 1]:
        y[v] += x[e]
  )");
  const auto rows = ragged_rows(ragged, parallel_nest(ragged.body));
  ASSERT_TRUE(rows);
  EXPECT_EQ(rows->rows->iterator.name, "v");
  EXPECT_EQ(ir::print(rows->length), "ptr[v + 1] - ptr[v]");
  const Program even = program_of(declarations, R"(
    parallel for v in 0..n:
      y[v] = 0
      for e in 0..m:
        y[v] += x[e]
  )");
  EXPECT_FALSE(ragged_rows(even, parallel_nest(even.body)));
}

}  // namespace
}  // namespace loopgrad::transforms

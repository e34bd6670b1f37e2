// What passes consist of: rewrites and analyses that are no row of the list, each alone.
#include "dsl/ir/printer.h"
#include "dsl/ir/verifier.h"
#include "dsl/ir/visit.h"
#include "tests/support/ir_text.h"
#include "tests/unit/passes/expect_pass.h"
#include "transforms/analysis/accesses.h"
#include "transforms/analysis/analyses.h"
#include "transforms/analysis/lifetimes.h"
#include "transforms/analysis/size_estimates.h"
#include "transforms/analysis/strides.h"
#include "transforms/bounds/bound_accesses.h"
#include "transforms/bounds/leaving_accesses.h"
#include "transforms/bounds/open_accesses.h"
#include "transforms/loops/shift_loop.h"
#include "transforms/loops/split_loops_at_guards.h"
#include "transforms/map/gpu/keep_rows.h"
#include "transforms/map/gpu/long_sums.h"
#include "transforms/map/gpu/parallel_nest.h"
#include "transforms/map/gpu/row_classes.h"
#include "transforms/map/gpu/shared_sums.h"
#include "transforms/map/gpu/spread_loops.h"
#include "transforms/storage/expand_locals.h"
#include "transforms/storage/forward_locals.h"
#include "transforms/storage/level_uses.h"
#include "transforms/storage/settle_scalars.h"
#include "transforms/storage/sink_fills.h"
#include "transforms/storage/update_once.h"

#include <gtest/gtest.h>

namespace loopgrad::transforms {
namespace {

using ir::Program;
using ir::Stmt;

/// The first statement of that kind in textual order, also inside others.
template <class Node>
Stmt first(const Stmt& s, std::size_t skip = 0) {
  Stmt found;
  ir::walk_stmts(s, [&](const Stmt& at) {
    if (!found && at.as<Node>() && skip-- == 0) found = at;
  });
  return found;
}

/// `body`, in place of the program's, prints as `text` does.
void expect_body(const Program& program, const Stmt& body, const std::string& declarations, const std::string& text) {
  const Program result = ir::with_body(program, body);
  ir::verify(result, "a part of a pass");
  EXPECT_EQ(ir::print(result), ir::print(program_of(declarations, text)));
}

poly::Model model_of(const Program& program) {
  return poly::build_model(program, program.body, std::make_shared<poly::Context>());
}

// ---- locals ----

TEST(ForwardLocals, ReplacesAScalarByWhatItHolds) {
  const char* declarations = R"(
    program p(n)
      input  f32 d_y[n]
      input  f32 w[n]
      inout  f32 d_x[n + 1]
  )";
  const Program program = program_of(declarations, R"(
    for i in 0..n:
      local f32 seed
      seed = d_y[i]*w[i]
      d_x[i + 1] += seed*w[i]
  )");
  const Stmt sum = forward_locals(model_of(program), program.body, first<ir::Reduce>(program.body));
  EXPECT_EQ(ir::print(sum), "d_x[i + 1] += d_y[i]*w[i]*w[i]\n");
}

TEST(ForwardLocals, KeepsAScalarWhoseSourceHasChanged) {
  const Program program = program_of(R"(
    program p(n)
      inout  f32 d_y[n]
      inout  f32 d_x[n + 1]
  )",
                                     R"(
    for i in 0..n:
      local f32 seed
      seed = d_y[i]
      d_y[i] = 0
      d_x[i + 1] += seed
  )");
  const Stmt sum = first<ir::Reduce>(program.body);
  EXPECT_TRUE(forward_locals(model_of(program), program.body, sum).same_as(sum));
}

TEST(ExpandLocals, GivesEachIterationAnElement) {
  const char* declarations = R"(
    program p(n)
      input  f32 x[n]
      output f32 y[n]
  )";
  const Program program = program_of(declarations, R"(
    for i in 0..n:
      local f32 s
      s = x[i]*2
      y[i] = s
  )");
  const auto expansion =
      expand_locals(model_of(program), program.body, {first<ir::Allocate>(program.body).as<ir::Allocate>()->array});
  ASSERT_TRUE(expansion && expansion->arrays.size() == 1);
  expect_body(program, ir::allocate(expansion->arrays[0], expansion->nest), declarations, R"(
    local f32 s_all[n]
    for i in 0..n:
      s_all[i] = x[i]*2
      y[i] = s_all[i]
  )");
}

TEST(UpdateOnce, UpdatesAnElementInAScalar) {
  const char* declarations = R"(
    program p(n)
      input  f32 a[n]
      inout  f32 u[2, n]
  )";
  const Program program = program_of(declarations, R"(
    for i in 0..n:
      u[0, i] += a[i]
      if i > 0:
        u[0, i] += u[1, i - 1]*2
      if i + 1 < n:
        u[0, i] += u[1, i + 1]*2
  )");
  const Stmt body = program.body.as<ir::For>()->body;
  const auto* loop = program.body.as<ir::For>();
  expect_body(program, ir::for_loop(loop->iterator, loop->lower, loop->upper, update_once(program, body)), declarations,
              R"(
    for i in 0..n:
      local f32 u_now
      u_now = u[0, i]
      u_now += a[i]
      if i > 0:
        u_now += u[1, i - 1]*2
      if i + 1 < n:
        u_now += u[1, i + 1]*2
      u[0, i] = u_now
  )");
}

TEST(UpdateOnce, KeepsAnElementThatAnotherAccessMayBe) {
  const Program program = program_of(R"(
    program p(n, m)
      input  i32 index[n]
      inout  f32 u[n]
      fact   index in 0..n
  )",
                                     R"(
    for i in 0..n:
      u[i] += 1
      u[i] += u[index[i]]
      u[i] += 2
  )");
  const Stmt body = program.body.as<ir::For>()->body;
  EXPECT_EQ(ir::print(update_once(program, body)), ir::print(body));
}

TEST(KeepRows, ReadsARowOnce) {
  const char* declarations = R"(
    program p(n, m)
      input  f32 x[n, m]
      output f32 y[n, m]
  )";
  const Program program = program_of(declarations, R"(
    parallel for r in 0..n:
      local f32 sum
      sum = 0
      for c in 0..m:
        sum += x[r, c]
      parallel for c in 0..m:
        y[r, c] = x[r, c]/sum
  )");
  Analyses known;
  const auto kept = keep_rows({program, known}, parallel_nest(program.body));
  ASSERT_TRUE(kept);
  EXPECT_EQ(ir::print(kept->rows.length), "m");
  const auto* loop = program.body.as<ir::For>();
  expect_body(program, ir::for_loop(loop->iterator, loop->lower, loop->upper, kept->body, loop->mode), declarations, R"(
    parallel for r in 0..n:
      local f32 x_row[m]
      parallel for c in 0..m:
        x_row[c] = x[r, c]
      local f32 sum
      sum = 0
      for c in 0..m:
        sum += x_row[c]
      parallel for c in 0..m:
        y[r, c] = x_row[c]/sum
  )");
}

// In the first of the time steps nobody has set d yet.
TEST(KeepRows, LoadsNothingThatOnlyAConditionReads) {
  const char* declarations = R"(
    program p(n, m)
      input  f32 x[n, m]
      output f32 d[n, m]
  )";
  const Program program = program_of(declarations, R"(
    for t in 0..3:
      parallel for r in 0..n:
        parallel for c in 0..m:
          d[r, c] = select(t > 0, d[r, c], 0)
        parallel for c in 0..m:
          d[r, c] += x[0, c]
  )");
  Analyses known;
  const Stmt nest = program.body.as<ir::For>()->body;
  const auto kept = keep_rows({program, known}, parallel_nest(nest));
  ASSERT_TRUE(kept);
  const auto* loop = nest.as<ir::For>();
  const Stmt rows = ir::for_loop(loop->iterator, loop->lower, loop->upper, kept->body, loop->mode);
  expect_body(program, with_body(*program.body.as<ir::For>(), rows), declarations, R"(
    for t in 0..3:
      parallel for r in 0..n:
        local f32 d_row[m]
        parallel for c in 0..m:
          d_row[c] = select(t > 0, d[r, c], 0)
        parallel for c in 0..m:
          d_row[c] += x[0, c]
        parallel for c in 0..m:
          d[r, c] = d_row[c]
  )");
}

TEST(KeepRows, LeavesRowsThatAreVisitedOnce) {
  const Program program = program_of(R"(
    program p(n, m)
      input  f32 x[n, m]
      output f32 y[n, m]
  )",
                                     R"(
    parallel for r in 0..n:
      parallel for c in 0..m:
        y[r, c] = x[r, c]
  )");
  Analyses known;
  EXPECT_FALSE(keep_rows({program, known}, parallel_nest(program.body)));
}

// ---- loops ----

TEST(ShiftedAlong, CountsFromTheOuterIterator) {
  const char* declarations = R"(
    program p(n, r)
      input  f32 g[n]
      input  f32 w[2*r + 1]
      inout  f32 s[n]
  )";
  const Program program = program_of(declarations, R"(
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
  const Program program = program_of(R"(
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
  const Program program = program_of(declarations, R"(
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
  const Program program = program_of(R"(
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
  const Program program = program_of(R"(
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

// ---- sums of threads ----

TEST(SharedSums, AreAllThatIterationsShare) {
  const Program program = program_of(R"(
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
  const Program program = program_of(declarations, R"(
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
  const Program program = program_of(declarations, R"(
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
  const Program program = program_of(declarations, R"(
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

// ---- what is touched ----

TEST(Accesses, OfDifferentIterationsAreApart) {
  const Program program = program_of(R"(
    program p(n)
      inout  f32 d[n, n]
  )",
                                     R"(
    for j in 0..n:
      parallel for k in 0..j:
        d[j, k] = d[j, j]
  )");
  const Stmt inner = first<ir::For>(program.body, 1);
  const std::vector<Access> both = accesses_of(inner.as<ir::For>()->body);
  ASSERT_EQ(both.size(), 2u);
  const Access& written = both[0].writes ? both[0] : both[1];
  const Access& read = both[0].writes ? both[1] : both[0];
  EXPECT_TRUE(are_apart(written, read, {inner.as<ir::For>()})) << "k stays below j";
  EXPECT_FALSE(are_apart(written, written, {inner.as<ir::For>()}));
  EXPECT_TRUE(is_own(written.indices, {inner.as<ir::For>()}));
  EXPECT_FALSE(is_own(read.indices, {inner.as<ir::For>()}));
}

TEST(LevelWindow, IsWhatOneStepUses) {
  const Program program = program_of(R"(
    program p(T, n)
      output f32 y[n]
  )",
                                     R"(
    local f32 v[T + 2, n]
    for i in 0..n:
      v[0, i] = 1
      v[1, i] = 1
    for t in 0..T:
      for i in 0..n:
        v[t + 2, i] = v[t + 1, i] + v[t, i]
    for i in 0..n:
      y[i] = v[T + 1, i]
  )");
  const auto* local = program.body.as<ir::Allocate>();
  const auto uses = level_uses(local->body, local->array, 0);
  ASSERT_TRUE(uses);
  EXPECT_EQ(uses->size(), 6u);
  const auto window = level_window(*uses);
  ASSERT_TRUE(window);
  EXPECT_EQ(window->least, 0);
  EXPECT_EQ(window->most, 2);
  EXPECT_EQ(window->entering(), 2);
  EXPECT_EQ(window->leaving(), 0);
  EXPECT_FALSE(level_window(*level_uses(local->body, local->array, 1))) << "several loops go through the elements";
}

TEST(LeavingAccesses, AreConditionsOnSizes) {
  const Program program = program_of(R"(
    program p(n, m)
      input  f32 x[n]
      output f32 y[m]
  )",
                                     R"(
    for i in 0..n:
      y[i] = x[i]
  )");
  const std::vector<OpenAccess> open = open_accesses(program);
  ASSERT_EQ(open.size(), 1u) << "x[i] stays within x";
  EXPECT_EQ(open[0].array->name, "y");
  LeavingAccesses leaving(program);
  const Leaving when = leaving.leaving(open[0]);
  EXPECT_EQ(ir::print(when.sizes), "n >= m + 1");
  EXPECT_TRUE(when.is_sure);
}

TEST(BoundAccesses, BringsAnIndexIntoItsExtentAndNotesIt) {
  const Program program = program_of(R"(
    program p(n, m)
      inout  f32 x[n]
      input  f32 w[n]
      inout  f32 h[m]
  )",
                                     R"(
    for i in 0..n:
      local i64 bin
      bin = i64(x[i])
      h[bin] += w[i]
  )");
  Record record;
  const Program bounded = bound_accesses(program, true, record);
  ASSERT_EQ(record.sites.size(), 1u);
  EXPECT_EQ(record.sites[0].array->name, "h");
  EXPECT_EQ(ir::print(bounded), dedented(R"(
    program p(n, m)
      inout  f32 x[n]
      input  f32 w[n]
      inout  f32 h[m]
      inout  i64 indices[1]
    for i in 0..n:
      local i64 bin
      bin = i64(x[i])
      indices[0] max= select(bin < 0 || bin >= m, max(bin, -9223372036854775807), -9223372036854775808)
      h[max(min(bin, m - 1), 0)] += w[i]
  )"));
}

TEST(BoundAccesses, LeavesWhatStaysInRange) {
  const Program program = program_of(R"(
    program p(n, m)
      input  f32 x[n]
      inout  f32 h[m]
  )",
                                     R"(
    for i in 0..n:
      local i64 bin
      bin = max(min(i64(x[i]), m - 1), 0)
      h[bin] += x[i]
  )");
  Record record;
  const Program bounded = bound_accesses(program, true, record);
  EXPECT_EQ(ir::print(bounded), ir::print(program));
  EXPECT_TRUE(record.sites.empty());
}

TEST(BoundTrips, CutsOffWhatWasNotPromised) {
  const Program program = program_of(R"(
    program p(n)
      input  i64 b[n]
      inout  f32 y[n]
  )",
                                     R"(
    for i in 0..n:
      for t in 0..b[i] (at most 4):
        y[i] += 1
      for t in 0..n:
        y[i] += 2
  )");
  Record record;
  const Program bounded = bound_trips(program, &record);
  ASSERT_EQ(record.sites.size(), 1u);
  EXPECT_EQ(ir::print(record.sites[0].at_most), "4");
  EXPECT_EQ(ir::print(bounded), dedented(R"(
    program p(n)
      input  i64 b[n]
      inout  f32 y[n]
      inout  i64 trips[1]
    for i in 0..n:
      trips[0] max= select(b[i] > 4, b[i], -9223372036854775808)
      for t in 0..min(b[i], 4) (at most 4):
        y[i] += 1
      for t in 0..n:
        y[i] += 2
  )"));
}

TEST(SizeEstimates, SayWhatTheyAreBasedOn) {
  const Program program = program_of(R"(
    program p(n, k)
      output f32 y[n]
  )",
                                     R"(
    for i in 0..n*k:
      y[0] = 1
  )");
  const SizeEstimates sizes = {{"n", 10}};
  SizeEstimator estimator(program, sizes);
  const auto* loop = program.body.as<ir::For>();
  EXPECT_EQ(estimator.trips_of(loop->lower, loop->upper, {}), 10 * assumed_size);
  EXPECT_EQ(estimator.basis(), "k = 1024 (assumed), n = 10");
  EXPECT_TRUE(estimator.assumed());
}

/// Of dimension 0 of the local array of a step v[t + 2] = `value`, t in order and i parallel.
std::optional<Places> places_of(const std::string& value, const std::string& after = "x[i]") {
  const Program program = program_of("program p(T, n)\n  input f32 x[n]\n  output f32 y[n]\n",
                                     "local f32 v[T + 2, n]\nfor t in 0..T:\n  parallel for i in 0..n:\n"
                                     "    v[t + 2, i] = " +
                                         value + "\nparallel for i in 0..n:\n  y[i] = " + after + "\n");
  const auto& scope = *program.body.as<ir::Allocate>();
  return places_alive(poly::build_model(program, scope.body, std::make_shared<poly::Context>()), scope.array, 0);
}

TEST(Lifetimes, CountsWhatIsAliveWhileAnElementIsStored) {
  const auto expect = [](const std::optional<Places>& places, std::int64_t apart, std::int64_t in_place) {
    ASSERT_TRUE(places);
    EXPECT_EQ(places->apart, apart);
    EXPECT_EQ(places->in_place, in_place);
  };
  expect(places_of("x[i]"), 1, 1);
  expect(places_of("v[t + 1, i]"), 2, 1);
  expect(places_of("v[t + 1, n - 1 - i]"), 2, 2);
  expect(places_of("v[t + 1, max(i - 1, 0)] + v[t, i]"), 3, 2);
  expect(places_of("v[t, n - 1 - i]"), 3, 3);  // the level between is alive, too
  expect(places_of("v[t + 1, i]", "v[T - 1, i]"), 3, 3);
  EXPECT_FALSE(places_of("v[t + 1, i]", "v[2, i]"));
  EXPECT_FALSE(places_of("v[t//2, i]"));
}

TEST(SinkFills, FillsALevelInTheStepThatFirstUsesIt) {
  const std::string declarations = "program p(T, n)\n  input f32 x[n]\n  output f32 y[n]\n";
  const Program program = program_of(declarations, R"(
    local f32 v[T + 1, n]
    parallel for l in 0..T + 1:
      v[l, 0] = 1
    for t in 0..T:
      for i in 1..n:
        v[t + 1, i] = v[t, i - 1]
    for i in 0..n:
      y[i] = v[T, i]
    )");
  expect_body(program, sink_fills(program, program.body, 0), declarations, R"(
    local f32 v[T + 1, n]
    parallel for l in 0..min(T + 1, 2):
      v[l, 0] = 1
    for t in 0..T:
      if t != 0 && t + 1 >= 0 && t + 1 < T + 1:
        v[t + 1, 0] = 1
      for i in 1..n:
        v[t + 1, i] = v[t, i - 1]
    for i in 0..n:
      y[i] = v[T, i]
    )");
  EXPECT_FALSE(sink_fills(program, program.body, 1));
}

}  // namespace
}  // namespace loopgrad::transforms

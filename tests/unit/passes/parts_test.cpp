// What passes ask, and how bounds are kept: rewrites and analyses that are no row of the list, each alone.
#include "tests/unit/passes/parts.h"
#include "dsl/poly/dependences.h"
#include "transforms/analysis/accesses.h"
#include "transforms/analysis/analyses.h"
#include "transforms/analysis/size_estimates.h"
#include "transforms/bounds/bound_accesses.h"
#include "transforms/bounds/leaving_accesses.h"
#include "transforms/bounds/open_accesses.h"
#include "transforms/storage/level_uses.h"

#include <gtest/gtest.h>

namespace loopgrad::transforms {
namespace {

using ir::Program;
using ir::Stmt;

TEST(Accesses, OfDifferentIterationsAreApart) {
  const ir::Program program = program_of(R"(
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

TEST(Accesses, OfElementsThatCountDownPassByTheFirst) {
  const ir::Program program = program_of(R"(
    program p(n)
      inout  f32 d[n]
  )",
                                         R"(
    for j in 1..n:
      for k in 0..j:
        d[j] += d[j - k - 1]
  )");
  const auto* inner = first<ir::For>(program.body, 1).as<ir::For>();
  const auto* sum = inner->body.as<ir::Reduce>();
  const std::vector<ir::Expr>& read = sum->value.as<ir::Load>()->indices;
  EXPECT_TRUE(passes_by(read, sum->indices, {inner})) << "it begins below j";
  EXPECT_FALSE(passes_by({read[0] + ir::int_const(1)}, sum->indices, {inner}));
}

TEST(LevelWindow, IsWhatOneStepUses) {
  const ir::Program program = program_of(R"(
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
  const ir::Program program = program_of(R"(
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

/// Entries of a row that are counted from 0 have a place wherever all entries have one.
TEST(OpenAccesses, NoRowIsLongerThanAllOfThem) {
  const ir::Program program = program_of(R"(
    program p(n, nnz, longest)
      input  i32 ptr[n + 1]
      input  f32 x[nnz]
      inout  f32 y[nnz]
      inout  f32 z[2*nnz]
      fact   ptr csr pointer of nnz, at most longest a row
  )",
                                         R"(
    for i in 0..n:
      for e in 0..i64(ptr[i + 1] - ptr[i]):
        y[e] = x[nnz - longest + e]
        z[2*e + 1] = x[longest - e]
  )");
  std::string open;
  for (const OpenAccess& one : open_accesses(program)) open += one.array->name + "[" + ir::print(one.index) + "] ";
  EXPECT_EQ(open, "x[longest - e] ") << "longest - 0 may be nnz";
}

TEST(BoundAccesses, BringsAnIndexIntoItsExtentAndNotesIt) {
  const ir::Program program = program_of(R"(
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

TEST(BoundAccesses, NotesOnAGpuKeepNoLoopInOrder) {
  const ir::Program program = program_of(R"(
    program p(n, m)
      inout  f32 x[n]
      inout  f32 h[n, m]
  )",
                                         R"(
    for i in 0..n:
      local i64 bin
      bin = i64(x[i])
      h[i, bin] = 1
  )");
  for (const Notes notes : {Notes::AsSums, Notes::Atomic}) {
    Record record;
    const Program bounded = bound_accesses(program, true, record, {}, notes);
    EXPECT_EQ(ir::print(bounded.body).find("atomic") != std::string::npos, notes == Notes::Atomic)
        << ir::print(bounded);
    const poly::Model model = poly::build_model(bounded, bounded.body, std::make_shared<poly::Context>());
    EXPECT_EQ(poly::carried_by(model, bounded.body).empty(), notes == Notes::Atomic);
  }
}

TEST(BoundAccesses, LeavesWhatStaysInRange) {
  const ir::Program program = program_of(R"(
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

TEST(BoundAccesses, LeavesWhatAMinimumInsideALoopBringsIntoRange) {
  const ir::Program program = program_of(R"(
    program p(n)
      inout  f32 x[n]
      inout  f32 h[n]
  )",
                                         R"(
    for i in 0..n:
      local i64 low
      local i64 high
      low = max(0, min(n - 1, i64(x[i])))
      high = min(n - 1, low + 1)
      h[high] += x[low]
  )");
  Record record;
  const Program bounded = bound_accesses(program, true, record);
  EXPECT_EQ(ir::print(bounded), ir::print(program)) << "the loop makes a trip, so that n - 1 is not negative";
}

TEST(BoundAccesses, LooksAtWhatMayHaveWrappedBeforeItsMinimum) {
  const auto sites = [](const std::string& low) {
    const ir::Program program = program_of(R"(
      program p(n)
        inout  f32 x[n]
        inout  f32 h[n]
    )",
                                           "for i in 0..n:\n  local i64 low\n  low = " + low + "\n  h[low] += 1\n");
    Record record;
    bound_accesses(program, true, record);
    return record.sites.size();
  };
  EXPECT_EQ(sites("min(n - 1, max(0, i64(x[i])))"), 0u);
  EXPECT_EQ(sites("min(n - 1, max(0, i64(x[i])) + 1)"), 1u) << "2^63 - 1 and one more is negative";
  EXPECT_EQ(sites("min(n - 1, i64(i32(max(0, i64(x[i])))))"), 1u) << "2^31 is no i32";
  EXPECT_EQ(sites("min(n - 2, max(0, i64(x[i])))"), 1u) << "one trip says nothing about two";
}

TEST(BoundTrips, CutsOffWhatWasNotPromised) {
  const ir::Program program = program_of(R"(
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
  const ir::Program program = program_of(R"(
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

TEST(SizeEstimates, RowsHaveTheAverageLengthAndPartsOfThemAPartOfIt) {
  const ir::Program program = program_of(R"(
    program p(n, m, entries)
      input  i32 row[n]
      input  i32 ptr[n + 1]
      inout  f32 y[entries]
      fact   ptr csr pointer of entries
  )",
                                         R"(
    for i in 0..n:
      for e in i64(ptr[row[i]])..i64(ptr[row[i] + 1]):
        for before in i64(ptr[row[i]])..e:
          y[before] = 1
        for after in e + 1..i64(ptr[row[i] + 1]):
          y[after] = 1
        for other in 0..i64(ptr[row[i]]):
          y[other] = 1
  )");
  const SizeEstimates sizes = {{"n", 10}, {"entries", 200}};
  SizeEstimator estimator(program, sizes);
  std::map<ir::Symbol, double> middle;
  const auto trips = [&](int loop) {
    const Stmt s = first<ir::For>(program.body, loop);
    const auto& n = *s.as<ir::For>();
    return estimator.trips_of(n.lower, n.upper, middle);
  };
  EXPECT_EQ(trips(1), 20);
  middle[first<ir::For>(program.body, 1).as<ir::For>()->iterator] = 15;
  EXPECT_EQ(trips(2), 15);
  EXPECT_EQ(trips(3), 4);
  EXPECT_FALSE(estimator.assumed());
  EXPECT_EQ(trips(4), assumed_trips);
  EXPECT_TRUE(estimator.assumed());
}

}  // namespace
}  // namespace loopgrad::transforms

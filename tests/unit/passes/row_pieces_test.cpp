// Rows whose length only data tell, in pieces.
#include "transforms/map/gpu/row_pieces.h"
#include "tests/unit/passes/parts.h"
#include "transforms/analysis/size_estimates.h"
#include "transforms/sums/tree_sums.h"

#include <gtest/gtest.h>

namespace loopgrad::transforms {
namespace {

using ir::Program;
using ir::Stmt;

constexpr const char* padded = R"(
  program p(n, m, d)
    input  i32 length[n]
    input  f32 x[n, m, d]
    inout  f32 y[n, m, d]
    inout  f32 z[n, d]
    inout  f32 total[d]
)";

Stmt pieces_of(const Program& program) { return row_pieces(parallel_nest(program.body), ir::int_const(4)); }

TEST(RowPieces, AreNeighbouringIterations) {
  const ir::Program program = program_of(padded, R"(
    parallel for i in 0..n:
      parallel for t in 0..min(i64(length[i]), m) (at most m):
        for k in 0..d:
          y[i, t, k] = 2*x[i, t, k]
  )");
  expect_body(program, pieces_of(program), padded, R"(
    parallel for i in 0..n:
      parallel for piece in 0..4:
        parallel for t in piece*((min(i64(length[i]), m) + 3)//4)..min(piece*((min(i64(length[i]), m) + 3)//4) + (min(i64(length[i]), m) + 3)//4, min(i64(length[i]), m)) (at most m):
          for k in 0..d:
            y[i, t, k] = 2*x[i, t, k]
  )");
}

TEST(RowPieces, WhatFollowsInAnIterationFollowsInANestOfItsOwn) {
  const ir::Program program = program_of(padded, R"(
    parallel for i in 0..n:
      parallel for t in 0..i64(length[i]) (at most m):
        y[i, t, 0] = 2*x[i, t, 0]
      parallel for k in 0..d:
        z[i, k] = x[i, 0, k]
  )");
  const Stmt cut = pieces_of(program);
  ASSERT_TRUE(cut);
  ir::verify(ir::with_body(program, cut), "row pieces");
  ASSERT_EQ(cut.as<ir::Block>()->body.size(), 2u);
  EXPECT_EQ(ir::print(ir::with_body(program, cut.as<ir::Block>()->body[1])), ir::print(program_of(padded, R"(
    parallel for i in 0..n:
      parallel for k in 0..d:
        z[i, k] = x[i, 0, k]
  )")));
}

TEST(RowPieces, LeaveOtherNestsAlone) {
  EXPECT_FALSE(pieces_of(program_of(padded, R"(
    parallel for i in 0..n:
      parallel for t in 0..m:
        y[i, t, 0] = 2
  )")))
      << "sizes tell the length";
  EXPECT_FALSE(pieces_of(program_of(padded, R"(
    parallel for i in 0..n:
      z[i, 0] = 0
      parallel for t in 0..i64(length[i]) (at most m):
        y[i, t, 0] = z[i, 0]
  )")))
      << "a statement of the row's own";
  EXPECT_FALSE(pieces_of(program_of(padded, R"(
    parallel for i in 0..n:
      for t in 0..i64(length[i]) (at most m):
        z[i, 0] += x[i, t, 0]
  )")))
      << "the row is a sum";
}

/// Blocks of partial results, with elements of each iteration beside the sums.
Stmt tree_of(const Program& program) {
  std::vector<Stmt> sums;
  ir::walk_stmts(program.body, [&](const Stmt& s) {
    if (const auto* sum = s.as<ir::Reduce>(); sum && sum->array->name == "total") sums.push_back(s);
  });
  return tree_sums(program, model_of(program), program.body, {sums}, gpu_machine());
}

TEST(TreeSums, CutRowsWhoseIterationsShareNothingElse) {
  const ir::Program program = program_of(padded, R"(
    for i in 0..n:
      for t in 0..min(i64(length[i]), m) (at most m):
        for k in 0..d:
          y[i, t, k] = 2*x[i, t, k]
          total[k] += x[i, t, k]
  )");
  const Stmt tree = tree_of(program);
  ir::verify(ir::with_body(program, tree), "tree sums");
  const auto* by_pieces = tree.as<ir::If>();
  ASSERT_TRUE(by_pieces && by_pieces->else_body);
  EXPECT_NE(ir::print(ir::with_body(program, by_pieces->then_body)).find("block%"), std::string::npos)
      << "a block has a piece of its rows";
}

TEST(TreeSums, KeepRowsWholeWhoseIterationsShareMore) {
  for (const char* shared : {"z[i, k] += x[i, t, k]", "z[i, k] = x[i, t, k]"}) {
    const ir::Program program = program_of(padded, std::string(R"(
      for i in 0..n:
        for t in 0..min(i64(length[i]), m) (at most m):
          for k in 0..d:
            )") + shared + R"(
            total[k] += x[i, t, k]
    )");
    EXPECT_FALSE(tree_of(program).as<ir::If>()) << shared;
  }
}

TEST(SizeEstimates, RowsThatAPromiseBoundsAreHalfFull) {
  const ir::Program program = program_of(padded, R"(
    for i in 0..n:
      for t in 0..min(i64(length[i]), m) (at most m):
        total[0] += x[i, t, 0]
      for t in 0..i64(length[i]) (at most m):
        total[1] += x[i, t, 1]
  )");
  const auto trips = [&](std::size_t loop, std::int64_t m) {
    const SizeEstimates sizes = {{"n", 8}, {"m", m}};
    SizeEstimator estimator(program, sizes);
    const Stmt found = first<ir::For>(program.body, loop);
    const double result = estimator.trips_of(found.as<ir::For>()->lower, found.as<ir::For>()->upper, {});
    EXPECT_TRUE(estimator.assumed());
    EXPECT_FALSE(estimator.assumed_sizes());
    return result;
  };
  EXPECT_EQ(trips(1, 4000), 2000);
  EXPECT_EQ(trips(1, 20), assumed_trips);
  EXPECT_EQ(trips(1, 5), 5);
  EXPECT_EQ(trips(2, 4000), assumed_trips);
}

}  // namespace
}  // namespace loopgrad::transforms

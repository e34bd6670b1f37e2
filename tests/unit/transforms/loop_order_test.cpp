#include "transforms/loops/loop_order.h"

#include "dsl/ir/printer.h"
#include "dsl/ir/visit.h"

#include <loopgrad/program.h>

#include <gtest/gtest.h>

namespace loopgrad::transforms {
namespace {

struct Sum {
  Program program;
  ir::Stmt stmt;
  std::vector<ir::Symbol> iterators;
};

Sum sum_of(const Program& program) {
  Sum result{program, {}, {}};
  ir::walk_stmts(program.ir().body, [&](const ir::Stmt& s) {
    if (auto* loop = s.as<ir::For>()) result.iterators.push_back(loop->iterator);
    if (s.as<ir::Reduce>()) result.stmt = s;
  });
  return result;
}

std::string text(const LoopOrder& order, int dims) {
  std::string result;
  for (int k = 0; k < dims; ++k) result += (k ? ", " : "") + ir::print(order.time[static_cast<std::size_t>(k)]);
  return result;
}

LoopOrder order_for(const Sum& sum) {
  return best_order(sum.stmt, sum.iterators, sum.stmt.as<ir::Reduce>()->indices, 32);
}

TEST(LoopOrder, SeparatorsOutsideSumsInside) {
  ProgramBuilder p("product");
  auto n = p.size("n");
  auto a = p.input<float>("a", {n, n}), b = p.input<float>("b", {n, n});
  auto c = p.inout<float>("c", {n, n});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, n))
      for (auto l : p.loop("l", 0, n)) c(i, l) += a(i, j) * b(l, j);
  LoopOrder order = order_for(sum_of(p.build()));
  EXPECT_EQ(text(order, 3), "i, l, j");
  EXPECT_EQ(order.separating, 2);
  EXPECT_EQ(order.separating_before, 1);
  EXPECT_EQ(order.summed, 1);
  EXPECT_EQ(order.cost, 2);  // along j: c stays, a and b move by one
}

TEST(LoopOrder, InnermostSumRunsThroughMemory) {
  // Both i and j are summed over; the last index of x is i.
  ProgramBuilder p("columns");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n, n, n});
  auto y = p.inout<float>("y", {n});
  for (auto k : p.loop("k", 0, n))
    for (auto i : p.loop("i", 0, n))
      for (auto j : p.loop("j", 0, n)) y(k) += x(k, j, i);
  EXPECT_EQ(text(order_for(sum_of(p.build())), 3), "k, j, i");
}

TEST(LoopOrder, SkewedTargetIsCompletedByTheInnerLoop) {
  ProgramBuilder p("conv");
  auto n = p.size("n");
  auto w = p.input<float>("w", {n}), dy = p.input<float>("dy", {n});
  auto dx = p.inout<float>("dx", {2 * n});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, n)) dx(i + j) += dy(i) * w(j);
  EXPECT_EQ(text(order_for(sum_of(p.build())), 2), "i + j, j");
}

TEST(LoopOrder, SingleContiguousSeparatorRunsInBlocks) {
  ProgramBuilder p("embedding");
  auto n = p.size("n");
  auto idx = p.input<std::int64_t>("idx", {n});
  auto dy = p.input<float>("dy", {n, n});
  auto table = p.inout<float>("table", {n, n});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, n)) table(idx(i), j) += dy(i, j);
  Sum sum = sum_of(p.build());
  const std::vector<ir::Expr> separators = {sum.stmt.as<ir::Reduce>()->indices[1]};
  EXPECT_EQ(text(best_order(sum.stmt, sum.iterators, separators, 32), 3), "j//32, i, j");
  EXPECT_EQ(text(best_order(sum.stmt, sum.iterators, separators, 0), 2), "j, i") << "a thread has one element";
}

}  // namespace
}  // namespace loopgrad::transforms

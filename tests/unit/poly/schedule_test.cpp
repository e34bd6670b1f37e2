#include "dsl/poly/schedule.h"

#include "dsl/ir/printer.h"
#include "dsl/ir/visit.h"

#include <loopgrad/program.h>

#include <gtest/gtest.h>

namespace loopgrad::poly {
namespace {

struct Nest {
  Program program;
  Model model;
};

Nest nest_of(const Program& program) {
  return {program, build_model(program.ir(), program.ir().body, std::make_shared<Context>())};
}

/// All statements of the nest at times that `time` gives from their iterators.
template <class Time>
std::string code(const Nest& nest, Time time, const std::vector<std::string>& names) {
  std::vector<TimedStatement> timed;
  for (std::size_t k = 0; k < nest.model.statements.size(); ++k) {
    const Statement& s = nest.model.statements[k];
    std::vector<ir::Expr> iterators;
    for (const ir::Symbol& i : s.iterators) iterators.push_back(ir::var(i));
    timed.push_back({static_cast<int>(k), time(iterators), s.stmt});
  }
  return ir::print(code_in_order(nest.model, timed, names));
}

TEST(CodeInOrder, Interchanges) {
  ProgramBuilder p("triangle");
  auto n = p.size("n");
  auto x = p.inout<float>("x", {n, n});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, i)) x(i, j) = 1.0f;
  std::string text = code(nest_of(p.build()), [](const auto& it) { return std::vector{it[1], it[0]}; }, {"j", "i"});
  EXPECT_EQ(text,
            "for j in 0..n - 1:\n"
            "  for i in j + 1..n:\n"
            "    x[i, j] = 1\n");
}

TEST(CodeInOrder, StridesBecomeCountedTrips) {
  ProgramBuilder p("even");
  auto n = p.size("n");
  auto x = p.inout<float>("x", {2 * n});
  for (auto i : p.loop("i", 0, n)) x(2 * i) = 1.0f;
  std::string text =
      code(nest_of(p.build()), [](const auto& it) { return std::vector{ir::int_const(2) * it[0]}; }, {"c"});
  EXPECT_EQ(text.find("step"), std::string::npos) << text;
  EXPECT_NE(text.find("for c in 0.."), std::string::npos) << text;
}

TEST(CodeInOrder, StatementsOfOneTimeKeepTheirOrder) {
  ProgramBuilder p("two");
  auto n = p.size("n");
  auto x = p.inout<float>("x", {n}), y = p.inout<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    x(i) = 1.0f;
    y(i) = x(i);
  }
  std::string text = code(nest_of(p.build()), [](const auto& it) { return std::vector{it[0]}; }, {"i"});
  EXPECT_EQ(text,
            "for i in 0..n:\n"
            "  x[i] = 1\n"
            "  y[i] = x[i]\n");
}

// In the order of what an index chooses; another index says in each piece which of its cases holds there.
TEST(CodeInOrder, IndicesWithCasesAreThoseOfTheirPiece) {
  ProgramBuilder p("mirrored");
  auto n = p.size("n");
  auto x = p.inout<float>("x", {n}), y = p.inout<float>("y", {n, n});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, n)) {
      x(max(i - j, j - i)) = y(select(i < j, j, i), i);
    }
  const auto time = [](const auto& it) {
    return std::vector{ir::binary(ir::BinaryOp::Max, it[0] - it[1], it[1] - it[0]), it[0], it[1]};
  };
  EXPECT_EQ(code(nest_of(p.build()), time, {"d", "i", "j"}),
            "for d in 0..n:\n"
            "  for i in 0..min(d, n - d):\n"
            "    x[d] = y[d + i, i]\n"
            "  for i in d..n:\n"
            "    x[d] = y[i, i]\n"
            "    if d >= 1 && n >= d + i + 1:\n"
            "      x[d] = y[d + i, i]\n");
}

// isl puts the two statements into one loop, which counts the elements of neither.
TEST(CodeInOrder, StridesKeepIndicesWithCases) {
  ProgramBuilder p("strides");
  auto n = p.size("n");
  auto x = p.inout<float>("x", {2 * n + 1}), y = p.inout<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    x(max(2 * i, 0)) = y(i);
    x(max(2 * i + 1, 0)) = y(i);
  }
  int k = 0;
  const auto time = [&](const auto& it) {
    const ir::Expr at = ir::int_const(2) * it[0] + ir::int_const(k++);
    return std::vector{ir::binary(ir::BinaryOp::Max, at, ir::int_const(0))};
  };
  EXPECT_EQ(code(nest_of(p.build()), time, {"c"}),
            "for c in 0..2*n//2:\n"
            "  x[2*c] = y[2*c//2]\n"
            "  x[2*c + 1] = y[2*c//2]\n");
}

// isl (0.25) fails at sets that it makes itself for this one.
TEST(CodeInOrder, WhatIslCannotExpressIsABudgetThatIsSpent) {
  ProgramBuilder p("square");
  auto n = p.size("n");
  auto x = p.inout<float>("x", {n, n});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, n)) x(i, j) = 1.0f;
  Nest nest = nest_of(p.build());
  Statement& s = nest.model.statements[0];
  const isl::id size = isl::manage(isl_set_get_dim_id(s.domain.get(), isl_dim_param, 0));
  isl_set* domain = isl_set_read_from_str(
      nest.model.context->isl().get(),
      "[n] -> { [i, j] : i >= 0 and j < n and 3*floor(n/3) < n - i and ((j >= 0 and 3 - n + i <= j <= 1 + i) or "
      "j >= 3 + i); [1, 0] : n = 2 }");
  domain = isl_set_set_dim_id(domain, isl_dim_param, 0, size.copy());
  s.domain = isl::manage(isl_set_set_tuple_name(domain, s.name.c_str()));
  try {
    EXPECT_NE(code(nest, [](const auto& it) { return it; }, {"i", "j"}), "");
  } catch (const BudgetError&) {
  }
}

// isl (0.25) took the iterator around for the size in the condition.
TEST(CodeInOrder, ConditionsThatDivideKeepTheirSymbols) {
  ProgramBuilder p("tail");
  auto n = p.size("n");
  auto x = p.inout<float>("x", {n, n + 2});
  for (auto i : p.loop("i", 0, n))
    for (auto block : p.loop("block", 4 * ((n + 2) / 16), (n + 2) / 4))
      for (auto j : p.loop("j", 4 * block, 4 * block + 4)) x(i, j) = 1.0f;
  const Program program = p.build();
  const ir::Stmt inner = program.ir().body.as<ir::For>()->body;
  const Nest nest{program, build_model(program.ir(), inner, std::make_shared<Context>())};
  const std::string text = code(nest, [](const auto& it) { return std::vector{it[1], it[0]}; }, {"j", "block"});
  EXPECT_NE(text.find("if (n + 2)%16 >= 4:"), std::string::npos) << text;
}

}  // namespace
}  // namespace loopgrad::poly

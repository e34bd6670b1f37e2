#include "dsl/poly/dataflow.h"

#include "dsl/ir/rewriter.h"

#include <loopgrad/program.h>

#include <gtest/gtest.h>

namespace loopgrad::poly {
namespace {

Model model_of(const Program& program) {
  return build_model(program.ir(), program.ir().body, std::make_shared<Context>());
}

ir::Stmt backward(const ir::Stmt& body) {
  return ir::rewrite(body, {}, [](const ir::Stmt& s) -> std::optional<ir::Stmt> {
    auto* loop = s.as<ir::For>();
    if (!loop) return std::nullopt;
    return ir::for_loop(loop->iterator, loop->lower, loop->upper, backward(loop->body), ir::LoopMode::Backward);
  });
}

// The same, with all loops backward.
Model backward_model_of(const Program& program) {
  const ir::Program reversed = ir::with_body(program.ir(), backward(program.ir().body));
  return build_model(reversed, reversed.body, std::make_shared<Context>());
}

// for i in 1..9: x[i] = x[i - 1] + x[i + 1]
Program stencil() {
  ProgramBuilder p("stencil");
  auto x = p.inout<float>("x", {10});
  for (auto i : p.loop("i", 1, 9)) x(i) = x(i - 1) + x(i + 1);
  return p.build();
}

// Where the reads of statement 0 get their values: which of them from itself, and which from before.
void expect_sources(const Model& model, int read, const std::string& from_here, const std::string& from_entry) {
  const Dataflow flow = last_writes(model, 0, model.statements[0].accesses[static_cast<std::size_t>(read)]);
  ASSERT_TRUE(flow.exact);
  for (const Source& source : flow.sources) {
    const isl::ctx ctx = model.context->isl();
    if (source.writer == 0) EXPECT_TRUE(source.instance.is_equal(isl::map(ctx, from_here))) << source.instance;
    else EXPECT_TRUE(source.domain.is_equal(isl::set(ctx, from_entry))) << source.domain;
  }
  EXPECT_EQ(flow.sources.size(), (from_here.empty() ? 0u : 1u) + (from_entry.empty() ? 0u : 1u));
}

TEST(Dataflow, ReadsFindWhatEarlierIterationsWrote) {
  const Model model = model_of(stencil());
  expect_sources(model, 0, "{ S0[i] -> S0[i - 1] : 2 <= i <= 8 }", "{ S0[1] }");
  expect_sources(model, 1, "", "{ S0[i] : 1 <= i <= 8 }");
}

TEST(Dataflow, BackwardLoopsRunByDescendingIterator) {
  const Model model = backward_model_of(stencil());
  expect_sources(model, 0, "", "{ S0[i] : 1 <= i <= 8 }");
  expect_sources(model, 1, "{ S0[i] -> S0[i + 1] : 1 <= i <= 7 }", "{ S0[8] }");
}

TEST(Dataflow, TheLastOfSeveralWritersCounts) {
  ProgramBuilder p("writers");
  auto x = p.inout<float>("x", {10});
  auto y = p.output<float>("y", {10});
  for (auto i : p.loop("i", 0, 10)) x(i) = 0.0f;
  for (auto i : p.loop("i", 0, 5))
    for (auto j : p.loop("j", 0, 2)) {
      x(i + j) += 1.0f;
      y(i) = x(i);
    }
  const Program program = p.build();
  const Model model = model_of(program);
  const Dataflow flow = last_writes(model, 2, model.statements[2].accesses[0]);
  ASSERT_TRUE(flow.exact);
  ASSERT_EQ(flow.sources.size(), 1u);  // never the zeros
  EXPECT_EQ(flow.sources[0].writer, 1);
  EXPECT_TRUE(flow.sources[0].instance.is_equal(
      isl::map(model.context->isl(), "{ S2[i, j] -> S1[i, 0] : 0 <= i < 5 and 0 <= j < 2 }")));

  // Backward, j = 0 comes last: only then was x(i) added to.
  const Model reversed = backward_model_of(program);
  const Dataflow late = last_writes(reversed, 2, reversed.statements[2].accesses[0]);
  ASSERT_TRUE(late.exact);
  ASSERT_EQ(late.sources.size(), 2u);
  EXPECT_EQ(late.sources[0].writer, 0);
  EXPECT_TRUE(late.sources[0].domain.is_equal(isl::set(reversed.context->isl(), "{ S2[i, 1] : 0 <= i < 5 }")));
  EXPECT_EQ(late.sources[1].writer, 1);
}

TEST(Dataflow, PastTheBudgetThereIsNoAnswer) {
  const Model model = backward_model_of(stencil());
  for (const unsigned long budget : {1, 50, 300}) {
    model.context->restart_budget(budget);
    EXPECT_THROW(last_writes(model, 0, model.statements[0].accesses[1]), BudgetError) << budget;
  }
  model.context->restart_budget(Context::default_budget);
  expect_sources(model, 1, "{ S0[i] -> S0[i + 1] : 1 <= i <= 7 }", "{ S0[8] }");
}

TEST(Dataflow, WhatFollowsDependsOnTheDirectionOfLoops) {
  const Model forward = model_of(stencil()), reversed = backward_model_of(stencil());
  const auto& accesses = forward.statements[0].accesses;
  EXPECT_TRUE(may_be_overwritten(forward, 0, accesses[1]));
  EXPECT_FALSE(may_be_overwritten(forward, 0, accesses[0]));
  EXPECT_TRUE(may_be_overwritten(reversed, 0, reversed.statements[0].accesses[0]));
  EXPECT_FALSE(may_be_overwritten(reversed, 0, reversed.statements[0].accesses[1]));
  EXPECT_TRUE(may_follow(forward, 0, accesses[2], 0, accesses[0]));
  EXPECT_FALSE(may_follow(forward, 0, accesses[2], 0, accesses[1]));
  EXPECT_FALSE(may_be_written_before(forward, 0, accesses[1]));
  EXPECT_TRUE(may_be_written_after(forward, 0, accesses[1]));
}

}  // namespace
}  // namespace loopgrad::poly

// Models that are built once, from pieces that are built once.
#include "dsl/poly/models.h"
#include "dsl/ir/rewriter.h"
#include "dsl/poly/dependences.h"

#include <loopgrad/program.h>

#include <gtest/gtest.h>

#include <regex>

namespace loopgrad::poly {
namespace {

// for t: for i: v[i] = u[i - 1] + u[i + 1];  for i: u[i] = v[i]
Program steps() {
  ProgramBuilder p("steps");
  auto n = p.size("n"), T = p.size("T");
  auto u = p.inout<double>("u", {n}), v = p.inout<double>("v", {n});
  for (auto t : p.loop("t", 0, T)) {
    (void)t;
    for (auto i : p.loop("i", 1, n - 1)) v(i) = u(i - 1) + u(i + 1);
    for (auto i : p.loop("i", 1, n - 1)) u(i) = v(i);
  }
  return p.build();
}

// y[i] = x[min(max(index[i], 0), n - 1) + ..]: many cases.
Program cases() {
  ProgramBuilder p("cases");
  auto n = p.size("n");
  auto index = p.input<int>("index", {n});
  auto x = p.input<double>("x", {n, n});
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    const auto a = max(min(cast<std::int64_t>(index(i)), n - 1), 0);
    y(i) = x(a, max(min(a + i, n - 1), 0));
  }
  return p.build();
}

ir::Stmt first_loop(const ir::Stmt& body) {
  ir::Stmt found;
  ir::walk_stmts(body, [&](const ir::Stmt& s) {
    if (!found && s.as<ir::For>()) found = s;
  });
  return found;
}

// The program with another assignment in front.
ir::Program with_one_more(const ir::Program& program) {
  const ir::Array& u = program.arrays.front();
  const ir::Stmt first = ir::assign(u, {ir::int_const(0)}, ir::float_const(1, u->type), {});
  return ir::with_body(program, ir::block({first, program.body}));
}

// Everything that a model says, without the numbers of isl's ids.
std::string text_of(const Model& model) {
  std::string text = isl_set_to_str(model.assumptions.get());
  for (const Statement& s : model.statements) {
    text += "\n" + s.name + isl_set_to_str(s.domain.get()) + std::to_string(s.loops.size());
    for (const Access& access : s.accesses) text += isl_map_to_str(access.relation.get()) + access.array->name;
  }
  return std::regex_replace(text, std::regex("_[0-9]+"), "");
}

std::string fresh_text(const ir::Program& program, const ir::Stmt& region) {
  return text_of(build_model(program, region, std::make_shared<Context>()));
}

TEST(Models, AModelIsBuiltOnce) {
  const Program program = steps();
  Models models;
  const auto first = models.of(program.ir(), program.ir().body);
  EXPECT_EQ(models.of(program.ir(), program.ir().body), first);
  EXPECT_EQ(models.count(), 1u);
  // Another program with the same body at the same place.
  EXPECT_EQ(models.of(ir::with_body(program.ir(), program.ir().body), program.ir().body), first);
  // A part of it, seen on its own.
  EXPECT_NE(models.of(program.ir(), first_loop(program.ir().body).as<ir::For>()->body), first);
}

TEST(Models, SaysWhatAModelBuiltAloneSays) {
  const Program program = steps();
  const ir::Program changed = with_one_more(program.ir());
  const ir::Stmt inner = first_loop(program.ir().body).as<ir::For>()->body;
  Models models;
  EXPECT_EQ(text_of(*models.of(program.ir(), program.ir().body)), fresh_text(program.ir(), program.ir().body));
  EXPECT_EQ(text_of(*models.of(changed, changed.body)), fresh_text(changed, changed.body));
  EXPECT_EQ(text_of(*models.of(changed, inner)), fresh_text(changed, inner));
  EXPECT_EQ(carried_by(*models.of(changed, changed.body), first_loop(changed.body)).size(),
            carried_by(*models.of(program.ir(), program.ir().body), first_loop(program.ir().body)).size());
}

TEST(Models, StatementsAreSharedByPrograms) {
  const Program program = steps();
  Models models;
  models.of(program.ir(), program.ir().body);
  EXPECT_EQ(models.statements(), 2u);
  const ir::Program changed = with_one_more(program.ir());
  const auto model = models.of(changed, changed.body);
  EXPECT_EQ(model->statements.size(), 3u);
  EXPECT_EQ(models.count(), 2u);
  EXPECT_EQ(models.statements(), 3u) << "only the new statement is new";
  EXPECT_EQ(model->statements[2].name, "S2") << "statements are numbered by the model that they are in";
}

TEST(Models, ValuesOfIteratorsAreThoseOfTheLoopsAround) {
  ProgramBuilder p("planes");
  auto n = p.size("n");
  auto y = p.output<double>("y", {9 * n});
  for (auto i : p.loop("i", 0, n))
    for (auto c : p.loop("c", 0, 4)) y(c * n + i) = 1.0;
  const ir::Program few = p.build().ir();
  // The same iterators and statement in a program in which the inner loop makes more trips.
  const ir::Program more = ir::with_body(
      few, ir::rewrite(few.body, {}, [](const ir::Stmt& s) -> std::optional<ir::Stmt> {
        const auto* loop = s.as<ir::For>();
        if (!loop || !ir::as_int(loop->upper)) return std::nullopt;
        return ir::for_loop(loop->iterator, loop->lower, ir::int_const(9), loop->body, loop->mode, loop->location);
      }));
  Models models;
  EXPECT_EQ(text_of(*models.of(few, few.body)), fresh_text(few, few.body));
  EXPECT_EQ(text_of(*models.of(more, more.body)), fresh_text(more, more.body));
  EXPECT_NE(fresh_text(few, few.body), fresh_text(more, more.body));
}

TEST(Models, FactsAreAPartOfTheQuestion) {
  const Program program = cases();
  ir::Program bounded = program.ir();
  bounded.facts.push_back(
      {ir::FactKind::InRange, bounded.arrays.front(), ir::int_const(2), ir::int_const(5), {}, bounded.location});
  Models models;
  const std::string without = text_of(*models.of(program.ir(), program.ir().body));
  const std::string with = text_of(*models.of(bounded, bounded.body));
  EXPECT_NE(with, without);
  EXPECT_EQ(with, fresh_text(bounded, bounded.body));
  EXPECT_EQ(text_of(*models.of(program.ir(), program.ir().body)), without);
}

TEST(Models, ThatABudgetIsSpentIsKept) {
  const Program program = cases();
  Models models(60);
  EXPECT_THROW(models.of(program.ir(), program.ir().body), BudgetError);
  EXPECT_THROW(models.of(program.ir(), program.ir().body), BudgetError);
  EXPECT_THROW(models.of(with_one_more(program.ir()), program.ir().body), BudgetError);
  EXPECT_EQ(models.statements(), 0u);
  Models enough;
  EXPECT_NO_THROW(enough.of(program.ir(), program.ir().body));
}

// Whatever the budget: a model is there, or is not, no matter what was asked before.
TEST(Models, WhatWasAskedBeforeDoesNotMatter) {
  const Program program = steps();
  const ir::Program changed = with_one_more(program.ir());
  int there = 0, spent = 0;
  for (unsigned long budget = 10; budget < 20'000; budget += 1 + budget / 400 * 100) {
    const auto answer = [&](Models& models) {
      try {
        return text_of(*models.of(changed, changed.body));
      } catch (const BudgetError&) {
        return std::string("spent");
      }
    };
    Models cold(budget), warm(budget);
    try {
      warm.of(program.ir(), program.ir().body);
    } catch (const BudgetError&) {
    }
    const std::string alone = answer(cold);
    EXPECT_EQ(answer(warm), alone) << budget;
    EXPECT_EQ(answer(cold), alone) << budget;
    (alone == "spent" ? spent : there) += 1;
  }
  EXPECT_GT(there, 0);
  EXPECT_GT(spent, 0);
}

}  // namespace
}  // namespace loopgrad::poly

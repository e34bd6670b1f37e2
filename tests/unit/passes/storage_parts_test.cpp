// Where values live: rewrites and analyses that are no row of the list, each alone.
#include "tests/unit/passes/parts.h"
#include "transforms/analysis/analyses.h"
#include "transforms/analysis/lifetimes.h"
#include "transforms/analysis/nest.h"
#include "transforms/map/gpu/keep_rows.h"
#include "transforms/map/gpu/parallel_nest.h"
#include "transforms/storage/expand_locals.h"
#include "transforms/storage/sink_fills.h"
#include "transforms/storage/update_once.h"

#include <gtest/gtest.h>

namespace loopgrad::transforms {
namespace {

using ir::Program;
using ir::Stmt;

/// As who reads it goes through rows of j.
TEST(ExpandLocals, PutsSomeDimensionsLast) {
  const ir::Program program = program_of(R"(
    program p(n, m)
      input  f32 x[m, n]
      output f32 y[m, n]
  )",
                                         R"(
    for j in 0..m:
      for i in 0..n:
        local f32 s
        s = x[j, i]
        y[j, i] = s
  )");
  const auto locals = locals_of(program.body);
  const ir::Symbol j = program.body.as<ir::For>()->iterator;
  const auto result =
      expand_locals(program, model_of(program), program.body, {locals[0].array}, {{locals[0].array, {j}}});
  ASSERT_TRUE(result);
  EXPECT_NE(ir::print(result->nest).find("y[j, i] = s_all[i, j]"), std::string::npos) << ir::print(result->nest);
}

TEST(ExpandLocals, GivesEachIterationAnElement) {
  const char* declarations = R"(
    program p(n)
      input  f32 x[n]
      output f32 y[n]
  )";
  const ir::Program program = program_of(declarations, R"(
    for i in 0..n:
      local f32 s
      s = x[i]*2
      y[i] = s
  )");
  const auto expansion = expand_locals(program, model_of(program), program.body,
                                       {first<ir::Allocate>(program.body).as<ir::Allocate>()->array});
  ASSERT_TRUE(expansion && expansion->arrays.size() == 1);
  expect_body(program, ir::allocate(expansion->arrays[0], expansion->nest), declarations, R"(
    local f32 s_all[n]
    for i in 0..n:
      s_all[i] = x[i]*2
      y[i] = s_all[i]
  )");
}

TEST(ExpandLocals, GivesRowsOfATriangleRoomForTheLongest) {
  const char* declarations = R"(
    program p(n)
      input  f32 x[n]
      output f32 y[n]
  )";
  const ir::Program program = program_of(declarations, R"(
    for i in 0..n:
      local f32 row[n - i]
      row[0] = x[i]*2
      y[i] = row[0]
  )");
  const auto expansion = expand_locals(program, model_of(program), program.body,
                                       {first<ir::Allocate>(program.body).as<ir::Allocate>()->array});
  ASSERT_TRUE(expansion && expansion->arrays.size() == 1);
  expect_body(program, ir::allocate(expansion->arrays[0], expansion->nest), declarations, R"(
    local f32 row_all[n, n]
    for i in 0..n:
      row_all[i, 0] = x[i]*2
      y[i] = row_all[i, 0]
  )");
}

TEST(ExpandLocals, TakesBoundsOfTripsFromFacts) {
  const char* facts = R"(
    program p(n, m, k)
      input  i32 length[n]
      input  f32 x[n, m*k]
      inout  f32 y[n]
      fact   length in 0..m*k + 1
  )";
  const char* body = R"(
    for i in 0..n:
      for j in 0..length[i]:
        local f32 s
        s = x[i, j]*2
        y[i] += s
  )";
  const ir::Program program = program_of(facts, body);
  const auto local = [](const Program& of) { return first<ir::Allocate>(of.body).as<ir::Allocate>()->array; };
  const auto expansion = expand_locals(program, model_of(program), program.body, {local(program)});
  ASSERT_TRUE(expansion && expansion->arrays.size() == 1);
  expect_body(program, ir::allocate(expansion->arrays[0], expansion->nest), facts, R"(
    local f32 s_all[n, max(m*k, 0)]
    for i in 0..n:
      for j in 0..length[i]:
        s_all[i, j] = x[i, j]*2
        y[i] += s_all[i, j]
  )");
  const std::string without = std::string(facts).substr(0, std::string(facts).find("      fact"));
  const Program unknown = program_of(without, body);
  EXPECT_FALSE(expand_locals(unknown, model_of(unknown), unknown.body, {local(unknown)}));
}

TEST(ExpandLocals, RoomForALoopThatBeginsAnywhereIsForTheTripsThatItPromises) {
  const char* declarations = R"(
    program p(n, m, most)
      input  i32 first[n]
      input  f32 x[m]
      inout  f32 y[n]
      fact   first in 0..m
  )";
  const auto expanded = [&](const std::string& last_line) {
    const ir::Program program = program_of(declarations, R"(
    for i in 0..n:
      local i64 begin
      begin = first[i]
      for j in begin..min(begin + most, m) (at most most):
        local f32 v
        v = x[j]
        y[i] += v*v
)" + last_line);
    std::vector<ir::Array> locals;
    ir::walk_stmts(program.body, [&](const Stmt& s) {
      if (const auto* local = s.as<ir::Allocate>()) locals.push_back(local->array);
    });
    const auto expansion = expand_locals(program, model_of(program), program.body, locals);
    if (!expansion) return std::string("none");
    return ir::print(expansion->arrays.back()->shape.back()) + " " + ir::print(expansion->nest);
  };
  const std::string text = expanded("");
  EXPECT_TRUE(text.starts_with("min(most, ")) << text;
  EXPECT_NE(text.find("v_all[i, j - begin_all[i]] = x[j]"), std::string::npos) << text;
  const std::string moving = expanded("        begin = 0\n");
  EXPECT_EQ(moving.find("j - begin_all[i]] = x[j]"), std::string::npos) << moving;
}

/// An entry belongs to one row, which is no dimension: entries of all rows have elements of their own.
TEST(ExpandLocals, RoomForEntriesOfAllRowsIsForAllOfThemWhateverTheRowsPromise) {
  const ir::Program program = program_of(R"(
    program p(n, nnz, most)
      input  i32 ptr[n + 1]
      input  f32 w[nnz]
      inout  f32 y[n]
      fact   ptr csr pointer of nnz
  )",
                                         R"(
    for i in 0..n:
      for e in ptr[i]..ptr[i + 1] (at most most):
        local f32 v
        v = w[e]
        y[i] += v*v
  )");
  const ir::Array v = first<ir::Allocate>(program.body).as<ir::Allocate>()->array;
  const auto expansion = expand_locals(program, model_of(program), program.body, {v});
  ASSERT_TRUE(expansion);
  EXPECT_NE(ir::print(expansion->nest).find("v_all[e] = w[e]"), std::string::npos) << ir::print(expansion->nest);
}

/// Pairs of entries of a row: an array of all pairs of entries would not fit.
TEST(ExpandLocals, RoomForAPartOfARowIsForTheLongestRow) {
  const auto expanded = [](const std::string& part) {
    const ir::Program program = program_of(R"(
    program p(n, nnz, longest)
      input  i32 ptr[n + 1]
      input  f32 w[nnz]
      inout  f32 y[nnz]
      fact   ptr csr pointer of nnz, at most longest a row
  )",
                                           R"(
    for i in 0..n:
      for e in ptr[i]..ptr[i + 1]:
        for f in )" + part + R"(:
          local f32 v
          v = w[e]*w[f]
          y[f] += v*v
  )");
    const ir::Array v = first<ir::Allocate>(program.body).as<ir::Allocate>()->array;
    const auto expansion = expand_locals(program, model_of(program), program.body, {v});
    return expansion ? ir::print(expansion->arrays[0]->shape[1]) + " " + ir::print(expansion->nest) : "none";
  };
  const std::string upto = expanded("ptr[i]..e + 1"), from = expanded("e + 2..ptr[i + 1]");
  EXPECT_TRUE(upto.starts_with("longest ")) << upto;
  EXPECT_NE(upto.find("v_all[e, f - ptr[i]] = w[e]*w[f]"), std::string::npos) << upto;
  EXPECT_TRUE(from.starts_with("longest ")) << from;
  EXPECT_NE(from.find("v_all[e, f - e - 2] = w[e]*w[f]"), std::string::npos) << from;
  for (const char* beyond : {"ptr[i]..e + 2", "e - 1..ptr[i + 1]", "ptr[i]..ptr[i + 1] + 1"})
    EXPECT_FALSE(expanded(beyond).starts_with("longest ")) << expanded(beyond);
}

TEST(ExpandLocals, RoomForABandIsItsWidth) {
  const ir::Program program = program_of(R"(
    program p(n, r)
      input  f32 x[n]
      inout  f32 y[n]
  )",
                                         R"(
    for i in 0..n:
      for j in max(i - r, 0)..min(i + r + 1, n):
        local f32 v
        v = x[i]*x[j]
        y[j] += v
  )");
  const ir::Array v = first<ir::Allocate>(program.body).as<ir::Allocate>()->array;
  const auto expansion = expand_locals(program, model_of(program), program.body, {v});
  ASSERT_TRUE(expansion);
  const std::string text = ir::print(expansion->nest);
  EXPECT_NE(text.find("v_all[i, j - max(i - r, 0)] = "), std::string::npos) << text;
  EXPECT_EQ(ir::print(expansion->arrays[0]->shape[1]), "min(max(min(2*r + 1, n), 0), n)");
}

TEST(UpdateOnce, UpdatesAnElementInAScalar) {
  const char* declarations = R"(
    program p(n)
      input  f32 a[n]
      inout  f32 u[2, n]
  )";
  const ir::Program program = program_of(declarations, R"(
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

TEST(UpdateOnce, AnElementThatIsAssignedFirstIsNotReadBeforeForOthersOfItsArray) {
  const char* declarations = R"(
    program p(n)
      input  f32 a[n]
      output f32 u[2, n]
  )";
  const ir::Program program = program_of(declarations, R"(
    for i in 0..n:
      u[0, i] = select(i < 0, u[0, i], 0)
      u[0, i] += a[i]
      u[1, i] = select(i < 0, u[1, i], 0)
      u[1, i] += a[i]*2
  )");
  const auto* loop = program.body.as<ir::For>();
  const Stmt once = update_once(program, loop->body);
  const std::string text = ir::print(once);
  EXPECT_NE(text.find("select(i < 0, u[1, i], 0)"), std::string::npos) << text;
  EXPECT_EQ(text.find("= u[1, i]\n"), std::string::npos) << text;
}

TEST(UpdateOnce, KeepsAnElementThatAnotherAccessMayBe) {
  const ir::Program program = program_of(R"(
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
  const ir::Program program = program_of(declarations, R"(
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
  const ir::Program program = program_of(declarations, R"(
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
  const ir::Program program = program_of(R"(
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

/// Of dimension 0 of the local array of a step v[t + 2] = `value`, t in order and i parallel.
std::optional<Places> places_of(const std::string& value, const std::string& after = "x[i]") {
  const ir::Program program = program_of("program p(T, n)\n  input f32 x[n]\n  output f32 y[n]\n",
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
  const ir::Program program = program_of(declarations, R"(
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

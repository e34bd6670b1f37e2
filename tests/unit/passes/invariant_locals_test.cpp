#include "transforms/storage/invariant_locals.h"
#include "tests/unit/passes/parts.h"
#include "transforms/analysis/nest.h"

#include <gtest/gtest.h>

namespace loopgrad::transforms {
namespace {

using ir::Program;
using ir::Stmt;

constexpr const char* images = R"(
  program p(c, n, m)
    input  f32 at[n, m]
    input  f32 d_y[c, n, m]
    inout  f32 d_x[c, m]
    inout  f32 shift[c]
)";

std::vector<ir::Array> locals_named(const Program& program, const std::set<std::string>& names) {
  std::vector<ir::Array> result;
  for (const LocalArray& local : locals_of(program.body))
    if (names.count(local.array->name)) result.push_back(local.array);
  return result;
}

std::string before(const std::string& body, const std::set<std::string>& names) {
  const ir::Program program = program_of(images, body);
  const auto found = invariant_nests(program, program.body, locals_named(program, names));
  if (found.empty()) return "none";
  EXPECT_EQ(found.size(), 1u);
  return ir::print(ir::with_body(program, found[0].nest));
}

constexpr const char* positions = R"(
  for k in 0..c:
    for i in 0..n:
      for j in 0..m:
        local f32 scaled
        local i32 to
        local f32 weight
        scaled = at[i, j]*3
        to = i32(scaled)
        weight = d_y[k, i, j]*(scaled - f32(to))
        d_x[k, i64(to)] += weight
)";

TEST(InvariantLocals, AreComputedForTheLoopsThatTheyDependOn) {
  EXPECT_EQ(before(positions, {"to"}), ir::print(program_of(images, R"(
    if 0 < c:
      for i in 0..n:
        for j in 0..m:
          local f32 scaled
          local i32 to
          scaled = at[i, j]*3
          to = i32(scaled)
  )")));
}

TEST(InvariantLocals, EachHasTheLoopsThatDecideAboutIt) {
  const ir::Program program = program_of(images, positions);
  const auto without_say = [&](const char* name) {
    std::string result;
    for (const ir::Symbol& i : loops_without_say(program, program.body, locals_named(program, {name})[0]))
      result += i.name;
    return result;
  };
  EXPECT_EQ(without_say("to"), "k");
  EXPECT_EQ(without_say("scaled"), "k");
  EXPECT_EQ(without_say("weight"), "");
}

TEST(InvariantLocals, AreNoneWhereTheNestDecides) {
  EXPECT_EQ(before(R"(
    for k in 0..c:
      for i in 0..n:
        local i32 to
        to = i32(at[i, 0] + shift[0])
        shift[0] = at[i, 1]
        d_x[k, i64(to)] += d_y[k, i, 0]
  )",
                   {"to"}),
            "none")
      << "the nest changes what it is made of";
  EXPECT_EQ(before(R"(
    for k in 0..c:
      local f32 sum
      sum = 0
      for i in 0..n:
        local i32 to
        sum += at[i, 0]
        to = i32(sum)
        d_x[k, i64(to)] += d_y[k, i, 0]
  )",
                   {"to"}),
            ir::print(program_of(images, R"(
    if 0 < c:
      local f32 sum
      sum = 0
      for i in 0..n:
        local i32 to
        sum += at[i, 0]
        to = i32(sum)
  )")))
      << "what iterations add up starts again in each of the outer ones";
  EXPECT_EQ(before(R"(
    for k in 0..c:
      for i in 0..n:
        local i32 to
        to = 0
        if at[i, 0] > shift[k]:
          to = 1
        d_x[k, i64(to)] += d_y[k, i, 0]
  )",
                   {"to"}),
            "none")
      << "a condition depends on it";
  EXPECT_EQ(before(R"(
    for k in 0..c:
      for i in 0..n:
        local i32 to
        to = i32(at[0, 0])
        d_x[k, i64(to)] += d_y[k, i, 0]
  )",
                   {"to"}),
            "none")
      << "no loop is left";
}

/// What channels do not decide is kept, and sorted by, without them; the term, which they do decide, with them.
TEST(RestructureSums, SortsOnceForAllChannels) {
  const auto sums = [](const std::string& body) {
    const PassResult result = run_passes("restructure_sums", images, body, gpu_machine());
    ir::verify(result.after, "restructure_sums");
    return ir::print(result.after);
  };
  const std::string text = sums(R"(
    for k in 0..c:
      for i in 0..n:
        for j in 0..m:
          local i32 to
          to = i32(at[i, j]*3)
          d_x[k, i64(to)] += d_y[k, i, j]
          shift[k] += d_y[k, i, j]*f32(to)
  )");
  EXPECT_NE(text.find("local i32 to_all[n, m]"), std::string::npos) << text;
  EXPECT_NE(text.find("d_x[k, to_all[i, j]] += (segments) d_y[k, i, j]"), std::string::npos) << text;
  const std::string shifted = sums(R"(
    for k in 0..c:
      for i in 0..n:
        for j in 0..m:
          local i32 to
          to = i32(at[i, j]*d_y[k, 0, 0])
          d_x[k, i64(to)] += d_y[k, i, j]
          shift[k] += d_y[k, i, j]*f32(to)
  )");
  EXPECT_NE(shifted.find("local i32 to_all[c, n, m]"), std::string::npos) << shifted;
}

/// A level chooses the table, and with it the place: there are no rows that are read side by side.
TEST(RestructureSums, KeepsTermsBesideKeysThatALoopHasASayIn) {
  const auto sums = [](const std::string& place) {
    const PassResult result = run_passes("restructure_sums", images, R"(
      for i in 0..n:
        for k in 0..c:
          local i32 to
          local f32 weight
          to = i32()" + place + R"()
          weight = at[i, 0]*at[i, 1]*at[i, 2]*at[0, 0]*d_y[k, i, 1]
          shift[k] += weight*f32(to)
          d_x[k, i64(to)] += d_y[k, i, 0]*weight
    )",
                                         gpu_machine());
    return ir::print(result.after);
  };
  const std::string by_level = sums("at[i, 0]*f32(k)");
  EXPECT_NE(by_level.find("(segments) d_y[k, i, 0]*weight_all[i, k]"), std::string::npos) << by_level;
  const std::string rows = sums("at[i, 0]");
  EXPECT_EQ(rows.find("weight_all"), std::string::npos) << rows;
}

}  // namespace
}  // namespace loopgrad::transforms

// The program that looks at facts and indices before a run: what it costs, and that it reads nothing outside itself.
#include "backends/facts_program.h"
#include "dsl/ir/visit.h"

#include <loopgrad/compile.h>

#include <gtest/gtest.h>

#include <vector>

namespace loopgrad::test {
namespace {

/// Verification must not take longer than what is verified.
TEST(FactsProgram, IndicesOfOneNestAreLookedAtByOneLoopWithoutBranches) {
  ProgramBuilder p("linear_bins");
  auto count = p.size("n"), bins = p.size("bins");
  auto x = p.input<float>("x", {count});
  auto h = p.inout<float>("h", {bins});
  for (auto i : p.loop("i", 0, count)) {
    auto bin = p.scalar<std::int64_t>("bin");
    bin = cast<std::int64_t>(x(i));
    h(bin) += x(i);
    h(bin + 1) += 1 - x(i);
  }
  for (auto j : p.loop("j", 0, count)) h(cast<std::int64_t>(x(j))) += 1.0f;
  const backend::FactsProgram facts = backend::facts_program(p.build().ir());
  int loops = 0, sums = 0, branches = 0;
  ir::walk_stmts(facts.program.body, [&](const ir::Stmt& s) {
    loops += s.kind() == ir::Kind::For;
    sums += s.kind() == ir::Kind::Reduce;
    branches += s.kind() == ir::Kind::If;
  });
  EXPECT_EQ(loops, 1);
  EXPECT_EQ(sums, 1);
  EXPECT_EQ(branches, 0);
  EXPECT_EQ(facts.sites.size(), 2u);
}

/// How often the facts and indices of `program` are wrong; checked, so that a read outside of an array is an error.
std::int64_t violations(const Program& program, Arguments arguments) {
  const Program facts(std::make_shared<ir::Program>(backend::facts_program(program.ir()).program));
  std::int64_t found = 0;
  arguments["results"] = view(&found, {1});
  compile(facts, {.target = Target::Interpreter, .checked = true}).run(arguments);
  return found;
}

/// Whether `b` is read, and how long a loop is, is found out by reading what an index from data chooses.
TEST(FactsProgram, ReadsConditionsAndBoundsOnlyWhereTheyAreInRange) {
  ProgramBuilder p("chosen");
  auto n = p.size("n"), m = p.size("m");
  auto which = p.input<std::int64_t>("which", {n}), length = p.input<std::int64_t>("length", {m});
  auto a = p.input<double>("a", {m}), b = p.input<double>("b", {m});
  auto next = p.input<std::int64_t>("next", {n});
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    y(i) = 0.0;
    p.when(a(which(i)) > 0.5, [&] { y(i) += b(next(i)); });
    for (auto j : p.loop("j", 0, length(which(i)), {.at_most = {m}})) y(i) += b(next(j % n));
  }
  const Program program = p.build();
  std::vector<std::int64_t> choice = {0, 1, 2}, lengths = {1, 0, 2, 1}, after = {3, 0, 1};
  std::vector<double> as = {1, 0, 1, 0}, bs = {1, 2, 3, 4}, ys(3);
  const Arguments arguments = {{"which", view(choice.data(), {3})}, {"length", view(lengths.data(), {4})},
                               {"next", view(after.data(), {3})},   {"a", view(as.data(), {4})},
                               {"b", view(bs.data(), {4})},         {"y", view(ys.data(), {3})}};
  EXPECT_EQ(violations(program, arguments), 0);
  for (const std::int64_t bad : {std::int64_t{4}, std::int64_t{-1}, std::int64_t{1} << 40}) {
    choice[1] = bad;
    EXPECT_GT(violations(program, arguments), 0) << bad;
  }
}

}  // namespace
}  // namespace loopgrad::test

// Which loops the threads of a block share where sums go over several.
#include "transforms/map/gpu/shared_nest.h"
#include "tests/unit/passes/parts.h"
#include "transforms/analysis/analyses.h"

namespace loopgrad::transforms {
namespace {

constexpr const char* image = R"(
  program p(h, w)
    input  f32 x[h, w]
    inout  f32 s
)";

/// Of the first loop: the iterators of what is shared, and of the loop around it.
std::string shared_in(const std::string& body) {
  const ir::Program program = program_of(image, body);
  Analyses known;
  const Analysed analysed{program, known};
  const auto sums = shared_sums(analysed, program.body);
  if (!sums) return "no sums";
  const SharedNest nest = nest_to_share(analysed, program.body, *sums);
  if (!nest.shared) return "none";
  return nest.shared.as<ir::For>()->iterator.name + (nest.around ? " in " + nest.around->iterator.name : "");
}

TEST(SharedNest, IsTheLoopAlongMemoryWithThatAroundIt) {
  EXPECT_EQ(shared_in("for i in 0..h:\n  for j in 0..w:\n    s += x[i, j]\n"), "j in i");
  EXPECT_EQ(shared_in("for j in 0..w:\n  s += x[0, j]\n"), "j");
}

TEST(SharedNest, IsTheOuterLoopWhereThatRunsAlongMemory) {
  EXPECT_EQ(shared_in("for j in 0..w:\n  for i in 0..h:\n    s += x[i, j]\n"), "j");
}

TEST(SharedNest, LeavesLoopsOfAFewTripsToEachThread) {
  const ir::Program program = program_of(image, R"(
    for i in 0..h:
      for j in 0..3:
        s += x[i, j]
  )");
  EXPECT_TRUE(has_few_trips(*first<ir::For>(program.body, 1).as<ir::For>()));
  EXPECT_FALSE(has_few_trips(*program.body.as<ir::For>()));
}

std::string parallel_inside(const std::string& body) {
  const ir::Program program = program_of(R"(
    program p(h, w)
      input  f32 x[h, w]
      inout  f32 y[h, w]
  )",
                                         body);
  const ir::Stmt inner = parallel_loop_inside(*program.body.as<ir::For>());
  return inner ? inner.as<ir::For>()->iterator.name : "none";
}

TEST(SharedNest, ParallelLoopsInsideOfEachOtherAreSharedTogether) {
  const std::string scalar = "parallel for i in 0..h:\n  local f32 s\n  s = x[i, 0]\n";
  EXPECT_EQ(parallel_inside("parallel for i in 0..h:\n  parallel for j in 0..w:\n    y[i, j] = x[i, j]\n"), "j");
  EXPECT_EQ(parallel_inside(scalar + "  parallel for j in 0..w:\n    y[i, j] = s*x[i, j]\n"), "j");
  EXPECT_EQ(parallel_inside(scalar + "  parallel for j in 0..i:\n    y[i, j] = s*x[i, j]\n"), "none")
      << "of different lengths";
  EXPECT_EQ(parallel_inside("parallel for i in 0..h:\n  local f32 s\n  s = y[i, 0]\n"
                            "  parallel for j in 0..w:\n    y[i, j] = s*x[i, j]\n"),
            "none")
      << "what one thread stores another one has yet to read";
  EXPECT_EQ(
      parallel_inside("parallel for i in 0..h:\n  y[i, 0] = 1\n  parallel for j in 1..w:\n    y[i, j] = x[i, j]\n"),
      "none")
      << "all threads would store it";
}

}  // namespace
}  // namespace loopgrad::transforms

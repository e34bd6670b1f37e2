// Whether loops may be moved, with the conflict where they may not, and what they become: primitives, each alone.
#include "tests/unit/passes/parts.h"
#include "transforms/analysis/analyses.h"
#include "transforms/analysis/contiguous.h"
#include "transforms/loops/legality.h"
#include "transforms/loops/peel.h"
#include "transforms/loops/reorder_loops.h"
#include "transforms/map/gpu/inner_work.h"

#include <loopgrad/error.h>

#include <gtest/gtest.h>

namespace loopgrad::transforms {
namespace {

using ir::Program;
using ir::Stmt;

const char* const vectors = R"(
  program p(n, m)
    input  f32 x[n]
    input  i32 ptr[n + 1]
    inout  f32 y[n]
    inout  f32 s
)";

const char* const matrices = R"(
  program p(n, m)
    input  f32 x[n, m]
    inout  f32 y[n, m]
    inout  f32 s
)";

// ---- pieces ----

TEST(Peel, ALoopInPiecesRunsInItsOrder) {
  for (const bool backward : {false, true}) {
    const std::string direction = backward ? " reversed" : "";
    const ir::Program program = program_of(vectors, "for i in 0..n" + direction + ":\n  y[i] = 2*x[i]\n");
    const auto& loop = *program.body.as<ir::For>();
    const ir::Expr one = ir::int_const(1), last = loop.upper - one;
    const Stmt pieces = in_pieces(loop, {{loop.lower, one, loop.body}, {one, last, loop.body}});
    const std::string low = "for i in 0..1" + direction + ":\n  y[i] = 2*x[i]\n";
    const std::string high = "for i in 1..n - 1" + direction + ":\n  y[i] = 2*x[i]\n";
    expect_body(program, pieces, vectors, backward ? high + low : low + high);
  }
}

TEST(Peel, TheLastIterationIsTheOneThatRunsLast) {
  const auto peeled = [](const std::string& mode) {
    const ir::Program program = program_of(vectors, mode + ":\n  s += x[i]\n");
    const auto result = peel_last(*program.body.as<ir::For>());
    return result ? ir::print(result->before) + ir::print(result->last) : "none";
  };
  EXPECT_EQ(peeled("for i in 0..n"), "for i in 0..n - 1:\n  s += x[i]\ns += x[n - 1]\n");
  EXPECT_EQ(peeled("for i in 0..n reversed"), "for i in 1..n reversed:\n  s += x[i]\ns += x[0]\n");
  EXPECT_EQ(peeled("parallel for i in 0..n"), "none") << "none is the last one";
  EXPECT_EQ(peeled("for i in 0..ptr[n]"), "none") << "the body may change what the bounds are";
}

// ---- legality ----

TEST(Legality, NamesTwoIterationsThatConflict) {
  const ir::Program program = program_of(vectors, R"(
    for i in 1..n:
      y[i] = y[i - 1] + x[i]
  )");
  Analyses known;
  const Legality legality = can_run_in_parallel({program, known}, program.body);
  EXPECT_FALSE(legality.ok);
  ASSERT_TRUE(legality.conflict);
  EXPECT_NE(legality.why().find("for (i = 1) and read as y[i - 1] at text:7 for (i = 2)"), std::string::npos)
      << legality.why();
}

TEST(Legality, IterationsThatShareNothingMayRunAtOnce) {
  const ir::Program program = program_of(vectors, R"(
    for i in 0..n:
      y[i] = 2*y[i]
    for i in 0..n:
      s += x[i]
  )");
  Analyses known;
  EXPECT_TRUE(can_run_in_parallel({program, known}, first<ir::For>(program.body)).ok);
  const Legality sum = can_run_in_parallel({program, known}, first<ir::For>(program.body, 1));
  EXPECT_FALSE(sum.ok) << "sums count as conflicts";
}

TEST(Legality, BoundsThatTheLoopChangesDoNotStay) {
  const char* declarations = R"(
    program p(n)
      inout  i64 count[2]
      inout  f32 y[n]
  )";
  const auto stays_in = [&](const char* body) {
    const ir::Program program = program_of(declarations, body);
    return bounds_stay(program, program.body);
  };
  EXPECT_TRUE(stays_in("for i in 0..count[0]:\n  y[i] = 1\n").ok);
  const Legality changed = stays_in("for i in 0..count[0]:\n  count[1] = i\n");
  EXPECT_FALSE(changed.ok);
  EXPECT_NE(changed.why().find("count"), std::string::npos) << changed.why();
  EXPECT_FALSE(bounds_are_plain(*program_of(declarations, "for i in 0..count[0]:\n  y[i] = 1\n").body.as<ir::For>()));
  EXPECT_TRUE(bounds_are_plain(*program_of(declarations, "for i in 0..n//2:\n  y[i] = 1\n").body.as<ir::For>()));
}

// ---- interchange, tiles ----

/// The program after a step, or what the step says against it.
template <class Step>
std::string after(const Program& program, Step step) {
  Analyses known;
  try {
    const Scheduled done = step(Analysed{program, known});
    ir::verify(done.program, "a step");
    return ir::print(done.program.body);
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(ReorderLoops, TilesAreCutOffAtTheEnd) {
  const ir::Program program = program_of(matrices, R"(
    for i in 0..n:
      for j in 0..m:
        y[i, j] = x[i, j]
  )");
  EXPECT_EQ(after(program,
                  [](const Analysed& p) {
                    return tile_loops(p, {"i", "j"}, {32, 8});
                  }),
            dedented(R"(
    for i_tile in 0..(n + 31)//32:
      for j_tile in 0..(m + 7)//8:
        for i in 32*i_tile..min(n, 32*i_tile + 32):
          for j in 8*j_tile..min(m, 8*j_tile + 8):
            y[i, j] = x[i, j]
  )"));
  EXPECT_EQ(after(program, [](const Analysed& p) { return split_loop(p, "j", 4); }), dedented(R"(
    for i in 0..n:
      for j_tile in 0..(m + 3)//4:
        for j in 4*j_tile..min(m, 4*j_tile + 4):
          y[i, j] = x[i, j]
  )"));
}

TEST(ReorderLoops, InterchangesWhatIsInNoConflict) {
  const auto interchanged = [](const std::string& source) {
    return after(program_of(matrices, "for i in 1..n:\n  for j in 1..m - 1:\n    y[i, j] = " + source + "\n"),
                 [](const Analysed& p) { return interchange_loops(p, "i", "j"); });
  };
  EXPECT_EQ(interchanged("y[i - 1, j - 1]"), "for j in 1..m - 1:\n  for i in 1..n:\n    y[i, j] = y[i - 1, j - 1]\n");
  const std::string refusal = interchanged("y[i - 1, j + 1]");
  EXPECT_NE(refusal.find("cannot interchange"), std::string::npos) << refusal;
  EXPECT_NE(refusal.find("y[i - 1, j + 1]"), std::string::npos) << refusal;
}

TEST(ReorderLoops, TriangularLoopsGetTheBoundsOfTheOtherOrder) {
  const ir::Program program = program_of(matrices, R"(
    for i in 0..n:
      for j in 0..i:
        s += x[i, j]
  )");
  EXPECT_EQ(after(program, [](const Analysed& p) { return interchange_loops(p, "i", "j"); }), dedented(R"(
    for j in 0..n - 1:
      for i in j + 1..n:
        s += x[i, j]
  )"));
}

TEST(ReorderLoops, ReversesSumsAndNotRecurrences) {
  const auto reversed = [](const std::string& statement) {
    return after(program_of(vectors, "for i in 1..n:\n  " + statement + "\n"),
                 [](const Analysed& p) { return reverse_loop(p, "i"); });
  };
  EXPECT_EQ(reversed("s += x[i]"), "for i in 1..n reversed:\n  s += x[i]\n");
  EXPECT_NE(reversed("y[i] = y[i - 1]").find("cannot reverse"), std::string::npos);
  EXPECT_NE(reversed("s = x[i]").find("cannot reverse"), std::string::npos) << "the last one stays";
}

TEST(WithParallelOutermost, AParallelLoopGoesAroundOneInOrder) {
  const ir::Program program = program_of(matrices, R"(
    for i in 0..n:
      if i < 7:
        parallel for j in 0..m:
          y[i, j] = x[i, j]
  )");
  EXPECT_EQ(ir::print(with_parallel_outermost(program.body)), dedented(R"(
    parallel for j in 0..m:
      for i in 0..n:
        if i < 7:
          y[i, j] = x[i, j]
  )"));
  ASSERT_TRUE(only_parallel_loop(program.body.as<ir::For>()->body));
}

TEST(WithParallelOutermost, LeavesOthers) {
  for (const char* body : {"for i in 0..n:\n  parallel for j in 0..i:\n    y[i, j] = 1\n",
                           "for i in 0..n:\n  s = 2\n  parallel for j in 0..m:\n    y[i, j] = 1\n",
                           "for i in 0..n:\n  for j in 0..m:\n    y[i, j] = 1\n"})
    EXPECT_FALSE(with_parallel_outermost(program_of(matrices, body).body)) << body;
}

// ---- neighbours ----

TEST(Contiguous, ATileHasAccessesAlongBothOfItsLoops) {
  const ir::Program program = program_of(R"(
    program p(n)
      input  f32 a[n, n]
      inout  f32 c[n, n]
  )",
                                         R"(
    for i in 0..n:
      for j in 0..n:
        c[i, j] = a[j, i]
  )");
  const auto &outer = *first<ir::For>(program.body).as<ir::For>(), &inner = *outer.body.as<ir::For>();
  EXPECT_TRUE(gains_from_tiles(inner.body, outer.iterator, inner.iterator));
  EXPECT_FALSE(writes_along_outer(inner.body, outer.iterator, inner.iterator));
  EXPECT_TRUE(writes_along_outer(inner.body, inner.iterator, outer.iterator));
  const auto accesses = contiguous_accesses(inner.body, {outer.iterator, inner.iterator}, {});
  ASSERT_EQ(accesses.size(), 2u);
  for (const ContiguousAccess& access : accesses) {
    EXPECT_EQ(access.along, access.array->name == "c" ? 1 : 0);
    EXPECT_EQ(access.writes, access.array->name == "c");
    EXPECT_EQ(access.reads, access.array->name == "a");
  }
  EXPECT_EQ(contiguous_accesses(inner.body, {outer.iterator, inner.iterator}, {accesses[0].array}).size(), 1u);
}

TEST(Contiguous, ChunksBeginWhereTheirAccessesAreAligned) {
  const auto shift = [](const std::string& bounds, const std::string& statement) -> std::int64_t {
    const ir::Program program = program_of(vectors, "for i in " + bounds + ":\n  " + statement + "\n");
    const auto& loop = *program.body.as<ir::For>();
    return shift_for_chunks(loop.body, loop.iterator, loop.lower).value_or(-1);
  };
  EXPECT_EQ(shift("0..n", "y[i] = x[i]"), 0);
  EXPECT_EQ(shift("1..n", "y[i] = x[i]"), 1) << "one before the loop";
  EXPECT_EQ(shift("0..n - 3", "y[i + 3] = x[i + 3]"), 3);
  EXPECT_EQ(shift("0..n", "y[i] = x[n - 1 - i]*x[i*i%n]*x[i//2]"), -1) << "most accesses are no runs";
}

TEST(Contiguous, AStencilReadsNeighboursOfWhatItDoesNotWrite) {
  const auto stencil = [](const std::string& statement) {
    const ir::Program program = program_of(vectors, "for i in 1..n - 1:\n  " + statement + "\n");
    const auto& loop = *program.body.as<ir::For>();
    return std::pair(reads_neighbours(loop.body, loop.iterator), is_stencil(loop.body, loop.iterator));
  };
  EXPECT_EQ(stencil("y[i] = x[i - 1] + x[i + 1]"), std::pair(true, true));
  EXPECT_EQ(stencil("y[i] = y[i - 1] + y[i + 1]"), std::pair(true, false));
  EXPECT_EQ(stencil("y[i] = x[i]"), std::pair(false, false));
}

TEST(Contiguous, ManyLoadsMakeColumnsShort) {
  std::string many = "y[0] = x[0]";
  for (int k = 1; k < 22; ++k) many += " + x[" + std::to_string(k) + "]";
  EXPECT_EQ(column_width(program_of(vectors, "y[0] = x[0] + x[1]\n").body), chunk_width);
  EXPECT_EQ(column_width(program_of(vectors, many + "\n").body), short_column);
}

// ---- work inside ----

TEST(InnerWork, CountsStepsOfSumsAtMost) {
  const auto work = [](const std::string& body) {
    const ir::Program program = program_of(matrices, "parallel for i in 0..n:\n" + body);
    Analyses known;
    const auto found = inner_work({program, known}, *program.body.as<ir::For>());
    if (!found) return std::string("none");
    const std::string alone = ir::print(found->alone);
    return ir::print(found->steps) + "; " + ir::print(found->meetings) + (alone == "0" ? "" : "; " + alone);
  };
  const std::string rows = R"(  y[i, 0] = 0
  for j in 0..m:
    y[i, 0] += x[i, j]
)";
  EXPECT_EQ(work(rows), "max(m, 0); 1");
  EXPECT_EQ(work("  for k in 0..3:\n    for j in 0..m:\n      y[i, k] += x[i, j]\n"), "3*max(m, 0); 3");
  EXPECT_EQ(work("  parallel for j in 0..m:\n    y[i, j] = x[i, j]\n"), "none") << "threads need not wait";
  EXPECT_EQ(work(R"(  for k in 0..3:
    parallel for j in 0..m:
      y[i, j] += x[i, k]
)"),
            "3*max(m, 0); 3");
  EXPECT_EQ(work(R"(  for j in 0..m:
    y[i, 0] += x[i, j]
  for j in 1..m:
    y[i, j] = y[i, j - 1] + x[i, j]
)"),
            "max(m, 0) + max(m - 1, 0); 1; max(m - 1, 0)");
  EXPECT_EQ(work("  y[i, 0] = 1\n"), "none") << "no loop";
}

}  // namespace
}  // namespace loopgrad::transforms

// The verifier refuses every kind of malformed program, naming the pass and the node.
#include "dsl/ir/verifier.h"

#include "tests/support/ir_text.h"

#include <loopgrad/error.h>

#include <gtest/gtest.h>

using namespace loopgrad::ir;
using loopgrad::InternalError;
using loopgrad::ScalarType;

namespace {

struct Verifier : testing::Test {
  Symbol n = make_symbol("n"), i = make_symbol("i");
  Array x = make_array("x", ScalarType::F32, {var(n)}, ArrayRole::Input, {});
  Array y = make_array("y", ScalarType::F32, {var(n)}, ArrayRole::Output, {});
  Array t = make_array("t", ScalarType::F32, {}, ArrayRole::Local, {});
  Expr zero = int_const(0), one = const_of(1, ScalarType::F32);

  Stmt loop(Stmt body, LoopMode mode = LoopMode::Forward) { return for_loop(i, zero, var(n), std::move(body), mode); }
  Stmt store(Expr value) { return loop(assign(y, {var(i)}, std::move(value))); }

  Program program(Stmt body) { return {"p", {n}, {x, y}, {}, std::move(body), {}}; }
  void expect_ok(Stmt body) { EXPECT_NO_THROW(verify(program(std::move(body)), "test")); }
  void expect_bad(const Program& bad, const std::string& substring) {
    try {
      verify(bad, "some_pass");
      ADD_FAILURE() << "no error about: " << substring;
    } catch (const InternalError& error) {
      EXPECT_NE(std::string(error.what()).find(substring), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("after some_pass"), std::string::npos) << error.what();
    }
  }
  void expect_bad(Stmt body, const std::string& substring) { expect_bad(program(std::move(body)), substring); }
};

TEST_F(Verifier, AcceptsWellFormedPrograms) {
  expect_ok(store(load(x, {var(i)})));
  expect_ok(allocate(t, block({assign(t, {}, one), store(load(t, {}))})));
  expect_ok(loop(reduce(y, {zero}, ReduceOp::Add, one, {}, true), LoopMode::Parallel));
  expect_ok(block({}));
}

TEST_F(Verifier, ScopesOfVariables) {
  expect_bad(assign(y, {var(i)}, one), "a variable out of scope in `i`");
  expect_bad(block({store(one), assign(y, {var(i)}, one)}), "a variable out of scope");
  expect_bad(for_loop(i, zero, var(i), store(one)), "a variable out of scope");
  expect_bad(block({store(one), store(one)}), "declared twice in `i`");
}

TEST_F(Verifier, ScopesOfArrays) {
  expect_bad(assign(t, {}, one), "an array out of scope in `t = 1`");
  expect_bad(block({allocate(t, assign(t, {}, one)), store(load(t, {}))}), "an array out of scope");
  expect_bad(allocate(t, allocate(t, assign(t, {}, one))), "declared twice in `t`");
  expect_bad(allocate(y, assign(y, {zero}, one)), "an allocation of an argument");
  const Array shaped = make_array("u", ScalarType::F32, {var(i)}, ArrayRole::Local, {});
  expect_bad(allocate(shaped, assign(shaped, {zero}, one)), "a variable out of scope");
  expect_ok(loop(allocate(shaped, assign(shaped, {zero}, one))));
}

TEST_F(Verifier, Writes) {
  expect_bad(loop(assign(x, {var(i)}, one)), "an input is written in `x[i] = 1`");
  const Array flag = make_array("flag", ScalarType::Bool, {}, ArrayRole::Local, {});
  expect_bad(allocate(flag, reduce(flag, {}, ReduceOp::Add, bool_const(true))), "a sum of bool elements");
}

TEST_F(Verifier, TypesAndRanks) {
  // The factories refuse these already; nodes built by hand stand for a bug in a pass.
  const auto assign_node = [&](std::vector<Expr> indices, Expr value) {
    return Stmt(std::make_shared<Assign>(y, std::move(indices), std::move(value), loopgrad::SourceLocation{}));
  };
  expect_bad(assign_node({}, one), "a wrong number of indices");
  expect_bad(assign_node({int_const(0, ScalarType::I32)}, one), "an index that is no i64");
  expect_bad(assign_node({zero}, const_of(1, ScalarType::F64)), "has type f64, not f32");
  expect_bad(assign_node({zero}, {}), "a missing expression");
  const auto binary_node = [](ScalarType type, BinaryOp op, const Expr& a, const Expr& b) {
    return Expr(std::make_shared<Binary>(type, op, a, b));
  };
  expect_bad(store(binary_node(ScalarType::F32, BinaryOp::Mod, one, one)), "'mod' on f32");
  expect_bad(store(binary_node(ScalarType::F32, BinaryOp::Add, one, zero)), "an operand of type i64, not f32");
  expect_bad(store(cast(ScalarType::F32, binary_node(ScalarType::I64, BinaryOp::Div, zero, zero))), "'div' on i64");
  expect_bad(store(cast(ScalarType::F32, unary(UnaryOp::Exp, var(n)))), "'exp' on i64");
  expect_bad(for_loop(i, zero, one, assign(y, {zero}, one)), "`1` has type f32, not i64");
}

TEST_F(Verifier, LoopHeaders) {
  const Array count = make_array("count", ScalarType::I64, {}, ArrayRole::Input, {});
  Program with_count = program(while_loop(i, load(count, {}), bool_const(true), assign(y, {zero}, one)));
  with_count.arrays.push_back(count);
  expect_bad(with_count, "a load in `for i in 0..count while true:`");
  expect_bad(while_loop(i, var(n), one, {}), "has type f32, not bool");
}

TEST_F(Verifier, StackInParallelLoops) {
  expect_ok(loop(push(load(x, {var(i)}))));
  expect_bad(loop(push(load(x, {var(i)})), LoopMode::Parallel), "a push inside a parallel loop");
  expect_bad(loop(pop(y, {var(i)}), LoopMode::Parallel), "a pop inside a parallel loop");
}

TEST_F(Verifier, Arguments) {
  Program bad = program(block({}));
  bad.arrays.push_back(t);
  expect_bad(bad, "a local among the arguments in `t`");
  Program repeated = program(block({}));
  repeated.arrays.push_back(x);
  expect_bad(repeated, "declared twice in `x`");
  Program fact = program(block({}));
  fact.facts.push_back({FactKind::InRange, t, zero, var(n), {}, {}});
  expect_bad(fact, "an unknown array in `a fact 'in_range'`");
}

/// What `verify` says about a program with these statements, or "".
std::string complaint(const std::string& body) {
  const std::string head = "program p(n)\n  input  f32 x[n]\n  output f32 y[n]\n";
  try {
    verify(parse_program(head + body), "test");
    return "";
  } catch (const InternalError& error) {
    return error.what();
  }
}

TEST(VerifierOfMappedPrograms, LocalsAreUsedByThoseWhoShareThem) {
  const auto in_kernel = [](const std::string& home, const std::string& store) {
    return "grid for b in 0..n:\n  local f32 t[8, 2] (" + home + ")\n  local f32 s (thread)\n  s = 0\n" +
           "  threads for c in 0..8:\n    " + store + "\n";
  };
  EXPECT_EQ(complaint(in_kernel("thread", "t[c, 1] = s")), "");
  EXPECT_EQ(complaint(in_kernel("block", "t[7 - c, 1] = s")), "");
  EXPECT_NE(complaint(in_kernel("thread", "t[7 - c, 1] = s")).find("an element of another thread"), std::string::npos);
  EXPECT_NE(complaint(in_kernel("thread", "t[b, 1] = s")).find("an element of another thread"), std::string::npos);
  EXPECT_NE(complaint(in_kernel("block", "s = 1")).find("a thread changes its copy"), std::string::npos);
  EXPECT_NE(complaint(in_kernel("grid", "y[b] = s")).find("memory of the grid inside a kernel"), std::string::npos);
  EXPECT_NE(complaint("local f32 t[8] (block):\n  t[0] = 1\n").find("memory of a block"), std::string::npos);
}

TEST(VerifierOfMappedPrograms, AllThreadsTakePartInWhatTheyCombine) {
  const auto in_threads = [](const std::string& store) {
    return "grid for b in 0..n:\n  local f32 s (thread)\n  s = 0\n  threads for c in 0..8:\n" + store;
  };
  EXPECT_EQ(complaint(in_threads("    s += (block) x[b]\n")), "");
  EXPECT_EQ(complaint(in_threads("    if b < 2:\n      s += (block) x[b]\n")), "");  // all of a block or none
  const std::string left_out = "that some of them may leave out";
  EXPECT_NE(complaint(in_threads("    if c < 2:\n      s += (block) x[b]\n")).find(left_out), std::string::npos);
  EXPECT_NE(complaint(in_threads("    for k in 0..c:\n      s += (block) x[b]\n")).find(left_out), std::string::npos);
  EXPECT_NE(complaint(in_threads("    y[b] += (block) x[b]\n")).find("no scalar that each of them keeps"),
            std::string::npos);
}

TEST(VerifierOfMappedPrograms, ShapesOfLoopsFitTheirBounds) {
  EXPECT_EQ(complaint("for i in 3..min(3 + 4, n) (chunk of 4):\n  y[i] = 1\n"), "");
  EXPECT_NE(complaint("for i in 3..min(3 + 5, n) (chunk of 4):\n  y[i] = 1\n").find("not those of a chunk"),
            std::string::npos);
  EXPECT_NE(complaint("for k in 0..n (strided):\n  for i in k*4..min(k*4 + 4, n) (chunk of 4):\n    y[i] = 1\n")
                .find("a strided loop over no equally spaced chunks"),
            std::string::npos);
}

/// The complaint about a correct program and those about wrong ones.
void expect_complaints(const std::string& right, const std::vector<std::pair<std::string, std::string>>& wrong) {
  EXPECT_EQ(complaint(right), "");
  for (const auto& [body, what] : wrong)
    EXPECT_NE(complaint(body).find(what), std::string::npos) << body << complaint(body);
}

TEST(VerifierOfMappedPrograms, AllThreadsGetToABarrier) {
  const auto kernel = [](const std::string& words, const std::string& body) {
    return "grid for b in 0..n" + words + ":\n  threads for c in 0..8:\n    y[b] = x[b]\n" + body;
  };
  const std::string missed = "a barrier that some threads may not get to";
  expect_complaints(kernel(" (block of 8, at most 8) (barriers)", "  if x[b] < 1:\n    barrier\n"),
                    {{kernel("", "  threads for d in 0..8:\n    barrier\n"), missed},
                     {"barrier\n" + kernel("", ""), missed},
                     {kernel(" (many blocks)", ""), "a block of threads without a number"},
                     {"for b in 0..n (barriers):\n  y[b] = 1\n", "a block of what is no kernel"}});
}

TEST(VerifierOfMappedPrograms, WideAccessesAreOfChunksOfAThread) {
  const auto chunk = [](const std::string& around, const std::string& words) {
    return around + "  threads for c in 0..8:\n    for i in c*4..min(c*4 + 4, n)" + words + ":\n      y[i] = x[i]\n";
  };
  const std::string grid = "grid for b in 0..1:\n";
  expect_complaints(chunk(grid, " (chunk of 4) (wide loads x[i], stores y[i])"),
                    {{chunk(grid, " (wide loads x[i])"), "wide accesses of no chunk"},
                     {chunk(grid, " (chunk of 4) (wide in all trips)"), "wide accesses in no chunk"},
                     {chunk("grid for b in 0..1 (unroll 2):\n", ""), "iterations of blocks or threads in a row"}});
}

TEST(VerifierOfMappedPrograms, MemoryOfTheLaunchIsOfAKernel) {
  const auto local = [](const std::string& words) {
    return "grid for b in 0..n:\n  local f32 t[b + 1]" + words + "\n  threads for c in 0..1:\n    t[0] = x[b]\n";
  };
  const std::string what = "memory of the launch of no array of a kernel";
  expect_complaints(local(" (block) (of the launch: n)"),
                    {{local(" (of the launch: n)"), what}, {local(" (block) (of the launch: n, n)"), what}});
}

TEST(VerifierOfProgramsForACpu, ThreadsShareTheOutermostParallelLoop) {
  const std::string inside = ":\n  parallel for j in 0..2:\n    y[i] = x[i]\n";
  expect_complaints(
      "parallel for i in 0..n (threads) (together 2) (uneven) (pays from 9 at n) (or alone)" + inside,
      {{"for i in 0..n (threads)" + inside, "threads for what is not parallel"},
       {"parallel for i in 0..n (uneven)" + inside, "what only loops on threads have"},
       {"parallel for i in 0..n (threads) (together 3)" + inside, "a nest of fewer parallel loops"},
       {"parallel for i in 0..n (threads) (together 2) (lanes)" + inside, "lanes of a nest"},
       {"parallel for i in 0..n (threads) (pays from 0 at n)" + inside, "without a limit"},
       {"parallel for i in 0..n (threads):\n  parallel for j in 0..2 (threads):\n    y[i] = x[j]\n",
        "already on threads"},
       {"for i in 0..n (lanes):\n  parallel for j in 0..2 (threads):\n    y[i] = x[j]\n", "or in lanes"}});
  const std::string first = "parallel for i in 0..n (threads):\n  y[i] = 1\n";
  expect_complaints(first + "parallel for i in 0..n (joined) (threads):\n  y[i] = 2\n",
                    {{first + "parallel for i in 1..n (joined) (threads):\n  y[i] = 2\n", "different ranges"},
                     {"parallel for i in 0..n (joined) (threads):\n  y[i] = 2\n", "different ranges"}});
}

TEST(VerifierOfProgramsForACpu, LanesSumIntoWhatIsOutside) {
  const auto sum = [](const std::string& loop, const std::string& note) {
    return "local f32 s\ns = 0\nfor i in 0..n" + loop + ":\n  s += " + note + "x[i]\ny[0] = s\n";
  };
  expect_complaints(sum(" (lanes)", "(lanes) "), {{sum(" (lanes)", ""), "a sum of lanes that is of none"},
                                                  {sum("", "(lanes) "), "a sum of lanes that is of none"},
                                                  {sum(" (lanes 8) (sums of lanes)", "(lanes) "), "of no eight sums"}});
}

TEST(VerifierOfProgramsForACpu, ThreadsShareNoSumsOfLanes) {
  const auto sum = [](const std::string& before, const std::string& inside) {
    return before + "parallel for k in 0..n (threads):\n" + inside +
           "  for i in 0..n (lanes):\n    if i + k < 1:\n      s += (lanes) x[i]\n  y[k] = 1\n";
  };
  expect_complaints(sum("", "  local f32 s\n  s = 0\n"),
                    {{sum("local f32 s\ns = 0\n", ""), "a sum of lanes that threads share"}});
}

/// A parallel loop may sum without lanes of its own where no two of its iterations meet, as in one of a single trip.
TEST(VerifierOfProgramsForACpu, IterationsOfParallelLoopsShareNoSums) {
  EXPECT_EQ(complaint("local f32 s\ns = 0\nparallel for i in n - 1..n (lanes):\n  s += x[i]\ny[0] = s\n"), "");
}

TEST(VerifierOfProgramsForACpu, StreamedRowsAreOfALoopThatStreams) {
  expect_complaints("for i in 0..n (lanes) (streams 4*n):\n  y[i] = (streamed) x[i]\n",
                    {{"for i in 0..n (lanes):\n  y[i] = (streamed) x[i]\n", "of no loop that streams"},
                     {"for i in 0..n (streams 4*n):\n  y[i] = (streamed) x[i]\n", "what only loops in lanes have"}});
}

TEST(VerifierOfProgramsForACpu, MemoryIsThereWhenItIsUsed) {
  const auto local = [](const std::string& declaration, const std::string& threads = " (threads)") {
    return "for t in 0..3:\n  parallel for i in 0..n" + threads + ":\n    local f32 a" + declaration +
           "\n    a[0] = 1\n    y[i] = a[0]\n";
  };
  EXPECT_EQ(complaint(local("[4] (stack)")), "");
  EXPECT_EQ(complaint(local("[n + t] (per thread) (out 1)")), "");
  EXPECT_EQ(complaint(local("[n] (per thread) (out 2)")), "");
  EXPECT_EQ(complaint(local("[i + 1] (iteration)")), "");
  expect_complaints(local("[n] (call) (out 2)", ""),
                    {{local("[n] (stack)"), "no constant extents"},
                     {local("[n] (call) (out 2)"), "memory of the call inside"},
                     {local("[n] (per thread) (out 1)", ""), "or of a thread outside"},
                     {local("[n] (per thread)"), "reserved in the loop they share"},
                     {local("[n + t] (per thread) (out 2)"), "reserved before its extent"},
                     {local("[n] (per thread) (out 3)"), "reserved nowhere"},
                     {local("[i + 1] (iteration) (out 1)"), "reserved nowhere"}});
}

}  // namespace

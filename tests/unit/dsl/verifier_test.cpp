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

}  // namespace

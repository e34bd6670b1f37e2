// Pseudo-code of every node, with as few parentheses as the structure needs.
#include "dsl/ir/printer.h"

#include <gtest/gtest.h>

using namespace loopgrad::ir;
using loopgrad::ScalarType;

namespace {

struct Printer : testing::Test {
  Expr i = var(make_symbol("i")), j = var(make_symbol("j"));
  Array x = make_array("x", ScalarType::F32, {i}, ArrayRole::InOut, {});
  Array s = make_array("s", ScalarType::F32, {}, ArrayRole::InOut, {});
  Expr a = load(x, {i}), b = load(x, {j}), c = load(s, {});
};

TEST_F(Printer, ParenthesesFollowTheTree) {
  EXPECT_EQ(print(a + b * c), "x[i] + x[j]*s");
  EXPECT_EQ(print((a + b) * c), "(x[i] + x[j])*s");
  EXPECT_EQ(print(a - (b - c)), "x[i] - (x[j] - s)");
  EXPECT_EQ(print((a - b) - c), "x[i] - x[j] - s");
  EXPECT_EQ(print(a * (b * c)), "x[i]*(x[j]*s)");
  EXPECT_EQ(print(binary(BinaryOp::Div, a, b * c)), "x[i]/(x[j]*s)");
  EXPECT_EQ(print(-(a + b)), "-(x[i] + x[j])");
  EXPECT_EQ(print(-(a * b)), "-(x[i]*x[j])");
  EXPECT_EQ(print(-a * b), "-x[i]*x[j]");
  EXPECT_EQ(print(a - -b), "x[i] - -x[j]");
  EXPECT_EQ(print(binary(BinaryOp::FloorDiv, i, j + int_const(1))), "i//(j + 1)");
  EXPECT_EQ(print(binary(BinaryOp::Mod, i, int_const(4)) + j), "i%4 + j");
}

TEST_F(Printer, ConditionsAndFunctions) {
  const Expr less = binary(BinaryOp::Lt, i, j), equal = binary(BinaryOp::Eq, i, j);
  const Expr either = binary(BinaryOp::Or, less, equal);
  EXPECT_EQ(print(binary(BinaryOp::And, either, less)), "(i < j || i == j) && i < j");
  EXPECT_EQ(print(binary(BinaryOp::Or, binary(BinaryOp::And, less, equal), less)), "i < j && i == j || i < j");
  EXPECT_EQ(print(unary(UnaryOp::Not, less)), "!(i < j)");
  EXPECT_EQ(print(select(less, a, b)), "select(i < j, x[i], x[j])");
  EXPECT_EQ(print(binary(BinaryOp::Min, a, b + c)), "min(x[i], x[j] + s)");
  EXPECT_EQ(print(unary(UnaryOp::Sigmoid, a)), "sigmoid(x[i])");
  EXPECT_EQ(print(binary(BinaryOp::Pow, a, b)), "pow(x[i], x[j])");
}

TEST_F(Printer, CastsThatRoundAreNotFolded) {
  EXPECT_EQ(print(cast(ScalarType::F32, float_const(0.1, ScalarType::F64))), "f32(0.1)");  // f64 on request keeps 0.1
  EXPECT_EQ(print(cast(ScalarType::F64, unary(UnaryOp::Exp, float_const(0.1, ScalarType::F32)))), "f64(exp(0.1f32))");
  EXPECT_EQ(print(cast(ScalarType::F32, float_const(0.5, ScalarType::F64))), "0.5");
}

TEST_F(Printer, ConstantsAndCasts) {
  EXPECT_EQ(print(float_const(0.1, ScalarType::F32)), "0.1");
  EXPECT_EQ(print(float_const(0.1, ScalarType::F64)), "0.1");
  EXPECT_EQ(print(float_const(-2, ScalarType::F32)), "-2");
  EXPECT_EQ(print(float_const(1e30, ScalarType::F64)), "1e+30");
  EXPECT_EQ(print(identity_of(ReduceOp::Min, ScalarType::F32)), "inf");
  EXPECT_EQ(print(bool_const(true)), "true");
  EXPECT_EQ(print(float_const(-2, ScalarType::F32) * a), "-2*x[i]");
  EXPECT_EQ(print(cast(ScalarType::F64, a)), "f64(x[i])");
  const Array index = make_array("index", ScalarType::I32, {i}, ArrayRole::Input, {});
  EXPECT_EQ(print(load(x, {cast(ScalarType::I64, load(index, {i}))})), "x[index[i]]");
  EXPECT_EQ(print(cast(ScalarType::I64, load(index, {i}) + load(index, {j})) * j), "i64(index[i] + index[j])*j")
      << "only an element is converted without a word: the sum is one of i32";
  EXPECT_EQ(print(binary(BinaryOp::Lt, load(index, {i}), load(index, {j}))), "i32(index[i]) < index[j]");
  const Expr wide = cast(ScalarType::I64, load(index, {i}));
  EXPECT_EQ(print(binary(BinaryOp::Lt, wide, wide + int_const(1))), "index[i] < index[i] + 1") << "as i64";
  EXPECT_EQ(print(unary(UnaryOp::Not, cast(ScalarType::Bool, float_const(2, ScalarType::F32)))), "!bool(2f32)");
}

TEST_F(Printer, Statements) {
  const Symbol k = make_symbol("k");
  const Expr zero = int_const(0), n = var(make_symbol("n"));
  const Array tape = make_array("tape", ScalarType::F32, {n}, ArrayRole::Tape, {});
  EXPECT_EQ(print(for_loop(k, zero, n, reduce(s, {}, ReduceOp::Add, load(x, {var(k)}), {}, true), LoopMode::Parallel)),
            "parallel for k in 0..n:\n  s += (atomic) x[k]\n");
  EXPECT_EQ(print(for_loop(k, zero, n, block({pop(x, {var(k)}), push(a)}), LoopMode::Backward)),
            "for k in 0..n reversed:\n  x[k] = pop()\n  push(x[i])\n");
  EXPECT_EQ(print(while_loop(k, n, binary(BinaryOp::Lt, var(k), i), {})), "for k in 0..n while k < i:\n  pass\n");
  EXPECT_EQ(print(assign(tape, {i}, a)), "tape[i] = x[i]\n");
  const Stmt fused = reduce(s, {}, ReduceOp::Add, a * b), sum = reduce(s, {}, ReduceOp::Add, a);
  EXPECT_EQ(print(fused), "s += x[i]*x[j]\n");
  EXPECT_EQ(print(reduce_like(*sum.as<Reduce>(), s, {}, a * b)), "s += (rounded product) x[i]*x[j]\n");
  const Array t = make_array("t", ScalarType::F32, {}, ArrayRole::Local, {});
  const Stmt local = allocate(t, assign(t, {}, a));
  EXPECT_EQ(print(block({sum, local})), "s += x[i]\nlocal f32 t\nt = x[i]\n");
  EXPECT_EQ(print(block({local, sum})), "local f32 t:\n  t = x[i]\ns += x[i]\n") << "where its extent ends";
  EXPECT_EQ(print(Stmt()), "pass\n");
}

TEST_F(Printer, GivesEveryVisibleNameOnce) {
  const Symbol outer = make_symbol("k"), inner = make_symbol("k"), next = make_symbol("k");
  const Expr zero = int_const(0), n = int_const(9);
  const Stmt nest = for_loop(outer, zero, n, for_loop(inner, var(outer), n, assign(x, {var(inner)}, c)));
  const Stmt after = for_loop(next, zero, n, assign(x, {var(next)}, c));
  EXPECT_EQ(print(block({nest, after})),
            "for k in 0..9:\n  for k_1 in k..9:\n    x[k_1] = s\nfor k in 0..9:\n  x[k] = s\n");
}

TEST(NameTable, TellsNamesApartAsTheyAreSpelled) {
  NameTable names([](const std::string& name) { return name.substr(0, 1) + "_"; });
  const Symbol first = make_symbol("x"), second = make_symbol("y1");
  EXPECT_EQ(names.of(first), "x_");
  EXPECT_EQ(names.of(second), "y_");
  EXPECT_EQ(names.of(first), "x_") << "stable";
  names.release(first);
  EXPECT_EQ(names.fresh("xyz"), "x_");
}

TEST(NameTable, NumbersWhatIsTaken) {
  NameTable names;
  const Symbol first = make_symbol("x"), second = make_symbol("x");
  EXPECT_EQ(names.of(first), "x");
  EXPECT_EQ(names.of(second), "x_1");
  EXPECT_EQ(names.fresh("x"), "x_2");
  names.release(second);
  EXPECT_EQ(names.fresh("x"), "x_1");
}

}  // namespace

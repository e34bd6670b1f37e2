#include "dsl/symbolic/linear_form.h"

#include "dsl/ir/printer.h"
#include "dsl/symbolic/ranges.h"

#include <gtest/gtest.h>

namespace loopgrad::transforms {
namespace {

using ir::BinaryOp;
using ir::Expr;
using ir::int_const;
using ir::var;

struct LinearForms : testing::Test {
  ir::Symbol i = ir::make_symbol("i"), j = ir::make_symbol("j"), n = ir::make_symbol("n");
  ir::Array table = ir::make_array("table", ScalarType::I64, {var(n)}, ir::ArrayRole::Input, {});

  static Expr floor_div(const Expr& a, std::int64_t b) { return ir::binary(BinaryOp::FloorDiv, a, int_const(b)); }
  static std::string simple(const Expr& e) { return ir::print(simplify_indices(e)); }
};

TEST_F(LinearForms, TermsCancel) {
  EXPECT_EQ(simple(var(i) + (var(j) - var(i))), "j");
  EXPECT_EQ(simple(int_const(2) * (var(i) + int_const(3)) - var(i)), "i + 6");
  EXPECT_EQ(simple(var(i) - var(i)), "0");
  EXPECT_EQ(simple(int_const(1) - var(i)), "1 - i");
}

TEST_F(LinearForms, ConstantsGoIntoExtrema) {
  EXPECT_EQ(simple(ir::binary(BinaryOp::Min, var(n) - int_const(1), var(i)) + int_const(1)), "min(n, i + 1)");
  EXPECT_EQ(simple(ir::binary(BinaryOp::Min, var(n), var(n) - int_const(1))), "n - 1");
  EXPECT_EQ(simple(ir::binary(BinaryOp::Max, var(n), var(n) - int_const(1))), "n");
}

TEST_F(LinearForms, MultiplesComeOutOfDivisions) {
  EXPECT_EQ(simple(floor_div(int_const(4) * var(i) + var(j) + int_const(7), 4)), "i + (j + 3)//4 + 1");
  EXPECT_EQ(simple(floor_div(var(n) + int_const(1), 2) - floor_div(var(n) - int_const(1), 2)), "1");
  EXPECT_EQ(simple(floor_div(int_const(6) * var(i), 3)), "2*i");
}

TEST_F(LinearForms, IndicesOfLoadsAreSimplifiedToo) {
  EXPECT_EQ(simple(ir::load(table, {var(i) + (var(j) - var(i))}) + int_const(1)), "table[j] + 1");
}

TEST_F(LinearForms, CoefficientsSeeThroughSumsOnly) {
  EXPECT_EQ(coefficient_of(int_const(3) * var(i) - var(j), i), 3);
  EXPECT_EQ(coefficient_of(int_const(3) * var(i) - var(j), j), -1);
  EXPECT_EQ(coefficient_of(var(j), i), 0);
  EXPECT_EQ(coefficient_of(floor_div(var(i), 2), i), std::nullopt);
  EXPECT_EQ(coefficient_of(ir::load(table, {var(i)}), i), std::nullopt);
}

TEST_F(LinearForms, BandsHaveTheWidthThatTheirBoundsAreApart) {
  const Expr r = var(j), one = int_const(1);
  const auto without_i = [&](const Expr& e) { return !ir::mentions(e, i); };
  const auto width = [&](const Expr& lower, const Expr& upper) {
    const auto found = ir::band_width(lower, upper, without_i);
    return found ? simple(*found) : "none";
  };
  const auto max = [](const Expr& a, const Expr& b) { return ir::binary(BinaryOp::Max, a, b); };
  const auto min = [](const Expr& a, const Expr& b) { return ir::binary(BinaryOp::Min, a, b); };
  EXPECT_EQ(width(var(i), var(i) + int_const(4)), "4");
  EXPECT_EQ(width(max(var(i) - r, int_const(0)), var(i) + r + one), "max(2*j + 1, 0)");
  EXPECT_EQ(width(max(var(i) - r, one), min(var(n), var(i) + r) + one), "max(min(2*j + 1, n), 0)");
  EXPECT_EQ(width(var(i) * r, min(var(n), r + min(var(i) * r + int_const(5), var(n)))), "max(j + 5, 0)");
  EXPECT_EQ(width(int_const(0), var(i)), "none");
  EXPECT_EQ(width(var(i), var(n)), "none");
  EXPECT_EQ(width(var(i), int_const(2) * var(i)), "none");
}

}  // namespace
}  // namespace loopgrad::transforms

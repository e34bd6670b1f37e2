#include "dsl/poly/isl_bridge.h"

#include "dsl/ir/printer.h"
#include "dsl/poly/coalesced.h"

#include <gtest/gtest.h>

namespace loopgrad::poly {
namespace {

using ir::BinaryOp;
using ir::Expr;
using ir::int_const;
using ir::var;

struct IslBridge : testing::Test {
  std::shared_ptr<Context> context = std::make_shared<Context>();
  ir::Symbol n = ir::make_symbol("n"), i = ir::make_symbol("i"), j = ir::make_symbol("j");
  Scope scope{context, {i, j}, "S0"};

  std::int64_t value_at(const isl::pw_aff& f, long n_value, long i_value, long j_value) const {
    std::string id = context->id_of(n).name();
    isl::set point(context->isl(), "[" + id + "] -> { S0[" + std::to_string(i_value) + ", " + std::to_string(j_value) +
                                       "] : " + id + " = " + std::to_string(n_value) + " }");
    return f.intersect_domain(point).max_val().num_si();
  }
};

TEST_F(IslBridge, ExpressionsMeanTheSameInIsl) {
  Expr e = ir::select(ir::binary(BinaryOp::Lt, var(i), var(n)),
                      ir::binary(BinaryOp::FloorDiv, var(i) - int_const(2) * var(j), int_const(3)),
                      ir::binary(BinaryOp::Mod, var(j) - int_const(1), int_const(4)));
  auto f = to_pw_aff(e, scope);
  ASSERT_TRUE(f);
  EXPECT_EQ(value_at(*f, 10, 1, 5), -3);  // floor(-9 / 3)
  EXPECT_EQ(value_at(*f, 10, 1, 4), -3);  // floor(-7 / 3) rounds down
  EXPECT_EQ(value_at(*f, 0, 1, 0), 3);    // -1 mod 4
  auto extrema = to_pw_aff(ir::binary(BinaryOp::Min, var(i), ir::binary(BinaryOp::Max, var(j), var(n))), scope);
  EXPECT_EQ(value_at(*extrema, 3, 7, 2), 3);
}

TEST_F(IslBridge, RefusesWhatIsNotAffine) {
  EXPECT_FALSE(to_pw_aff(var(i) * var(j), scope));
  EXPECT_FALSE(to_pw_aff(ir::binary(BinaryOp::FloorDiv, var(i), var(n)), scope));
  EXPECT_FALSE(to_pw_aff(ir::cast(ScalarType::I32, var(i)), scope));
  EXPECT_TRUE(to_pw_aff(ir::cast(ScalarType::I64, int_const(3, ScalarType::I32)) + var(i), scope));
}

TEST_F(IslBridge, RefusesWhatMayWrapAround) {
  const Expr hash = (var(i) + int_const(1)) * int_const(6364136223846793005);
  const Expr is_first = ir::binary(BinaryOp::Eq, ir::binary(BinaryOp::Mod, hash, int_const(5)), int_const(0));
  const Expr is_large = ir::binary(BinaryOp::Lt, var(n), hash);
  EXPECT_FALSE(to_pw_aff(hash, scope));
  EXPECT_FALSE(to_set(is_first, scope));
  EXPECT_FALSE(to_set(is_large, scope));
  scope.never_wraps = true;
  EXPECT_TRUE(to_pw_aff(hash, scope));
  EXPECT_TRUE(to_set(is_first, scope));
  EXPECT_TRUE(to_set(is_large, scope));
}

TEST_F(IslBridge, SymbolsOfOneNameStayApart) {
  ir::Symbol other = ir::make_symbol("n");
  auto f = to_set(ir::binary(BinaryOp::Eq, var(n), var(other)), scope);
  ASSERT_TRUE(f);
  EXPECT_FALSE(f->is_equal(scope.universe()));
}

TEST_F(IslBridge, ConditionsMeanTheSameInIsl) {
  const auto points = [&](BinaryOp op, const Expr& a, const Expr& b) { return ir::binary(op, a, b); };
  const auto both = [&](const Expr& a, const Expr& b) { return ir::binary(BinaryOp::And, a, b); };
  const auto expect = [&](const Expr& condition, const std::string& text) {
    const std::string id = context->id_of(n).name();
    const isl::set wanted(context->isl(), "[" + id + "] -> { S0[i, j] : exists N = " + id + " : " + text + " }");
    const auto set = to_set(condition, scope);
    ASSERT_TRUE(set);
    EXPECT_TRUE(set->is_equal(wanted)) << text << ": " << *set;
  };
  const Expr three = int_const(3), inside = points(BinaryOp::Lt, var(i) + three * var(j), var(n) - int_const(1));
  expect(inside, "i + 3j < N - 1");
  expect(both(inside, points(BinaryOp::Ge, -var(i), int_const(2))), "i + 3j < N - 1 and -i >= 2");
  expect(both(inside, points(BinaryOp::Eq, var(j), var(i) * three)), "i + 3j < N - 1 and j = 3i");
  expect(both(inside, points(BinaryOp::Ne, var(j), var(i))), "i + 3j < N - 1 and (j < i or j > i)");
  expect(both(points(BinaryOp::Gt, ir::binary(BinaryOp::Mod, var(j), three), int_const(1)), inside),
         "i + 3j < N - 1 and j mod 3 = 2");
  expect(both(points(BinaryOp::Le, var(i), int_const(4)), points(BinaryOp::Gt, var(i), int_const(4))), "1 = 0");
  EXPECT_FALSE(to_set(both(inside, points(BinaryOp::Lt, var(i) * var(j), three)), scope));
  // Coefficients that no 64-bit integer holds.
  scope.never_wraps = true;
  expect(points(BinaryOp::Ge, int_const(std::int64_t{1} << 62) * (int_const(4) * var(i)), int_const(1)), "i >= 1");
}

TEST_F(IslBridge, ExpressionsComeBack) {
  auto f = to_pw_aff(ir::binary(BinaryOp::FloorDiv, var(i), int_const(3)) + var(n), scope);
  EXPECT_EQ(ir::print(to_expr(*f, {var(i), var(j)}, *context)),
            ir::print(var(n) + ir::binary(BinaryOp::FloorDiv, var(i), int_const(3))));
  auto set = to_set(ir::binary(BinaryOp::Lt, var(i), var(j)), scope);
  Expr back = to_condition(*set, {var(i), var(j)}, *context);
  EXPECT_TRUE(to_set(back, scope)->is_equal(*set));
  EXPECT_EQ(ir::as_int(to_condition(*set, {var(i), var(j)}, *context, set)), 1);
}

TEST_F(IslBridge, CodeNamesTheRightParameterInWhateverOrderTheyCome) {
  const isl::ctx ctx = context->isl();
  const isl::union_map statement(ctx, "[b, n, m] -> { S[b - 1] -> [b - 1] : b >= 0 and 3*floor(b/3) < b }");
  const isl::set known(ctx, "[n, m, b] -> { : n >= 0 and m >= 0 and b >= 0 }");
  const isl::ast_node code = ast_builder(known, statement.space()).node_from_schedule_map(statement);
  EXPECT_EQ(code.to_C_str(), "if (b % 3 >= 1)\n  S(b - 1);\n");
  const isl::set condition(ctx, "[b, n, m] -> { : 3*floor(b/3) < b }");
  EXPECT_EQ(ast_builder(known, condition.space()).expr_from(condition).to_C_str(), "b % 3 >= 1");
}

TEST_F(IslBridge, CodeThatNamesAnIteratorOfNoLoopIsNoAnswer) {
  const isl::set own_bound(context->isl(), "[c1] -> { : 3*floor(c1/3) < c1 }");
  const isl::set nothing = isl::set::universe(isl::space::unit(context->isl()));
  const isl::ast_expr code = ast_builder(nothing, own_bound.space()).expr_from(own_bound);
  EXPECT_THROW(to_expr(code, {}, *context), BudgetError);
  EXPECT_NO_THROW(to_expr(code, {{"c1", var(i)}}, *context));
}

TEST_F(IslBridge, BudgetIsAnErrorThatCanBeRecoveredFrom) {
  auto a = *to_set(ir::binary(BinaryOp::Ne, var(i), var(j)), scope);
  context->restart_budget(3);
  EXPECT_THROW(guarded(*context, [&] { return a.complement().subtract(a).coalesce().is_empty(); }), BudgetError);
  context->restart_budget(Context::default_budget);
  EXPECT_FALSE(guarded(*context, [&] { return a.complement().subtract(a).coalesce().is_empty(); }));
}

/// isl adds 3 to these.
TEST(Coalesced, HasTheSamePoints) {
  const Context context;
  const isl::set set(context.isl(), "{ [j] : 0 <= j <= 4 and (j <= 2 or (j > 0 and 3*floor(j/3) < j)) }");
  EXPECT_FALSE(set.coalesce().is_equal(set)) << "a newer isl: the wrapper may go";
  EXPECT_TRUE(coalesced(set).is_equal(set));
  const isl::map map = isl::manage(isl_map_from_domain(set.copy()));
  EXPECT_TRUE(coalesced(map).is_equal(map));
}

}  // namespace
}  // namespace loopgrad::poly

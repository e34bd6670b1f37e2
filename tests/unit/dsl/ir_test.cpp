// The generic machinery of the IR: visiting, rewriting, comparing.
#include "dsl/ir/printer.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/ir/verifier.h"
#include "dsl/symbolic/ranges.h"

#include <loopgrad/program.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

namespace lg = loopgrad;
using namespace loopgrad::ir;
using loopgrad::ScalarType;

namespace {

/// Every kind of statement and most kinds of expression.
lg::Program sample(const std::string& iterator = "i", const std::string& array = "x") {
  lg::ProgramBuilder p("sample");
  auto n = p.size("n");
  auto x = p.input<float>(array, {n});
  auto index = p.input<int>("index", {n});
  auto y = p.inout<double>("y", {n});
  p.in_range(index, 0, n);
  for (auto i : p.loop(iterator, 0, n)) {
    auto s = p.scalar<float>("s");
    s = 0;
    for (auto t : p.loop_while("t", n, [&](const lg::Value& trip) { return trip < i && s < 10; })) s += x(t) * 2;
    p.when(s > 1 || x(i) != 0, [&] { y(index(i)) = select(s > 2, exp(s), -s); }).otherwise([&] { y(i) *= 0.5; });
  }
  return p.build();
}

// ---- visit ----

TEST(Visit, PicksTheCaseOfTheNode) {
  const auto kind_of = [](const Expr& e) {
    return visit(
        e, overloaded{[](const IntConst&) { return 1; }, [](const Load&) { return 2; }, [](const auto&) { return 3; }});
  };
  EXPECT_EQ(kind_of(int_const(4)), 1);
  EXPECT_EQ(kind_of(load(make_array("x", ScalarType::F32, {}, ArrayRole::InOut, {}), {})), 2);
  EXPECT_EQ(kind_of(var(make_symbol("i"))), 3);
}

TEST(Visit, WalksEveryNodeOnceParentsFirst) {
  const lg::Program program = sample();
  std::map<Kind, int> seen;
  std::vector<Kind> order;
  walk(
      program.ir().body,
      [&](const Stmt& s) {
        ++seen[s.kind()];
        order.push_back(s.kind());
      },
      [&](const Expr& e) { ++seen[e.kind()]; });
  EXPECT_EQ(seen[Kind::For], 1);
  EXPECT_EQ(seen[Kind::While], 1);
  EXPECT_EQ(seen[Kind::Allocate], 1);
  EXPECT_EQ(seen[Kind::If], 1);
  EXPECT_EQ(seen[Kind::Assign], 2);
  EXPECT_EQ(seen[Kind::Reduce], 2);
  EXPECT_EQ(seen[Kind::Select], 1);
  EXPECT_EQ(seen[Kind::Load], 8);
  EXPECT_EQ(order.front(), Kind::For);
}

TEST(Visit, SkipsChildrenOnRequest) {
  const Expr e = load(make_array("x", ScalarType::F32, {int_const(4)}, ArrayRole::InOut, {}), {int_const(2)});
  int visited = 0;
  walk(e, [&](const Expr&) { return ++visited, false; });
  EXPECT_EQ(visited, 1);
}

// ---- rewriter ----

TEST(Rewriter, ReturnsTheSamePointerWhenNothingChanges) {
  const lg::Program program = sample();
  EXPECT_TRUE(rewrite(program.ir().body, [](const Expr&) { return std::nullopt; }).same_as(program.ir().body));
  EXPECT_TRUE(substitute(program.ir().body, {{make_symbol("unknown"), int_const(1)}}).same_as(program.ir().body));
}

TEST(Rewriter, RebuildsOnlyThePathToAChange) {
  const Symbol i = make_symbol("i");
  const Array x = make_array("x", ScalarType::F32, {int_const(8)}, ArrayRole::InOut, {});
  const Stmt first = assign(x, {int_const(0)}, const_of(1, ScalarType::F32));
  const Stmt second = assign(x, {var(i)}, const_of(2, ScalarType::F32));
  const Stmt changed = substitute(block({first, second}), {{i, int_const(3)}});
  const auto* body = changed.as<Block>();
  ASSERT_NE(body, nullptr);
  EXPECT_TRUE(body->body[0].same_as(first));
  EXPECT_FALSE(body->body[1].same_as(second));
  EXPECT_EQ(print(body->body[1]), "x[3] = 2\n");
}

TEST(Rewriter, KeepsLocations) {
  const lg::Program program = sample();
  const Stmt copy = with_fresh_names(program.ir().body);
  std::vector<std::uint32_t> before, after;
  walk_stmts(program.ir().body, [&](const Stmt& s) { before.push_back(s->location.line); });
  walk_stmts(copy, [&](const Stmt& s) { after.push_back(s->location.line); });
  EXPECT_EQ(before, after);
}

TEST(Rewriter, FreshNamesAreAnotherCopyOfTheSameProgram) {
  const lg::Program program = sample();
  const Stmt copy = with_fresh_names(program.ir().body);
  EXPECT_TRUE(structurally_equal(program.ir().body, copy));
  EXPECT_NE(program.ir().body.as<For>()->iterator, copy.as<For>()->iterator);
  verify(with_body(program.ir(), block({program.ir().body, copy})), "test");
}

// ---- structural equality ----

TEST(StructuralEqual, IgnoresNamesAndLocations) {
  EXPECT_TRUE(structurally_equal(sample().ir(), sample("k", "z").ir()));
}

TEST(StructuralEqual, WantsAOneToOneRenaming) {
  const Symbol i = make_symbol("i"), j = make_symbol("j");
  const Array x = make_array("x", ScalarType::F32, {int_const(8), int_const(8)}, ArrayRole::InOut, {});
  const auto store = [&](const Symbol& a, const Symbol& b) {
    return assign(x, {var(a), var(b)}, const_of(0, x->type));
  };
  EXPECT_TRUE(structurally_equal(store(i, j), store(j, i)));
  EXPECT_FALSE(structurally_equal(store(i, j), store(i, i)));
  EXPECT_FALSE(structurally_equal(store(i, i), store(i, j)));
  EXPECT_FALSE(structurally_equal(block({store(i, j), store(i, j)}), block({store(i, j), store(j, i)})));
}

TEST(StructuralEqual, SeesEveryField) {
  const Array x = make_array("x", ScalarType::F32, {}, ArrayRole::InOut, {});
  const Array wide = make_array("x", ScalarType::F64, {}, ArrayRole::InOut, {});
  const auto zero = const_of(0, ScalarType::F32), one = const_of(1, ScalarType::F32);
  const Symbol i = make_symbol("i");
  const auto loop = [&](LoopMode mode) { return for_loop(i, int_const(0), int_const(2), assign(x, {}, zero), mode); };
  EXPECT_FALSE(structurally_equal(assign(x, {}, zero), assign(x, {}, one)));
  EXPECT_FALSE(structurally_equal(assign(x, {}, zero), assign(x, {}, -zero))) << "-0 is another number";
  EXPECT_FALSE(structurally_equal(assign(x, {}, zero), assign(wide, {}, const_of(0, ScalarType::F64))));
  EXPECT_FALSE(structurally_equal(reduce(x, {}, ReduceOp::Add, one), reduce(x, {}, ReduceOp::Mul, one)));
  EXPECT_FALSE(structurally_equal(reduce(x, {}, ReduceOp::Add, one), reduce(x, {}, ReduceOp::Add, one, {}, true)));
  EXPECT_FALSE(structurally_equal(loop(LoopMode::Forward), loop(LoopMode::Parallel)));
  EXPECT_FALSE(structurally_equal(assign(x, {}, zero), Stmt()));
  EXPECT_TRUE(structurally_equal(loop(LoopMode::Backward), loop(LoopMode::Backward)));
}

TEST(Reduce, OfAProductIsFusedAndStaysAsItIs) {
  const Array x = make_array("x", ScalarType::F32, {}, ArrayRole::InOut, {});
  const Array k = make_array("k", ScalarType::I64, {}, ArrayRole::InOut, {});
  const Expr a = load(x, {});
  const auto fused = [](const Stmt& s) { return s.as<Reduce>()->fused; };
  EXPECT_TRUE(fused(reduce(x, {}, ReduceOp::Add, a * a)));
  EXPECT_TRUE(fused(reduce(x, {}, ReduceOp::Add, -(a * a))));
  EXPECT_FALSE(fused(reduce(x, {}, ReduceOp::Add, a)));
  EXPECT_FALSE(fused(reduce(x, {}, ReduceOp::Add, a * a + a)));
  EXPECT_FALSE(fused(reduce(x, {}, ReduceOp::Mul, a * a)));
  EXPECT_FALSE(fused(reduce(x, {}, ReduceOp::Add, a * a, {}, true))) << "atomic";
  EXPECT_FALSE(fused(reduce(k, {}, ReduceOp::Add, load(k, {}) * load(k, {}))));

  const Stmt rounded = reduce(x, {}, ReduceOp::Add, a);
  EXPECT_FALSE(fused(reduce_like(*rounded.as<Reduce>(), x, {}, a * a))) << "what was rounded before stays rounded";
  const Stmt once = reduce(x, {}, ReduceOp::Add, -(a * a));
  EXPECT_TRUE(fused(reduce_like(*once.as<Reduce>(), x, {}, a * a)));
  EXPECT_EQ(print(combined(*once.as<Reduce>(), a)), "fma(-x, x, x)");
  EXPECT_EQ(print(combined(*rounded.as<Reduce>(), a)), "x + x");
}

TEST(RoundedTo, LeavesWhatIsRounded) {
  const Array x = make_array("x", ScalarType::F32, {}, ArrayRole::Input, {});
  const Array h = make_array("h", ScalarType::F16, {}, ArrayRole::Input, {});
  EXPECT_EQ(print(rounded_to(ScalarType::F16, load(x, {}))), "f16(x)");
  EXPECT_EQ(print(rounded_to(ScalarType::F16, rounded_to(ScalarType::F16, load(x, {})))), "f16(x)");
  EXPECT_EQ(print(rounded_to(ScalarType::F16, load(h, {}))), "h");
  EXPECT_EQ(print(rounded_to(ScalarType::BF16, load(h, {}))), "bf16(h)");
  EXPECT_EQ(print(rounded_to(ScalarType::F32, load(x, {}))), "x");
  EXPECT_EQ(print(rounded_to(ScalarType::F16, float_const(-0.75, ScalarType::F32))), "-0.75");
  EXPECT_EQ(print(rounded_to(ScalarType::F16, float_const(0.1, ScalarType::F32))), "f16(0.1)");
}

TEST(StructuralEqual, OfExpressionsMeansTheSameSymbols) {
  const Symbol i = make_symbol("i"), j = make_symbol("i");
  EXPECT_TRUE(equal(var(i) + int_const(1), var(i) + int_const(1)));
  EXPECT_FALSE(equal(var(i), var(j)));
  EXPECT_FALSE(equal(int_const(1), int_const(1, ScalarType::I32)));
  EXPECT_TRUE(equal(float_const(NAN, ScalarType::F32), float_const(NAN, ScalarType::F32)));
}

// ---- program helpers ----

TEST(ProgramHelpers, FindArraysByName) {
  const lg::Program program = sample();
  ASSERT_NE(find_array(program.ir(), "y"), nullptr);
  EXPECT_EQ(find_array(program.ir(), "y")->role, ArrayRole::InOut);
  EXPECT_EQ(find_array(program.ir(), "s"), nullptr) << "locals are not arguments";
  EXPECT_EQ(print(with_body(program.ir(), block({})).body), "pass\n");
}

// What is read from an array of 32 bits may meet an iterator in min(..).
TEST(RangeOf, NumbersThatAreReadHaveWideBounds) {
  const Array idx = make_array("idx", ScalarType::I32, {int_const(4)}, ArrayRole::Input, {});
  const Symbol t = make_symbol("t");
  RangeContext context;
  context.variables[t] = {int_const(0), int_const(9)};
  context.leaf = [](const Expr& e) -> std::optional<Range> { return Range{e, e}; };
  const Expr read = cast(ScalarType::I64, load(idx, {int_const(2)}));
  const auto range = range_of(binary(BinaryOp::Min, read, var(t)), context);
  ASSERT_TRUE(range);
  EXPECT_EQ(range->lowest.type(), ScalarType::I64);
  EXPECT_EQ(range->highest.type(), ScalarType::I64);
}

TEST(Arrays, GoByTheOrderOfTheirDeclarations) {
  const auto declare = [] { return make_array("a", ScalarType::F32, {}, ArrayRole::Local, {}); };
  // What is declared later takes the memory of what was there before.
  std::vector<Array> gone, arrays;
  for (int k = 0; k < 64; ++k) gone.push_back(declare());
  for (int k = 0; k < 32; ++k) arrays.push_back(declare());
  gone.clear();
  for (int k = 0; k < 32; ++k) arrays.push_back(declare());
  std::vector<std::pair<int, Array>> pairs;
  for (const Array& array : arrays) pairs.emplace_back(0, array);
  EXPECT_TRUE(std::is_sorted(arrays.begin(), arrays.end()));
  EXPECT_TRUE(std::is_sorted(pairs.begin(), pairs.end()));
  const std::set<Array> all(arrays.begin(), arrays.end());
  EXPECT_TRUE(std::equal(all.begin(), all.end(), arrays.begin()));
  std::vector<Array> both;
  std::set_intersection(all.begin(), all.end(), arrays.begin(), arrays.end(), std::back_inserter(both));
  EXPECT_EQ(both.size(), arrays.size());
}

}  // namespace

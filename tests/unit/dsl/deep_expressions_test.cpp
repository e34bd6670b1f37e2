// Expressions as deep as the C++ loops that recorded them, and values used more than once: what is recorded stays flat,
// and takes space in proportion to the operations that the user wrote.
#include "dsl/ir/visit.h"
#include "tests/unit/dsl/expect_error.h"

#include <loopgrad/program.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>

namespace lg = loopgrad;
namespace ir = loopgrad::ir;
using lg::test::expect_usage_error;

namespace {

struct Shape {
  int nodes = 0;       // of all expressions, written out
  int depth = 0;       // of the deepest expression
  int allocates = 0;   // within each other
  int statements = 0;  // assignments and sums
};

int depth_of(const ir::Expr& e) {
  int below = 0;
  ir::for_each_child(e, [&](const auto& child) {
    if constexpr (std::is_same_v<std::decay_t<decltype(child)>, ir::Expr>) below = std::max(below, depth_of(child));
  });
  return below + 1;
}

void measure(const ir::Stmt& s, int allocates, Shape& shape) {
  if (s.kind() == ir::Kind::Allocate) ++allocates;
  if (s.kind() == ir::Kind::Assign || s.kind() == ir::Kind::Reduce) ++shape.statements;
  shape.allocates = std::max(shape.allocates, allocates);
  ir::for_each_child(s, ir::overloaded{[&](const ir::Expr& e) {
                                         ir::walk(e, [&](const ir::Expr&) { ++shape.nodes; });
                                         shape.depth = std::max(shape.depth, depth_of(e));
                                       },
                                       [&](const ir::Stmt& child) { measure(child, allocates, shape); }});
}

Shape shape_of(const lg::Program& program) {
  Shape shape;
  measure(program.ir().body, 0, shape);
  return shape;
}

struct DeepExpressions : testing::Test {
  lg::ProgramBuilder p{"deep"};
  lg::Value n = p.size("n");
  lg::ArrayHandle x = p.input<double>("x", {n});
  lg::ArrayHandle k = p.input<std::int64_t>("k", {n});
  lg::ArrayHandle y = p.output<double>("y", {n});
  lg::ArrayHandle z = p.output<std::int64_t>("z", {n});
};

TEST_F(DeepExpressions, LettingGoTakesNoStack) {
  lg::Value v = x(0);
  for (int i = 0; i < 1'000'000; ++i) v = v + 1.0;
  v = lg::Value(1.0);
}

TEST_F(DeepExpressions, ALongChainBecomesLocals) {
  lg::Value v = x(0);
  for (int i = 1; i < 100'000; ++i) v = v + x(i);
  y(0) = v;
  const Shape shape = shape_of(p.build());
  EXPECT_LE(shape.depth, 70);
  EXPECT_LE(shape.nodes, 400'000);
  EXPECT_GE(shape.nodes, 200'000);
  EXPECT_LE(shape.statements, 2'000);
  EXPECT_LE(shape.allocates, 32);
}

TEST_F(DeepExpressions, IndicesBoundsAndConditionsTakeNoDeepOnes) {
  lg::Value v = k(0);
  for (int i = 1; i < 10'000; ++i) v = lg::min(v, k(i));
  for (auto i : p.loop("i", 0, v)) y(i) = 0.0;
  for (auto i : p.loop("i", 0, n)) y(lg::max(v, i)) = x(v % n);
  p.when(v > 0, [&] { y(0) = 1.0; });
  const Shape shape = shape_of(p.build());
  EXPECT_LE(shape.depth, 70);
  EXPECT_LE(shape.nodes, 200'000);
}

TEST_F(DeepExpressions, ShapesAndConditionsOfLoopsAreRefused) {
  lg::Value v = n;
  for (int i = 0; i < 10'000; ++i) v = lg::max(v * n, n);
  expect_usage_error([&] { p.local<float>("t", {v}); }, "an extent has more than 4096 operations");
  expect_usage_error([&] { p.in_range(k, 0, v); }, "the upper bound has more than 4096 operations");
  lg::Value c = x(0) > 0.0;
  for (int i = 0; i < 10'000; ++i) c = c && x(i) > 0.0;
  expect_usage_error(
      [&] {
        for (auto i : p.loop_while("i", n, [&](const lg::Value&) { return c; })) y(i) = 0.0;
      },
      "the condition of loop 'i' has more than 4096 operations");
}

TEST_F(DeepExpressions, SumsOfIntegersStayAffine) {
  for (auto i : p.loop("i", 0, 1)) {
    lg::Value v = i, a = i, b = n;
    for (int j = 0; j < 40; ++j) v = v + v;
    for (int j = 0; j < 20; ++j) {
      const lg::Value next = a + b - 1;
      a = b;
      b = next;
    }
    y(v) = x(b);
  }
  auto t = p.local<float>("t", {n + n + n});
  t(0) = 1.0f;
  lg::Value extent = n;
  for (int j = 0; j < 20; ++j) extent = extent + extent;
  p.local<float>("u", {extent});
  const std::string text = p.build().str();
  EXPECT_NE(text.find("y[1099511627776*i] = x[10946*n + 6765*i - 17710]"), std::string::npos) << text;
}

TEST_F(DeepExpressions, SharedIntegersAreNamed) {
  lg::Value v = k(0);
  for (int i = 0; i < 40; ++i) v = v * v + 1;
  z(0) = v;
  y(v) = 1.0;
  const Shape shape = shape_of(p.build());
  EXPECT_LE(shape.nodes, 1'000);
  EXPECT_LE(shape.statements, 20);
}

TEST_F(DeepExpressions, SharedConditionsAreNamed) {
  lg::Value c = x(0) > 0.0;
  for (int i = 0; i < 40; ++i) c = c && c;
  p.when(c, [&] { y(0) = 1.0; });
  EXPECT_LE(shape_of(p.build()).nodes, 1'000);
}

TEST_F(DeepExpressions, GuardedValuesAreNamedUnderTheirGuard) {
  lg::Value v = x(0) + 1.0;
  for (int i = 0; i < 40; ++i) v = v * v + v;
  y(0) = lg::select(x(1) > 0.0, v, 0.0);
  const lg::Program program = p.build();
  EXPECT_LE(shape_of(program).nodes, 20'000);
  int guarded = 0, plain = 0;
  ir::walk_stmts(program.ir().body, [&](const ir::Stmt& s) {
    if (s.kind() == ir::Kind::If) ++guarded;
    if (s.kind() == ir::Kind::Assign) ++plain;
  });
  EXPECT_EQ(plain, guarded + 1) << program.str();
  EXPECT_GE(guarded, 5) << program.str();
}

TEST_F(DeepExpressions, ChainsOfChoicesStayLinear) {
  lg::Value v = x(0), w = x(0), u = x(0);
  for (int i = 0; i < 500; ++i) {
    v = lg::select(x(i) > 0.5, lg::Value(x(i + 1)), v);                       // deep
    w = lg::select(x(i) > 0.0, w * 2.0, w * 3.0);                             // shared by both sides
    u = lg::select(x(i) > 0.0, u, 0.0) + lg::select(x(i + 1) > 0.0, u, 1.0);  // shared by different choices
  }
  y(0) = v;
  y(1) = w;
  y(2) = u;
  const Shape shape = shape_of(p.build());
  EXPECT_LE(shape.nodes, 100'000);
  EXPECT_LE(shape.depth, 140);
}

TEST_F(DeepExpressions, StatementsShareWhatIsNamed) {
  lg::Value v = x(0);
  for (int i = 1; i < 5'000; ++i) {
    v = v + x(i) * x(i);
    y(i) = v;
  }
  const Shape shape = shape_of(p.build());
  EXPECT_LE(shape.nodes, 1'000'000);  // twelve million nodes without
}

TEST_F(DeepExpressions, ANamedValueIsNotReadAfterAWrite) {
  auto a = p.inout<double>("a", {n});
  lg::Value v = a(0);
  for (int i = 0; i < 1'000; ++i) v = v * 1.5 + 1.0;
  y(0) = v;
  y(1) = v;
  a(0) = 2.0;
  expect_usage_error([&] { y(2) = v; }, "is used after the array was written");
}

TEST_F(DeepExpressions, ManyScalarsDoNotNest) {
  std::vector<lg::Element> scalars;
  for (int i = 0; i < 20'000; ++i) {
    scalars.push_back(p.scalar<double>("s"));
    scalars.back() = i ? scalars[static_cast<std::size_t>(i) - 1] * 0.5 : lg::Value(1.0);
  }
  y(0) = lg::Value(scalars.back());
  EXPECT_LE(shape_of(p.build()).allocates, 32);
}

TEST_F(DeepExpressions, ScopesNestToALimit) {
  const std::function<void(int)> nest = [&](int depth) {
    if (depth > 0) p.when(x(0) > 0.0, [&] { nest(depth - 1); });
    else y(0) = 1.0;
  };
  nest(900);
  expect_usage_error([&] { nest(2'000); }, "loops and branches nest more than 1000 deep");
}

TEST(SharedExpressions, LaterStatementsReadWhatALargeOneNames) {
  int nodes[2] = {};
  for (const bool more : {false, true}) {
    lg::ProgramBuilder p("shared");
    auto x = p.input<double>("x", {4});
    auto y = p.output<double>("y", {4});
    const lg::Value small = x(2) * x(1) + 0.5, product = small * x(3);
    lg::Value v = x(0) * product;
    for (int step = 0; step < 8; ++step) v = v * v * small + v * product;
    y(0) = v;
    if (more) y(1) = sin(small) * small;
    if (more) y(2) -= product;
    const lg::Program program = p.build();
    nodes[more] = shape_of(program).nodes;
    // Its product is not rounded before it is subtracted, whether it has a name or not.
    int fused = 0;
    ir::walk_stmts(program.ir().body, [&](const ir::Stmt& s) {
      if (const auto* sum = s.as<ir::Reduce>()) fused += sum->fused;
    });
    EXPECT_EQ(fused, more);
  }
  EXPECT_LE(nodes[1] - nodes[0], 12);
}

}  // namespace

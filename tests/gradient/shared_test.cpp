// The adjoint of what is computed once is computed once: operations of gradients, tangents and gradients of gradients
// are a few times those of the program as recorded.
#include "dsl/ir/printer.h"
#include "dsl/ir/visit.h"
#include "tape/invariant_values.h"
#include "tape/name_values.h"
#include "tests/gradient/jacobian.h"
#include "tests/gradient/shared_programs.h"

namespace loopgrad::test {
namespace {

/// Arithmetic operations and functions as written, each once: what is in one loop weighs as much as what is around it.
double operations(const Program& program) {
  double count = 0;
  ir::walk(
      program.ir().body, [&](const ir::Stmt& s) { count += s.kind() == ir::Kind::Reduce; },
      [&](const ir::Expr& e) {
        if (!is_float(e.type())) return;
        const auto* unary = e.as<ir::Unary>();
        count += e.kind() == ir::Kind::Binary || (unary && unary->op != ir::UnaryOp::Neg);
      });
  return count;
}

struct Case {
  const char* name;
  Program (*build)();
  Sizes sizes;
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};

class SharedPrograms : public ::testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(All, SharedPrograms,
                         ::testing::Values(Case{"inverse", inverse_4x4, {{"n", 2}}}, Case{"n_body", n_body, {{"n", 4}}},
                                           Case{"soft_raster", soft_raster, {{"h", 2}, {"w", 3}, {"n", 2}}},
                                           Case{"jacobi", jacobi_rotations, {{"n", 2}}},
                                           Case{"quaternions", quaternion_chain, {{"n", 2}, {"k", 3}}},
                                           Case{"lennard_jones", lennard_jones, {{"n", 4}}}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(SharedPrograms, GradientsAreRight) {
  EXPECT_TRUE(gradient_is_right(GetParam().build(), {.sizes = GetParam().sizes, .values = {}, .options = {}}));
}

TEST_P(SharedPrograms, AdjointsTakeAFewTimesTheOperations) {
  const Program program = GetParam().build();
  const double forward = operations(differentiate(program).forward);
  EXPECT_LE(forward, operations(program));
  for (const Variant variant : {Variant::NaiveTape, Variant::Atomic, Variant::Restructured})
    EXPECT_LE(operations(differentiate(program, {.variant = variant}).backward), 4 * forward) << name_of(variant);
  EXPECT_LE(operations(tangent(program)), 4 * forward);
}

TEST(NamedReads, AdjointsAddToAnElementThatDataChooseOnce) {
  for (const bool written : {false, true}) {
    ProgramBuilder p("look_ups");
    auto n = p.size("n"), m = p.size("m");
    auto idx = p.input<std::int64_t>("idx", {n});
    p.in_range(idx, 0, m);
    auto x = p.inout<double>("x", {m, 2});
    auto y = p.output<double>("y", {n, 2});
    for (auto i : p.loop("i", 0, n)) {
      y(i, 0) = x(idx(i), 1) * sin(x(idx(i), 1));
      if (written) x(i, 0) = 1.0;
      y(i, 1) = x(idx(i), 1) * x(idx(i), 1);
    }
    const Program program = p.build();
    const Sizes sizes = {{"n", 5}, {"m", 7}};
    EXPECT_TRUE(gradient_is_right(program, {.sizes = sizes, .values = {}, .options = {}}));
    std::size_t sums = 0;
    ir::walk_stmts(differentiate(program).backward.ir().body, [&](const ir::Stmt& s) {
      const auto* sum = s.as<ir::Reduce>();
      sums += sum && sum->array->name == "d_x";
    });
    EXPECT_EQ(sums, written ? 2u : 1u) << ir::print(differentiate(program).backward.ir());
  }
}

TEST_P(SharedPrograms, SoDoAdjointsOfAdjoints) {
  const Program program = GetParam().build();
  const Program gradient = differentiate(program).backward;
  GradientOptions by_inputs;
  for (const ir::Array& array : program.ir().arrays)
    if (array->role == ir::ArrayRole::Input) by_inputs.wrt.push_back(array->name);
  const double forward = operations(gradient);
  EXPECT_LE(operations(differentiate(gradient, by_inputs).backward), 4 * forward);
  EXPECT_LE(operations(tangent(gradient, by_inputs)), 4 * forward);
}

// All that the backward sweep needs follows from the inputs.
TEST(SharedValues, AreComputedAgainOnceInPlaceOfATape) {
  EXPECT_EQ(tape_bytes(n_body(), {{"n", 100}}), 0);
  EXPECT_EQ(tape_bytes(lennard_jones(), {{"n", 100}}), 0);
  EXPECT_EQ(tape_bytes(jacobi_rotations(), {{"n", 100}}), 0);
  const std::string backward = ir::print(differentiate(n_body()).backward.ir());
  EXPECT_EQ(backward.find("sqrt("), backward.rfind("sqrt(")) << backward;
}

// Parts of a statement that has to save what it reads cost no tape of their own.
TEST(SharedValues, TakeTheTapeOfTheStatement) {
  ProgramBuilder p("in_place");
  auto n = p.size("n"), T = p.size("T");
  auto x = p.inout<float>("x", {n});
  for (auto t : p.loop("t", 0, T))
    for (auto i : p.loop("i", 0, n)) {
      const Value v = x(i), w = exp(sin(v) * v) / (v * v + 1.0), u = sqrt(w * w + v);
      x(i) = u * w * v;
    }
  const Program program = p.build();
  EXPECT_LE(tape_bytes(program, {{"n", 10}, {"T", 3}}), 10 * (3 + 1) * 4);
  const Gradient gradient = differentiate(program);
  EXPECT_LE(operations(gradient.backward), 4 * operations(gradient.forward));
  EXPECT_TRUE(gradient_is_right(program, {.sizes = {{"n", 3}, {"T", 3}}, .values = {}, .options = {}}));
}

TEST(SharedValues, BehindConditionsAreEvaluatedThereOnly) {
  ProgramBuilder p("guarded");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n});
  auto y = p.output<float>("y", {n, 2});
  for (auto i : p.loop("i", 0, n)) {
    const Value next = x(i + 1);  // there is none at the end
    const Value v = exp(sin(next) * x(i)) / (next * next + 1.0), w = sqrt(v * v + 1.0) * sin(v);
    y(i, 0) = select(i + 1 < n, w * v + w * w * next, x(i));
    y(i, 1) = select(i + 1 < n, w / (v + 2.0), x(i) * x(i));
  }
  EXPECT_TRUE(gradient_is_right(p.build(), {.sizes = {{"n", 4}}, .values = {}, .options = {}}));
}

// A value that two statements share, with a write to what it reads between them, is two values.
TEST(SharedValues, EndWithAWriteToWhatTheyRead) {
  ProgramBuilder p("rewritten");
  auto n = p.size("n");
  auto x = p.inout<float>("x", {n});
  auto y = p.output<float>("y", {n, 2});
  for (auto i : p.loop("i", 0, n)) {
    const auto f = [&] {
      const Value v = x(i) * x(i) + 0.5, w = exp(sin(v) * v) / v;
      return w * w * v + sqrt(w + v) * w;
    };
    y(i, 0) = f();
    x(i) = x(i) * 0.5 + 0.125;
    y(i, 1) = f();
  }
  EXPECT_TRUE(gradient_is_right(p.build(), {.sizes = {{"n", 3}}, .values = {}, .options = {}}));
}

// `s += s*0.5` has an adjoint that adds to the scalar what it reads of it.
TEST(SharedValues, AdjointsOfScalarsThatAddToThemselves) {
  ProgramBuilder p("own");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto s = p.scalar<float>("s");
    s = x(i);
    y(i) = s * s;
    s += s * 0.5;
  }
  EXPECT_TRUE(gradient_is_right(p.build(), {.sizes = {{"n", 3}}, .values = {}, .options = {}}));
}

const tape::IsActive all_floats = [](const ir::Array& a) { return is_float(a->type); };

TEST(NameValues, LeavesSmallStatementsAsTheyAre) {
  ProgramBuilder p("small");
  auto n = p.size("n");
  auto a = p.input<float>("a", {n, n}), b = p.input<float>("b", {n, n}), s = p.input<float>("s", {n});
  auto c = p.output<float>("c", {n, n});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, n)) {
      c(i, j) = 0;
      for (auto k : p.loop("k", 0, n)) c(i, j) += a(i, k) * b(k, j) * s(k);
      c(i, j) = tanh(c(i, j) + s(j)) * s(i);
    }
  const Program program = p.build();
  std::set<ir::Array> named;
  EXPECT_TRUE(tape::name_values(program.ir().body, all_floats, named).same_as(program.ir().body));
  EXPECT_TRUE(named.empty());
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(NameValues, FunctionsOfAStencilAreCalledOnceForAllNeighbours) {
  ProgramBuilder p("wave");
  auto n = p.size("n");
  auto u = p.input<double>("u", {n}), speed = p.input<double>("speed", {n});
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", 0, n)) y(i) = 0.0;
  for (auto i : p.loop("i", 1, n - 1)) y(i) = u(i) + sin(speed(i) * u(i)) * (u(i - 1) - 2.0 * u(i) + u(i + 1));
  const Program program = p.build();
  const std::string backward = differentiate(program).backward.str();
  EXPECT_EQ(count_of(backward, "sin("), 1u) << backward;
  EXPECT_EQ(count_of(backward, "cos("), 1u) << backward;
  EXPECT_TRUE(gradient_is_right(program, {.sizes = {{"n", 6}}, .values = {}, .options = {}}));
}

Program weighted_rows() {
  ProgramBuilder p("weighted_rows");
  auto n = p.size("n"), d = p.size("d");
  auto s = p.input<double>("s", {n}), v = p.input<double>("v", {n, d}), total = p.input<double>("total", {});
  auto y = p.output<double>("y", {d});
  for (auto c : p.loop("c", 0, d)) y(c) = 0.0;
  for (auto j : p.loop("j", 0, n))
    for (auto c : p.loop("c", 0, d)) y(c) += s(j) / total() * v(j, c);
  return p.build();
}

TEST(NameInvariants, DerivativesOfWhatALoopRepeatsAreTakenOnce) {
  const Program program = weighted_rows();
  const std::string backward = differentiate(program).backward.str();
  // The sum over c has a product alone; what follows from it is done for each j.
  EXPECT_NE(backward.find("d_value0 += d_y[c]*v[j, c]"), std::string::npos) << backward;
  EXPECT_EQ(count_of(backward, "/total"), 3u) << backward;  // the value itself, d_s, and d_total
  EXPECT_TRUE(gradient_is_right(program, {.sizes = {{"n", 4}, {"d", 3}}, .values = {}, .options = {}}));
}

/// Whether the loops of `body(p, x, y, n)` have invariants.
template <class Body>
bool has_invariants(Body body) {
  ProgramBuilder p("loops");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n}), w = p.input<float>("w", {n});
  auto y = p.output<float>("y", {n});
  body(p, x, w, y, n);
  std::set<ir::Array> named;
  const Program program = p.build();
  const bool changed = !tape::name_invariants(program.ir(), all_floats, named).same_as(program.ir().body);
  EXPECT_EQ(changed, !named.empty());
  return changed;
}

TEST(NameInvariants, LeavesWhatMayNotBeComputedBefore) {
  using A = const ArrayHandle&;
  EXPECT_TRUE(has_invariants([](ProgramBuilder& p, A x, A w, A y, const Value& n) {
    for (auto i : p.loop("i", 0, n))
      for (auto j : p.loop("j", 0, n)) y(j) = sqrt(x(i)) * w(j);
  }));
  EXPECT_FALSE(has_invariants([](ProgramBuilder& p, A x, A w, A y, const Value& n) {
    for (auto i : p.loop("i", 0, n))
      for (auto j : p.loop("j", 0, i)) y(j) = sqrt(x(i)) * w(j);
  })) << "rows of a triangle may be empty, and the derivative of a root infinite";
  EXPECT_FALSE(has_invariants([](ProgramBuilder& p, A x, A w, A y, const Value& n) {
    for (auto i : p.loop("i", 0, n))
      for (auto j : p.loop("j", 0, n)) y(j) = select(x(i) > 0.0f, sqrt(x(i)) * w(j), w(j));
  })) << "only one side of a select has to have a derivative";
  EXPECT_FALSE(has_invariants([](ProgramBuilder& p, A x, A w, A y, const Value& n) {
    for (auto i : p.loop("i", 0, n))
      for (auto j : p.loop("j", 0, n)) p.when(x(i) > 0.0f, [&] { y(j) = sqrt(x(i)) * w(j); });
  })) << "branches neither";
  EXPECT_FALSE(has_invariants([](ProgramBuilder& p, A x, A w, A y, const Value& n) {
    for (auto i : p.loop("i", 0, n))
      for (auto j : p.loop("j", 0, n)) y(j) = sqrt(x(i + 1 - 1 + 2)) * w(j);
  })) << "nobody knows whether the element exists when the loop does not run";
  EXPECT_FALSE(has_invariants([](ProgramBuilder& p, A x, A w, A y, const Value& n) {
    for (auto i : p.loop("i", 0, n))
      for (auto j : p.loop("j", 0, n)) y(i) = sqrt(y(i) + x(i)) * w(j);
  })) << "the loop changes it";
  for (const bool always : {true, false}) {
    const bool found = has_invariants([&](ProgramBuilder& p, A x, A w, A y, const Value& n) {
      auto s = p.local<float>("s", {n});
      for (auto i : p.loop("i", 0, n)) {
        if (always) s(i) = x(i);
        else p.when(n > 1, [&] { s(i) = x(i); });
        for (auto j : p.loop("j", 0, n / 2)) y(j) = sqrt(s(i)) * w(j);
      }
    });
    EXPECT_EQ(found, always) << "it may have no value where the loop does not run";
  }
}

// `y += a*b` does not round the product, whoever else uses it.
TEST(NameValues, KeepsTheProductsOfFusedSums) {
  ProgramBuilder p("fused");
  auto x = p.input<float>("x", {4});
  auto y = p.output<float>("y", {3});
  const Value u = exp(x(0) * x(1)) / (x(2) * x(2) + 1.0), v = sqrt(u * u + 1.0);
  const Value product = u * v;
  y(0) = product * sin(v) * u;
  y(1) += product;
  y(2) -= product;
  const Program program = p.build();
  std::set<ir::Array> named;
  const ir::Stmt body = tape::name_values(program.ir().body, all_floats, named);
  EXPECT_FALSE(named.empty());
  int fused = 0;
  ir::walk_stmts(body, [&](const ir::Stmt& s) {
    if (const auto* sum = s.as<ir::Reduce>()) fused += sum->fused;
  });
  EXPECT_EQ(fused, 2);
}

}  // namespace
}  // namespace loopgrad::test

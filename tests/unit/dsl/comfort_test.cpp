// Shorter ways to write programs: what they record.

#include <loopgrad/error.h>
#include <loopgrad/program.h>
#include <loopgrad/small.h>

#include <gtest/gtest.h>

#include <optional>

#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

namespace loopgrad {
namespace {

/// The text of a program that `record` writes; without its first line and declarations.
template <class F>
std::string body_of(const F& record) {
  ProgramBuilder p("p");
  const Value n = p.size("n"), m = p.size("m");
  const ArrayHandle x = p.input<float>("x", {n * m}), y = p.inout<float>("y", {n, m});
  record(p, n, m, x, y);
  const std::string text = p.build().str();
  return text.substr(text.find("y[n, m]\n") + 8);
}

template <class F>
std::string message_of(const F& f) {
  try {
    f();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(Comfort, SeveralLoopsInOneFor) {
  EXPECT_EQ(body_of([](auto& p, auto& n, auto& m, auto&, auto& y) {
              for (auto [i, j] : p.loop({"i", n}, {"j", 1, m - 1})) y(i, j) = 0;
              for (auto [i, j, k] : p.loop({"i", n}, {"j", m}, {"k", 3})) y(i, j) += k;
              for (auto [i, j, k, l] : p.loop({"i", n}, {"j", m}, {"k", 3}, {"l", 2})) y(i, j) += k * l;
              for (auto i : p.loop("i", n)) y(i, 0) = 1;
            }),
            R"(for i in 0..n:
  for j in 1..m - 1:
    y[i, j] = 0
for i in 0..n:
  for j in 0..m:
    for k in 0..3:
      y[i, j] += f32(k)
for i in 0..n:
  for j in 0..m:
    for k in 0..3:
      for l in 0..2:
        y[i, j] += f32(k*l)
for i in 0..n:
  y[i, 0] = 1
)");
}

TEST(Comfort, ALoopNestThatIsLeftIsDroppedAsAWhole) {
  ProgramBuilder p("p");
  const Value n = p.size("n");
  const ArrayHandle y = p.output<float>("y", {n, n});
  for (auto [i, j] : p.loop({"i", n}, {"j", n})) {
    y(i, j) = 0;
    break;
  }
  EXPECT_CONTAINS(message_of([&] { p.build(); }), "was left before its end");
}

TEST(Comfort, StridedAndDescendingLoops) {
  EXPECT_EQ(body_of([](auto& p, auto& n, auto& m, auto& x, auto& y) {
              for (auto i : p.loop("i", 1, n, {.step = 3})) y(i, 0) = x(i);
              for (auto i : p.loop("i", n, {.descending = true})) y(i, 0) += 1;
              for (auto i : p.loop("i", m, {.step = 2, .descending = true})) y(0, i) += 1;
            }),
            R"(for i in 0..(n + 1)//3:
  y[3*i + 1, 0] = x[3*i + 1]
for i in 0..n reversed:
  y[i, 0] += 1
for i in 0..(m + 1)//2 reversed:
  y[0, 2*i] += 1
)");
  EXPECT_CONTAINS(message_of([] {
                    ProgramBuilder p("p");
                    for ([[maybe_unused]] auto i : p.loop("i", 3, {.step = 0})) {
                    }
                  }),
                  "loop 'i' has the step 0");
}

TEST(Comfort, NamedValuesAndScalarsWithInitialValues) {
  EXPECT_EQ(body_of([](auto& p, auto& n, auto&, auto& x, auto& y) {
              for (auto i : p.loop("i", n)) {
                const Value twice = p.let("twice", 2 * x(i));
                auto s = p.template scalar<double>("s", 1);
                s += twice * twice;
                y(i, 0) = s + twice;
              }
            }),
            R"(for i in 0..n:
  local f32 twice
  twice = 2*x[i]
  local f64 s
  s = 1
  s += f64(twice*twice)
  y[i, 0] = f32(s + f64(twice))
)");
}

// Unlike a Value that reads an element, which could be another one by then.
TEST(Comfort, ALetStaysWhatItIs) {
  EXPECT_EQ(body_of([](auto& p, auto&, auto&, auto&, auto& y) {
              const Value old = p.let("old", y(0, 0));
              y(0, 0) = 7;
              y(0, 1) = old;
            }),
            "local f32 old\nold = y[0, 0]\ny[0, 0] = 7\ny[0, 1] = old\n");
}

TEST(Comfort, SmallVectorsMatricesAndComplexNumbersAreNamedByComponents) {
  EXPECT_EQ(body_of([](auto& p, auto&, auto&, auto& x, auto& y) {
              const Vec<2> v = p.let("v", 2 * load<2>(y.row(0)));
              store(y.row(0), Vec<2>(v[1], v[0]));
              const Mat<2> m = p.let("m", outer(v, Vec<2>(1, 0.5)));
              const Complex z = p.let("z", Complex(x(0), 0));
              y(1, 0) = (m * v)[0] + norm(z);
            }),
            R"(local f32 v_0
v_0 = 2*y[0, 0]
local f32 v_1
v_1 = 2*y[0, 1]
y[0, 0] = v_1
y[0, 1] = v_0
local f32 m_0_0
m_0_0 = v_0
local f32 m_0_1
m_0_1 = v_0*0.5
local f32 m_1_0
m_1_0 = v_1
local f32 m_1_1
m_1_1 = v_1*0.5
local f32 z_re
z_re = x[0]
local f32 z_im
z_im = 0
y[1, 0] = m_0_0*v_0 + m_0_1*v_1 + (z_re*z_re + z_im*z_im)
)");
}

TEST(Comfort, ASmallVectorIsSavedOrComputedAgainByComponents) {
  const std::string text = body_of([](auto& p, auto&, auto&, auto& x, auto& y) {
    const Vec<2> v = p.let("v", Vec<2>(exp(x(0)), exp(x(1))));
    p.recompute(v);
    const Complex z = p.let("z", exp(Complex(v[0], v[1])));
    p.save(z);
    y(0, 0) = norm(z);
  });
  for (const char* line : {"v_0 recomputed", "v_1 recomputed", "z_re saved", "z_im saved"}) EXPECT_CONTAINS(text, line);
}

TEST(Comfort, ElseIf) {
  EXPECT_EQ(body_of([](auto& p, auto& n, auto&, auto& x, auto& y) {
              for (auto i : p.loop("i", n)) {
                p.when(x(i) < 0, [&] { y(i, 0) = 1; })
                    .otherwise(x(i) < 1, [&] { y(i, 0) = 2; })
                    .otherwise(x(i) < 2, [&] { y(i, 0) = 3; })
                    .otherwise([&] { y(i, 0) = 4; });
                p.when(x(i) > 5, [&] { y(i, 0) += 1; }).otherwise(x(i) > 4, [&] { y(i, 0) += 2; });
                y(i, 0) += 3;
              }
            }),
            R"(for i in 0..n:
  if x[i] < 0:
    y[i, 0] = 1
  else if x[i] < 1:
    y[i, 0] = 2
  else if x[i] < 2:
    y[i, 0] = 3
  else:
    y[i, 0] = 4
  if x[i] > 5:
    y[i, 0] += 1
  else if x[i] > 4:
    y[i, 0] += 2
  y[i, 0] += 3
)");
}

// Locals for what a large condition shares are in the else body, where the condition is asked.
TEST(Comfort, AnElseIfOnALargeValue) {
  const std::string text = body_of([](auto& p, auto&, auto&, auto& x, auto& y) {
    p.when(x(0) < 0, [&] { y(0, 0) = 1; })
        .otherwise(
            [&] {
              Value large = x(1);
              for (int k = 0; k < 20; ++k) large = large * large;
              return large;
            }() < 1,
            [&] { y(0, 0) = 2; })
        .otherwise([&] { y(0, 0) = 3; });
    y(0, 0) += 4;
  });
  EXPECT_EQ(text.find("if x[0] < 0:\n  y[0, 0] = 1\nelse:\n  local f32 value0\n"), 0u) << text;
  EXPECT_CONTAINS(text, " < 1:\n    y[0, 0] = 2\n  else:\n    y[0, 0] = 3\ny[0, 0] += 4\n");
}

// A branch inside an else body that was written out is no else-if: its otherwise() comes right behind it.
TEST(Comfort, MistakesInElseIfs) {
  ProgramBuilder p("p");
  const ArrayHandle y = p.inout<float>("y", {3});
  const Branch first = p.when(y(0) < 0, [&] { y(0) = 1; });
  EXPECT_CONTAINS(message_of([&] { first.otherwise(y(1), [&] {}); }), "the condition is f32, not bool");
  EXPECT_CONTAINS(message_of([&] { first.otherwise(y(1) < 0, {}); }), "a branch has no body");
  const Branch second = first.otherwise(y(1) < 0, [&] { y(0) = 2; });
  EXPECT_CONTAINS(message_of([&] { first.otherwise([] {}); }), "already has an otherwise()");
  const Branch third = second.otherwise(y(2) < 0, [&] { y(0) = 3; });
  third.otherwise([&] { y(0) = 4; });
  EXPECT_CONTAINS(message_of([&] { third.otherwise([] {}); }), "already has an otherwise()");
  std::optional<Branch> inner;
  p.when(y(0) < 0, [&] {}).otherwise([&] { inner = p.when(y(1) < 0, [&] {}); });
  EXPECT_CONTAINS(message_of([&] { inner->otherwise([] {}); }), "does not follow its when()");
  EXPECT_CONTAINS(p.build().str(), "y[0] = 4");
}

TEST(Comfort, AnElseIfThatIsLeftIsDroppedAsAWhole) {
  ProgramBuilder p("p");
  const ArrayHandle y = p.inout<float>("y", {3});
  const auto leave = [&] {
    p.when(y(0) < 0, [&] {}).otherwise(y(1) < 0, [&] {}).otherwise(y(2) < 0, [&] { throw 1; });
  };
  EXPECT_THROW(leave(), int);
  y(0) = 1;
  EXPECT_CONTAINS(message_of([&] { p.build(); }), "was left before its end");
}

TEST(Comfort, TablesRowsShapesAndBuffersThatTakeTurns) {
  EXPECT_EQ(body_of([](auto& p, auto& n, auto& m, auto& x, auto& y) {
              const ArrayHandle w = p.template table<float>("w", {0.25f, 0.5f});
              const ArrayView u = p.template ring<float>("u", 2, {m}), matrix = x.reshaped({n, m});
              EXPECT_EQ(matrix.rank(), 2);
              EXPECT_EQ(u.row(0).rank(), 1);
              for (auto [t, j] : p.loop({"t", matrix.extent(0)}, {"j", u.row(0).extent(0)})) {
                const ArrayView row = y.row(t);
                u(t + 1, j) = w(1) * matrix(t, j);
                row(j) += u(t, j);
              }
            }),
            R"(local f32 w[2]
w[0] = 0.25
w[1] = 0.5
local f32 u[2, m]
for t in 0..n:
  for j in 0..m:
    u[(t + 1)%2, j] = w[1]*x[t*m + j]
    y[t, j] += u[t%2, j]
)");
}

TEST(Comfort, ExtentsOfANewShapeComeInAnyOrder) {
  ProgramBuilder p("p");
  const Value n = p.size("n"), m = p.size("m");
  const ArrayHandle x = p.input<float>("x", {2 * n * (m + 1)}), y = p.output<float>("y", {1});
  y(0) = x.reshaped({m + 1, n, 2})(1, 2, 0) + x.reshaped({n * (m + 1), 2})(3, 1);
  EXPECT_CONTAINS(message_of([&] { x.reshaped({m, n, 2}); }), "reshaped() to m*n*2 elements");
  EXPECT_CONTAINS(p.build().str(), "y[0] = x[(n + 2)*2] + x[7]");
}

TEST(Comfort, MistakesNameTheArray) {
  ProgramBuilder p("p");
  const Value n = p.size("n");
  const ArrayHandle x = p.input<float>("x", {n}), y = p.inout<float>("y", {n, n});
  EXPECT_CONTAINS(message_of([&] { x.reshaped({n, 2}); }), "reshaped() to n*2 elements of an array of n");
  EXPECT_CONTAINS(message_of([&] { y.reshaped({n * n}); }), "reshaped() of an array of rank 2");
  EXPECT_CONTAINS(message_of([&] { y.row(0)(1, 2) = 0; }), "'y'");
  EXPECT_CONTAINS(message_of([&] { x.reshaped({n, 1})(0) = 0; }), "1 indices for 2 dimensions");
  EXPECT_CONTAINS(message_of([&] { x.reshaped({n, 1}).row(0).extent(1); }), "dimension 1 of a view of rank 1");
  EXPECT_CONTAINS(message_of([&] { y.row(0).row(0).row(0).rank(); }), "rows of 3 dimensions of a view of rank 2");
  EXPECT_CONTAINS(message_of([&] { p.ring<float>("u", 0, {n}); }), "a ring of 0 buffers");
  Value nothing;
  EXPECT_CONTAINS(message_of([&] { y(0, 0) = nothing; }), "Value");
}

}  // namespace
}  // namespace loopgrad

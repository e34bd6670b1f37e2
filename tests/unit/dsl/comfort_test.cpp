// Shorter ways to write programs: what they record.

#include <loopgrad/error.h>
#include <loopgrad/program.h>

#include <gtest/gtest.h>

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

#include "dsl/ir/visit.h"
#include "dsl/poly/dependences.h"

#include <loopgrad/program.h>

#include <gtest/gtest.h>

namespace loopgrad::poly {
namespace {

/// For each loop of the program, from the outermost, whether its iterations are apart: "1", or not: "0".
std::string loops_apart(const Program& program) {
  const Model model = build_model(program.ir(), program.ir().body, std::make_shared<Context>());
  std::string result;
  ir::walk_stmts(program.ir().body, [&](const ir::Stmt& s) {
    if (s.kind() == ir::Kind::For) result += carried_by(model, s).empty() ? "1" : "0";
  });
  return result;
}

/// Of a nest over i in 0..h and j in 0..`columns`, which writes y, of h*w elements, at `index`.
template <class Columns, class Index>
std::string rows_apart(Columns columns, Index index) {
  ProgramBuilder p("rows");
  auto h = p.size("h"), w = p.size("w");
  auto y = p.output<float>("y", {h * w});
  for (auto i : p.loop("i", h))
    for (auto j : p.loop("j", columns(w, i))) y(index(i, j, h, w)) = 0.5f;
  return loops_apart(p.build());
}

const auto all_columns = [](auto w, auto) { return w; };

TEST(Separation, RowsOfAFlatArray) {
  EXPECT_EQ(rows_apart(all_columns, [](auto i, auto j, auto, auto w) { return i * w + j; }), "11");
  EXPECT_EQ(rows_apart(all_columns, [](auto i, auto j, auto h, auto w) { return (h - 1 - i) * w + (w - 1 - j); }),
            "11");
  EXPECT_EQ(rows_apart(all_columns, [](auto i, auto j, auto, auto w) { return i * w + (j + 1) % w; }), "10");
  EXPECT_EQ(
      rows_apart([](auto w, auto i) { return min(i + 1, w); }, [](auto i, auto j, auto, auto w) { return i * w + j; }),
      "11");
  EXPECT_EQ(rows_apart(all_columns, [](auto i, auto j, auto h, auto) { return j * h + i; }), "11") << "by columns";
}

TEST(Separation, RowsThatMayMeet) {
  const auto row = [](auto i, auto j, auto, auto w) { return i * w + j; };
  EXPECT_EQ(rows_apart([](auto w, auto) { return w + 1; }, row), "01") << "one column more";
  EXPECT_EQ(rows_apart([](auto w, auto i) { return w + i; }, row), "01");
  EXPECT_EQ(rows_apart(all_columns, [](auto i, auto j, auto, auto w) { return i * (w - 1) + j; }), "01");
  EXPECT_EQ(rows_apart(all_columns, [](auto i, auto j, auto, auto w) { return (i + j) * w + j; }), "01");
  EXPECT_EQ(rows_apart(all_columns, [](auto i, auto j, auto, auto w) { return i * w + 2 * j; }), "00");
}

TEST(Separation, RowsWithoutAnyLengthAreOne) {
  ProgramBuilder p("one");
  auto n = p.size("n"), w = p.size("w");
  auto y = p.output<float>("y", {n}), z = p.output<float>("z", {n * w});
  for (auto i : p.loop("i", n)) y(i * w) = 0.5f;  // w may be 0
  for (auto i : p.loop("j", n)) z(i * w) = 0.5f;  // then z has no elements
  EXPECT_EQ(loops_apart(p.build()), "01");
}

TEST(Separation, EachDigitOfAPosition) {
  ProgramBuilder p("digits");
  auto n = p.size("n"), h = p.size("h"), w = p.size("w");
  auto y = p.output<float>("y", {n * h * w * 3});
  for (auto k : p.loop("k", n))
    for (auto j : p.loop("j", w))
      for (auto i : p.loop("i", h))
        for (auto c : p.loop("c", 3)) y(((k * h + i) * w + j) * 3 + c) = 0.5f;
  EXPECT_EQ(loops_apart(p.build()), "1111");
}

TEST(Separation, OneDigitMovesAndTheOthersDiffer) {
  ProgramBuilder p("other");
  auto h = p.size("h"), w = p.size("w");
  auto y = p.inout<float>("y", {h * w});
  for (auto i : p.loop("i", h)) {
    for (auto j : p.loop("j", w)) y(i * w + j) = 0.5f * y(i * w + max(j - 1, 0));  // of its own row
    for (auto j : p.loop("k", w)) y(i * w + j) += 0.5f;
  }
  for (auto i : p.loop("i1", h))
    for (auto j : p.loop("j1", w)) y(i * w + j) += 0.5f * y(max(i - 1, 0) * w + j);
  EXPECT_EQ(loops_apart(p.build()), "10101");
}

}  // namespace
}  // namespace loopgrad::poly

#include "dsl/poly/dependences.h"

#include "dsl/ir/visit.h"

#include <loopgrad/program.h>

#include <gtest/gtest.h>

namespace loopgrad::poly {
namespace {

struct Loops {
  Model model;
  std::vector<ir::Stmt> loops;  // in textual order
};

Loops loops_of(const Program& program) {
  Loops result{build_model(program.ir(), program.ir().body, std::make_shared<Context>()), {}};
  ir::walk_stmts(program.ir().body, [&](const ir::Stmt& s) {
    if (s.kind() == ir::Kind::For) result.loops.push_back(s);
  });
  return result;
}

std::vector<Conflict> carried(const Loops& l, std::size_t loop) { return carried_by(l.model, l.loops[loop]); }

TEST(Dependences, SumsAreToldFromOrdinaryOnes) {
  ProgramBuilder p("adjoint");
  auto n = p.size("n"), k = p.size("k");
  auto dy = p.input<float>("dy", {n});
  auto dx = p.output<float>("dx", {n + k - 1});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, k)) dx(i + j) += dy(i);
  Loops l = loops_of(p.build());
  auto outer = carried(l, 0);
  ASSERT_EQ(outer.size(), 1u);
  EXPECT_TRUE(outer[0].sum);
  EXPECT_TRUE(carried(l, 1).empty());
}

TEST(Dependences, RecurrenceHasAWitness) {
  ProgramBuilder p("prefix");
  auto n = p.size("n");
  auto x = p.inout<float>("x", {n});
  for (auto i : p.loop("i", 1, n)) x(i) = x(i - 1) * 2.0f;
  Loops l = loops_of(p.build());
  auto outer = carried_by(l.model, l.loops[0], Search::UntilNotASum);
  ASSERT_EQ(outer.size(), 1u);
  EXPECT_FALSE(outer[0].sum);
  std::string text = describe(l.model, outer[0]);
  EXPECT_NE(text.find("x[i]"), std::string::npos) << text;
  EXPECT_NE(text.find("x[i - 1]"), std::string::npos) << text;
  EXPECT_NE(text.find("i = 1 and i = 2"), std::string::npos) << text;
  auto all = dependences(l.model);
  ASSERT_EQ(all.size(), 1u);  // write then read of the next iteration; nothing else
  EXPECT_EQ(all[0].b->kind, AccessKind::Read);
}

/// Whether iterations of a loop over i in 0..n write elements of their own at what `index` gives for i and n.
template <class Index>
bool has_elements_of_its_own(Index index) {
  ProgramBuilder p("pushed");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) y(index(i, n)) = x(i);
  const Loops l = loops_of(p.build());
  return carried(l, 0).empty();
}

/// Whether places in rows, which begin where data say, are apart: by the index or a name for it, and where the loop
/// itself moves the beginning.
enum class Start { Index, Named, Moving, Inside };
bool have_places_of_their_own(Start start) {
  ProgramBuilder p("rows");
  auto n = p.size("n"), m = p.size("m");
  auto first = p.inout<int>("first", {n});
  auto y = p.inout<float>("y", {m});
  for (auto r : p.loop("r", n)) {
    auto named = p.let("named", first(r));
    for (auto k : p.loop("k", m)) {
      const Value begin = start == Start::Named ? Value(named) : first(start == Start::Inside ? k : r);
      y(begin + k) = 0.5f;
      if (start == Start::Moving) first(r) += 1;
    }
  }
  const Loops l = loops_of(p.build());
  EXPECT_FALSE(carried(l, 0).empty());
  return carried(l, 1).empty();
}

TEST(Dependences, PlacesFromWhereDataSayThatARowBegins) {
  EXPECT_TRUE(have_places_of_their_own(Start::Index));
  EXPECT_TRUE(have_places_of_their_own(Start::Named));
  EXPECT_FALSE(have_places_of_their_own(Start::Moving));
  EXPECT_FALSE(have_places_of_their_own(Start::Inside));
}

TEST(Dependences, RemaindersBySizesWithinAFewPeriods) {
  EXPECT_TRUE(has_elements_of_its_own([](auto i, auto n) { return (i + 1) % n; }));
  EXPECT_TRUE(has_elements_of_its_own([](auto i, auto n) { return (i + n - 1) % n; }));
  EXPECT_TRUE(has_elements_of_its_own([](auto i, auto n) { return (n - 1 - i + 2) % n; }));
  EXPECT_FALSE(has_elements_of_its_own([](auto i, auto n) { return (2 * i) % n; })) << "0 and n/2 meet";
  EXPECT_FALSE(has_elements_of_its_own([](auto i, auto n) { return (i + 7) % n; })) << "not proved for n = 1 and 2";
  EXPECT_FALSE(has_elements_of_its_own([](auto i, auto n) { return min(i % n, n - 2); }));
}

/// Whether iterations of a loop over i in 0..n write elements of their own at what `index` gives for i, n and c in
/// 0..`planes`.
template <class Index>
bool has_planes_of_its_own(int planes, Index index) {
  ProgramBuilder p("planes");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n});
  auto y = p.output<float>("y", {40 * n});
  for (auto i : p.loop("i", 0, n))
    for (auto c : p.loop("c", 0, planes)) y(index(i, c, n)) = x(i);
  const Loops l = loops_of(p.build());
  return carried(l, 0).empty() && carried(l, 1).empty();
}

TEST(Dependences, ProductsOfASizeByFewNumbers) {
  EXPECT_TRUE(has_planes_of_its_own(8, [](auto i, auto c, auto n) { return c * n + i; }));
  EXPECT_TRUE(has_planes_of_its_own(8, [](auto i, auto c, auto n) { return n * (2 * c + 1) - 1 - i; }));
  EXPECT_TRUE(has_planes_of_its_own(3, [](auto i, auto c, auto n) { return (2 - c) * (n + 5) + i; }));
  EXPECT_FALSE(has_planes_of_its_own(3, [](auto i, auto c, auto n) { return c * (n - 1) + i; }))
      << "the last, the first";
  EXPECT_FALSE(has_planes_of_its_own(3, [](auto i, auto c, auto n) { return c * n + 2 * i; }));
  EXPECT_TRUE(has_planes_of_its_own(30, [](auto i, auto c, auto n) { return c * n + i; }));
}

/// All entries of each row, or from and to some that many further on.
Loops loops_over_rows(bool is_csr, int from = 0, int to = 0) {
  ProgramBuilder p("rows");
  auto rows = p.size("rows"), entries = p.size("entries");
  auto ptr = p.input<int>("ptr", {rows + 1});
  auto y = p.inout<float>("y", {entries});
  if (is_csr) p.csr(ptr, entries);
  for (auto r : p.loop("r", 0, rows))
    for (auto e : p.loop("e", ptr(r) + from, ptr(r + 1) + to)) y(e) = y(e) * 2.0f;
  return loops_of(p.build());
}

TEST(Dependences, CsrRowsAreDisjoint) {
  Loops l = loops_over_rows(true);
  EXPECT_TRUE(carried(l, 0).empty());
  EXPECT_TRUE(carried(l, 1).empty());
}

TEST(Dependences, PartsOfCsrRowsAreDisjointAndOneEntryMoreIsNot) {
  EXPECT_TRUE(carried(loops_over_rows(true, 1, 0), 0).empty());
  EXPECT_TRUE(carried(loops_over_rows(true, 2, -1), 0).empty());
  EXPECT_FALSE(carried(loops_over_rows(true, 0, 1), 0).empty());
  EXPECT_FALSE(carried(loops_over_rows(true, -1, 0), 0).empty());
}

/// Cells of a grid, numbered row by row; `columns` of `more` more than the grid has.
Loops loops_over_cells(int more, bool other_rows = false) {
  ProgramBuilder p("cells");
  auto n = p.size("n"), m = p.size("m"), h = p.size("h"), entries = p.size("entries");
  auto ptr = p.input<int>("ptr", {(n + 2) * m * h + 1});
  auto y = p.inout<float>("y", {entries});
  p.csr(ptr, entries);
  for (auto a : p.loop("a", 0, n))
    for (auto b : p.loop("b", 0, m + more))
      for (auto c : p.loop("c", 0, h)) {
        auto cell = (Value(a) * m + b) * h + (h - 1 - c);
        for (auto e : p.loop("e", ptr(cell), ptr(cell + 1))) y(e) = y(e) * 2.0f;
        if (other_rows)
          for (auto e : p.loop("e", ptr(a * m + b), ptr(a * m + b + 1))) y(e) += 1.0f;
      }
  return loops_of(p.build());
}

TEST(Dependences, RowsThatAreCellsOfAGridAreDisjoint) {
  const Loops l = loops_over_cells(0);
  for (const int loop : {0, 1, 2, 3}) EXPECT_TRUE(carried(l, loop).empty()) << loop;
  EXPECT_FALSE(carried(loops_over_cells(1), 0).empty()) << "the cell after the last of a row is the first of the next";
  EXPECT_FALSE(carried(loops_over_cells(0, true), 0).empty()) << "numbered in another way";
}

TEST(Dependences, WithoutTheFactRowsMayOverlap) { EXPECT_FALSE(carried(loops_over_rows(false), 0).empty()); }

Program scatter(bool injective) {
  ProgramBuilder p("scatter");
  auto n = p.size("n");
  auto perm = p.input<int>("perm", {n});
  auto x = p.input<float>("x", {n});
  auto y = p.output<float>("y", {n});
  if (injective) p.injective(perm);
  for (auto i : p.loop("i", 0, n)) y(perm(i)) = x(i);
  return p.build();
}

TEST(Dependences, InjectiveIndicesDoNotCollide) {
  EXPECT_TRUE(carried(loops_of(scatter(true)), 0).empty());
  EXPECT_FALSE(carried(loops_of(scatter(false)), 0).empty());
}

TEST(Dependences, AliasesConflictEverywhere) {
  for (bool alias : {false, true}) {
    ProgramBuilder p("alias");
    auto n = p.size("n");
    auto x = p.input<float>("x", {n});
    auto y = p.output<float>("y", {n});
    if (alias) p.may_alias(x, y);
    for (auto i : p.loop("i", 0, n)) y(i) = x(i);
    EXPECT_EQ(carried(loops_of(p.build()), 0).empty(), !alias);
  }
}

TEST(Dependences, DoubleBufferedTimeLoop) {
  ProgramBuilder p("stencil");
  auto n = p.size("n"), steps = p.size("steps");
  auto u = p.inout<float>("u", {n});
  auto v = p.inout<float>("v", {n});
  for (auto t : p.loop("t", 0, steps)) {
    (void)t;
    for (auto i : p.loop("i", 1, n - 1)) v(i) = u(i - 1) + u(i + 1);
    for (auto i : p.loop("i", 0, n)) u(i) = v(i);
  }
  Loops l = loops_of(p.build());
  EXPECT_FALSE(carried(l, 0).empty());
  EXPECT_TRUE(carried(l, 1).empty());
  EXPECT_TRUE(carried(l, 2).empty());
}

}  // namespace
}  // namespace loopgrad::poly

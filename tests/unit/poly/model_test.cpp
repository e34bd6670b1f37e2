#include "dsl/poly/dependences.h"

#include <loopgrad/program.h>

#include <gtest/gtest.h>

namespace loopgrad::poly {
namespace {

Model model_of(const Program& program) {
  return build_model(program.ir(), program.ir().body, std::make_shared<Context>());
}

isl::set set_of(const Model& model, const std::string& text) { return isl::set(model.context->isl(), text); }

TEST(Model, DomainsScheduleAndAccesses) {
  ProgramBuilder p("conv1d");
  auto n = p.size("n"), k = p.size("k");
  auto x = p.input<float>("x", {n + k - 1});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    y(i) = 0.0f;
    for (auto j : p.loop("j", 0, k)) y(i) += x(i + j);
  }
  Model model = model_of(p.build());
  ASSERT_EQ(model.statements.size(), 2u);
  const Statement& sum = model.statements[1];
  EXPECT_TRUE(sum.exact);
  EXPECT_EQ(sum.iterators.size(), 2u);
  ASSERT_EQ(sum.accesses.size(), 2u);
  EXPECT_EQ(sum.accesses[0].kind, AccessKind::Read);
  EXPECT_EQ(sum.accesses[1].kind, AccessKind::Reduce);
  EXPECT_TRUE(sum.accesses[0].exact);
  EXPECT_TRUE(isl_map_is_single_valued(sum.accesses[0].relation.get()));
  // Of one iteration of i, y(i) = 0 comes first.
  EXPECT_TRUE(executed_before(model, 0, 1).is_equal(isl::map(model.context->isl(), "{ S0[i] -> S1[k, j] : i <= k }")));
  EXPECT_TRUE(executed_before(model, 1, 0).is_equal(isl::map(model.context->isl(), "{ S1[i, j] -> S0[k] : i < k }")));
}

TEST(Model, FactsBoundWhatAnIndirectIndexReaches) {
  ProgramBuilder p("gather");
  auto n = p.size("n");
  auto idx = p.input<int>("idx", {n});
  auto x = p.input<float>("x", {100});
  auto y = p.output<float>("y", {n});
  p.in_range(idx, 3, 7);
  for (auto i : p.loop("i", 0, n)) y(i) = x(idx(i) * 2);
  Model model = model_of(p.build());
  const Access& read = model.statements[0].accesses[1];
  EXPECT_EQ(read.array->name, "x");
  EXPECT_FALSE(read.exact);
  isl::set reached = read.relation.range();
  isl::set expected = set_of(model, "{ [e] : 6 <= e <= 12 and e mod 2 = 0 }");
  expected = isl::manage(isl_set_set_tuple_id(expected.release(), isl_set_get_tuple_id(reached.get())));
  EXPECT_TRUE(reached.subtract(expected).is_empty());
  EXPECT_TRUE(expected.subtract(isl::manage(isl_set_project_out_all_params(reached.release()))).is_empty());
}

TEST(Model, CsrLoopsKnowTheirRows) {
  ProgramBuilder p("csr");
  auto rows = p.size("rows"), entries = p.size("entries");
  auto ptr = p.input<int>("ptr", {rows + 1});
  auto y = p.output<float>("y", {entries});
  p.csr(ptr, entries);
  for (auto r : p.loop("r", 0, rows))
    for (auto e : p.loop("e", ptr(r), ptr(r + 1))) y(e) = 1.0f;
  Model model = model_of(p.build());
  ASSERT_EQ(model.statements.size(), 2u);  // the header of the inner loop reads ptr
  const Statement& header = model.statements[0];
  const Statement& write = model.statements[1];
  EXPECT_EQ(header.accesses.size(), 2u);
  EXPECT_FALSE(write.exact);
  EXPECT_TRUE(write.exact_but_csr);
  ASSERT_EQ(write.entries.size(), 1u);
  isl::map same_element = touching_pairs(model, write, write.accesses[0], write, write.accesses[0]);
  isl::map possible = same_element.intersect(possible_pairs(write, write));
  EXPECT_TRUE(possible.is_subset(isl::manage(isl_set_identity(write.domain.copy()))));
}

TEST(Model, ElementsAtOneOffsetThatIsReadAreApart) {
  const auto touching = [](bool moves) {
    ProgramBuilder p("offsets");
    auto n = p.size("n"), m = p.size("m"), k = p.size("k");
    auto from = p.input<int>("from", {n}), place = p.input<int>("place", {k, m});
    p.in_range(from, 0, k);
    auto y = p.output<float>("y", {1000});
    for (auto i : p.loop("i", 0, n))
      for (auto j : p.loop("j", 0, m)) y(j + place(from(i), moves ? Value(j) : Value(0)) * 2) = 1.0f;
    Model model = model_of(p.build());
    const Statement& write = model.statements.back();
    return touching_pairs(model, write, write.accesses.back(), write, write.accesses.back());
  };
  const auto of_one_row = [](isl::map pairs) {
    return isl::manage(isl_map_equate(pairs.release(), isl_dim_in, 0, isl_dim_out, 0));
  };
  const isl::map fixed = of_one_row(touching(false)), moving = of_one_row(touching(true));
  const auto is_identity = [](const isl::map& pairs) {
    return isl_map_is_subset(pairs.get(), isl::manage(isl_set_identity(pairs.domain().release())).get()) ==
           isl_bool_true;
  };
  EXPECT_TRUE(is_identity(fixed));
  EXPECT_FALSE(is_identity(moving)) << "the offset is another one for each j";
  EXPECT_FALSE(is_identity(touching(false))) << "rows may meet";
}

TEST(Model, LocalsAreOneEntryPerIteration) {
  ProgramBuilder p("locals");
  auto n = p.size("n");
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto t = p.scalar<float>("t");
    t = 1.0f;
    y(i) = t;
  }
  Model model = model_of(p.build());
  const Access& write = model.statements[0].accesses[0];
  EXPECT_EQ(isl_map_dim(write.relation.get(), isl_dim_out), 1);
  EXPECT_TRUE(write.relation.is_injective());
}

TEST(Model, ConditionsAndWhilesAreInexact) {
  ProgramBuilder p("control");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    p.when(i > 3, [&] { y(i) = 1.0f; }).otherwise([&] { y(i) = 2.0f; });
    p.when(x(i) > 0.0f, [&] { y(i) = 3.0f; });
  }
  Model model = model_of(p.build());
  ASSERT_EQ(model.statements.size(), 4u);
  EXPECT_TRUE(model.statements[0].exact);
  EXPECT_TRUE(model.statements[0].domain.is_disjoint(model.statements[1].domain));
  EXPECT_EQ(model.statements[2].stmt.kind(), ir::Kind::If);  // the header that reads x
  EXPECT_FALSE(model.statements[3].exact);
}

// Each condition doubles the cases in which what is below it is executed.
TEST(Model, ManyCasesAreNotToldApart) {
  ProgramBuilder p("cases");
  auto n = p.size("n"), m = p.size("m");
  auto y = p.output<float>("y", {n, n});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, n))
      for (auto k : p.loop("k", 0, n))
        for (auto l : p.loop("l", 0, n))
          for (auto o : p.loop("o", 0, n)) {
            const auto some = i != m && j != m && k != m && l != m;
            p.when(some, [&] {
              y(i, o) = 1.0f;
              p.when(o != m, [&] { y(i, o) = 2.0f; });
            });
          }
  Model model = model_of(p.build());
  ASSERT_EQ(model.statements.size(), 2U);
  EXPECT_TRUE(model.statements[0].exact);
  EXPECT_FALSE(model.statements[1].exact);
  EXPECT_TRUE(model.statements[1].exact_bounds);
  EXPECT_LE(isl_set_n_basic_set(model.statements[1].domain.get()), 24);
}

}  // namespace
}  // namespace loopgrad::poly

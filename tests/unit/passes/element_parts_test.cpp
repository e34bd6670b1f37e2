// Elements that scalars may stand for, and locals that keep sums from being products: each analysis alone.
#include "tests/unit/passes/parts.h"
#include "transforms/analysis/nest.h"
#include "transforms/storage/elements_in_scalars.h"
#include "transforms/storage/old_value.h"
#include "transforms/sums/contractions/kept_locals.h"

#include <gtest/gtest.h>

namespace loopgrad::transforms {
namespace {

/// The element of the array of this name among those that the body of the first loop stores to, if it is one.
std::optional<Element> find_element(const ir::Program& program, const std::string& name) {
  const ir::Stmt body = first<ir::For>(program.body).as<ir::For>()->body;
  for (const Element& e : ScalarElements(program).of({body}))
    if (e.array->name == name) return e;
  return std::nullopt;
}

Element element_of(const ir::Program& program, const std::string& name) { return find_element(program, name).value(); }

OldValue old_value_of(const ir::Program& program, const std::string& name) {
  const ir::Stmt body = first<ir::For>(program.body).as<ir::For>()->body;
  return old_value(body, element_of(program, name), {});
}

constexpr const char* scalar_and_rows = R"(
    program p(n)
      input  f32 x[n]
      inout  f32 s
      inout  f32 y[n]
  )";

TEST(OldValue, IsNeededWhereAConditionHolds) {
  const OldValue old = old_value_of(program_of(scalar_and_rows, R"(
    for i in 0..n:
      if i > 0:
        s += y[2]
      y[2] = x[i]
  )"),
                                    "y");
  ASSERT_TRUE(old.when);
  EXPECT_EQ(ir::print(old.when), "i > 0");
  EXPECT_TRUE(old.is_exact);
  EXPECT_FALSE(old.is_sure());
}

TEST(OldValue, IsNeededByASumInAnyCase) {
  EXPECT_TRUE(old_value_of(program_of(scalar_and_rows, "for i in 0..n:\n  y[2] += x[i]\n"), "y").is_sure());
}

TEST(OldValue, IsNotNeededOnceItIsOverwritten) {
  const OldValue old = old_value_of(program_of(scalar_and_rows, R"(
    for i in 0..n:
      y[2] = x[i]
      s += y[2]
      y[2] += 1
  )"),
                                    "y");
  EXPECT_FALSE(old.when);
}

TEST(ElementsInScalars, SaysWhatStatementsDoWithAnElement) {
  const ir::Program program = program_of(scalar_and_rows, R"(
    for i in 0..n:
      y[2] = x[i]
      if x[i] > 0:
        y[2] += x[i]
  )");
  const Element e = element_of(program, "y");
  EXPECT_TRUE(e.fits);
  EXPECT_TRUE(e.certain);
  EXPECT_TRUE(e.starts_new);
  EXPECT_TRUE(e.assigns);
  EXPECT_EQ(e.stores, 2);
  EXPECT_EQ(e.sums, std::set<ir::ReduceOp>{ir::ReduceOp::Add});
}

TEST(ElementsInScalars, DoNotFitWhereAnotherAccessMayBeThem) {
  const ir::Program program = program_of(scalar_and_rows, R"(
    for i in 0..n:
      y[2] += x[i]
      s = y[i]
  )");
  EXPECT_FALSE(find_element(program, "y"));
  EXPECT_TRUE(element_of(program, "s").fits);
}

/// Scalars over what stores to an element more than once, wherever that is.
void expect_in_scalars(const std::string& before, const std::string& after) {
  const ir::Program program = program_of(scalar_and_rows, before);
  ScalarPolicy policy;
  policy.pays = [](const Element& e) { return e.stores > 1; };
  policy.name = [](const Element& e) { return e.array->name + "_now"; };
  policy.descends = [](const ir::For&) { return true; };
  expect_body(program, ScalarElements(program).in_scalars(program.body, policy), scalar_and_rows, after);
}

TEST(ElementsInScalars, StandOverABlock) {
  expect_in_scalars(R"(
    for i in 0..n:
      y[i] += x[i]
      y[i] += x[i]*x[i]
  )",
                    R"(
    for i in 0..n:
      local f32 y_now
      y_now = y[i]
      y_now += x[i]
      y_now += x[i]*x[i]
      y[i] = y_now
  )");
}

TEST(ElementsInScalars, StandOverALoopThatMakesATrip) {
  expect_in_scalars(R"(
    for i in 0..n:
      y[2] += x[i]
      y[2] += x[i]*x[i]
  )",
                    R"(
    if 0 < n:
      local f32 y_now
      y_now = y[2]
      for i in 0..n:
        y_now += x[i]
        y_now += x[i]*x[i]
      y[2] = y_now
  )");
}

// ---- locals of products ----

constexpr const char* factors = R"(
    program p(m, n, k)
      input  f32 a[m, k]
      input  f32 b[k, n]
      output f32 c[m, n]
  )";

struct ProductLocals {
  std::vector<std::string> of_products;  // names
  bool may_help = false;                 // all locals of the nest together
};

ProductLocals kept_in(const ir::Program& program) {
  LowerOptions options;
  Report report;
  PassContext context{options, report};
  ProductLocals result;
  for (const ir::Array& array : locals_of_products(program, program.body, context))
    result.of_products.push_back(array->name);
  std::vector<ir::Array> all;
  for (const LocalArray& local : locals_of(program.body)) all.push_back(local.array);
  result.may_help = may_help_products(program.body, all);
  return result;
}

TEST(KeptLocals, OfAProductInAScalar) {
  const ProductLocals kept = kept_in(program_of(factors, R"(
    for i in 0..m:
      for j in 0..n:
        local f32 s
        s = 0
        for l in 0..k:
          s += a[i, l]*b[l, j]
        c[i, j] = tanh(s)
  )"));
  EXPECT_EQ(kept.of_products, std::vector<std::string>{"s"});
  EXPECT_TRUE(kept.may_help);
}

TEST(KeptLocals, DoNotHelpWhereNoThreeLoopsAreRowsColumnsAndDepth) {
  // The weight of a row is in every product: no loop is in just that row and the sum.
  const ProductLocals kept = kept_in(program_of(factors, R"(
    for i in 0..m:
      for j in 0..n:
        local f32 s
        s = 0
        for l in 0..k:
          s += a[i, l]*a[i, l]
        c[i, j] = tanh(s)
  )"));
  EXPECT_EQ(kept.of_products, std::vector<std::string>{"s"});
  EXPECT_FALSE(kept.may_help);
}

}  // namespace
}  // namespace loopgrad::transforms

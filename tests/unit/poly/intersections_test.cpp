#include "dsl/poly/intersections.h"

#include "dsl/poly/isl_bridge.h"

#include <gtest/gtest.h>

namespace loopgrad::poly {
namespace {

/// Sets and maps of several pieces, with parameters that only some of them mention, in different orders.
class Intersections : public testing::Test {
 protected:
  isl::set set(const std::string& text) const { return isl::set(context_.isl(), text); }
  isl::map map(const std::string& text) const { return isl::map(context_.isl(), text); }

 private:
  Context context_;
};

TEST_F(Intersections, AreThoseOfIsl) {
  const isl::set sets[] = {set("[n] -> { S[i, j] : 0 <= i < n and j = i }"),
                           set("[m, n] -> { S[i, j] : 0 <= i < m or (j < n and i mod 3 = 1) }"),
                           set("{ S[i, j] : i = 2 or j >= 5 or i + j = -7 }"), set("{ S[i, j] : false }")};
  for (const isl::set& a : sets)
    for (const isl::set& b : sets) EXPECT_TRUE(intersection(a, b).is_equal(a.intersect(b)));
  const isl::map maps[] = {map("[n] -> { S[i] -> T[i + n] : i >= 0 }"),
                           map("[m] -> { S[i] -> T[j] : j < i or (j > m and i < 0) }"),
                           map("{ S[i] -> T[j] : 2j = i or j = 3 }")};
  for (const isl::map& a : maps) {
    for (const isl::map& b : maps) EXPECT_TRUE(intersection(a, b).is_equal(a.intersect(b)));
    for (const char* text : {"[n] -> { S[i] : i < n or i = 100 }", "{ S[i] : i mod 2 = 0 }"})
      EXPECT_TRUE(with_domain(a, set(text)).is_equal(a.intersect_domain(set(text))));
    for (const char* text : {"[m, n] -> { T[j] : n <= j < m }", "{ T[j] : j = 3 or j = 4 }"})
      EXPECT_TRUE(with_range(a, set(text)).is_equal(a.intersect_range(set(text))));
    for (const char* text : {"[n] -> { : n > 3 }", "[m, n] -> { : m = n or m > 2n }"})
      EXPECT_TRUE(with_parameters(a, set(text)).is_equal(a.intersect_params(set(text))));
  }
}

TEST_F(Intersections, OfManyPiecesDropTheEmptyOnes) {
  const isl::set even = set("{ S[i] : false }");
  isl::set points = even, others = even;
  for (int k = 0; k < 40; ++k) {
    points = points.unite(set("{ S[" + std::to_string(3 * k) + "] }"));
    others = others.unite(set("{ S[" + std::to_string(5 * k) + "] }"));
  }
  const isl::set both = intersection(points, others);
  EXPECT_TRUE(both.is_equal(points.intersect(others)));
  EXPECT_LE(isl_set_n_basic_set(both.get()), 40);
}

TEST_F(Intersections, OfWhatIsEmptyAndHasOtherParametersAreEmpty) {
  const isl::set nothing = isl::manage(isl_set_lower_bound_si(set("{ S[1] }").release(), isl_dim_set, 0, 2));
  ASSERT_EQ(isl_set_n_basic_set(nothing.get()), 1);  // a piece that aligning drops
  EXPECT_TRUE(intersection(nothing, set("[n] -> { S[n] }")).is_empty());
  EXPECT_TRUE(intersection(set("[n] -> { S[n] }"), nothing).is_empty());
}

TEST_F(Intersections, WithNothingLeftAreEmpty) {
  const isl::set a = set("[n] -> { S[i] : n <= i < n + 5 }"), b = set("[n] -> { S[i] : 2i = 2n + 11 or i > n + 7 }");
  EXPECT_TRUE(intersection(a, b).is_empty());
}

}  // namespace
}  // namespace loopgrad::poly

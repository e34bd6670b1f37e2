#include "dsl/poly/extremes.h"

#include <gtest/gtest.h>

namespace loopgrad::poly {
namespace {

class Extremes : public testing::Test {
 protected:
  isl::set set(const std::string& text) const { return isl::set(context_.isl(), text); }
  void expect(const std::optional<isl::pw_aff>& found, const std::string& text) const {
    ASSERT_TRUE(found.has_value()) << text;
    const isl::pw_aff expected(context_.isl(), text);
    EXPECT_EQ(isl_pw_aff_is_equal(found->get(), expected.get()), isl_bool_true) << text;
  }
  Context context_;
};

TEST_F(Extremes, AreThoseOfOneDimension) {
  const isl::set triangle = set("[n] -> { [i, j] : 0 <= i < n and i <= j < n }");
  expect(least_of(context_, triangle, 0), "[n] -> { [0] : n > 0 }");
  expect(greatest_of(context_, triangle, 1), "[n] -> { [n - 1] : n > 0 }");
}

TEST_F(Extremes, CountIntegersThatOnlyExist) {
  const isl::set even = set("[n] -> { [i] : 0 <= i < n and i mod 2 = 0 }");
  expect(greatest_of(context_, even, 0), "[n] -> { [2*floor((n - 1)/2)] : n > 0 }");
  const isl::set block = set("[n] -> { [i] : exists b : 0 <= b < n and 8b <= i < 8b + 8 }");
  expect(greatest_of(context_, block, 0), "[n] -> { [8n - 1] : n > 0 }");
}

TEST_F(Extremes, AreNoneWithoutBounds) {
  EXPECT_FALSE(least_of(context_, set("[n] -> { [i] : i < n }"), 0));
  EXPECT_FALSE(greatest_of(context_, set("[n] -> { [i, j] : 0 <= i <= j }"), 0));
  EXPECT_FALSE(least_of(context_, set("[n] -> { [i] : 0 <= i < n or n = 7 }"), 0));
  // isl alone takes this for bounded, and fails.
  EXPECT_FALSE(least_of(context_, set("[n] -> { [i] : exists e : i <= 2e < i + n }"), 0));
  EXPECT_FALSE(greatest_of(context_, set("[n] -> { [i] : exists e : i <= 2e < i + n }"), 0));
}

}  // namespace
}  // namespace loopgrad::poly

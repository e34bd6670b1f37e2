// Sums whose value reads the element that they add to: forward mode reads its tangent as it was before.
#include <gtest/gtest.h>
#include <loopgrad/loopgrad.h>

namespace loopgrad::test {
namespace {

/// The tangent of y[0] for x = 1.5, y = 2 and 4 with the tangents t_x = 1 and t_y = 0.5 and 0.25.
double tangent_of_y(const std::function<void(ProgramBuilder&, const ArrayHandle&, const ArrayHandle&)>& record) {
  ProgramBuilder p("own_target");
  auto x = p.input<double>("x", {});
  auto y = p.inout<double>("y", {2});
  record(p, x, y);
  double x_value = 1.5, t_x = 1;
  std::vector<double> y_values = {2, 4}, t_y = {0.5, 0.25};
  compile(tangent(p.build()), {.target = Target::Interpreter, .checked = true})
      .run({{"x", view(&x_value, {})},
            {"y", view(y_values.data(), {2})},
            {"t_x", view(&t_x, {})},
            {"t_y", view(t_y.data(), {2})}});
  return t_y[0];
}

TEST(OwnTarget, AProductWithIt) {
  // (1 + x) t_y + y t_x
  EXPECT_DOUBLE_EQ(tangent_of_y([](auto&, auto& x, auto& y) { y(0) += x() * y(0); }), 3.25);
  EXPECT_DOUBLE_EQ(tangent_of_y([](auto&, auto& x, auto& y) { y(0) += y(0) * x(); }), 3.25);
  EXPECT_DOUBLE_EQ(tangent_of_y([](auto&, auto& x, auto& y) { y(0) -= x() * y(0); }), -2.25);
}

TEST(OwnTarget, ItsSquare) {
  EXPECT_DOUBLE_EQ(tangent_of_y([](auto&, auto&, auto& y) { y(0) += y(0) * y(0); }), 2.5);
}

TEST(OwnTarget, MayBeOneOfSeveral) {
  const auto all = [](ProgramBuilder& p, auto& x, auto& y) {
    for (auto i : p.loop("i", 2))
      for (auto j : p.loop("j", 2)) y(i) += x() * y(j);
  };
  // y0 = 2 + 3 = 5, t = 0.5 + 2 + 0.75 = 3.25; y0 = 5 + 6, t = 3.25 + 4 + 0.375.
  EXPECT_DOUBLE_EQ(tangent_of_y(all), 7.625);
}

}  // namespace
}  // namespace loopgrad::test

// What a program is called with, for callers that do not know it.
#include <loopgrad/loopgrad.h>

#include <gtest/gtest.h>

namespace loopgrad::test {
namespace {

Program convolution() {
  ProgramBuilder p("convolution");
  auto n = p.size("n"), k = p.size("k"), times = p.size("times");
  auto x = p.input<float>("x", {n + k - 1});
  auto w = p.input<float>("w", {k});
  auto y = p.output<double>("y", {n, k / 2});
  auto a = p.inout<float>("a", {});
  for (auto t : p.loop("t", 0, times)) {
    (void)t;
    a() *= x(0);
  }
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, k / 2)) y(i, j) = x(i) * w(j);
  return p.build();
}

TEST(Signature, HasArraysAndSizesInOrder) {
  const auto arguments = arguments_of(convolution());
  ASSERT_EQ(arguments.size(), 4u);
  EXPECT_EQ(arguments[0].name, "x");
  EXPECT_EQ(arguments[0].shape, (std::vector<std::string>{"n + k - 1"}));
  EXPECT_EQ(arguments[0].role, Role::Input);
  EXPECT_EQ(arguments[2].role, Role::Output);
  EXPECT_EQ(arguments[2].type, ScalarType::F64);
  EXPECT_EQ(arguments[3].role, Role::InOut);
  EXPECT_TRUE(arguments[3].shape.empty());
  EXPECT_TRUE(arguments[3].where.known());
  EXPECT_EQ(size_names(convolution()), (std::vector<std::string>{"n", "k", "times"}));
}

TEST(Signature, LeavesOutTapes) {
  for (const ArgumentInfo& info : arguments_of(differentiate(convolution()).backward))
    EXPECT_EQ(info.name.find("tape"), std::string::npos) << info.name;
}

TEST(Signature, ShapesFollowFromShapes) {
  const Extents extents = extents_of(convolution(), {{"x", {12}}, {"w", {5}}, {"unknown", {1, 2}}}, {{"other", 3}});
  EXPECT_EQ(extents.sizes, (Sizes{{"n", 8}, {"k", 5}}));  // `times` is in no shape
  EXPECT_EQ(extents.shapes.at("y"), (std::vector<std::int64_t>{8, 2}));
  EXPECT_EQ(extents_of(convolution(), {}, {{"n", 8}, {"k", 5}}).shapes, extents.shapes);
}

TEST(Signature, RefusesShapesThatFitNothing) {
  const auto code_of = [](const Shapes& shapes, const Sizes& sizes = {}) {
    try {
      extents_of(convolution(), shapes, sizes);
    } catch (const UsageError& error) {
      EXPECT_EQ(error.program(), "convolution");
      return error.code();
    }
    return ErrorCode::BadInput;
  };
  EXPECT_EQ(code_of({{"x", {12, 1}}, {"w", {5}}}), ErrorCode::BadShape);
  EXPECT_EQ(code_of({{"w", {5}}}), ErrorCode::BadSize);
  EXPECT_EQ(code_of({{"x", {3}}, {"w", {5}}}), ErrorCode::BadShape);
  EXPECT_EQ(code_of({{"w", {5}}}, {{"n", -1}}), ErrorCode::BadSize);
}

}  // namespace
}  // namespace loopgrad::test

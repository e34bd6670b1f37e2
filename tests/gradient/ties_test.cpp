// Of equal values the last one gets the gradient, in every variant and in forward mode (docs/numerics.md).
#include <gtest/gtest.h>
#include <loopgrad/loopgrad.h>

namespace loopgrad::test {
namespace {

/// The gradient by x of y, where x and c are equal: all of it goes to the last one.
struct Tie {
  const char* name;
  void (*record)(const Element& y, const Value& x, const Value& c);
  double by_x;
};

void PrintTo(const Tie& tie, std::ostream* out) { *out << tie.name; }

class Ties : public ::testing::TestWithParam<Tie> {};

TEST_P(Ties, GoToTheLast) {
  ProgramBuilder p("ties");
  auto x = p.input<double>("x", {1}), c = p.input<double>("c", {1});
  auto y = p.output<double>("y", {1});
  GetParam().record(y(0), x(0), c(0));
  const Program program = p.build();
  for (const Variant variant : {Variant::NaiveTape, Variant::Atomic, Variant::Restructured}) {
    const Gradient gradient = differentiate(program, {.wrt = {"x"}, .variant = variant});
    auto run = compile(gradient, {.target = Target::Interpreter, .checked = true});
    double x_value = 2, c_value = 2, y_value = 0, d_y = 1, d_x = -1;
    Arguments arrays = {{"x", view(&x_value, {1})}, {"c", view(&c_value, {1})}, {"y", view(&y_value, {1})}};
    run.forward(arrays);
    arrays["d_y"] = view(&d_y, {1});
    arrays["d_x"] = view(&d_x, {1});
    run.backward(arrays);
    EXPECT_EQ(d_x, GetParam().by_x) << name_of(variant);
  }
  double x_value = 2, c_value = 2, y_value = 0, t_x = 1, t_y = -1;
  compile(tangent(program, {.wrt = {"x"}}), {.target = Target::Interpreter, .checked = true})
      .run({{"x", view(&x_value, {1})},
            {"c", view(&c_value, {1})},
            {"y", view(&y_value, {1})},
            {"t_x", view(&t_x, {1})},
            {"t_y", view(&t_y, {1})}});
  EXPECT_EQ(t_y, GetParam().by_x) << "forward mode";
}

#define TIE(name, by_x, ...)                                                                \
  Tie {                                                                                     \
#name, [](const Element& y, const Value& x, const Value& c) { __VA_ARGS__; (void)c; }, by_x \
  }
INSTANTIATE_TEST_SUITE_P(
    All, Ties,
    ::testing::Values(TIE(max_of_first, 0, y = max(x, c)), TIE(max_of_second, 1, y = max(c, x)),
                      TIE(min_of_first, 0, y = min(x, c)), TIE(min_of_second, 1, y = min(c, x)),
                      TIE(max_with_first, 0, y = x; y.max_with(c)), TIE(max_with_second, 1, y = c; y.max_with(x)),
                      TIE(min_with_first, 0, y = x; y.min_with(c)), TIE(min_with_second, 1, y = c; y.min_with(x)),
                      TIE(against_what_was_there, 1, y = 2.0; y.max_with(x)), TIE(relu, 0, y = max(x - c, 0.0))),
    [](const auto& tie) { return std::string(tie.param.name); });

}  // namespace
}  // namespace loopgrad::test

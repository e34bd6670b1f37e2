// Gradients that the user writes for regions.
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "tests/error/expect_error.h"
#include "tests/gradient/jacobian.h"
#include "tests/support/ir_text.h"

namespace loopgrad::test {
namespace {

struct Square {
  ProgramBuilder p{"square"};
  Value n = p.size("n");
  ArrayHandle x = p.input<double>("x", {n}), w = p.input<double>("w", {n}), y = p.output<double>("y", {n});

  CustomRule rule() {
    return {.forward =
                [this] {
                  for (auto i : p.loop("i", n)) y(i) = x(i) * x(i);
                },
            .adjoint =
                [this](const Derivatives& d) {
                  for (auto i : p.loop("i", n)) d(x)(i) += 3.0 * x(i) * d(y)(i);
                }};
  }
};

TEST(CustomGradient, IsPrintedAndReadBack) {
  Square s;
  CustomRule rule = s.rule();
  rule.tangent = [&](const Derivatives& d) {
    for (auto i : s.p.loop("i", s.n)) d(s.y)(i) = d(s.x)(i);
  };
  s.p.custom_gradient({s.y}, {s.x}, rule);
  const Program program = s.p.build();
  for (const char* line : {"custom gradient of y by x:", "adjoint d_y to d_x:", "tangent d_x to d_y:"})
    EXPECT_NE(program.str().find(line), std::string::npos) << program.str();
  EXPECT_TRUE(ir::structurally_equal(ir::parse_program(program.str()), program.ir())) << program.str();
  const ir::Program fresh = ir::with_body(program.ir(), ir::with_fresh_names(program.ir().body));
  EXPECT_TRUE(ir::structurally_equal(fresh, program.ir()));
}

/// The rule, and nothing of the region's own derivative; forward mode is that of the region.
TEST(CustomGradient, TakesThePlaceOfTheOther) {
  Square s;
  s.p.custom_gradient({s.y}, {s.x}, s.rule());
  const Program program = s.p.build();
  for (const Variant variant : {Variant::NaiveTape, Variant::Restructured}) {
    const Gradient gradient = differentiate(program, {.wrt = {"x"}, .variant = variant});
    const std::string backward = gradient.backward.str();
    const std::size_t only = backward.find("d_x[i] += ");
    EXPECT_NE(only, std::string::npos) << backward;
    EXPECT_NE(backward.find("3*x[i]", only), std::string::npos) << backward;
    EXPECT_EQ(backward.find("d_x[i] += ", only + 1), std::string::npos) << backward;
    EXPECT_NE(gradient.report.remarks.at(0).text.find("program's own"), std::string::npos);
  }
  EXPECT_EQ(tangent(program, {.wrt = {"x"}}).str().find("3*"), std::string::npos);
}

TEST(CustomGradient, SaysWhatItDoesNotTake) {
  const auto recorded = [](const std::function<void(Square&)>& change, const std::string& text) {
    Square s;
    expect_error<UsageError>(ErrorCode::BadProgram, {text}, [&] { change(s); });
  };
  recorded([](Square& s) { s.p.custom_gradient({s.y}, {s.y}, s.rule()); }, "names the array twice");
  recorded([](Square& s) { s.p.custom_gradient({s.x}, {s.w}, s.rule()); }, "an input is written");
  recorded([](Square& s) { s.p.custom_gradient({s.y}, {s.x}, {}); }, "without `forward` or `adjoint`");
  recorded(
      [](Square& s) {
        CustomRule rule = s.rule();
        rule.forward = [&] { s.p.custom_gradient({s.y}, {s.x}, s.rule()); };
        s.p.custom_gradient({s.y}, {s.x}, rule);
      },
      "inside of another one");
  recorded(
      [](Square& s) {
        CustomRule rule = s.rule();
        rule.adjoint = [&](const Derivatives& d) {
          for (auto i : s.p.loop("i", s.n)) d(s.x)(i) = d(s.y)(i);
        };
        s.p.custom_gradient({s.y}, {s.x}, rule);
      },
      "overwrites the derivative of an input");
}

TEST(CustomGradient, IsRefusedWhereItCannotBeRight) {
  Square s;
  CustomRule rule = s.rule();
  rule.forward = [&] {
    for (auto i : s.p.loop("i", s.n)) s.y(i) = s.x(i) * s.w(i);
  };
  s.p.custom_gradient({s.y}, {s.x}, rule);
  const Program program = s.p.build();
  const auto refused = [&](const GradientOptions& options, const std::string& text) {
    expect_error<DifferentiationError>(ErrorCode::NotDifferentiable, {text}, [&] { differentiate(program, options); });
  };
  refused({.wrt = {"x", "w"}}, "none of its inputs");
  refused({.wrt = {"x"}, .max_tape_bytes = 1000}, "within a budget");
  refused({.wrt = {"x"}, .directions = "k"}, "one incoming gradient at a time");
}

/// Parts of a gradient are programs, too: in them what the region computes is constant.
TEST(CustomGradient, HasNoDerivativesOfItsOwn) {
  Square s;
  CustomRule rule = s.rule();
  rule.tangent = [&](const Derivatives& d) {
    for (auto i : s.p.loop("i", s.n)) d(s.y)(i) = s.y(i) * d(s.x)(i);
  };
  s.p.custom_gradient({s.y}, {s.x}, rule);
  const Program program = s.p.build();
  const auto refused = [](const std::function<void()>& derivative) {
    expect_error<DifferentiationError>(ErrorCode::NotDifferentiable, {"says nothing of its own derivative"},
                                       derivative);
  };
  for (const Variant variant : {Variant::NaiveTape, Variant::Restructured}) {
    const Gradient gradient = differentiate(program, {.wrt = {"x"}, .variant = variant});
    refused([&] { differentiate(gradient.forward, {.wrt = {"x"}}); });
    refused([&] { tangent(gradient.forward, {.wrt = {"x"}}); });
    refused([&] { differentiate(gradient.backward, {.wrt = {"x"}}); });
    if (variant == Variant::Restructured) refused([&] { joined(gradient); });
  }
  refused([&] { differentiate(tangent(program, {.wrt = {"x"}}), {.wrt = {"x"}}); });
}

/// Without a tangent of its own, forward mode is that of the region, and has derivatives.
TEST(CustomGradient, ForwardModeOfTheRegionHasDerivatives) {
  Square s;
  s.p.custom_gradient({s.y}, {s.x}, s.rule());
  const Program along = tangent(s.p.build(), {.wrt = {"x"}});
  EXPECT_TRUE(gradient_is_right(along, {.sizes = {{"n", 3}}, .values = {}, .options = {}}));
}

}  // namespace
}  // namespace loopgrad::test

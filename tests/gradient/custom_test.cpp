// Gradients that the user writes for regions.
#include "backends/interpreter/interpreter.h"
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

/// `forward` of a region that computes y from x, where y holds w before.
Program with_past(const std::function<void(Square&)>& forward, bool with_tangent = false) {
  Square s;
  for (auto i : s.p.loop("i", s.n)) s.y(i) = s.w(i);
  CustomRule rule = s.rule();
  rule.forward = [&] { forward(s); };
  if (with_tangent)
    rule.tangent = [&](const Derivatives& d) {
      for (auto i : s.p.loop("i", s.n)) d(s.y)(i) = d(s.x)(i);
    };
  s.p.custom_gradient({s.y}, {s.x}, rule);
  return s.p.build();
}

/// An output cannot be an input as well, so that no rule could tell what becomes of what it held.
TEST(CustomGradient, OfWhatAnOutputHeldBeforeIsRefused) {
  const auto refused = [](const std::function<void()>& derivative, const std::string& text = "held before") {
    expect_error<DifferentiationError>(ErrorCode::NotDifferentiable, {text}, derivative);
  };
  const std::vector<std::function<void(Square&)>> forwards = {[](Square& s) {
                                                                for (auto i : s.p.loop("i", s.n))
                                                                  s.y(i) = 2.0 * s.y(i) + s.x(i);
                                                              },
                                                              [](Square& s) {
                                                                for (auto i : s.p.loop("i", 1, s.n)) s.y(i) = s.x(i);
                                                                for (auto i : s.p.loop("i", s.n))
                                                                  s.y(i) = s.y(s.n - 1 - i) * s.x(i);
                                                              },
                                                              [](Square& s) {
                                                                for (auto i : s.p.loop("i", s.n)) {
                                                                  s.p.when(s.x(i) > 0.0, [&] { s.y(i) = s.x(i); });
                                                                  s.y(i) = sin(s.y(i));
                                                                }
                                                              },
                                                              [](Square& s) {
                                                                for (auto i : s.p.loop("i", s.n)) s.y(i) += s.x(i);
                                                                for (auto i : s.p.loop("i", s.n))
                                                                  s.y(i) = s.y(i) * s.x(i);
                                                              }};
  for (const auto& forward : forwards) refused([&] { differentiate(with_past(forward)); });
  const Program own_tangent = with_past(forwards.front(), true);
  refused([&] { tangent(own_tangent); });
  refused(
      [&] {
        tangent(with_past(
            [](Square& s) {
              for (auto i : s.p.loop("i", s.n)) s.y(i) = s.w(i) * s.x(i);
            },
            true));
      },
      "none of its inputs");
  tangent(with_past(forwards.front()));  // of the region itself
}

/// What is set first may be read, and a sum passes on what it adds to.
TEST(CustomGradient, OfWhatARegionSetsItself) {
  const std::vector<std::function<void(Square&)>> forwards = {
      [](Square& s) {
        for (auto i : s.p.loop("i", s.n)) s.y(i) += s.x(i);
      },
      [](Square& s) {
        s.y(0) = 1.0;
        for (auto i : s.p.loop("i", 1, s.n)) s.y(i) = 0.5 * s.y(i - 1) + s.x(i);
      },
      [](Square& s) {
        auto e = s.p.scalar<double>("e", 1.0);
        for (auto i : s.p.loop("i", s.n)) s.y(i) = 0.0;
        for ([[maybe_unused]] auto k : s.p.loop_while("k", 9, [&](const Value&) { return e > 0.1; })) {
          for (auto i : s.p.loop("i", s.n)) s.y(i) = sin(s.y(s.n - 1 - i)) + s.x(i);
          e = e * 0.5;
        }
      },
      [](Square& s) {
        for (auto i : s.p.loop("i", s.n)) {
          s.p.when(s.x(i) > 0.0, [&] { s.y(i) = s.x(i); }).otherwise([&] { s.y(i) = 1.0; });
          s.y(i) = sin(s.y(i));
        }
      }};
  for (const auto& forward : forwards)
    for (const Variant variant : {Variant::NaiveTape, Variant::Restructured})
      differentiate(with_past(forward), {.variant = variant});
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
    if (variant == Variant::NaiveTape) continue;
    refused([&] { differentiate(joined(gradient), {.wrt = {"x"}}); });
    refused([&] { tangent(joined(gradient), {.wrt = {"x"}}); });
  }
  refused([&] { differentiate(tangent(program, {.wrt = {"x"}}), {.wrt = {"x"}}); });
}

/// One program that computes it all is no derivative of the gradient.
TEST(CustomGradient, IsAGradientAsOneProgram) {
  Square s;
  s.p.custom_gradient({s.y}, {s.x}, s.rule());
  const Program program = s.p.build(), all = joined(differentiate(program, {.wrt = {"x"}}));
  HostArray x(ScalarType::F64, {2}), y(ScalarType::F64, {2}), g_x(ScalarType::F64, {2}), g_y(ScalarType::F64, {2});
  x.set(0, 2), x.set(1, 5), g_y.set(0, 1), g_y.set(1, 10);
  Arguments arguments = {{"x", x.view()}, {"y", y.view()}, {"g_x", g_x.view()}, {"g_y", g_y.view()}};
  if (ir::find_array(all.ir(), "w")) arguments["w"] = x.view();
  backend::interpret(all.ir(), backend::bind(all.ir(), arguments, {}), {});
  EXPECT_EQ(y.get(1), 25);
  EXPECT_EQ(g_x.get(0), 3 * 2);
  EXPECT_EQ(g_x.get(1), 3 * 5 * 10);
  expect_error<DifferentiationError>(ErrorCode::NotDifferentiable, {"one incoming gradient at a time"},
                                     [&] { jacobian(program, "y", "x", JacobianMode::Reverse); });
}

/// Without a tangent of its own, forward mode is that of the region, and has derivatives.
TEST(CustomGradient, ForwardModeOfTheRegionHasDerivatives) {
  Square s;
  s.p.custom_gradient({s.y}, {s.x}, s.rule());
  const Program along = tangent(s.p.build(), {.wrt = {"x"}});
  const std::string backward = differentiate(along, {.wrt = {"x"}, .of = {"t_y"}}).backward.str();
  EXPECT_NE(backward.find("d_x[i] += "), std::string::npos) << backward;
}

}  // namespace
}  // namespace loopgrad::test

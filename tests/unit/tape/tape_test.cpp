// What the forward sweep saves, and where.
#include "dsl/ir/printer.h"
#include "tests/unit/count_of.h"

#include <loopgrad/autodiff.h>
#include <loopgrad/program.h>

#include <gtest/gtest.h>

namespace loopgrad {
namespace {

std::string forward_text(const Gradient& gradient) { return gradient.forward.str(); }
std::string backward_text(const Gradient& gradient) { return gradient.backward.str(); }

Program chain(bool rows) {
  ProgramBuilder p("chain");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<float>("x", {n});
  auto a = p.input<float>("a", {n, m});
  auto b = p.input<float>("b", {m, n});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto v = p.scalar<float>("v");
    v = x(i);
    for (auto l : p.loop("l", 0, m)) v = tanh((rows ? a(i, l) : b(l, i)) * v);
    y(i) = v;
  }
  return p.build();
}

TEST(Tape, AResultThatIsOnTheTapeIsNotComputedAgain) {
  Gradient gradient = differentiate(chain(false), {.wrt = {"x", "b"}});
  EXPECT_EQ(count_of(forward_text(gradient), "tanh"), 1u);
  EXPECT_EQ(count_of(backward_text(gradient), "tanh"), 0u) << backward_text(gradient);
}

TEST(Tape, LanesOfAParallelLoopAreNeighboursOnTheTape) {
  Gradient gradient = differentiate(chain(false), {.wrt = {"x", "b"}});
  EXPECT_NE(forward_text(gradient).find("v_tape[l, i] = v"), std::string::npos) << forward_text(gradient);
}

TEST(Tape, RowsThatMemoryHoldsInOnePieceStayRowsOnTheTape) {
  Gradient gradient = differentiate(chain(true), {.wrt = {"x", "a"}});
  EXPECT_NE(forward_text(gradient).find("v_tape[i, l] = v"), std::string::npos) << forward_text(gradient);
}

}  // namespace
}  // namespace loopgrad

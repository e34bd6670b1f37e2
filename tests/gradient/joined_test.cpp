// A gradient as one program: what it computes is the gradient, and it has a gradient of its own.
#include "tests/gradient/jacobian.h"

#include "backends/interpreter/interpreter.h"

#include <loopgrad/error.h>

namespace loopgrad::test {
namespace {

/// y = x^3 w, by way of a scalar that is overwritten, so that there is a tape.
Program cubes() {
  ProgramBuilder p("cubes");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto w = p.input<double>("w", {});
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto s = p.scalar<double>("s");
    s = x(i);
    for (auto k : p.loop("k", 0, 2)) {
      (void)k;
      s *= x(i);
    }
    y(i) = s * w();
  }
  return p.build();
}

std::vector<std::string> names(const Program& program) {
  std::vector<std::string> names;
  for (const ir::Array& array : program.ir().arrays) names.push_back(array->name);
  return names;
}

void expect_refusal(const Gradient& gradient, const std::string& part, const std::string& prefix = "g_") {
  try {
    joined(gradient, prefix);
    ADD_FAILURE() << "no error that says: " << part;
  } catch (const DifferentiationError& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    EXPECT_FALSE(error.hint().empty());
    EXPECT_FALSE(error.program().empty());
  }
}

TEST(Joined, PrefixesMakeNames) {
  const Gradient gradient = differentiate(cubes());
  for (const char* prefix : {"1+", "\"", "a b;", "g-", "\u00e9"}) {
    try {
      joined(gradient, prefix);
      ADD_FAILURE() << prefix;
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find(prefix), std::string::npos) << error.what();
    }
  }
  EXPECT_EQ(names(joined(gradient, "d2_")).back(), "d2_y");
}

TEST(Joined, HasNamesOfItsOwnAndNoTape) {
  const Program program = joined(differentiate(cubes()));
  EXPECT_EQ(program.name(), "cubes_gradient");
  EXPECT_EQ(names(program), (std::vector<std::string>{"x", "w", "y", "g_x", "g_w", "g_y"}));
}

/// The tape has the longest row for each i; joined, which measures nothing beforehand, all entries.
TEST(Joined, RowsThatDataChoose) {
  ProgramBuilder p("chosen");
  auto n = p.size("n"), rows = p.size("rows"), entries = p.size("entries");
  auto ptr = p.input<int>("ptr", {rows + 1}), row = p.input<int>("row", {n}), to = p.input<int>("to", {entries});
  auto x = p.input<double>("x", {entries}), z = p.input<double>("z", {n});
  auto y = p.output<double>("y", {n});
  p.csr(ptr, entries);
  p.in_range(row, 0, rows);
  p.in_range(to, 0, n);
  for (auto i : p.loop("i", 0, n)) {
    auto v = p.scalar<double>("v", 1);
    for (auto e : p.loop("e", ptr(row(i)), ptr(row(i) + 1))) v = sin(v) * x(e) + z(to(e));
    y(i) = v;
  }
  const Program program = p.build();
  const Sizes sizes = {{"n", 5}, {"rows", 3}, {"entries", 7}};
  const std::map<std::string, std::vector<double>> values = {
      {"ptr", {0, 2, 2, 7}}, {"row", {2, 0, 1, 2, 0}}, {"to", {4, 0, 1, 1, 0, 3, 4}}};
  EXPECT_TRUE(gradient_is_right(program, {.sizes = sizes, .values = values, .options = {}}));
  EXPECT_TRUE(gradient_is_right(joined(differentiate(program)), {.sizes = sizes, .values = values, .options = {}}));
}

/// The loop that goes back promises as many trips as the while may make, which an iterator around it says.
TEST(Joined, AWhileInATriangle) {
  ProgramBuilder p("triangle");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n}), y = p.output<double>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto v = p.scalar<double>("v", x(i));
    for (auto k : p.loop_while("k", i, [&](const Value&) { return v < 2.0; })) v = v * sin(x(k)) + 1.0;
    y(i) = v;
  }
  const Program program = p.build(), first = joined(differentiate(program));
  const Inputs inputs{.sizes = {{"n", 4}}, .values = {}, .options = {}};
  EXPECT_TRUE(gradient_is_right(first, inputs));
  EXPECT_TRUE(gradient_is_right(joined(differentiate(first), "g2_"), inputs));
}

TEST(Joined, GivesTheGradientAndTheSecondOne) {
  const Program program = joined(differentiate(cubes()));
  HostArray x(ScalarType::F64, {2}), w(ScalarType::F64, {}), y = HostArray(ScalarType::F64, {2}),
                                                             g_x(ScalarType::F64, {2}), g_w(ScalarType::F64, {}),
                                                             g_y(ScalarType::F64, {2});
  x.set(0, 2), x.set(1, 3), w.set(0, 5), g_y.set(0, 1), g_y.set(1, 10);
  const std::map<std::string, HostArray*> all = {{"x", &x},     {"w", &w},     {"y", &y},
                                                 {"g_x", &g_x}, {"g_w", &g_w}, {"g_y", &g_y}};
  Arguments arguments;
  for (const auto& [name, array] : all) arguments[name] = array->view();
  backend::interpret(program.ir(), backend::bind(program.ir(), arguments, {}), {});
  EXPECT_EQ(y.get(0), 40);
  EXPECT_EQ(g_x.get(0), 3 * 4 * 5);
  EXPECT_EQ(g_x.get(1), 10 * 3 * 9 * 5);
  EXPECT_EQ(g_w.get(0), 8 + 10 * 27);
  EXPECT_TRUE(gradient_is_right(program, {.sizes = {{"n", 3}}, .values = {}, .options = {}}));
}

TEST(Joined, CanBeJoinedAgain) {
  const Program second = joined(differentiate(joined(differentiate(cubes()))), "g2_");
  EXPECT_TRUE(gradient_is_right(second, {.sizes = {{"n", 2}}, .values = {}, .options = {}}));
  expect_refusal(differentiate(joined(differentiate(cubes()))), "there is such an array");
}

TEST(Joined, KeepsArraysOfTheUsersThatAreNamedLikeGradients) {
  ProgramBuilder p("p");
  auto d = p.input<double>("d_z", {2});
  auto y = p.output<double>("y", {2});
  for (auto i : p.loop("i", 0, 2)) y(i) = d(i) * d(i);
  const Program program = joined(differentiate(p.build()));
  EXPECT_EQ(names(program), (std::vector<std::string>{"d_z", "y", "g_d_z", "g_y"}));
}

TEST(Joined, RefusesStacksAndTapesWhoseExtentDependsOnData) {
  expect_refusal(differentiate(cubes(), {.variant = Variant::NaiveTape}), "run-time stack");
  ProgramBuilder p("trips");
  auto n = p.size("n");
  auto count = p.input<int>("count", {n});
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto s = p.scalar<double>("s");
    s = x(i);
    for (auto k : p.loop("k", 0, count(i))) {
      (void)k;
      s *= sin(s);
    }
    y(i) = s;
  }
  expect_refusal(differentiate(p.build()), "depend on data");
}

}  // namespace
}  // namespace loopgrad::test

// Every statement and every load points at the user's own line.
#include "dsl/ir/printer.h"
#include "dsl/ir/visit.h"

#include <loopgrad/program.h>

#include <gtest/gtest.h>

namespace lg = loopgrad;
namespace ir = loopgrad::ir;

namespace {

/// Lines of the statements of one kind, and of the loads, relative to `base`.
std::vector<int> statement_lines(const lg::Program& program, ir::Kind kind, int base) {
  std::vector<int> lines;
  ir::walk_stmts(program.ir().body, [&](const ir::Stmt& s) {
    if (s.kind() == kind) lines.push_back(static_cast<int>(s->location.line) - base);
  });
  return lines;
}
std::vector<int> load_lines(const lg::Program& program, int base) {
  std::vector<int> lines;
  ir::walk(
      program.ir().body, [](const ir::Stmt&) {},
      [&](const ir::Expr& e) {
        if (const auto* load = e.as<ir::Load>()) lines.push_back(static_cast<int>(load->location.line) - base);
      });
  return lines;
}

using Lines = std::vector<int>;

// These two tests count lines.
// clang-format off
TEST(Locations, AreTheLinesOfTheStatements) {
  const int base = __LINE__;
  lg::ProgramBuilder p("p");              // 1
  auto n = p.size("n");                   // 2
  auto x = p.input<float>("x", {n});      // 3
  auto y = p.output<float>("y", {n});     // 4
  for (auto i : p.loop("i", 0, n)) {      // 5
    auto s = p.scalar<float>("s");        // 6
    auto t = p.scalar<float>("t");        // 7
    s = 0;                                // 8
    t = s;                                // 9
    y(i) = x(i);                          // 10
    y(i) /= t;                            // 11
    p.when(s > 0, [&] {                   // 12
      y(i) = 0;                           // 13
    }).otherwise([&] {                    // 14
      s += y(i);                          // 15
      y(i).max_with(s);                   // 16
    });
  }
  const lg::Program program = p.build();
  EXPECT_EQ(statement_lines(program, ir::Kind::For, base), (Lines{5}));
  EXPECT_EQ(statement_lines(program, ir::Kind::Allocate, base), (Lines{6, 7}));
  EXPECT_EQ(statement_lines(program, ir::Kind::Assign, base), (Lines{8, 9, 10, 11, 13}));
  EXPECT_EQ(statement_lines(program, ir::Kind::If, base), (Lines{12}));
  EXPECT_EQ(statement_lines(program, ir::Kind::Reduce, base), (Lines{15, 16}));
  EXPECT_EQ(load_lines(program, base), (Lines{9, 10, 11, 11, 12, 15, 16}));
  EXPECT_EQ(static_cast<int>(program.ir().location.line) - base, 1);
  EXPECT_EQ(static_cast<int>(program.ir().arrays[0]->location.line) - base, 3);
  EXPECT_NE(std::string(program.ir().body->location.file).find("locations_test.cpp"), std::string::npos);
}

TEST(Locations, OfLoadsAreWhereTheElementIsRead) {
  const int base = __LINE__;
  lg::ProgramBuilder p("p");
  auto x = p.inout<float>("x", {4});
  const auto first = x(0);                // 3: names the element
  x(1) = first;                           // 4: reads it
  x(2) = first * x(3);                    // 5: reads it again
  EXPECT_EQ(load_lines(p.build(), base), (Lines{4, 5, 5}));
}
// clang-format on

TEST(Locations, CanBeSaidByTheCaller) {
  static const char file[] = "/somewhere/program.py";
  const auto line = [](std::uint32_t number) { return lg::SourceLocation(file, number); };
  lg::ProgramBuilder p("p", line(1));
  const lg::Value n = p.size("n", line(2));
  const lg::ArrayHandle x = p.input<float>("x", {n}, line(3)), y = p.output<float>("y", {n}, line(4));
  for (auto i : p.loop("i", 0, n, {}, line(5))) {
    lg::OpenBody then = p.open_when({lg::Value(x.at({i}, line(6)), line(6)) > 0}, line(6));
    y.at({{i, line(7)}}, line(7)) = lg::Operand(x.at({i}, line(7)), line(7));
    then.close(line(8));
  }
  const lg::Program program = p.build(line(9));
  EXPECT_EQ(statement_lines(program, ir::Kind::For, 0), (Lines{5}));
  EXPECT_EQ(statement_lines(program, ir::Kind::If, 0), (Lines{6}));
  EXPECT_EQ(statement_lines(program, ir::Kind::Assign, 0), (Lines{7}));
  EXPECT_EQ(load_lines(program, 0), (Lines{6, 7}));
  EXPECT_EQ(program.ir().arrays[1]->location.str(), "program.py:4");
}

TEST(Locations, ArePrintedOnRequest) {
  lg::ProgramBuilder p("p");
  auto x = p.inout<float>("x", {4});
  x(0) = 1;
  const std::string text = ir::print(p.build().ir().body, {.locations = true});
  EXPECT_EQ(text.substr(0, text.find_last_of(':')), "x[0] = 1  // locations_test.cpp");
}

}  // namespace

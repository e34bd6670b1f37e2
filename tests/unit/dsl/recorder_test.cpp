// What user code records, statement by statement.
#include "dsl/ir/printer.h"
#include "dsl/ir/visit.h"
#include "tests/unit/dsl/expect_error.h"

#include <loopgrad/program.h>

#include <gtest/gtest.h>

namespace lg = loopgrad;

namespace {

/// The body of a one-dimensional program on x (input), y (output) and i (iterator).
template <class Body>
std::string recorded(Body&& body) {
  lg::ProgramBuilder p("p");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) body(p, x, y, i);
  return lg::ir::print(p.build().ir().body);
}

TEST(Recorder, AnExtremumWithTheElementItselfIsAnUpdate) {
  lg::ProgramBuilder p("extrema");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n});
  auto y = p.inout<float>("y", {n});
  auto h = p.inout<lg::half>("h", {n});
  auto most = p.scalar<float>("most");
  most = 0.0f;
  for (auto i : p.loop("i", 0, n)) {
    most = max(most, x(i));
    y(i) = min(y(i), 2.0f * x(i));
    most = max(x(i), most);         // at a tie the old value stays
    y(i) = max(y(i), 0.5f * y(i));  // of its own old value
    h(i) = max(h(i), x(i));         // an update would round x first
  }
  const std::string text = p.build().str();
  EXPECT_NE(text.find("most max= x[i]\n"), std::string::npos) << text;
  EXPECT_NE(text.find("y[i] min= 2*x[i]\n"), std::string::npos) << text;
  EXPECT_NE(text.find("most = max(x[i], most)\n"), std::string::npos) << text;
  EXPECT_NE(text.find("y[i] = max(y[i], 0.5*y[i])\n"), std::string::npos) << text;
  EXPECT_NE(text.find("h[i] = "), std::string::npos) << text;
}

TEST(Recorder, KeepsEveryKindOfUpdateApart) {
  EXPECT_EQ(recorded([](auto&, auto& x, auto& y, auto& i) {
              y(i) = x(i);
              y(i) += 2 * x(i);
              y(i) -= x(i);
              y(i) *= x(i);
              y(i) /= x(i);
              y(i).min_with(x(i));
              y(i).max_with(1);
            }),
            "for i in 0..n:\n"
            "  y[i] = x[i]\n"
            "  y[i] += 2*x[i]\n"
            "  y[i] += -x[i]\n"
            "  y[i] *= x[i]\n"
            "  y[i] = y[i]/x[i]\n"
            "  y[i] min= x[i]\n"
            "  y[i] max= 1\n");
}

TEST(Recorder, NamesWhatALargeExpressionShares) {
  std::string text = recorded([](auto&, auto& x, auto& y, auto& i) {
    lg::Value t = x(i);
    for (int step = 0; step < 40; ++step) t = t * t + 0.5f * t;
    y(i) = t;
  });
  EXPECT_LT(text.size(), 5000u);  // written out, it has more than 2^40 terms
  EXPECT_NE(text.find("local f32 value0\n  value0 = x[i]*x[i] + 0.5*x[i]\n"), std::string::npos) << text;
}

TEST(Recorder, NamesNothingThatASelectMayGuard) {
  std::string text = recorded([](auto&, auto& x, auto& y, auto& i) {
    lg::Value before = x(i - 1) * 2;
    for (int step = 0; step < 4; ++step) before = before * before + 0.5f * before;
    y(i) = lg::select(i > 0, before, 0.0f);
  });
  EXPECT_EQ(text.find("local"), std::string::npos) << text;
}

TEST(Recorder, AllocatesALocalAroundWhatFollowsItsDeclaration) {
  EXPECT_EQ(recorded([](auto& p, auto& x, auto& y, auto& i) {
              y(i) = 0;
              auto s = p.template scalar<float>("s");
              s = x(i);
              auto buffer = p.template local<double>("buffer", {i + 1, 4});
              buffer(i, 0) = s;
              y(i) += s;
            }),
            "for i in 0..n:\n"
            "  y[i] = 0\n"
            "  local f32 s\n"
            "  s = x[i]\n"
            "  local f64 buffer[i + 1, 4]\n"
            "  buffer[i, 0] = f64(s)\n"
            "  y[i] += s\n");
}

TEST(Recorder, EndsALocalWithItsBody) {
  lg::ProgramBuilder p("p");
  auto n = p.size("n");
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto s = p.scalar<float>("s");
    s = 1;
    y(i) = s;
  }
  for (auto i : p.loop("i", 0, n)) {
    auto s = p.scalar<float>("s");
    s = 2;
    y(i) += s;
  }
  const lg::Program program = p.build();
  const auto* block = program.ir().body.as<lg::ir::Block>();
  ASSERT_NE(block, nullptr);
  ASSERT_EQ(block->body.size(), 2u);
  for (const auto& loop : block->body) {
    ASSERT_NE(loop.as<lg::ir::For>(), nullptr);
    EXPECT_NE(loop.as<lg::ir::For>()->body.as<lg::ir::Allocate>(), nullptr);
  }
}

TEST(Recorder, RecordsBranchesAndTheirElse) {
  EXPECT_EQ(recorded([](auto& p, auto& x, auto& y, auto& i) {
              p.when(x(i) > 0, [&] { y(i) = x(i); }).otherwise([&] {
                p.when(x(i) < -1, [&] { y(i) = -1; }).otherwise([&] { y(i) = 0; });
              });
              p.when(i == 0, [&] {}).otherwise([&] { y(i) += y(i - 1); });
            }),
            "for i in 0..n:\n"
            "  if x[i] > 0:\n"
            "    y[i] = x[i]\n"
            "  else if x[i] < -1:\n"
            "    y[i] = -1\n"
            "  else:\n"
            "    y[i] = 0\n"
            "  if !(i == 0):\n"
            "    y[i] += y[i - 1]\n");
}

TEST(Recorder, AcceptsOtherwiseOfAConditionKnownWhileRecording) {
  EXPECT_EQ(
      recorded([](auto& p, auto&, auto& y, auto& i) { p.when(false, [&] { y(i) = 1; }).otherwise([&] { y(i) = 2; }); }),
      "for i in 0..n:\n  y[i] = 2\n");
}

TEST(Recorder, RecordsWhileLoopsAndTripBounds) {
  EXPECT_EQ(recorded([](auto& p, auto& x, auto& y, auto& i) {
              y(i) = x(i);
              for (auto t : p.loop_while("t", 8, [&](const lg::Value& trip) { return y(i) > trip; })) y(i) -= t;
              for (auto j : p.loop("j", 0, lg::cast<std::int64_t>(x(i)), {.at_most = {x.extent(0)}})) y(i) += x(j);
            }),
            "for i in 0..n:\n"
            "  y[i] = x[i]\n"
            "  for t in 0..8 while y[i] > f32(t):\n"
            "    y[i] += f32(-t)\n"
            "  for j in 0..i64(x[i]) (at most n):\n"
            "    y[i] += x[j]\n");
}

lg::Value square(const lg::Value& v) { return v * v; }
template <class T>
auto twice(const T& v) {
  return v + v;
}

TEST(Recorder, ComposesThroughFunctionsAndTemplates) {
  EXPECT_EQ(recorded([](auto& p, auto& x, auto& y, auto& i) {
              const auto norm = [&](const lg::Value& v) {
                auto s = p.template scalar<float>("s");
                s = square(v);
                return s;
              };
              y(i) = norm(x(i)) + norm(twice(x(i)));
            }),
            "for i in 0..n:\n"
            "  local f32 s\n"
            "  s = (x[i] + x[i])*(x[i] + x[i])\n"
            "  local f32 s_1\n"
            "  s_1 = x[i]*x[i]\n"
            "  y[i] = s_1 + s\n")
      << "g++ evaluates the right operand first";
}

TEST(Recorder, CopiesHandlesAndElements) {
  EXPECT_EQ(recorded([](auto&, auto x, auto y, auto i) {
              const auto target = y(i);
              const auto source = x(i);
              target = source;
              target += 1;
            }),
            "for i in 0..n:\n  y[i] = x[i]\n  y[i] += 1\n");
}

TEST(Recorder, AddressesAnyRank) {
  lg::ProgramBuilder p("p");
  auto a = p.output<float>("a", {2, 3, 4, 5, 6});
  auto s = p.output<double>("s", {});
  a.at({0, 1, 2, 3, 4}) = 1;
  s() = a.at({0, 1, 2, 3, 4});
  EXPECT_EQ(lg::ir::print(p.build().ir().body), "a[0, 1, 2, 3, 4] = 1\ns = f64(a[0, 1, 2, 3, 4])\n");
}

TEST(Recorder, StatesFacts) {
  lg::ProgramBuilder p("graph");
  auto n = p.size("n"), m = p.size("m");
  auto ptr = p.input<int>("ptr", {n + 1});
  auto col = p.input<int>("col", {m});
  auto a = p.input<float>("a", {n});
  auto b = p.output<float>("b", {n});
  p.csr(ptr, m);
  p.in_range(col, 0, n);
  p.sorted(col);
  p.injective(col);
  p.may_alias(a, b);
  for (auto v : p.loop("v", 0, n)) {
    b(v) = 0;
    for (auto e : p.loop("e", ptr(v), ptr(v + 1))) b(v) += a(col(e));
  }
  EXPECT_EQ(p.build().str(),
            "program graph(n, m)\n"
            "  input  i32 ptr[n + 1]\n"
            "  input  i32 col[m]\n"
            "  input  f32 a[n]\n"
            "  output f32 b[n]\n"
            "  fact   ptr csr pointer of m\n"
            "  fact   col in 0..n\n"
            "  fact   col sorted\n"
            "  fact   col injective\n"
            "  fact   a may alias b\n"
            "for v in 0..n:\n"
            "  b[v] = 0\n"
            "  for e in ptr[v]..ptr[v + 1]:\n"
            "    b[v] += a[col[e]]\n");
}

TEST(Recorder, DropsABodyThatThrew) {
  lg::ProgramBuilder p("p");
  auto n = p.size("n");
  auto y = p.output<float>("y", {n});
  const auto leave = [] { throw std::runtime_error("user code"); };
  EXPECT_THROW(
      {
        for (auto i : p.loop("i", 0, n)) {
          y(i) = 1;
          p.when(i > 0, [&] { leave(); });
        }
      },
      std::runtime_error);
  // Nothing dangles: the next loop is recorded at the top level again, and only build() refuses.
  for (auto i : p.loop("i", 0, n)) y(i) = 2;
  const auto info = lg::test::expect_usage_error([&] { p.build(); }, "left before its end");
  EXPECT_EQ(info.program, "p");
}

TEST(Recorder, RefusesAProgramWhoseLoopWasLeftByBreak) {
  lg::ProgramBuilder p("p");
  auto n = p.size("n");
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    y(i) = 1;
    break;
  }
  lg::test::expect_usage_error([&] { p.build(); }, "left before its end");
}

TEST(Recorder, AnEmptyProgramIsAProgram) {
  lg::ProgramBuilder p("nothing");
  EXPECT_EQ(p.build().str(), "program nothing()\npass\n");
}

}  // namespace

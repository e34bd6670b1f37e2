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

/// A step's own numbers as well; where data choose what is read, a CPU has no lanes, and each iteration its own row.
TEST(Tape, NumbersOfAStepLieBesideThoseOfOtherLanes) {
  for (const bool by_data : {false, true}) {
    ProgramBuilder p("decays");
    auto n = p.size("n"), m = p.size("m");
    auto b = p.input<float>("b", {m, n}), x = p.input<float>("x", {n});
    auto which = p.input<int>("which", {n});
    auto y = p.output<float>("y", {m, n});
    p.in_range(which, 0, n);
    for (auto i : p.loop("i", n)) {
      auto v = p.scalar<float>("v", 0.0f);
      for (auto l : p.loop("l", m)) {
        auto kept = p.let("kept", exp(b(l, i) * v));
        p.save(kept);
        v = kept * v + (by_data ? x(which(i)) : x(i));
        y(l, i) = v * v;
      }
    }
    const std::string text = forward_text(differentiate(p.build(), {.wrt = {"x", "b"}}));
    EXPECT_NE(text.find(by_data ? "kept_kept[i, l] = kept" : "kept_kept[l, i] = kept"), std::string::npos) << text;
  }
}

TEST(Tape, RowsThatMemoryHoldsInOnePieceStayRowsOnTheTape) {
  Gradient gradient = differentiate(chain(true), {.wrt = {"x", "a"}});
  EXPECT_NE(forward_text(gradient).find("v_tape[i, l] = v"), std::string::npos) << forward_text(gradient);
}

TEST(Tape, BandsHaveTheirWidthOnTheTape) {
  ProgramBuilder p("band");
  auto n = p.size("n"), w = p.size("w");
  auto x = p.input<float>("x", {n});
  auto y = p.output<float>("y", {n});
  auto v = p.scalar<float>("v");
  for (auto i : p.loop("i", 0, n)) {
    v = 1.0f;
    for (auto j : p.loop("j", max(i - w, 0), min(i + w + 1, n))) v = sin(v) * x(j);
    y(i) = v;
  }
  const Gradient gradient = differentiate(p.build(), {});
  const std::string text = forward_text(gradient);
  EXPECT_NE(text.find("2*w + 1"), std::string::npos) << text;
  EXPECT_NE(text.find("j - max(i - w, 0)]"), std::string::npos) << text;
  EXPECT_NE(backward_text(gradient).find("j - 1 - max(i - w, 0)]"), std::string::npos) << backward_text(gradient);
}

TEST(Tape, AtMostSaysMoreThanFactsAboutBounds) {
  const auto program = [](bool promise) {
    ProgramBuilder p("windows");
    auto n = p.size("n"), entries = p.size("entries"), longest = p.size("longest");
    auto x = p.input<float>("x", {entries});
    auto first = p.input<int>("first", {n}), last = p.input<int>("last", {n});
    auto y = p.output<float>("y", {n});
    p.in_range(first, 0, entries);
    p.in_range(last, 0, entries + 1);
    for (auto i : p.loop("i", 0, n)) {
      y(i) = 1.0f;
      LoopOptions options;
      if (promise) options.at_most = {longest};
      for (auto j : p.loop("j", first(i), last(i), options)) y(i) = sin(y(i)) * x(j);
    }
    return p.build();
  };
  const auto text = [&](bool promise) { return forward_text(differentiate(program(promise), {.wrt = {"x"}})); };
  EXPECT_NE(text(true).find("_tape[n, longest]"), std::string::npos) << text(true);
  EXPECT_NE(text(false).find("_tape[n, entries]"), std::string::npos) << text(false);
}

/// Each i goes through a row that data choose; a second loop goes through the same row for each entry.
Program chosen_rows(bool twice) {
  ProgramBuilder p("chosen");
  auto n = p.size("n"), rows = p.size("rows"), entries = p.size("entries");
  auto ptr = p.input<int>("ptr", {rows + 1}), row = p.input<int>("row", {n});
  auto x = p.input<float>("x", {entries});
  auto y = p.output<float>("y", {n});
  p.csr(ptr, entries);
  p.in_range(row, 0, rows);
  for (auto i : p.loop("i", 0, n)) {
    auto v = p.scalar<float>("v", 1);
    if (twice) {
      for (auto e : p.loop("e", ptr(i), ptr(i + 1)))
        for (auto f : p.loop("f", ptr(i), ptr(i + 1))) v = sin(v) * x(e) * x(f);
    } else {
      for (auto e : p.loop("e", ptr(row(i)), ptr(row(i) + 1))) v = sin(v) * x(e);
    }
    y(i) = v;
  }
  return p.build();
}

TEST(Tape, RowsThatDataChooseTakeTheLongestOneEach) {
  const Gradient gradient = differentiate(chosen_rows(false), {.wrt = {"x"}});
  EXPECT_NE(forward_text(gradient).find("_tape[n, longest_of_ptr]"), std::string::npos) << forward_text(gradient);
  const std::string fact = "fact   ptr csr pointer of entries, at most longest_of_ptr a row";
  EXPECT_NE(forward_text(gradient).find(fact), std::string::npos) << forward_text(gradient);
  EXPECT_NE(backward_text(gradient).find(fact), std::string::npos) << backward_text(gradient);
  EXPECT_NE(gradient.sizing.str().find("longest_of_ptr max= ptr[row_1 + 1] - ptr[row_1]"), std::string::npos)
      << gradient.sizing.str();
  const std::string joint = joined(gradient).str();
  EXPECT_NE(joint.find("_tape[n, entries]"), std::string::npos) << joint;
  EXPECT_EQ(joint.find("longest"), std::string::npos) << joint;
}

TEST(Tape, OfTwoLoopsOverARowOneTellsTheRowsApart) {
  const std::string text = forward_text(differentiate(chosen_rows(true), {.wrt = {"x"}}));
  EXPECT_NE(text.find("_tape[entries, longest_of_ptr]"), std::string::npos) << text;
}

/// In each row, from its second entry on all up to that.
Program parts_of_rows(int beyond) {
  ProgramBuilder p("parts");
  auto rows = p.size("rows"), entries = p.size("entries");
  auto ptr = p.input<int>("ptr", {rows + 1});
  auto x = p.input<float>("x", {entries + 1});
  auto y = p.output<float>("y", {entries});
  p.csr(ptr, entries);
  for (auto i : p.loop("i", 0, rows))
    for (auto e : p.loop("e", ptr(i) + 1, ptr(i + 1))) {
      auto v = p.scalar<float>("v", 1);
      for (auto f : p.loop("f", ptr(i), e + beyond)) v = sin(v) * x(f);
      y(e) = v;
    }
  return p.build();
}

TEST(Tape, PartsOfARowAreNoLongerThanTheLongestOne) {
  const std::string text = forward_text(differentiate(parts_of_rows(1), {.wrt = {"x"}}));
  EXPECT_NE(text.find("_tape[max(entries - 1, 0), longest_of_ptr]"), std::string::npos) << text;
  EXPECT_NE(text.find("_tape[e - 1, f - f_first]"), std::string::npos) << text;
  // The first entry of the next row as well.
  const std::string longer = forward_text(differentiate(parts_of_rows(2), {.wrt = {"x"}}));
  EXPECT_EQ(longer.find("longest_of_ptr]"), std::string::npos) << longer;
}

}  // namespace
}  // namespace loopgrad

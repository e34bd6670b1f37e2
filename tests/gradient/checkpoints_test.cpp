// Gradients within a budget for the tape. gradient_is_right() compares them with those without one, bit by bit.
#include "backends/interpreter/interpreter.h"
#include "tape/checkpoint_sizes.h"
#include "tests/gradient/jacobian.h"

#include <loopgrad/error.h>

namespace loopgrad::test {
namespace {

/// The remark on the loop of a gradient with the least budget.
std::string remark_on(const Program& program, const std::string& loop) {
  const Gradient gradient = differentiate(program, {.max_tape_bytes = 1});
  for (const Remark& remark : gradient.report.remarks)
    if (remark.text.starts_with("loop '" + loop + "'")) return remark.text;
  return "";
}
bool is_checkpointed(const Program& program, const std::string& loop) {
  return remark_on(program, loop).starts_with("loop '" + loop + "' is checkpointed");
}

Program diffusion() {
  ProgramBuilder p("diffusion");
  auto n = p.size("n"), steps = p.size("steps");
  auto u = p.inout<double>("u", {n});
  auto rate = p.input<double>("rate", {n});
  auto next = p.local<double>("next", {n});
  for (auto t : p.loop("t", 0, steps)) {
    (void)t;
    for (auto i : p.loop("i", 1, n - 1))
      next(i) = u(i) + 0.1 * rate(i) * (u(i - 1) - 2.0 * u(i) + u(i + 1)) - 0.1 * u(i) * u(i) * u(i);
    for (auto i : p.loop("i", 1, n - 1)) u(i) = next(i);
  }
  return p.build();
}

TEST(Checkpoints, ATimeLoopRunsInSegments) {
  const Program program = diffusion();
  EXPECT_TRUE(is_checkpointed(program, "t"));
  EXPECT_NE(remark_on(program, "t").find("u is saved"), std::string::npos) << "what `next` holds is never found";
  for (const std::int64_t steps : {0, 1, 2, 3, 7, 12})
    EXPECT_TRUE(gradient_is_right(program, {.sizes = {{"n", 4}, {"steps", steps}}, .values = {}, .options = {}}))
        << steps;
}

/// Forward, no iteration finds anything of an earlier one that it would need to run again; backward, all read y[0].
TEST(Checkpoints, WhatIsReadBackwardMayBeOfAnEarlierSegment) {
  ProgramBuilder p("first");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto total = p.output<double>("total", {});
  auto y = p.local<double>("y", {n});
  total() = 0.0;
  for (auto i : p.loop("i", 0, n)) {
    auto s = p.scalar<double>("s");
    s = x(i);
    for (auto j : p.loop("j", 0, 2)) s = s * s + 0.1 * cast<double>(j);
    y(i) = s;
    total() += sin(y(0)) * s;
  }
  const Program program = p.build();
  EXPECT_TRUE(is_checkpointed(program, "i"));
  EXPECT_NE(remark_on(program, "i").find("y is saved"), std::string::npos) << remark_on(program, "i");
  for (const std::int64_t length : {0, 1, 2, 3, 12})
    EXPECT_TRUE(gradient_is_right(program, {.sizes = {{"n", length}}, .values = {}, .options = {}})) << length;
}

/// Loops of all kinds one after the other; `a` is read by the first and changed by the last.
TEST(Checkpoints, PartsBetweenLoopsKeepWhatLaterOnesChange) {
  ProgramBuilder p("parts");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.inout<double>("a", {n});
  auto y = p.output<double>("y", {});
  auto level = p.local<double>("level", {n});
  auto s = p.scalar<double>("s");
  s = 0.5;
  for (auto i : p.loop("i", 0, n)) level(i) = a(i) * a(i);
  for (auto t : p.loop("t", 0, m)) s = s * 0.5 + sin(s) * level(t % n);
  for (auto t : p.loop("back", 0, m, {.descending = true})) {
    for (auto i : p.loop("i", 0, n)) a(i) = a(i) * level(i) + 0.01 * cast<double>(t) * s;
  }
  for (auto i : p.loop("i", 0, n)) level(i) = level(i) * s;
  y() = 0;
  for (auto i : p.loop("rows", 0, n)) {
    auto square = p.scalar<double>("square");
    square = exp(level(i) * a(i) * 0.1);
    y() += square * square;
    a(i) = square;
  }
  const Program program = p.build();
  for (const char* loop : {"t", "back"}) EXPECT_TRUE(is_checkpointed(program, loop)) << loop;
  for (const std::int64_t trips : {0, 1, 4, 9})
    EXPECT_TRUE(gradient_is_right(program, {.sizes = {{"n", 3}, {"m", trips}}, .values = {}, .options = {}})) << trips;
}

/// Trip counts from data inside of a segment, and an inner loop over earlier iterations.
TEST(Checkpoints, TapesOfASegmentHaveLoopsOfTheirOwn) {
  ProgramBuilder p("histories");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto h = p.inout<double>("h", {n});
  auto y = p.output<double>("y", {n});
  for (auto t : p.loop("t", 0, n)) {
    y(t) = x(t);
    for (auto k : p.loop("k", 0, t + 1)) {
      h(k) = h(k) * 0.9 + sin(h(k) * x(t));
      y(t) = y(t) * (1.0 + 0.1 * h(k));
    }
    for (auto k : p.loop_while("w", 3, [&](const Value&) { return y(t) > 1.5; })) {
      (void)k;
      y(t) = y(t) * y(t) * 0.3;
    }
  }
  const Program program = p.build();
  EXPECT_TRUE(gradient_is_right(program, {.sizes = {{"n", 6}}, .values = {}, .options = {}}));
}

/// How long the longest row is, is measured once for all segments.
TEST(Checkpoints, TapesOfASegmentHaveRoomForWhatInputsSay) {
  ProgramBuilder p("rows");
  auto n = p.size("n"), entries = p.size("entries"), steps = p.size("steps");
  auto ptr = p.input<int>("ptr", {n + 1});
  p.csr(ptr, entries);
  auto x = p.input<double>("x", {entries});
  auto y = p.inout<double>("y", {n});
  for ([[maybe_unused]] auto t : p.loop("t", 0, steps))
    for (auto v : p.loop("v", 0, n)) {
      auto s = p.scalar<double>("s", 0.2);
      for (auto k : p.loop("k", (ptr(v + 1) - ptr(v)) / 2)) s = 0.5 * s + 0.3 * sin(x(ptr(v) + 2 * k) + s) * y(v);
      y(v) = y(v) * 0.5 + s;
    }
  const Program program = p.build();
  EXPECT_TRUE(is_checkpointed(program, "t")) << remark_on(program, "t");
  for (const std::int64_t trips : {0, 1, 4, 9})
    EXPECT_TRUE(gradient_is_right(
        program,
        {.sizes = {{"n", 3}, {"entries", 6}, {"steps", trips}}, .values = {{"ptr", {0, 5, 5, 6}}}, .options = {}}))
        << trips;
}

/// The tape of the last loop was as long as the input of that name says.
TEST(Checkpoints, ALocalMayBeCalledLikeAnInput) {
  ProgramBuilder p("same_name");
  auto n = p.size("n"), steps = p.size("steps");
  auto count = p.input<int>("count", {n});
  auto y = p.inout<double>("y", {n});
  auto own = p.local<int>("count", {n});
  for (auto i : p.loop("i", n)) own(i) = count(i) + 3;
  for ([[maybe_unused]] auto t : p.loop("t", steps))
    for (auto v : p.loop("v", n)) y(v) = y(v) * y(v) * 0.5;
  for (auto v : p.loop("w", n))
    for ([[maybe_unused]] auto k : p.loop("k", cast<std::int64_t>(own(v)))) y(v) = 0.5 * y(v) + sin(y(v));
  EXPECT_THROW(differentiate(p.build(), {.max_tape_bytes = 1}), DifferentiationError);
}

/// Where each step has a number of its own that decides, segments would have tapes of their own sizes.
TEST(Checkpoints, ALoopThatChangesHowLongItsTapeIsIsLeftAsItIs) {
  ProgramBuilder p("changed");
  auto n = p.size("n"), steps = p.size("steps");
  auto until = p.input<int>("until", {steps});
  auto y = p.inout<double>("y", {n});
  for (auto t : p.loop("t", 0, steps))
    for ([[maybe_unused]] auto k : p.loop("k", cast<std::int64_t>(until(t)))) y(0) = 0.5 * y(0) + sin(y(0));
  EXPECT_EQ(remark_on(p.build(), "t"), "loop 't' is not checkpointed: extents of its tape depend on data");
}

/// What a sum comes to may differ by a last bit between two programs, and then another branch would be taken.
TEST(Checkpoints, ALoopWhoseControlDependsOnASumIsLeftAsItIs) {
  ProgramBuilder p("norms");
  auto n = p.size("n"), steps = p.size("steps");
  auto x = p.inout<double>("x", {n});
  for (auto t : p.loop("t", 0, steps)) {
    (void)t;
    auto norm = p.scalar<double>("norm");
    norm = 0;
    for (auto i : p.loop("i", 0, n)) norm += x(i) * x(i);
    p.when(norm > 2.0, [&] {
      for (auto i : p.loop("i", 0, n)) x(i) = x(i) * x(i) * 0.25;
    });
  }
  const Program program = p.build();
  EXPECT_EQ(remark_on(program, "t"),
            "loop 't' is not checkpointed: 'norm', on which control depends, might be rounded in another way when it "
            "runs again");
  EXPECT_TRUE(gradient_is_right(program, {.sizes = {{"n", 3}, {"steps", 5}}, .values = {}, .options = {}}));
}

/// Whole arrays are saved: a local's elements without a value are zero, and an output's are not touched.
TEST(Checkpoints, WhatHasNoValueYetIsNotCopied) {
  for (const bool is_output : {false, true}) {
    ProgramBuilder p("partly");
    auto n = p.size("n"), steps = p.size("steps");
    auto x = p.inout<double>("x", {n});
    auto seen = is_output ? p.output<double>("seen", {n}) : p.local<double>("seen", {n});
    for (auto t : p.loop("t", 0, steps)) {
      p.when(t % 2 == 0, [&] { seen(t % n) = x(t % n); });
      for (auto i : p.loop("i", 0, n)) x(i) = sin(x(i)) * (1.0 + 0.1 * seen(0));
    }
    const Program program = p.build();
    EXPECT_EQ(is_checkpointed(program, "t"), !is_output) << remark_on(program, "t");
    EXPECT_TRUE(gradient_is_right(program, {.sizes = {{"n", 3}, {"steps", 7}}, .values = {}, .options = {}}));
  }
}

/// Flow analysis leaves open whether y[1] is set where it is read: it is an in-out of the part, whose contents at the
/// start are saved although none of it has a value there.
TEST(Checkpoints, APartMaySaveALocalThatNothingHasSet) {
  ProgramBuilder p("part");
  auto n = p.size("n");
  auto x = p.input<double>("x", {});
  auto total = p.output<double>("total", {});
  auto y = p.local<double>("y", {n});
  for (auto i : p.loop("i", 0, n)) y(i) = 0.5;
  for (auto i : p.loop("i", 0, n)) {
    auto s = p.scalar<double>("s");
    s = y(i);
    total() = select(y(1) < 0.5, 0.5, x());
    y(i) = 0.5;
  }
  EXPECT_TRUE(gradient_is_right(p.build(), {.sizes = {{"n", 3}}, .values = {}, .options = {}}));
}

/// Elements of an output that have no value yet are copied with the others.
TEST(Checkpoints, APartMaySaveAnOutputThatIsSetInPart) {
  ProgramBuilder p("in_part");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", n)) p.when(i > 0, [&] { y(i) = x(i); });
  for (auto t : p.loop("t", 4)) {
    (void)t;
    for (auto i : p.loop("i", 1, n)) y(i) = y(i) * y(i);
  }
  y(0) = 1.0;
  EXPECT_TRUE(gradient_is_right(p.build(), {.sizes = {{"n", 4}}, .values = {}, .options = {}}));
}

TEST(Checkpoints, TheSizeThatIsMeasuredHasANameOfItsOwn) {
  ProgramBuilder p("taken");
  auto n = p.size("n"), needed = p.size(tape::needed_tape_bytes);
  auto x = p.inout<double>("x", {n});
  for (auto i : p.loop("i", n)) x(i) = sin(x(i)) * cast<double>(needed);
  const Program program = p.build();
  EXPECT_NO_THROW(differentiate(program));
  EXPECT_THROW(differentiate(program, {.max_tape_bytes = 64}), UsageError);
}

TEST(Checkpoints, TheNaiveTapeHasNoBudget) {
  EXPECT_THROW(differentiate(diffusion(), {.variant = Variant::NaiveTape, .max_tape_bytes = 1}), UsageError);
}

/// A loop whose state and tape take `state` and `per_iteration` units.
std::map<std::string, std::int64_t> lengths(std::int64_t trips, std::int64_t state, std::int64_t per_iteration,
                                            std::int64_t most) {
  const auto number = [](std::int64_t value) { return ir::int_const(value); };
  const tape::LoopLengths names = {ir::make_symbol("taped"), ir::make_symbol("blocks"), ir::make_symbol("leaves"),
                                   ir::make_symbol("leaf")};
  std::vector<ir::Array> outputs;
  ir::Program program{"sizing", {}, {}, {}, {}, {}};
  program.body = tape::decide_lengths(
      {{names, number(trips), number(state), [&](const ir::Expr& n) { return n * number(per_iteration); }, {}}},
      number(0), most, outputs);
  program.arrays = outputs;
  std::map<std::string, HostArray> results;
  Arguments arguments;
  for (const ir::Array& array : outputs) {
    results[array->name] = HostArray(ScalarType::I64, {});
    arguments[array->name] = results[array->name].view();
  }
  backend::InterpreterOptions how;
  how.checked = true;
  backend::interpret(program, backend::bind(program, arguments, {}, {}), how, nullptr);
  std::map<std::string, std::int64_t> found;
  for (const auto& [name, array] : results) found[name] = static_cast<std::int64_t>(array.get(0));
  return found;
}

TEST(CheckpointSizes, AreThoseOfTheShortestScheduleThatFits) {
  for (const std::int64_t trips : {1, 2, 5, 17, 60})
    for (const std::int64_t state : {0, 1, 3})
      for (const std::int64_t per_iteration : {1, 4})
        for (std::int64_t most = 1; most <= trips * per_iteration + 3; most += 1 + most / 8) {
          auto found = lengths(trips, state, per_iteration, most);
          SCOPED_TRACE(::testing::Message() << trips << " of " << state << " and " << per_iteration << " in " << most);
          if (trips * per_iteration <= most) {
            EXPECT_EQ(found["taped"], trips);
            EXPECT_EQ(found["blocks"], 0);
            continue;
          }
          std::int64_t shortest = -1, least = trips * per_iteration;
          for (std::int64_t leaf = 1; leaf <= trips; ++leaf)
            for (std::int64_t leaves = 1; leaves <= trips; ++leaves) {
              const std::int64_t segments = (trips + leaf - 1) / leaf, blocks = (segments + leaves - 1) / leaves;
              const std::int64_t bytes = (blocks + leaves - 1) * state + leaf * per_iteration;
              least = std::min(least, bytes);
              const std::int64_t work = trips + (segments - blocks) * leaf;
              if (bytes <= most && (shortest < 0 || work < shortest)) shortest = work;
            }
          const std::int64_t leaf = found["leaf"], leaves = found["leaves"], blocks = found["blocks"];
          EXPECT_EQ(found["taped"], 0);
          EXPECT_GE(blocks * leaves * leaf, trips);
          if (shortest < 0) {
            EXPECT_EQ(found["needed_tape_bytes"], least);
            continue;
          }
          EXPECT_EQ(found["needed_tape_bytes"], (blocks + leaves - 1) * state + leaf * per_iteration);
          EXPECT_EQ(trips + ((trips + leaf - 1) / leaf - blocks) * leaf, shortest);
          EXPECT_LE(found["needed_tape_bytes"], most);
        }
}

/// The example in checkpoint_sizes.h, and heat2d of 2048^2 with 512 MiB: 1000 states of 16 MiB.
TEST(CheckpointSizes, AThousandStepsInThirtyOneStates) {
  auto found = lengths(1000, 16, 16, 512 - 16);
  const std::int64_t again = 1000 + ((1000 + found["leaf"] - 1) / found["leaf"] - found["blocks"]) * found["leaf"];
  EXPECT_LE(found["needed_tape_bytes"], 496);
  EXPECT_LE(again, 2200) << "2.2 primal sweeps";
}

}  // namespace
}  // namespace loopgrad::test

// What counters under conditions pack and unpack: gradients, and positions on the tape that are known to differ.
#include "tests/gradient/jacobian.h"

namespace loopgrad::test {
namespace {

void check(const Program& program, bool distinct, const std::vector<Sizes>& all) {
  const Gradient gradient = differentiate(program, {});
  for (const Program& part : {gradient.forward, gradient.backward})
    EXPECT_EQ(part.str().find("_tape distinct") != std::string::npos, distinct) << part.str();
  for (const Sizes& sizes : all) {
    EXPECT_EQ(tape_bytes(program, sizes), 8 * sizes.at("n"));
    EXPECT_TRUE(gradient_is_right(program, {.sizes = sizes, .values = {}, .options = {}}));
  }
}

const std::vector<Sizes> lines{{{"n", 1}}, {{"n", 2}}, {{"n", 9}}};

TEST(ConditionalCounters, PackedElementsAreApart) {
  for (const bool descending : {false, true}) {
    ProgramBuilder p("packed");
    auto n = p.size("n");
    auto b = p.input<double>("b", {n}), c = p.input<double>("c", {n});
    auto a = p.inout<double>("a", {n});
    auto j = p.scalar<std::int64_t>("j", -1);
    for (auto i : p.loop("i", 0, n, {.descending = descending}))
      p.when(c(i) > 0.0, [&] {
        j += 1;
        a(j) = a(j) * b(i) * b(i);
      });
    const Program program = p.build();
    const Gradient gradient = differentiate(program, {});
    EXPECT_NE(gradient.backward.str().find("j_tape distinct"), std::string::npos) << gradient.backward.str();
    for (const Sizes& sizes : lines)
      EXPECT_TRUE(gradient_is_right(program, {.sizes = sizes, .values = {}, .options = {}}));
  }
}

TEST(ConditionalCounters, UnpackedOnesToo) {
  ProgramBuilder p("unpacked");
  auto n = p.size("n");
  auto b = p.input<double>("b", {n}), c = p.input<double>("c", {n});
  auto a = p.output<double>("a", {n});
  auto j = p.scalar<std::int64_t>("j", 0);
  for (auto i : p.loop("i", n))
    p.when(c(i) > 0.0, [&] {
       a(i) = b(j) * b(j) * c(i);
       j += 1;
     }).otherwise([&] { a(i) = c(i); });
  check(p.build(), true, lines);
}

TEST(ConditionalCounters, ElementsOfAGroupAreOne) {
  ProgramBuilder p("groups");
  auto n = p.size("n");
  auto b = p.input<double>("b", {n + 1}), c = p.input<double>("c", {n});
  auto a = p.output<double>("a", {n});
  auto j = p.scalar<std::int64_t>("j", 0);
  for (auto i : p.loop("i", n)) {
    p.when(c(i) > 0.0, [&] { j += 1; });
    a(i) = b(j) * b(j) * c(i);
  }
  check(p.build(), false, lines);
}

}  // namespace
}  // namespace loopgrad::test

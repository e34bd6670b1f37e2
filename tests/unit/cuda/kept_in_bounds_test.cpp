// What keeps accesses in bounds, as it is compiled for a GPU: sizes are refused on the host by the same conditions as
// for other targets, data that inputs decide are looked at by kernels, and the statements of others get conditions.
#include "backends/cuda/nvrtc.h"
#include "backends/facts_program.h"
#include "backends/runtime/solve_sizes.h"
#include "tests/unit/count_of.h"
#include "tests/unit/cuda/mapped.h"
#include "transforms/bounds/bound_accesses.h"

#include <loopgrad/loopgrad.h>

namespace loopgrad::transforms {
namespace {

/// The CUDA of a program; compiled where NVRTC is found.
std::string compiled(const ir::Program& program) {
  Report report;
  const LowerOptions options = {.machine = small_gpu(1), .threads_per_block = 32};
  const ir::Program lowered = lower_for(program, options, report).program;
  ir::verify(lowered, "map_to_gpu");
  const std::string source = backend::emit_cuda({lowered}).source();
  if (backend::has_nvrtc()) {
    EXPECT_NO_THROW(backend::compile_cubin(source, "sm_80", program.name));
  }
  return source;
}

enum class Decides { Sizes, Inputs, Program };

/// y[2*i + 1] = x[i], when it is decided so.
Program spread(Decides who) {
  ProgramBuilder p("spread");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<float>("x", {n});
  auto y = p.inout<float>("y", {m});
  auto t = p.local<float>("t", {n});
  for (auto i : p.loop("i", 0, n)) t(i) = x(i) * x(i);
  for (auto i : p.loop("j", 0, n)) {
    if (who == Decides::Sizes) y(2 * i + 1) = t(i);
    if (who == Decides::Inputs) p.when(x(i) > 0.0f, [&] { y(2 * i + 1) = t(i); });
    if (who == Decides::Program) p.when(t(i) > 1.0f, [&] { y(2 * i + 1) = t(i); });
  }
  return p.build();
}

TEST(KeptInBounds, BySizes) {
  const Program program = spread(Decides::Sizes);
  const backend::FactsProgram facts = backend::facts_program(program.ir());
  ASSERT_EQ(facts.of_sizes.size(), 1u);
  EXPECT_TRUE(ir::is_empty(facts.program.body));
  const auto refuses = [&](std::int64_t n, std::int64_t m) {
    return backend::evaluate(facts.of_sizes[0].broken, {{program.ir().sizes[0], n}, {program.ir().sizes[1], m}}) != 0;
  };
  EXPECT_FALSE(refuses(4, 8));
  EXPECT_TRUE(refuses(4, 7));
  EXPECT_FALSE(refuses(0, 0));
  Record record;
  EXPECT_EQ(bound_accesses(program.ir(), true, record).body.get(), program.ir().body.get()) << "costs nothing";
  compiled(program.ir());
}

TEST(KeptInBounds, ByInputsThatAKernelLooksAt) {
  const Program program = spread(Decides::Inputs);
  const backend::FactsProgram facts = backend::facts_program(program.ir());
  EXPECT_TRUE(facts.of_sizes.empty());
  EXPECT_EQ(facts.sites.size(), 1u);
  ASSERT_TRUE(facts.needed) << "only for sizes that are suspicious";
  EXPECT_NE(compiled(facts.program).find("__global__"), std::string::npos);
}

TEST(KeptInBounds, ByAConditionThatLeavesTheLoopParallel) {
  const Program program = spread(Decides::Program);
  EXPECT_TRUE(backend::facts_program(program.ir()).of_sizes.empty());
  Record record;
  const ir::Program bounded = bound_accesses(program.ir(), false, record);
  EXPECT_EQ(record.sites.size(), 1u);
  Report report;
  const ir::Program lowered = shared_passes(bounded, SumMode::Restructured, report);
  EXPECT_EQ(outer_parallel_loops(lowered.body).size(), 2u) << ir::print(lowered.body);
  compiled(bounded);
}

TEST(KeptInBounds, IndicesThatMoveEvenlyAreLookedAtBeforeTheirLoop) {
  ProgramBuilder p("windows");
  auto n = p.size("n"), m = p.size("m"), width = p.size("width");
  auto x = p.input<float>("x", {m});
  auto y = p.inout<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto c = p.scalar<std::int64_t>("c");
    c = cast<std::int64_t>(y(i));
    for (auto k : p.loop("k", 0, width)) y(i) += x(c - 2 * k);
  }
  Record record;
  const std::string text = ir::print(bound_accesses(p.build().ir(), true, record).body);
  EXPECT_EQ(record.sites.size(), 1u);
  EXPECT_EQ(count_of(text, "indices[0] max= "), 2) << text;  // the first and the last of a row
  EXPECT_LT(text.rfind("indices[0] max= "), text.find("for k")) << text;
  EXPECT_NE(text.find("if 0 < width:"), std::string::npos) << text;
}

TEST(KeptInBounds, EqualIndicesOfAStatementAreLookedAtOnce) {
  ProgramBuilder p("cells");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<float>("x", {m, m}), z = p.input<float>("z", {m});
  auto y = p.inout<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto c = p.scalar<std::int64_t>("c");
    c = cast<std::int64_t>(y(i));
    y(i) = x(c, c + 1) * z(c) + x(c + 1, c);
  }
  Record record;
  const std::string text = ir::print(bound_accesses(p.build().ir(), true, record).body);
  EXPECT_EQ(record.sites.size(), 2u) << text;
  EXPECT_EQ(count_of(text, "max(min("), 5) << text;  // every index is brought into range
}

TEST(KeptInBounds, AnIndexIsLookedAtAgainWhereItMayBeAnother) {
  ProgramBuilder p("walks");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<float>("x", {m}), z = p.input<float>("z", {m});
  auto y = p.inout<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto c = p.scalar<std::int64_t>("c");
    c = cast<std::int64_t>(y(i));
    y(i) = x(c);                                                                          // looked at
    y(i) += z(c);                                                                         // the same index and extent
    p.when(y(i) > 1.0f, [&] { y(i) += x(c + 1); }).otherwise([&] { y(i) += z(c + 1); });  // in each branch
    y(i) += x(c + 1);                                                                     // neither need have run
    for (auto k : p.loop("k", 0, 3)) {
      y(i) += x(c) * cast<float>(k);  // another one from the second trip on
      c += 1;
    }
    y(i) += z(c);
  }
  Record record;
  const std::string text = ir::print(bound_accesses(p.build().ir(), true, record).body);
  EXPECT_EQ(record.sites.size(), 6u) << text;
}

}  // namespace
}  // namespace loopgrad::transforms

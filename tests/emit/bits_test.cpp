// Emitted sources, compiled as a user would, against what the JIT makes of the same gradient: all bits are the same.
#include "tests/emit/emitted_library.h"
#include "tools/cli/buffers.h"
#include "tools/programs/programs.h"

#include <gtest/gtest.h>

namespace loopgrad {
namespace {

using test::EmittedLibrary;

struct Case {
  const char* name;
  ProgramEntry (*entry)();
  Sizes sizes;
  bool products = false;
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

/// Sizes at which loops run in parallel, sums in blocks and products in the library.
const std::vector<Case>& cases() {
  using namespace programs;
  static const std::vector<Case> all = {
      {"csr_sum", csr_sum, {{"V", 500}, {"E", 6000}, {"D", 37}}},       // CSR, a sort
      {"embedding", embedding, {{"n", 700}, {"rows", 90}, {"d", 65}}},  // a sort
      {"histogram", histogram, {{"n", 50000}, {"bins", 50}}},           // indices that data decide
      {"heat2d", heat2d, {{"n", 60}, {"m", 70}, {"T", 9}}},             // time steps
      {"softmax", softmax, {{"rows", 77}, {"cols", 300}}},              // a tape
      {"mlp", mlp, {{"batch", 40}, {"in", 100}, {"hidden1", 90}, {"hidden2", 80}, {"classes", 10}}, true},
      {"splat", splat, {{"n", 800}, {"g", 14}}},  // integers on the tape
  };
  return all;
}

class EmittedBits : public testing::TestWithParam<Case> {};

TEST_P(EmittedBits, AreThoseOfTheJit) {
  const Case& one = GetParam();
  const ProgramEntry entry = one.entry();
  Sizes sizes = entry.sizes;
  for (const auto& [name, value] : one.sizes) {
    ASSERT_TRUE(sizes.count(name)) << name;
    sizes[name] = value;
  }
  const Program program = entry.build();
  const Gradient gradient = differentiate(program, {.wrt = entry.wrt});
  const CompileOptions options{.expected_sizes = sizes};
  cli::Arrays initial = cli::make_inputs(entry, program, sizes, 7);
  initial.merge(cli::make_incoming(program, sizes, 8));
  cli::Buffers by_jit({gradient.forward, gradient.backward}, sizes, std::move(initial), false);
  cli::Arrays again = cli::make_inputs(entry, program, sizes, 7);
  again.merge(cli::make_incoming(program, sizes, 8));
  cli::Buffers emitted({gradient.forward, gradient.backward}, sizes, std::move(again), false);
  by_jit.reset();
  emitted.reset();

  const GradientExecutable jit = compile(gradient, options);
  jit.forward(by_jit.arguments(0), sizes);
  jit.backward(by_jit.arguments(1), sizes);

  EmittedLibrary library(gradient, entry.name, options, one.products);
  ASSERT_EQ(library.memory(sizes, 2), 0);
  Arguments all = emitted.arguments(0);
  for (const auto& [name, view] : emitted.arguments(1)) all[name] = view;
  const int forward = library.forward(sizes, all, 2);
  ASSERT_EQ(forward, 0) << library.error_text(forward);
  const int backward = library.backward(sizes, all, 2, 1);
  ASSERT_EQ(backward, 0) << library.error_text(backward);
  std::vector<std::string> names;
  for (const auto& [name, view] : all) names.push_back(name);
  for (const std::string& name : names)
    EXPECT_EQ(cli::hash_bits(by_jit, {name}), cli::hash_bits(emitted, {name})) << name;
  // Once more with what was sorted, and with one thread: its workspace is another one's.
  EXPECT_EQ(library.backward(sizes, all, 2, 3), 0);
  EXPECT_EQ(cli::hash_bits(by_jit, names), cli::hash_bits(emitted, names));
}

INSTANTIATE_TEST_SUITE_P(Programs, EmittedBits, testing::ValuesIn(cases()),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace loopgrad

// Emitted sources, compiled as a user would, against what the JIT makes of the same gradient: all bits are the same.
#include "tests/emit/emitted_library.h"
#include "tools/cli/buffers.h"
#include "tools/cli/timed_gradient.h"
#include "tools/programs/programs.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>

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

/// Two sets of the same arguments of a program.
struct Runs {
  explicit Runs(const Case& one) : entry(one.entry()), sizes(entry.sizes), program(entry.build()) {
    for (const auto& [name, value] : one.sizes) sizes.at(name) = value;
    gradient = std::make_unique<Gradient>(differentiate(program, {.wrt = entry.wrt}));
  }
  cli::Buffers buffers() const {
    cli::Arrays initial = cli::make_inputs(entry, program, sizes, 7);
    initial.merge(cli::make_incoming(program, sizes, 8));
    cli::Buffers made({gradient->forward, gradient->backward}, sizes, std::move(initial), false);
    made.reset();
    return made;
  }
  static Arguments all_of(const Arguments& forward, const Arguments& backward) {
    Arguments all = forward;
    all.insert(backward.begin(), backward.end());
    return all;
  }

  ProgramEntry entry;
  Sizes sizes;
  Program program;
  std::unique_ptr<Gradient> gradient;
};

TEST_P(EmittedBits, AreThoseOfTheJit) {
  const Runs runs(GetParam());
  const Sizes& sizes = runs.sizes;
  const CompileOptions options{.expected_sizes = sizes};
  const cli::Buffers by_jit = runs.buffers(), emitted = runs.buffers();
  const GradientExecutable jit = compile(*runs.gradient, options);
  jit.forward(by_jit.arguments(0), sizes);
  jit.backward(by_jit.arguments(1), sizes);

  EmittedLibrary library(*runs.gradient, runs.entry.name, options, GetParam().products);
  ASSERT_EQ(library.memory(sizes, 2), 0);
  const Arguments all = Runs::all_of(emitted.arguments(0), emitted.arguments(1));
  const int forward = library.forward(sizes, all, 2);
  ASSERT_EQ(forward, 0) << library.error_text(forward);
  const int backward = library.backward(sizes, all, 2, 1);
  ASSERT_EQ(backward, 0) << library.error_text(backward);
  std::vector<std::string> names;
  for (const auto& [name, view] : all) names.push_back(name);
  for (const std::string& name : names)
    EXPECT_EQ(cli::hash_bits(by_jit, {name}), cli::hash_bits(emitted, {name})) << name;
  // Once more with what was sorted, and with one thread, for which its workspace is large enough.
  EXPECT_EQ(library.backward(sizes, all, 1, 3), 0);
  EXPECT_EQ(cli::hash_bits(by_jit, names), cli::hash_bits(emitted, names));
}

TEST_P(EmittedBits, AreThoseOfTheJitOnAGpu) {
  std::string why;
  if (!has_cuda(&why)) GTEST_SKIP() << why;
  if (std::system("nvcc --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "there is no nvcc";
  const Runs runs(GetParam());
  const Sizes& sizes = runs.sizes;
  const CompileOptions options{.target = Target::Cuda, .expected_sizes = sizes};
  cli::Buffers by_jit = runs.buffers(), emitted = runs.buffers();
  const GradientExecutable jit = compile(*runs.gradient, options);
  cli::TimedGradient timed(jit, by_jit, Target::Cuda);
  timed.run();
  timed.fetch();

  EmittedLibrary library(*runs.gradient, runs.entry.name, options, GetParam().products);
  ASSERT_EQ(library.memory(sizes, 0), 0);
  const Arguments all = Runs::all_of(emitted.arguments(0), emitted.arguments(1));
  std::map<std::string, DeviceArray> device;
  Arguments on_device;
  for (const auto& [name, view] : all) {
    DeviceArray& array = device[name] = DeviceArray(view.type, view.shape);
    array.upload(view.data);
    on_device[name] = array.view();
  }
  for (const unsigned flags : {0u, 3u}) {
    const int forward = library.forward(sizes, on_device, 0, flags);
    ASSERT_EQ(forward, 0) << library.error_text(forward);
    const int backward = library.backward(sizes, on_device, 0, flags);
    ASSERT_EQ(backward, 0) << library.error_text(backward);
    cuda_synchronize();
    for (const auto& [name, view] : all) device[name].download(view.data);
    for (const auto& [name, view] : all)
      EXPECT_EQ(cli::hash_bits(by_jit, {name}), cli::hash_bits(emitted, {name})) << name << ", flags " << flags;
  }
  const int refused = library.forward(sizes, all, 0);  // memory of the host
  EXPECT_EQ(refused & 255, 1) << library.error_text(refused);
}

INSTANTIATE_TEST_SUITE_P(Programs, EmittedBits, testing::ValuesIn(cases()),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace loopgrad

// The generated CUDA of every built-in program and every variant, compiled to machine code: the default one for two
// architectures and in two forms, the others for one. Needs NVRTC but no GPU. The checked interpreter runs the same
// mapped programs in `loopgrad check`.
#include "tools/programs/programs.h"
#include "backends/cuda/emitter.h"
#include "backends/cuda/index_width.h"
#include "backends/cuda/nvrtc.h"
#include "backends/lowering.h"
#include "tests/support/print.h"
#include "tests/unit/transforms/passes.h"

#include <gtest/gtest.h>

namespace lg = loopgrad;

namespace {

using Case = std::tuple<std::string, lg::Variant>;

std::vector<std::string> names() {
  std::vector<std::string> result;
  for (const lg::ProgramEntry& entry : lg::programs::all()) result.push_back(entry.name);
  return result;
}

std::string name_of_case(const testing::TestParamInfo<Case>& info) {
  std::string name = std::get<0>(info.param) + "_" + lg::name_of(std::get<1>(info.param));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

class CompileCuda : public testing::TestWithParam<Case> {};

const std::string oldest = "sm_80", newest = "sm_90";

/// The older one must have the atomics that are used, too.
std::vector<std::string> architectures_of(lg::Variant variant) {
  if (variant == lg::Variant::Restructured) return {oldest, newest};
  return {variant == lg::Variant::Atomic ? oldest : newest};
}

TEST_P(CompileCuda, ToMachineCode) {
  if (!lg::backend::has_nvrtc()) GTEST_SKIP() << "no libnvrtc on this machine: nothing is compiled";
  const auto& [name, variant] = GetParam();
  const lg::ProgramEntry entry = lg::programs::named(name);
  const lg::Gradient gradient = lg::differentiate(entry.build(), {.wrt = entry.wrt, .of = {}, .variant = variant});
  lg::CompileOptions options;
  options.target = lg::Target::Cuda;
  lg::Report ignored;
  const lg::backend::LoweredGradient lowered = lg::backend::lower_gradient(gradient, options, ignored, ignored);
  const std::vector<lg::ir::Program> programs = {lowered.sizing.program, lowered.forward.program,
                                                 lowered.backward.program};
  const lg::backend::CudaUnit unit = lg::backend::emit_cuda(programs);
  for (const std::string& architecture : architectures_of(variant)) {
    const bool one_turn = unit.any_form && architecture == newest;
    const std::string source = one_turn ? unit.source(lg::backend::KernelForm::OneTurn) : unit.source();
    // What devices of today run is compiled as they run it.
    const bool as_it_runs = variant == lg::Variant::Restructured && architecture == newest;
    const auto compile = as_it_runs ? lg::backend::compile_cubin : lg::backend::compile_quickly;
    EXPECT_FALSE(compile(source, architecture, name).empty()) << architecture;
  }
}

TEST(IndexWidth, FollowsFromTheSizes) {
  for (const lg::ProgramEntry& entry : lg::programs::all()) {
    const lg::Gradient gradient =
        lg::differentiate(entry.build(), {.wrt = entry.wrt, .of = {}, .variant = lg::Variant::Restructured});
    const lg::ir::Program mapped = lg::transforms::lowered_to_gpu(gradient.backward.ir());
    lg::backend::SizeValues small, large;
    for (const lg::ir::Symbol& size : mapped.sizes) {
      small[size] = entry.sizes.at(size.name);
      large[size] = small[size] << 31;
    }
    EXPECT_TRUE(lg::backend::has_narrow_indices(mapped, small)) << entry.name;
    EXPECT_FALSE(lg::backend::has_narrow_indices(mapped, large)) << entry.name;
  }
}

TEST(IndexWidth, IndicesComputedFromDataKeepTheirType) {
  lg::ProgramBuilder p("rows_by_number");
  auto n = p.size("n"), rows = p.size("rows"), entries = p.size("entries");
  auto which = p.input<int>("which", {n});
  auto ptr = p.input<int>("ptr", {rows + 1});
  auto x = p.input<float>("x", {entries});
  auto y = p.output<float>("y", {n});
  p.in_range(which, 0, rows);
  p.csr(ptr, entries);
  for (auto i : p.loop("i", 0, n)) {
    y(i) = 0.0f;
    for (auto e : p.loop("e", ptr(which(i)), ptr(which(i) + 1))) y(i) += x(e);
  }
  const lg::ir::Program mapped = lg::transforms::lowered_to_gpu(p.build().ir());
  lg::backend::SizeValues sizes;
  for (const lg::ir::Symbol& size : mapped.sizes) sizes[size] = 1000;
  EXPECT_TRUE(lg::backend::has_narrow_indices(mapped, sizes));
}

INSTANTIATE_TEST_SUITE_P(Programs, CompileCuda,
                         testing::Combine(testing::ValuesIn(names()),
                                          testing::Values(lg::Variant::NaiveTape, lg::Variant::Atomic,
                                                          lg::Variant::Restructured)),
                         name_of_case);

}  // namespace

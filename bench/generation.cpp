// Time from a recorded program to a gradient that can run, per built-in program.
//   differentiate/P  adjoint, tape plan
//   lower/P          summation plan and parallel loops of forward and backward
//   openmp/P         all of it and more: from the recorded program to C++ text, mapped to the CPU at its usual sizes
//   cuda/P           the same to CUDA C++ text
//   ready/P          openmp/P, with the kernel found in the cache and loaded
#include "backends/cuda/emitter.h"
#include "backends/openmp/emitter.h"
#include "tools/programs/programs.h"
#include "transforms/cpu/map_to_cpu.h"
#include "transforms/gpu/map_to_gpu.h"
#include "transforms/pipeline.h"

#include <loopgrad/compile.h>

#include <benchmark/benchmark.h>

namespace {

using namespace loopgrad;

void differentiate_program(benchmark::State& state, const ProgramEntry& entry) {
  const Program program = entry.build();
  for (auto _ : state) benchmark::DoNotOptimize(differentiate(program, {.wrt = entry.wrt}));
}

void lower_program(benchmark::State& state, const ProgramEntry& entry) {
  const Gradient gradient = differentiate(entry.build(), {.wrt = entry.wrt});
  for (auto _ : state) {
    Report report;
    benchmark::DoNotOptimize(transforms::lower(gradient.forward.ir(), transforms::SumMode::Restructured, report));
    benchmark::DoNotOptimize(transforms::lower(gradient.backward.ir(), transforms::SumMode::Restructured, report));
  }
}

std::vector<ir::Program> lowered(const ProgramEntry& entry, std::int64_t tree_blocks) {
  const Gradient gradient = differentiate(entry.build(), {.wrt = entry.wrt});
  std::vector<ir::Program> result;
  Report report;
  for (const Program* program : {&gradient.sizing, &gradient.forward, &gradient.backward})
    result.push_back(
        transforms::lower(program->ir(), transforms::SumMode::Restructured, report, {{}, entry.sizes, tree_blocks}));
  return result;
}

void openmp_program(benchmark::State& state, const ProgramEntry& entry) {
  for (auto _ : state) {
    std::vector<ir::Program> programs = lowered(entry, transforms::cpu_tree_blocks);
    for (ir::Program& program : programs) program = transforms::map_to_cpu(program);
    benchmark::DoNotOptimize(backend::emit_openmp(programs));
  }
}

void cuda_program(benchmark::State& state, const ProgramEntry& entry) {
  for (auto _ : state) {
    std::vector<ir::Program> programs = lowered(entry, transforms::gpu_tree_blocks);
    for (ir::Program& program : programs) program = transforms::map_to_gpu(program, {});
    benchmark::DoNotOptimize(backend::emit_cuda(programs));
  }
}

void ready_program(benchmark::State& state, const ProgramEntry& entry) {
  const Program program = entry.build();
  compile_gradient(program, {.wrt = entry.wrt});  // fills the cache
  for (auto _ : state) {
    const GradientExecutable executable = compile_gradient(program, {.wrt = entry.wrt});
    if (!executable.from_cache()) state.SkipWithError("the kernel was not in the cache");
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto entries = programs::all();
  for (const ProgramEntry& entry : entries) {
    const auto add = [&](const std::string& what, auto run) {
      benchmark::RegisterBenchmark((what + "/" + entry.name).c_str(), run, entry)->Unit(benchmark::kMillisecond);
    };
    add("differentiate", differentiate_program);
    add("lower", lower_program);
    add("openmp", openmp_program);
    add("cuda", cuda_program);
    add("ready", ready_program);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}

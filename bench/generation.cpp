// Time from a recorded program to a gradient that can run, per built-in program.
//   differentiate/P  adjoint, tape plan
//   lower/P          summation plan and parallel loops of forward and backward
//   openmp/P         all of it and more: from the recorded program to C++ text, mapped to the CPU at its usual sizes
//   cuda/P           the same to CUDA C++ text
//   ready/P          openmp/P, with the kernel found in the cache and loaded
#include "backends/cuda/emitter.h"
#include "backends/openmp/emitter.h"
#include "tools/programs/programs.h"
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
    const transforms::LowerOptions options = {.last = transforms::Part::Shared};
    benchmark::DoNotOptimize(transforms::lower_for(gradient.forward.ir(), options, report));
    benchmark::DoNotOptimize(transforms::lower_for(gradient.backward.ir(), options, report));
  }
}

std::vector<ir::Program> lowered(const ProgramEntry& entry, const transforms::Machine& machine) {
  const Gradient gradient = differentiate(entry.build(), {.wrt = entry.wrt});
  std::vector<ir::Program> result;
  Report report;
  const transforms::LowerOptions options = {.machine = machine, .expected_sizes = entry.sizes};
  for (const Program* program : {&gradient.sizing, &gradient.forward, &gradient.backward})
    result.push_back(transforms::lower_for(program->ir(), options, report).program);
  return result;
}

void openmp_program(benchmark::State& state, const ProgramEntry& entry) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(backend::emit_openmp(lowered(entry, transforms::cpu_machine())));
  }
}

void cuda_program(benchmark::State& state, const ProgramEntry& entry) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(backend::emit_cuda(lowered(entry, transforms::gpu_machine())));
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

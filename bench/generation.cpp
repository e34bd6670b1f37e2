// Time from a recorded program to a gradient that can run, per built-in program.
//   differentiate/P  adjoint, tape plan
//   lower/P          summation plan and parallel loops of forward and backward
//   ready/P          all of it, C++ text included, with the kernel found in the cache and loaded
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
    benchmark::DoNotOptimize(transforms::lower(gradient.forward.ir(), transforms::SumMode::Restructured, report));
    benchmark::DoNotOptimize(transforms::lower(gradient.backward.ir(), transforms::SumMode::Restructured, report));
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
    add("ready", ready_program);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}

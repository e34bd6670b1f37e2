// Parts of the list of passes, for tests.
#pragma once

#include "transforms/pipeline.h"

namespace loopgrad::transforms {

/// The passes that all targets share.
inline ir::Program shared_passes(const ir::Program& program, SumMode mode, Report& report,
                                 const Machine& machine = cpu_machine()) {
  return lower_for(program, {.mode = mode, .machine = machine, .last = Part::Shared}, report).program;
}

/// For a device that `enough_threads` fill, so that small programs are mapped as large ones are.
inline Machine small_gpu(std::int64_t enough_threads) {
  Machine machine = gpu_machine();
  machine.enough_threads = enough_threads;
  return machine;
}

/// One that sorts where it could take whole numbers as well.
inline Machine sorting_gpu() {
  Machine machine = gpu_machine();
  machine.ns_per_whole_sum = 1e12;
  return machine;
}

/// The passes after those that all targets share.
inline ir::Program mapped_to(const Machine& machine, const ir::Program& program, int threads_per_block = 0) {
  Report report;
  const LowerOptions options = {.machine = machine, .threads_per_block = threads_per_block, .first = Part::Mapping};
  return lower_for(program, options, report).program;
}
inline ir::Program mapped_to_cpu(const ir::Program& program) { return mapped_to(cpu_machine(), program); }
/// Loops as they are, and how a CPU runs them.
inline ir::Program run_by_cpu(const ir::Program& program) {
  Report report;
  return lower_for(program, {.first = Part::Running}, report).program;
}
inline ir::Program mapped_to_gpu(const ir::Program& program) { return mapped_to(gpu_machine(), program); }

/// All passes for a GPU.
inline ir::Program lowered_to_gpu(const ir::Program& program, SumMode mode = SumMode::Restructured) {
  Report report;
  return lower_for(program, {.mode = mode, .machine = gpu_machine()}, report).program;
}

}  // namespace loopgrad::transforms

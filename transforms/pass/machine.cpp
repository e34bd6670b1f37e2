#include "transforms/pass/machine.h"

namespace loopgrad::transforms {

Machine cpu_machine() {
  Machine m;
  m.kind = MachineKind::Cpu;
  m.threads = 16;
  m.cache_bytes = 256 * 1024;
  m.lanes = 64;
  m.ns_per_operation = 0.1;
  m.ns_per_access = 0.05;
  m.ns_per_byte = 0.1;
  m.ns_per_atomic = 5;
  m.ns_per_contended_atomic = 35;
  m.start_us = 3;
  m.most_partials = 64;
  m.enough_threads = 16;
  return m;
}

Machine gpu_machine() {
  // Estimates are those of the CPU so far: they only choose between ways whose ratio is much the same.
  Machine m = cpu_machine();
  m.kind = MachineKind::Gpu;
  m.most_partials = 1024;  // blocks enough for all of its processors
  m.enough_threads = 64 * 1024;
  m.most_in_place = 2;  // on an H200 a wave's step in two levels takes 8 % more time than in three
  m.sorts_scatters = true;
  m.counts_kernels = true;
  return m;
}

}  // namespace loopgrad::transforms

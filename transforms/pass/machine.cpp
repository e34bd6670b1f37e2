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
  m.ns_per_contended_atomic = 2200;
  m.ns_per_sorted_key = 6.4;
  m.start_us = 3;
  m.most_partials = 64;
  m.least_piece = 1024;
  m.enough_threads = 16;
  m.elements_at_once = 32;  // two cache lines of f32
  m.least_scanned = 128 * 1024;
  return m;
}

Machine gpu_machine() {
  Machine m;
  m.kind = MachineKind::Gpu;
  // One thread of an H200 waits for what it asked for: 4 cycles of 1.75 GHz for an operation, some 600 ns for a line of
  // memory, of which several are under way. From 64 thousand threads on the throughputs are reached: 4 TB/s, 26
  // operations a picosecond, and on an H100, of the shared cache, 78 atomic sums of 32 bits a nanosecond into different
  // elements, 4.3 into 300 of them, 110 extrema, 55 sums of 64 bits, 5.8 into 300. 4 million keys are sorted
  // in 0.3 ms, 16 million, which are in memory, in 3.4 ms.
  m.threads = 64 * 1024;
  m.block_threads = 256;
  m.cache_bytes = 256 * 1024;
  m.lanes = 64;
  m.ns_per_operation = 2.5;
  m.ns_per_access = 1.25;
  m.ns_per_byte = 16;
  // A block's partial results in memory, several thousand of them, are loaded and stored one after the other: a mixture
  // of Gaussians (1e5 points, 25 of dimension 20) took 15 ms for 1e9 updates by 25 thousand threads.
  m.ns_per_update = 400;
  m.ns_per_atomic = 840;
  m.ns_per_contended_atomic = 4.6e6;
  m.ns_per_whole_sum = 1800;
  m.ns_per_contended_whole_sum = 6.9e6;
  m.ns_per_sorted_key = 6000;  // two or three passes over as many keys as fit a shared cache
  m.shared_cache_bytes = 50e6;
  m.start_us = 3;
  m.most_partials = 1024;  // blocks enough for all of its processors
  m.least_piece = 64;
  m.enough_threads = 64 * 1024;
  m.most_in_place = 2;    // on an H200 a wave's step in two levels takes 8 % more time than in three
  m.least_scanned = 256;  // one thread takes 50 ns for each, three kernels 10 us
  m.scan_tile = 2048;     // eight iterations for each of 256 threads
  m.tile_threads = 128;   // conv2d 0.67 + 2.0 -> 0.48 + 0.52 ms, matmul of 2048 by loops 1.37 + 3.64 -> 0.46 + 0.90
  m.sorts_scatters = true;
  m.counts_kernels = true;
  return m;
}

}  // namespace loopgrad::transforms

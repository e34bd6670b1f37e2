// The machine that plans and mappings are made for: what decides between ways of doing the same.
//
// It is an argument, never the machine at hand, so that plans, and with them the bits of a result, are the same
// everywhere. A number that only one decision uses stands beside that decision; what several of them use, or what
// differs from machine to machine, stands here with the measurement that set it.
#pragma once

#include <cstdint>

namespace loopgrad::transforms {

enum class MachineKind {
  Cpu,  // threads with vector lanes, caches, parallel regions of OpenMP
  Gpu,  // a grid of blocks of threads, kernels in a row
};

struct Machine {
  MachineKind kind = MachineKind::Cpu;

  // Estimates of time (sum_cost), of one thread, of which there are `threads`. On a GPU these are slow and many.
  double threads = 1;
  double block_threads = 1;                        // that can share the loops inside one iteration of a parallel loop
  double cache_bytes = 0;                          // that one thread has for itself
  double line_bytes = 64;                          // fetched together
  double lanes = 1;                                // iterations that run side by side in one thread
  double ns_per_operation = 0, ns_per_access = 0;  // an access to the next element, in the cache
  double ns_per_byte = 0;                          // from memory
  double ns_per_update = 0;                        // of an element in memory, where one thread does many in a row
  // Atomic operations: where all threads wait for one element, the second number, shared by as many as there are.
  double ns_per_atomic = 0, ns_per_contended_atomic = 0;
  double ns_per_whole_sum = 0, ns_per_contended_whole_sum = 0;  // an extremum and a sum of 64 bits in the shared cache
  double ns_per_sorted_key = 0;                                 // to bring an iteration into the order of its target
  double shared_cache_bytes = 0;
  double start_us = 0;  // of a parallel region or a kernel

  // What plans are allowed to make of it.
  std::int64_t most_partials = 1;   // partial results of one sum, whatever the number of threads
  std::int64_t least_piece = 1;     // iterations of a row that a partial result of its own is worth, where rows are few
  std::int64_t enough_threads = 1;  // fewer iterations at once leave the machine half empty
  std::int64_t most_in_place = 0;   // levels of a window of which one may take the place of another; 0: any number
  std::int64_t elements_at_once = 0;  // that a thread sums side by side where their loop does best innermost; 0: none,
                                      // neighbouring threads have neighbouring elements
  std::int64_t least_scanned = 0;  // iterations of a recurrence from which on pieces of it side by side pay; 0: never
  std::int64_t scan_tile = 0;      // iterations of it that a block of a GPU does together
  std::int64_t tile_threads =
      0;                        // of a block that keeps what its dense sums load in memory that it shares; 0: none does
  bool sorts_scatters = false;  // iterations are sorted by targets that data decide, at the speed of memory
  bool wide_floats = false;     // numbers of 32 bits have the digits of 64, as an interpreter may compute them
  bool counts_kernels = false;  // many small parallel loops in a row cost more than what is in them

  bool is_gpu() const { return kind == MachineKind::Gpu; }
};

/// A server's processor with 16 cores.
Machine cpu_machine();
/// A data centre's GPU of the kind of an H200.
Machine gpu_machine();

}  // namespace loopgrad::transforms

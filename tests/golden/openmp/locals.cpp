static int run_locals(int64_t n, int64_t m, const float* __restrict x, uint16_t* __restrict y,
    loopgrad_block* workspace, int threads) {
  int status = loopgrad_ok;
  // emitter_test.cpp:51
  Scratch<float> all_memory(workspace, 0);
  if (!all_memory.reserve(1, {n})) return loopgrad_out_of_memory;
  float* const all = all_memory.part(0);
  // emitter_test.cpp:55
  Scratch<double> row_memory(workspace, 1);
  if (!row_memory.reserve(threads, {m})) return loopgrad_out_of_memory;
  // emitter_test.cpp:52
  #pragma omp parallel num_threads(threads) if (parallel : n * (m * 4 + 12) >= 20000)
  [=, &status](const float* __restrict x, uint16_t* __restrict y, float* __restrict all,
      double* __restrict row) __attribute__((always_inline)) {
    Scratch<float> part_memory;
    #pragma omp for schedule(static) nowait
    for (int64_t i = 0; i < n; ++i) {
      // emitter_test.cpp:53
      float s;
      // emitter_test.cpp:54
      alignas(64) float small[4];
      // emitter_test.cpp:56
      if (!part_memory.reserve(1, {Extent(i) + 1})) {
        #pragma omp atomic write
        status = loopgrad_out_of_memory;
      } else {
        float* const part = part_memory.part(0);
        // emitter_test.cpp:57
        s = 1.0f;
        // emitter_test.cpp:58
        small[0] = s;
        // emitter_test.cpp:59
        #pragma omp simd
        for (int64_t j = 0; j < m; ++j) {
          row[j] = double(x[i * m + j]);
        }
        // emitter_test.cpp:60
        part[i] = float(row[m - 1]) + small[0];
        // emitter_test.cpp:61
        all[i] = part[i];
        // emitter_test.cpp:62
        y[i] = to_f16(all[i]);
      }
    }
  }(x, y, all, row_memory.part(omp_get_thread_num()));
  if (status != loopgrad_ok) return status;
  return loopgrad_ok;
}

extern "C" int locals(const locals_args* args) {
  const int threads = args->num_threads > 0 ? static_cast<int>(args->num_threads) : omp_get_max_threads();
  return run_locals(args->n, args->m, args->x, args->y, args->workspace, threads);
}

static int run_graph_max(int64_t v, int64_t d, const int32_t* __restrict ptr,
    const int32_t* __restrict col, const float* __restrict h, float* __restrict y, int threads) {
  // emitter_test.cpp:38
  #pragma omp parallel num_threads(threads) if (parallel : v * (d * 3 + 8 * (d * 6 + 2)) >= 20000)
  [=](const int32_t* __restrict ptr, const int32_t* __restrict col, const float* __restrict h,
      float* __restrict y) __attribute__((always_inline)) {
    const int64_t r_share = v / (64 * threads) + 1;
    #pragma omp for schedule(dynamic, r_share) nowait
    for (int64_t r = 0; r < v; ++r) {
      // emitter_test.cpp:39
      #pragma omp simd
      for (int64_t f = 0; f < d; ++f) {
        y[r * d + f] = 0.0f;
      }
      // emitter_test.cpp:40
      const int64_t j_end = int64_t(ptr[r + 1]);
      const int64_t j_begin = int64_t(ptr[r]);
      for (int64_t j = j_begin; j < j_end; ++j) {
        // emitter_test.cpp:41
        #pragma omp simd
        for (int64_t f_1 = 0; f_1 < d; ++f_1) {
          y[r * d + f_1] = max_of(y[r * d + f_1], h[int64_t(col[j]) * d + f_1]);
        }
      }
    }
  }(ptr, col, h, y);
  return loopgrad_ok;
}

extern "C" int graph_max(const graph_max_args* args) {
  const int threads = args->num_threads > 0 ? static_cast<int>(args->num_threads) : omp_get_max_threads();
  return run_graph_max(args->v, args->d, args->ptr, args->col, args->h, args->y, threads);
}

static int run_heads(int64_t h, int64_t n, int64_t d, const float* __restrict q, float* __restrict y,
    int threads) {
  // emitter_test.cpp:92
  #pragma omp parallel num_threads(threads) if (parallel : h * (n * (d * 7 + 5)) >= 20000)
  [=](const float* __restrict q, float* __restrict y) __attribute__((always_inline)) {
    #pragma omp for schedule(static) collapse(2) nowait
    for (int64_t a = 0; a < h; ++a) {
      for (int64_t i = 0; i < n; ++i) {
        // emitter_test.cpp:95
        float y_sum = 0.0f;
        #pragma omp simd reduction(+ : y_sum)
        for (int64_t k = 0; k < d; ++k) {
          y_sum = fused(q[(a * n + i) * d + k], q[(a * n + i) * d + k], y_sum);
        }
        y[a * n + i] = y_sum;
      }
    }
  }(q, y);
  return loopgrad_ok;
}

extern "C" int heads(const heads_args* args) {
  const int threads = args->num_threads > 0 ? static_cast<int>(args->num_threads) : omp_get_max_threads();
  return run_heads(args->h, args->n, args->d, args->q, args->y, threads);
}

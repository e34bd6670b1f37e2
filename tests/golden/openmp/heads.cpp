static int run_heads(int64_t h, int64_t n, int64_t d, const float* __restrict q, float* __restrict y,
    int threads) {
  // emitter_test.cpp:90
  #pragma omp parallel for schedule(static) collapse(2) num_threads(threads) if (parallel : h * (n * (d * 7 + 3)) >= 20000)
  for (int64_t a = 0; a < h; ++a) {
    for (int64_t i = 0; i < n; ++i) {
      // emitter_test.cpp:92
      y[a * n + i] = 0.0f;
      // emitter_test.cpp:93
      for (int64_t k = 0; k < d; ++k) {
        y[a * n + i] += q[(a * n + i) * d + k] * q[(a * n + i) * d + k];
      }
    }
  }
  return loopgrad_ok;
}

extern "C" int heads(const heads_args* args) {
  const int threads = args->num_threads > 0 ? static_cast<int>(args->num_threads) : omp_get_max_threads();
  return run_heads(args->h, args->n, args->d, args->q, args->y, threads);
}

static int run_blocks(int64_t n, const float* __restrict x, float* __restrict y,
    loopgrad_block* workspace, int threads) {
  const int64_t block_end = max_of(min_of(int64_t(64), n / 4), int64_t(1));
  const int64_t extent = floor_div(n + block_end - 1, block_end);
  // emitter_test.cpp:148
  Scratch<float> part_memory(workspace, 0);
  if (!part_memory.reserve(1, {block_end})) return loopgrad_out_of_memory;
  float* const part = part_memory.part(0);
  // emitter_test.cpp:149
  #pragma omp parallel num_threads(threads) if (parallel : block_end * 43 >= 20000)
  [=](const float* __restrict x, float* __restrict part) __attribute__((always_inline)) {
    #pragma omp for schedule(static) nowait
    for (int64_t block = 0; block < block_end; ++block) {
      // emitter_test.cpp:151
      float part_sum = 0.0f;
      #pragma omp simd reduction(+ : part_sum)
      for (int64_t i = block * extent; i < min_of(n, (block + 1) * extent); ++i) {
        part_sum += x[i];
      }
      part[block] = part_sum;
    }
  }(x, part);
  // emitter_test.cpp:154
  float y_sum = 0.0f;
  #pragma omp simd reduction(+ : y_sum)
  for (int64_t k = 0; k < block_end; ++k) {
    y_sum += part[k];
  }
  y[0] = y_sum;
  return loopgrad_ok;
}

extern "C" int blocks(const blocks_args* args) {
  const int threads = args->num_threads > 0 ? static_cast<int>(args->num_threads) : omp_get_max_threads();
  return run_blocks(args->n, args->x, args->y, args->workspace, threads);
}

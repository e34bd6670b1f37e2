static int blocks_run(int64_t n_, const float* __restrict x_, float* __restrict y_,
    loopgrad_block* workspace, int threads) {
  const int64_t block_end_ = max_of(min_of(int64_t(64), n_ / 4), int64_t(1));
  const int64_t extent_ = floor_div(n_ + block_end_ - 1, block_end_);
  // emitter_test.cpp:148
  Scratch<float> part_memory_(workspace, 0);
  if (!part_memory_.reserve(1, {block_end_})) return loopgrad_out_of_memory;
  float* const part_ = part_memory_.part(0);
  // emitter_test.cpp:149
  #pragma omp parallel num_threads(threads) if (parallel : block_end_ * 11 >= 20000)
  [=](const float* __restrict x_, float* __restrict part_) __attribute__((always_inline)) {
    #pragma omp for schedule(static) nowait
    for (int64_t block_ = 0; block_ < block_end_; ++block_) {
      // emitter_test.cpp:151
      float part_sum_ = 0.0f;
      #pragma omp simd reduction(+ : part_sum_)
      for (int64_t i_ = block_ * extent_; i_ < min_of(n_, (block_ + 1) * extent_); ++i_) {
        part_sum_ += x_[i_];
      }
      part_[block_] = part_sum_;
    }
  }(x_, part_);
  // emitter_test.cpp:154
  float y_sum_ = 0.0f;
  #pragma omp simd reduction(+ : y_sum_)
  for (int64_t k_ = 0; k_ < block_end_; ++k_) {
    y_sum_ += part_[k_];
  }
  y_[0] = y_sum_;
  return loopgrad_ok;
}

extern "C" int blocks_(const blocks_args* args) {
  const int threads = args->num_threads > 0 ? static_cast<int>(args->num_threads) : omp_get_max_threads();
  return blocks_run(args->n_, args->x_, args->y_, args->workspace, threads);
}

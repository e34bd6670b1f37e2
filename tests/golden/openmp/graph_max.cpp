static int graph_max_run(int64_t v_, int64_t e_, int64_t d_, const int32_t* __restrict ptr_,
    const int32_t* __restrict col_, const float* __restrict h_, float* __restrict y_, int threads) {
  // emitter_test.cpp:38
  #pragma omp parallel num_threads(threads) if (parallel : v_ * (d_ + (floor_div(e_, max_of(v_, int64_t(1))) + 1) * (d_ + 2)) >= 20000)
  [=](const int32_t* __restrict ptr_, const int32_t* __restrict col_, const float* __restrict h_,
      float* __restrict y_) __attribute__((always_inline)) {
    const int64_t r_share_ = v_ / (64 * threads) + 1;
    #pragma omp for schedule(dynamic, r_share_) nowait
    for (int64_t r_ = 0; r_ < v_; ++r_) {
      // emitter_test.cpp:39
      #pragma omp simd
      for (int64_t f_ = 0; f_ < d_; ++f_) {
        y_[r_ * d_ + f_] = 0.0f;
      }
      // emitter_test.cpp:40
      const int64_t j_end_ = int64_t(ptr_[r_ + 1]);
      const int64_t j_begin_ = int64_t(ptr_[r_]);
      for (int64_t j_ = j_begin_; j_ < j_end_; ++j_) {
        // emitter_test.cpp:41
        #pragma omp simd
        for (int64_t f_1_ = 0; f_1_ < d_; ++f_1_) {
          y_[r_ * d_ + f_1_] = max_of(y_[r_ * d_ + f_1_], h_[int64_t(col_[j_]) * d_ + f_1_]);
        }
      }
    }
  }(ptr_, col_, h_, y_);
  return loopgrad_ok;
}

extern "C" int graph_max_(const graph_max_args* args) {
  const int threads = args->num_threads > 0 ? static_cast<int>(args->num_threads) : omp_get_max_threads();
  return graph_max_run(args->v_, args->e_, args->d_, args->ptr_, args->col_, args->h_, args->y_,
    threads);
}

static int heads_run(int64_t h_, int64_t n_, int64_t d_, const float* __restrict q_,
    float* __restrict y_, int threads) {
  // emitter_test.cpp:92
  #pragma omp parallel num_threads(threads) if (parallel : h_ * (n_ * (d_ + 5)) >= 20000)
  [=](const float* __restrict q_, float* __restrict y_) __attribute__((always_inline)) {
    #pragma omp for schedule(static) collapse(2) nowait
    for (int64_t a_ = 0; a_ < h_; ++a_) {
      for (int64_t i_ = 0; i_ < n_; ++i_) {
        // emitter_test.cpp:95
        float y_sum_ = 0.0f;
        #pragma omp simd reduction(+ : y_sum_)
        for (int64_t k_ = 0; k_ < d_; ++k_) {
          y_sum_ = fused(q_[(a_ * n_ + i_) * d_ + k_], q_[(a_ * n_ + i_) * d_ + k_], y_sum_);
        }
        y_[a_ * n_ + i_] = y_sum_;
      }
    }
  }(q_, y_);
  return loopgrad_ok;
}

extern "C" int heads_(const heads_args* args) {
  const int threads = args->num_threads > 0 ? static_cast<int>(args->num_threads) : omp_get_max_threads();
  return heads_run(args->h_, args->n_, args->d_, args->q_, args->y_, threads);
}

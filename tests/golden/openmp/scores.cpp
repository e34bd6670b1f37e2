static int scores_run(int64_t n_, int64_t k_, int64_t d_, const float* __restrict q_,
    const float* __restrict key_, float* __restrict y_, float* __restrict last_, int threads) {
  // emitter_test.cpp:131
  #pragma omp parallel num_threads(threads) if (parallel : n_ * (k_ / 8 * (d_ * 8 + 26) + (k_ - 8 * (k_ / 8)) * (d_ + 5) + 3) >= 20000)
  [=](const float* __restrict q_, const float* __restrict key_, float* __restrict y_,
      float* __restrict last_) __attribute__((always_inline)) {
    #pragma omp for schedule(static) nowait
    for (int64_t i_ = 0; i_ < n_; ++i_) {
      // emitter_test.cpp:132
      for (int64_t o_unrolled_ = 0; o_unrolled_ < k_ / 8; ++o_unrolled_) {
        // emitter_test.cpp:134
        float y_sum_;
        float y_sum_1_;
        float y_sum_2_;
        float y_sum_3_;
        float y_sum_4_;
        float y_sum_5_;
        float y_sum_6_;
        float y_sum_7_;
        // emitter_test.cpp:133
        y_sum_ = 0.0f;
        y_sum_1_ = 0.0f;
        y_sum_2_ = 0.0f;
        y_sum_3_ = 0.0f;
        y_sum_4_ = 0.0f;
        y_sum_5_ = 0.0f;
        y_sum_6_ = 0.0f;
        y_sum_7_ = 0.0f;
        // emitter_test.cpp:134
        Lanes<float> lane_sums_[8] = {};
        int64_t c_first_ = 0;
        for (; c_first_ + 8 <= d_; c_first_ += 8) {
          add_lanes<float>(lane_sums_[0], c_first_, [&](int64_t c_, float before) { return fused(q_[i_ * d_ + c_], key_[(8 * o_unrolled_) * d_ + c_], before); });
          add_lanes<float>(lane_sums_[1], c_first_, [&](int64_t c_, float before) { return fused(q_[i_ * d_ + c_], key_[(8 * o_unrolled_ + 1) * d_ + c_], before); });
          add_lanes<float>(lane_sums_[2], c_first_, [&](int64_t c_, float before) { return fused(q_[i_ * d_ + c_], key_[(8 * o_unrolled_ + 2) * d_ + c_], before); });
          add_lanes<float>(lane_sums_[3], c_first_, [&](int64_t c_, float before) { return fused(q_[i_ * d_ + c_], key_[(8 * o_unrolled_ + 3) * d_ + c_], before); });
          add_lanes<float>(lane_sums_[4], c_first_, [&](int64_t c_, float before) { return fused(q_[i_ * d_ + c_], key_[(8 * o_unrolled_ + 4) * d_ + c_], before); });
          add_lanes<float>(lane_sums_[5], c_first_, [&](int64_t c_, float before) { return fused(q_[i_ * d_ + c_], key_[(8 * o_unrolled_ + 5) * d_ + c_], before); });
          add_lanes<float>(lane_sums_[6], c_first_, [&](int64_t c_, float before) { return fused(q_[i_ * d_ + c_], key_[(8 * o_unrolled_ + 6) * d_ + c_], before); });
          add_lanes<float>(lane_sums_[7], c_first_, [&](int64_t c_, float before) { return fused(q_[i_ * d_ + c_], key_[(8 * o_unrolled_ + 7) * d_ + c_], before); });
        }
        for (int64_t c_ = c_first_; c_ < d_; ++c_) {
          y_sum_ = fused(q_[i_ * d_ + c_], key_[(8 * o_unrolled_) * d_ + c_], y_sum_);
          y_sum_1_ = fused(q_[i_ * d_ + c_], key_[(8 * o_unrolled_ + 1) * d_ + c_], y_sum_1_);
          y_sum_2_ = fused(q_[i_ * d_ + c_], key_[(8 * o_unrolled_ + 2) * d_ + c_], y_sum_2_);
          y_sum_3_ = fused(q_[i_ * d_ + c_], key_[(8 * o_unrolled_ + 3) * d_ + c_], y_sum_3_);
          y_sum_4_ = fused(q_[i_ * d_ + c_], key_[(8 * o_unrolled_ + 4) * d_ + c_], y_sum_4_);
          y_sum_5_ = fused(q_[i_ * d_ + c_], key_[(8 * o_unrolled_ + 5) * d_ + c_], y_sum_5_);
          y_sum_6_ = fused(q_[i_ * d_ + c_], key_[(8 * o_unrolled_ + 6) * d_ + c_], y_sum_6_);
          y_sum_7_ = fused(q_[i_ * d_ + c_], key_[(8 * o_unrolled_ + 7) * d_ + c_], y_sum_7_);
        }
        float totals_[8];
        add_up_lanes<float>(lane_sums_, totals_);
        y_sum_ += totals_[0];
        y_sum_1_ += totals_[1];
        y_sum_2_ += totals_[2];
        y_sum_3_ += totals_[3];
        y_sum_4_ += totals_[4];
        y_sum_5_ += totals_[5];
        y_sum_6_ += totals_[6];
        y_sum_7_ += totals_[7];
        y_[i_ * k_ + 8 * o_unrolled_] = y_sum_;
        y_[i_ * k_ + 8 * o_unrolled_ + 1] = y_sum_1_;
        y_[i_ * k_ + 8 * o_unrolled_ + 2] = y_sum_2_;
        y_[i_ * k_ + 8 * o_unrolled_ + 3] = y_sum_3_;
        y_[i_ * k_ + 8 * o_unrolled_ + 4] = y_sum_4_;
        y_[i_ * k_ + 8 * o_unrolled_ + 5] = y_sum_5_;
        y_[i_ * k_ + 8 * o_unrolled_ + 6] = y_sum_6_;
        y_[i_ * k_ + 8 * o_unrolled_ + 7] = y_sum_7_;
      }
      // emitter_test.cpp:132
      for (int64_t o_ = 8 * (k_ / 8); o_ < k_; ++o_) {
        // emitter_test.cpp:134
        float y_sum_8_ = 0.0f;
        #pragma omp simd reduction(+ : y_sum_8_)
        for (int64_t c_1_ = 0; c_1_ < d_; ++c_1_) {
          y_sum_8_ = fused(q_[i_ * d_ + c_1_], key_[o_ * d_ + c_1_], y_sum_8_);
        }
        y_[i_ * k_ + o_] = y_sum_8_;
      }
      // emitter_test.cpp:136
      last_[i_] = y_[i_ * k_ + k_ - 1];
    }
  }(q_, key_, y_, last_);
  return loopgrad_ok;
}

extern "C" int scores_(const scores_args* args) {
  const int threads = args->num_threads > 0 ? static_cast<int>(args->num_threads) : omp_get_max_threads();
  return scores_run(args->n_, args->k_, args->d_, args->q_, args->key_, args->y_, args->last_,
    threads);
}

static int run_scores(int64_t n, int64_t k, int64_t d, const float* __restrict q,
    const float* __restrict key, float* __restrict y, float* __restrict last, int threads) {
  // emitter_test.cpp:131
  #pragma omp parallel num_threads(threads) if (parallel : n * (k / 8 * (d * 57 + 26) + (k - 8 * (k / 8)) * (d * 7 + 5) + 3) >= 20000)
  [=](const float* __restrict q, const float* __restrict key, float* __restrict y,
      float* __restrict last) __attribute__((always_inline)) {
    #pragma omp for schedule(static) nowait
    for (int64_t i = 0; i < n; ++i) {
      // emitter_test.cpp:132
      for (int64_t o_unrolled = 0; o_unrolled < k / 8; ++o_unrolled) {
        // emitter_test.cpp:134
        float y_sum;
        float y_sum_1;
        float y_sum_2;
        float y_sum_3;
        float y_sum_4;
        float y_sum_5;
        float y_sum_6;
        float y_sum_7;
        y_sum = 0.0f;
        y_sum_1 = 0.0f;
        y_sum_2 = 0.0f;
        y_sum_3 = 0.0f;
        y_sum_4 = 0.0f;
        y_sum_5 = 0.0f;
        y_sum_6 = 0.0f;
        y_sum_7 = 0.0f;
        Lanes<float> lane_sums[8] = {};
        int64_t c_first = 0;
        for (; c_first + 8 <= d; c_first += 8) {
          add_lanes<float>(lane_sums[0], c_first, [&](int64_t c, float before) { return fused(q[i * d + c], key[(8 * o_unrolled) * d + c], before); });
          add_lanes<float>(lane_sums[1], c_first, [&](int64_t c, float before) { return fused(q[i * d + c], key[(8 * o_unrolled + 1) * d + c], before); });
          add_lanes<float>(lane_sums[2], c_first, [&](int64_t c, float before) { return fused(q[i * d + c], key[(8 * o_unrolled + 2) * d + c], before); });
          add_lanes<float>(lane_sums[3], c_first, [&](int64_t c, float before) { return fused(q[i * d + c], key[(8 * o_unrolled + 3) * d + c], before); });
          add_lanes<float>(lane_sums[4], c_first, [&](int64_t c, float before) { return fused(q[i * d + c], key[(8 * o_unrolled + 4) * d + c], before); });
          add_lanes<float>(lane_sums[5], c_first, [&](int64_t c, float before) { return fused(q[i * d + c], key[(8 * o_unrolled + 5) * d + c], before); });
          add_lanes<float>(lane_sums[6], c_first, [&](int64_t c, float before) { return fused(q[i * d + c], key[(8 * o_unrolled + 6) * d + c], before); });
          add_lanes<float>(lane_sums[7], c_first, [&](int64_t c, float before) { return fused(q[i * d + c], key[(8 * o_unrolled + 7) * d + c], before); });
        }
        for (int64_t c = c_first; c < d; ++c) {
          y_sum = fused(q[i * d + c], key[(8 * o_unrolled) * d + c], y_sum);
          y_sum_1 = fused(q[i * d + c], key[(8 * o_unrolled + 1) * d + c], y_sum_1);
          y_sum_2 = fused(q[i * d + c], key[(8 * o_unrolled + 2) * d + c], y_sum_2);
          y_sum_3 = fused(q[i * d + c], key[(8 * o_unrolled + 3) * d + c], y_sum_3);
          y_sum_4 = fused(q[i * d + c], key[(8 * o_unrolled + 4) * d + c], y_sum_4);
          y_sum_5 = fused(q[i * d + c], key[(8 * o_unrolled + 5) * d + c], y_sum_5);
          y_sum_6 = fused(q[i * d + c], key[(8 * o_unrolled + 6) * d + c], y_sum_6);
          y_sum_7 = fused(q[i * d + c], key[(8 * o_unrolled + 7) * d + c], y_sum_7);
        }
        float totals[8];
        add_up_lanes<float>(lane_sums, totals);
        y_sum += totals[0];
        y_sum_1 += totals[1];
        y_sum_2 += totals[2];
        y_sum_3 += totals[3];
        y_sum_4 += totals[4];
        y_sum_5 += totals[5];
        y_sum_6 += totals[6];
        y_sum_7 += totals[7];
        y[i * k + 8 * o_unrolled] = y_sum;
        y[i * k + 8 * o_unrolled + 1] = y_sum_1;
        y[i * k + 8 * o_unrolled + 2] = y_sum_2;
        y[i * k + 8 * o_unrolled + 3] = y_sum_3;
        y[i * k + 8 * o_unrolled + 4] = y_sum_4;
        y[i * k + 8 * o_unrolled + 5] = y_sum_5;
        y[i * k + 8 * o_unrolled + 6] = y_sum_6;
        y[i * k + 8 * o_unrolled + 7] = y_sum_7;
      }
      // emitter_test.cpp:132
      for (int64_t o = 8 * (k / 8); o < k; ++o) {
        // emitter_test.cpp:134
        float y_sum_8 = 0.0f;
        #pragma omp simd reduction(+ : y_sum_8)
        for (int64_t c_1 = 0; c_1 < d; ++c_1) {
          y_sum_8 = fused(q[i * d + c_1], key[o * d + c_1], y_sum_8);
        }
        y[i * k + o] = y_sum_8;
      }
      // emitter_test.cpp:136
      last[i] = y[i * k + k - 1];
    }
  }(q, key, y, last);
  return loopgrad_ok;
}

extern "C" int scores(const scores_args* args) {
  const int threads = args->num_threads > 0 ? static_cast<int>(args->num_threads) : omp_get_max_threads();
  return run_scores(args->n, args->k, args->d, args->q, args->key, args->y, args->last, threads);
}

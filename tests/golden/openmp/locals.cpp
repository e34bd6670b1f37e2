static int locals_run(int64_t n_, int64_t m_, const float* __restrict x_, uint16_t* __restrict y_,
    loopgrad_block* workspace, int threads) {
  int status = loopgrad_ok;
  // emitter_test.cpp:51
  Scratch<float> all_memory_(workspace, 0);
  if (!all_memory_.reserve(1, {n_})) return loopgrad_out_of_memory;
  float* const all_ = all_memory_.part(0);
  // emitter_test.cpp:55
  Scratch<double> row_memory_(workspace, 1);
  if (!row_memory_.reserve(threads, {m_})) return loopgrad_out_of_memory;
  // emitter_test.cpp:52
  #pragma omp parallel num_threads(threads) if (parallel : n_ * (m_ + 13) >= 20000)
  [=, &status](const float* __restrict x_, uint16_t* __restrict y_, float* __restrict all_,
      double* __restrict row_) __attribute__((always_inline)) {
    Scratch<float> part_memory_;
    #pragma omp for schedule(static) nowait
    for (int64_t i_ = 0; i_ < n_; ++i_) {
      // emitter_test.cpp:53
      float s_;
      // emitter_test.cpp:54
      alignas(64) float small_[4];
      // emitter_test.cpp:56
      if (!part_memory_.reserve(1, {Extent(i_) + 1})) {
        #pragma omp atomic write
        status = loopgrad_out_of_memory;
      } else {
        float* const part_ = part_memory_.part(0);
        // emitter_test.cpp:57
        s_ = 1.0f;
        // emitter_test.cpp:58
        small_[0] = s_;
        // emitter_test.cpp:59
        #pragma omp simd
        for (int64_t j_ = 0; j_ < m_; ++j_) {
          row_[j_] = double(x_[i_ * m_ + j_]);
        }
        // emitter_test.cpp:60
        part_[i_] = float(row_[m_ - 1]) + small_[0];
        // emitter_test.cpp:61
        all_[i_] = part_[i_];
        // emitter_test.cpp:62
        y_[i_] = to_f16(all_[i_]);
      }
    }
  }(x_, y_, all_, row_memory_.part(omp_get_thread_num()));
  if (status != loopgrad_ok) return status;
  return loopgrad_ok;
}

extern "C" int locals_(const locals_args* args) {
  const int threads = args->num_threads > 0 ? static_cast<int>(args->num_threads) : omp_get_max_threads();
  return locals_run(args->n_, args->m_, args->x_, args->y_, args->workspace, threads);
}

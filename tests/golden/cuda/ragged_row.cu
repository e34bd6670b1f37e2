
// v (text:7), rows: a block for each iteration: neighbouring threads meet neighbouring elements in the loops inside
extern "C" __global__ void __launch_bounds__(512) csr_sum_0_(index_t n_, index_t groups_, index_t rows_of_each_,
    const int32_t* ptr_, const float* x_, float* __restrict__ y_) {
  for (index_t group_ = index_t(blockIdx.x); group_ < groups_; group_ += gridDim.x) {
    int64_t longest_;
    // text:7
    longest_ = 0;
    {
      const index_t t_ = threadIdx.x;
      int64_t longest_part_;
      longest_part_ = 0;
      for (index_t row_ = t_; row_ < rows_of_each_; row_ += 512) {
        const index_t v_ = group_ + row_ * groups_;
        if (v_ < n_) {
          longest_part_ = max_of(longest_part_, wrapping_sub(int64_t(ptr_[v_ + 1]), int64_t(ptr_[v_])));
        }
      }
      longest_ = max_of(longest_, block_reduce<int64_t>(longest_part_, [](int64_t a, int64_t b) { return max_of(a, b); }));
    }
    __syncthreads();
    if (256 < longest_) {
      for (index_t row_1_ = 0; row_1_ < rows_of_each_; ++row_1_) {
        for (index_t v_1_ = group_ + row_1_ * groups_; v_1_ < min_of(group_ + row_1_ * groups_ + 1, n_); ++v_1_) {
          if (256 < wrapping_sub(int64_t(ptr_[v_1_ + 1]), int64_t(ptr_[v_1_]))) {
            float y_now_;
            // text:10
            y_now_ = 0.0f;
            float y_now_all_;
            y_now_all_ = 0.0f;
            {
              const index_t t_1_ = threadIdx.x;
              float y_now_part_;
              y_now_part_ = 0.0f;
              // text:9
              for (int64_t e_ = wrapping_add(int64_t(ptr_[v_1_]), int64_t(t_1_)); e_ < int64_t(ptr_[v_1_ + 1]); e_ += 512) {
                // text:10
                y_now_part_ += x_[e_];
              }
              y_now_all_ += block_reduce<float>(y_now_part_, [](float a, float b) { return a + b; });
            }
            y_now_ += y_now_all_;
            if (threadIdx.x == 0) {
              y_[v_1_] = y_now_;
            }
            __syncthreads();
          }
        }
      }
    }
    if (one_turn) break;
  }
}

// v (text:7), rows: a block for each iteration: neighbouring threads meet neighbouring elements in the loops inside
extern "C" __global__ void __launch_bounds__(256) csr_sum_1_(index_t n_, const int32_t* ptr_, const float* x_,
    float* __restrict__ y_) {
  for (index_t v_ = (index_t(blockIdx.x) * index_t(blockDim.y) + index_t(threadIdx.y)); v_ < n_; v_ += gridDim.x * blockDim.y) {
    if (wrapping_sub(int64_t(ptr_[v_ + 1]), int64_t(ptr_[v_])) <= 256) {
      float y_now_;
      // text:10
      y_now_ = 0.0f;
      float y_now_all_;
      y_now_all_ = 0.0f;
      {
        const index_t t_ = threadIdx.x;
        float y_now_part_;
        y_now_part_ = 0.0f;
        // text:9
        for (int64_t e_ = wrapping_add(int64_t(ptr_[v_]), int64_t(t_)); e_ < int64_t(ptr_[v_ + 1]); e_ += 32) {
          // text:10
          y_now_part_ += x_[e_];
        }
        y_now_all_ += block_reduce<float>(y_now_part_, [](float a, float b) { return a + b; });
      }
      y_now_ += y_now_all_;
      if (threadIdx.x == 0) {
        y_[v_] = y_now_;
      }
      __syncwarp();
    }
    if (one_turn) break;
  }
}

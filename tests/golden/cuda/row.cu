
// One of these, as sizes are:
//   r (text:5), rows: a block for each iteration: neighbouring threads meet neighbouring elements in the loops inside
//   r (text:5), threads: a thread for each iteration, where fewer than 16 are to share in each, and there are 4096 times as many iterations
extern "C" __global__ void __launch_bounds__(256) normalize_0_(index_t n_, index_t m_, index_t blocks_x_, const float* x_,
    float* __restrict__ y_) {
  for (index_t block_x_ = index_t(blockIdx.x); block_x_ < blocks_x_; block_x_ += gridDim.x) {
    {
      const index_t thread_x_ = threadIdx.x;
      // text:5
      const index_t r_ = block_x_ * 256 + thread_x_;
      if (r_ < n_) {
        float sum_;
        // text:9
        sum_ = 0.0f;
        // text:8
        for (index_t c_ = 0; c_ < m_; ++c_) {
          // text:9
          sum_ += x_[r_ * m_ + c_];
        }
        // text:10
        for (index_t c_1_ = 0; c_1_ < m_; ++c_1_) {
          // text:11
          y_[r_ * m_ + c_1_] = x_[r_ * m_ + c_1_] / sum_;
        }
      }
    }
    if (one_turn) break;
  }
}

// One of these, as sizes are:
//   r (text:5), rows: a block for each iteration: neighbouring threads meet neighbouring elements in the loops inside
//   r (text:5), threads: a thread for each iteration, where fewer than 16 are to share in each, and there are 4096 times as many iterations
extern "C" __global__ void __launch_bounds__(512) normalize_1_(index_t n_, index_t m_, index_t threads_, const float* x_,
    float* __restrict__ y_) {
  for (index_t r_ = (index_t(blockIdx.x) * index_t(blockDim.y) + index_t(threadIdx.y)); r_ < n_; r_ += gridDim.x * blockDim.y) {
    float x_row_[8];
    {
      const index_t t_ = threadIdx.x;
      // text:3
      #pragma unroll
      for (index_t k_ = 0; k_ < 8; ++k_) {
        const index_t c_ = t_ / 32 * 256 + t_ % 32 + k_ * 32;
        if (c_ < m_) {
          x_row_[k_] = x_[r_ * m_ + c_];
        }
      }
    }
    float sum_;
    // text:9
    sum_ = 0.0f;
    float sum_all_;
    sum_all_ = 0.0f;
    {
      const index_t t_1_ = threadIdx.x;
      float sum_part_;
      sum_part_ = 0.0f;
      // text:8
      #pragma unroll
      for (index_t k_1_ = 0; k_1_ < 8; ++k_1_) {
        const index_t c_1_ = t_1_ / 32 * 256 + t_1_ % 32 + k_1_ * 32;
        if (c_1_ < m_) {
          // text:9
          sum_part_ += x_row_[k_1_];
        }
      }
      sum_all_ += block_reduce<float>(sum_part_, [](float a, float b) { return a + b; });
    }
    sum_ += sum_all_;
    {
      const index_t t_2_ = threadIdx.x;
      // text:10
      #pragma unroll
      for (index_t k_2_ = 0; k_2_ < 8; ++k_2_) {
        const index_t c_2_ = t_2_ / 32 * 256 + t_2_ % 32 + k_2_ * 32;
        if (c_2_ < m_) {
          // text:11
          y_[r_ * m_ + c_2_] = x_row_[k_2_] / sum_;
        }
      }
    }
    if (one_turn) break;
  }
}

// One of these, as sizes are:
//   r (text:5), rows: a block for each iteration: neighbouring threads meet neighbouring elements in the loops inside
//   r (text:5), threads: a thread for each iteration, where fewer than 16 are to share in each, and there are 4096 times as many iterations
extern "C" __global__ void __launch_bounds__(256) normalize_2_(index_t n_, index_t m_, index_t threads_, const float* x_,
    float* __restrict__ y_) {
  for (index_t r_ = (index_t(blockIdx.x) * index_t(blockDim.y) + index_t(threadIdx.y)); r_ < n_; r_ += gridDim.x * blockDim.y) {
    float sum_;
    // text:9
    sum_ = 0.0f;
    float sum_all_;
    sum_all_ = 0.0f;
    {
      const index_t t_ = threadIdx.x;
      float sum_part_;
      sum_part_ = 0.0f;
      // text:8
      for (index_t c_start_ = t_ * 4; c_start_ < m_; c_start_ += threads_ * 4) {
        if (c_start_ + 4 <= m_ && is_aligned(&x_[r_ * m_ + c_start_])) {
          alignas(16) float x_wide_[4];
          copy_four(x_wide_ + 0, &x_[r_ * m_ + c_start_]);
          #pragma unroll
          for (index_t c_ = c_start_; c_ < c_start_ + 4; ++c_) {
            // text:9
            sum_part_ += x_wide_[c_ - c_start_];
          }
        } else {
          for (index_t c_ = c_start_; c_ < c_start_ + 4 && c_ < m_; ++c_) {
            sum_part_ += x_[r_ * m_ + c_];
          }
        }
      }
      sum_all_ += block_reduce<float>(sum_part_, [](float a, float b) { return a + b; });
    }
    sum_ += sum_all_;
    {
      const index_t t_1_ = threadIdx.x;
      // text:10
      for (index_t c_start_1_ = t_1_ * 4; c_start_1_ < m_; c_start_1_ += threads_ * 4) {
        if (c_start_1_ + 4 <= m_ && is_aligned(&x_[r_ * m_ + c_start_1_]) && is_aligned(&y_[r_ * m_ + c_start_1_])) {
          alignas(16) float x_wide_1_[4];
          copy_four(x_wide_1_ + 0, &x_[r_ * m_ + c_start_1_]);
          alignas(16) float y_wide_[4];
          #pragma unroll
          for (index_t c_1_ = c_start_1_; c_1_ < c_start_1_ + 4; ++c_1_) {
            // text:11
            y_wide_[c_1_ - c_start_1_] = x_wide_1_[c_1_ - c_start_1_] / sum_;
          }
          copy_four(&y_[r_ * m_ + c_start_1_], y_wide_ + 0);
        } else {
          for (index_t c_1_ = c_start_1_; c_1_ < c_start_1_ + 4 && c_1_ < m_; ++c_1_) {
            y_[r_ * m_ + c_1_] = x_[r_ * m_ + c_1_] / sum_;
          }
        }
      }
    }
    if (one_turn) break;
  }
}

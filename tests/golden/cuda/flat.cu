
// i (text:5), threads: a thread for each iteration: nothing in it can be shared out
extern "C" __global__ void __launch_bounds__(256) scale_0_(index_t n_, index_t blocks_x_, const float* x_,
    float* __restrict__ y_) {
  for (index_t block_x_ = index_t(blockIdx.x); block_x_ < blocks_x_; block_x_ += gridDim.x) {
    {
      const index_t thread_x_ = threadIdx.x;
      // text:5
      const index_t i_start_ = (block_x_ * 256 + thread_x_) * 4;
      if (i_start_ + 4 <= n_ && is_aligned(&x_[i_start_]) && is_aligned(&y_[i_start_])) {
        alignas(16) float x_wide_[4];
        copy_four(x_wide_ + 0, &x_[i_start_]);
        alignas(16) float y_wide_[4];
        #pragma unroll
        for (index_t i_ = i_start_; i_ < i_start_ + 4; ++i_) {
          // text:6
          y_wide_[i_ - i_start_] = std::exp(x_wide_[i_ - i_start_]) * 2.0f;
        }
        copy_four(&y_[i_start_], y_wide_ + 0);
      } else {
        for (index_t i_ = i_start_; i_ < i_start_ + 4 && i_ < n_; ++i_) {
          y_[i_] = std::exp(x_[i_]) * 2.0f;
        }
      }
    }
    if (one_turn) break;
  }
}


// i, j (text:5), threads: a thread for each iteration: nothing in it can be shared out
extern "C" __global__ void __launch_bounds__(256) blur_0_(index_t n_, index_t m_, index_t threads_x_,
    index_t threads_y_, index_t blocks_x_, index_t blocks_y_, const float* u_,
    float* __restrict__ v_) {
  for (index_t block_y_ = index_t(blockIdx.y); block_y_ < blocks_y_; block_y_ += gridDim.y) {
    for (index_t block_x_ = index_t(blockIdx.x); block_x_ < blocks_x_; block_x_ += gridDim.x) {
      {
        const index_t thread_y_ = threadIdx.y;
        const index_t thread_x_ = threadIdx.x;
        // text:6
        const index_t j_ = block_x_ * threads_x_ + thread_x_ + 1;
        if (j_ < m_ - 1) {
          {
            const index_t i_start_ = (block_y_ * threads_y_ + thread_y_) * 4 + 1;
            // text:5
            if (i_start_ + 4 <= n_ - 1) {
              #pragma unroll
              for (index_t i_ = i_start_; i_ < i_start_ + 4; ++i_) {
                const index_t u_at_ = (i_ - 1) * m_ + j_;
                // text:7
                v_[i_ * m_ + j_] = (u_[u_at_] + u_[u_at_ + 2 * m_] + u_[u_at_ + (m_ - 1)] + u_[u_at_ + (m_ + 1)]) * 0.25f;
              }
            } else {
              for (index_t i_ = i_start_; i_ < i_start_ + 4 && i_ < n_ - 1; ++i_) {
                const index_t u_at_1_ = (i_ - 1) * m_ + j_;
                v_[i_ * m_ + j_] = (u_[u_at_1_] + u_[u_at_1_ + 2 * m_] + u_[u_at_1_ + (m_ - 1)] + u_[u_at_1_ + (m_ + 1)]) * 0.25f;
              }
            }
          }
        }
      }
      if (one_turn) break;
    }
    if (one_turn) break;
  }
}


// One of these, as sizes are:
//   i, j (text:6), rows: a block for each iteration, where there are fewer than 8192
//   i, j (text:6), threads: a thread for each iteration, where there are 8192 or more
extern "C" __global__ void __launch_bounds__(256) products_0_(index_t n_, index_t m_, index_t k_, index_t threads_x_,
    index_t threads_y_, index_t blocks_x_, index_t blocks_y_, const double* a_, const float* b_,
    double* __restrict__ c_) {
  for (index_t block_y_ = index_t(blockIdx.y); block_y_ < blocks_y_; block_y_ += gridDim.y) {
    for (index_t block_x_ = index_t(blockIdx.x); block_x_ < blocks_x_; block_x_ += gridDim.x) {
      {
        const index_t thread_y_ = threadIdx.y;
        const index_t thread_x_ = threadIdx.x;
        {
          const index_t j_start_ = (block_x_ * threads_x_ + thread_x_) * 4;
          // text:6
          const index_t i_ = (block_y_ * threads_y_ + thread_y_) * 4;
          if (i_ < n_) {
            {
              const index_t i_1_ = min_of(i_ + 1, n_ - 1);
              const index_t i_2_ = min_of(i_ + 2, n_ - 1);
              const index_t i_3_ = min_of(i_ + 3, n_ - 1);
              double c_now_[4];
              double c_now_1_[4];
              double c_now_2_[4];
              double c_now_3_[4];
              // text:7
              if (j_start_ + 4 <= m_) {
                #pragma unroll
                for (index_t j_ = j_start_; j_ < j_start_ + 4; ++j_) {
                  // text:10
                  c_now_[j_ - j_start_] = 0.0;
                  c_now_1_[j_ - j_start_] = 0.0;
                  c_now_2_[j_ - j_start_] = 0.0;
                  c_now_3_[j_ - j_start_] = 0.0;
                }
              } else {
                #pragma unroll
                for (index_t j_ = j_start_; j_ < j_start_ + 4; ++j_) {
                  if (j_ < m_) {
                    c_now_[j_ - j_start_] = 0.0;
                    c_now_1_[j_ - j_start_] = 0.0;
                    c_now_2_[j_ - j_start_] = 0.0;
                    c_now_3_[j_ - j_start_] = 0.0;
                  }
                }
              }
              // text:9
              if (j_start_ + 4 <= m_ && is_aligned(&b_[j_start_]) && is_aligned(&b_[1 * m_ + j_start_])) {
                #pragma unroll 8
                for (index_t l_ = 0; l_ < k_; ++l_) {
                  // text:7
                  alignas(16) float b_wide_[4];
                  copy_four(b_wide_ + 0, &b_[l_ * m_ + j_start_]);
                  #pragma unroll
                  for (index_t j_1_ = j_start_; j_1_ < j_start_ + 4; ++j_1_) {
                    // text:10
                    c_now_[j_1_ - j_start_] = fused(a_[i_ * k_ + l_], double(b_wide_[j_1_ - j_start_]), c_now_[j_1_ - j_start_]);
                    c_now_1_[j_1_ - j_start_] = fused(a_[i_1_ * k_ + l_], double(b_wide_[j_1_ - j_start_]), c_now_1_[j_1_ - j_start_]);
                    c_now_2_[j_1_ - j_start_] = fused(a_[i_2_ * k_ + l_], double(b_wide_[j_1_ - j_start_]), c_now_2_[j_1_ - j_start_]);
                    c_now_3_[j_1_ - j_start_] = fused(a_[i_3_ * k_ + l_], double(b_wide_[j_1_ - j_start_]), c_now_3_[j_1_ - j_start_]);
                  }
                }
              } else {
                for (index_t l_ = 0; l_ < k_; ++l_) {
                  // text:7
                  #pragma unroll
                  for (index_t j_1_ = j_start_; j_1_ < j_start_ + 4; ++j_1_) {
                    if (j_1_ < m_) {
                      // text:10
                      c_now_[j_1_ - j_start_] = fused(a_[i_ * k_ + l_], double(b_[l_ * m_ + j_1_]), c_now_[j_1_ - j_start_]);
                      c_now_1_[j_1_ - j_start_] = fused(a_[i_1_ * k_ + l_], double(b_[l_ * m_ + j_1_]), c_now_1_[j_1_ - j_start_]);
                      c_now_2_[j_1_ - j_start_] = fused(a_[i_2_ * k_ + l_], double(b_[l_ * m_ + j_1_]), c_now_2_[j_1_ - j_start_]);
                      c_now_3_[j_1_ - j_start_] = fused(a_[i_3_ * k_ + l_], double(b_[l_ * m_ + j_1_]), c_now_3_[j_1_ - j_start_]);
                    }
                  }
                }
              }
              // text:7
              if (j_start_ + 4 <= m_) {
                #pragma unroll
                for (index_t j_2_ = j_start_; j_2_ < j_start_ + 4; ++j_2_) {
                  // text:10
                  c_[i_ * m_ + j_2_] = c_now_[j_2_ - j_start_];
                  if (i_ + 1 < n_) {
                    c_[i_1_ * m_ + j_2_] = c_now_1_[j_2_ - j_start_];
                  }
                  if (i_ + 2 < n_) {
                    c_[i_2_ * m_ + j_2_] = c_now_2_[j_2_ - j_start_];
                  }
                  if (i_ + 3 < n_) {
                    c_[i_3_ * m_ + j_2_] = c_now_3_[j_2_ - j_start_];
                  }
                }
              } else {
                #pragma unroll
                for (index_t j_2_ = j_start_; j_2_ < j_start_ + 4; ++j_2_) {
                  if (j_2_ < m_) {
                    c_[i_ * m_ + j_2_] = c_now_[j_2_ - j_start_];
                    if (i_ + 1 < n_) {
                      c_[i_1_ * m_ + j_2_] = c_now_1_[j_2_ - j_start_];
                    }
                    if (i_ + 2 < n_) {
                      c_[i_2_ * m_ + j_2_] = c_now_2_[j_2_ - j_start_];
                    }
                    if (i_ + 3 < n_) {
                      c_[i_3_ * m_ + j_2_] = c_now_3_[j_2_ - j_start_];
                    }
                  }
                }
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

// One of these, as sizes are:
//   i, j (text:6), rows: a block for each iteration, where there are fewer than 8192
//   i, j (text:6), threads: a thread for each iteration, where there are 8192 or more
extern "C" __global__ void __launch_bounds__(256) products_1_(index_t n_, index_t m_, index_t k_, index_t threads_x_,
    index_t threads_y_, index_t blocks_y_, index_t blocks_x_, const double* a_, const float* b_,
    double* __restrict__ c_) {
  for (index_t block_y_ = index_t(blockIdx.y); block_y_ < blocks_y_; block_y_ += gridDim.y) {
    for (index_t block_x_ = index_t(blockIdx.x); block_x_ < blocks_x_; block_x_ += gridDim.x) {
      {
        const index_t thread_y_ = threadIdx.y;
        const index_t thread_x_ = threadIdx.x;
        // text:6
        const index_t i_ = block_y_ * threads_y_ + thread_y_;
        if (i_ < n_) {
          {
            const index_t j_start_ = (block_x_ * threads_x_ + thread_x_) * 4;
            double c_now_[4];
            // text:7
            if (j_start_ + 4 <= m_) {
              #pragma unroll
              for (index_t j_ = j_start_; j_ < j_start_ + 4; ++j_) {
                // text:10
                c_now_[j_ - j_start_] = 0.0;
              }
            } else {
              #pragma unroll
              for (index_t j_ = j_start_; j_ < j_start_ + 4; ++j_) {
                if (j_ < m_) {
                  c_now_[j_ - j_start_] = 0.0;
                }
              }
            }
            // text:9
            if (j_start_ + 4 <= m_ && is_aligned(&b_[j_start_]) && is_aligned(&b_[1 * m_ + j_start_])) {
              for (index_t l_ = 0; l_ < k_; ++l_) {
                // text:7
                alignas(16) float b_wide_[4];
                copy_four(b_wide_ + 0, &b_[l_ * m_ + j_start_]);
                #pragma unroll
                for (index_t j_1_ = j_start_; j_1_ < j_start_ + 4; ++j_1_) {
                  // text:10
                  c_now_[j_1_ - j_start_] = fused(a_[i_ * k_ + l_], double(b_wide_[j_1_ - j_start_]), c_now_[j_1_ - j_start_]);
                }
              }
            } else {
              for (index_t l_ = 0; l_ < k_; ++l_) {
                // text:7
                #pragma unroll
                for (index_t j_1_ = j_start_; j_1_ < j_start_ + 4; ++j_1_) {
                  if (j_1_ < m_) {
                    // text:10
                    c_now_[j_1_ - j_start_] = fused(a_[i_ * k_ + l_], double(b_[l_ * m_ + j_1_]), c_now_[j_1_ - j_start_]);
                  }
                }
              }
            }
            // text:7
            if (j_start_ + 4 <= m_ && is_aligned(&c_[i_ * m_ + j_start_])) {
              alignas(16) double c_wide_[4];
              #pragma unroll
              for (index_t j_2_ = j_start_; j_2_ < j_start_ + 4; ++j_2_) {
                // text:10
                c_wide_[j_2_ - j_start_] = c_now_[j_2_ - j_start_];
              }
              copy_four(&c_[i_ * m_ + j_start_], c_wide_ + 0);
            } else {
              #pragma unroll
              for (index_t j_2_ = j_start_; j_2_ < j_start_ + 4; ++j_2_) {
                if (j_2_ < m_) {
                  c_[i_ * m_ + j_2_] = c_now_[j_2_ - j_start_];
                }
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

// One of these, as sizes are:
//   i, j (text:6), rows: a block for each iteration, where there are fewer than 8192
//   i, j (text:6), threads: a thread for each iteration, where there are 8192 or more
extern "C" __global__ void __launch_bounds__(256) products_2_(index_t n_, index_t m_, index_t k_, index_t threads_x_,
    index_t threads_y_, index_t blocks_y_, index_t blocks_x_, const double* a_, const float* b_,
    double* __restrict__ c_) {
  for (index_t block_y_ = index_t(blockIdx.y); block_y_ < blocks_y_; block_y_ += gridDim.y) {
    for (index_t block_x_ = index_t(blockIdx.x); block_x_ < blocks_x_; block_x_ += gridDim.x) {
      {
        const index_t thread_y_ = threadIdx.y;
        const index_t thread_x_ = threadIdx.x;
        // text:6
        const index_t i_ = block_y_ * threads_y_ + thread_y_;
        if (i_ < n_) {
          // text:7
          const index_t j_ = block_x_ * threads_x_ + thread_x_;
          if (j_ < m_) {
            double c_now_;
            // text:10
            c_now_ = 0.0;
            // text:9
            for (index_t l_ = 0; l_ < k_; ++l_) {
              // text:10
              c_now_ = fused(a_[i_ * k_ + l_], double(b_[l_ * m_ + j_]), c_now_);
            }
            c_[i_ * m_ + j_] = c_now_;
          }
        }
      }
      if (one_turn) break;
    }
    if (one_turn) break;
  }
}

// One of these, as sizes are:
//   i, j (text:6), rows: a block for each iteration, where there are fewer than 8192
//   i, j (text:6), threads: a thread for each iteration, where there are 8192 or more
extern "C" __global__ void __launch_bounds__(256) products_3_(index_t n_, index_t m_, index_t k_, index_t threads_,
    const double* a_, const float* b_, double* __restrict__ c_) {
  for (index_t i_ = index_t(blockIdx.y); i_ < n_; i_ += gridDim.y) {
    for (index_t j_ = index_t(blockIdx.x); j_ < m_; j_ += gridDim.x) {
      double c_now_;
      // text:10
      c_now_ = 0.0;
      double c_now_all_;
      c_now_all_ = 0.0;
      {
        const index_t t_ = threadIdx.x;
        double c_now_part_;
        c_now_part_ = 0.0;
        // text:9
        for (index_t l_ = t_; l_ < k_; l_ += threads_) {
          // text:10
          c_now_part_ = fused(a_[i_ * k_ + l_], double(b_[l_ * m_ + j_]), c_now_part_);
        }
        c_now_all_ += block_reduce<double>(c_now_part_, [](double a, double b) { return a + b; });
      }
      c_now_ += c_now_all_;
      if (threadIdx.x == 0) {
        c_[i_ * m_ + j_] = c_now_;
      }
      if (one_turn) break;
    }
    if (one_turn) break;
  }
}

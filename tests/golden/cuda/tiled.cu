
// One of these, as sizes are:
//   i, j (text:6), rows: a block for each iteration, where there are fewer than 8192
//   i, j (text:6), threads: a thread for each iteration, where there are 8192 or more
//   i, j (text:6), shared tiles: blocks of 128 threads keep what 64 iterations of 'i' and 64 of 'j' load in 16 steps of 'l', where tiles are full and enough
extern "C" __global__ void __launch_bounds__(128) products_0_(index_t n_, index_t m_, index_t k_, index_t blocks_y_,
    index_t blocks_x_, const double* a_, const float* b_, double* __restrict__ c_) {
  for (index_t block_y_ = index_t(blockIdx.y); block_y_ < blocks_y_; block_y_ += gridDim.y) {
    for (index_t block_x_ = index_t(blockIdx.x); block_x_ < blocks_x_; block_x_ += gridDim.x) {
      double c_now_[32];
      __shared__ __align__(16) float b_tile_[1088];
      __shared__ __align__(16) double a_tile_[1088];
      float b_next_[8];
      double a_next_[8];
      {
        const index_t t_ = threadIdx.x;
        #pragma unroll
        for (index_t row_ = 0; row_ < 8; ++row_) {
          #pragma unroll
          for (index_t column_ = 0; column_ < 4; ++column_) {
            // text:10
            c_now_[row_ * 4 + column_] = 0.0;
          }
        }
      }
      if (0 < k_) {
        {
          const index_t t_1_ = threadIdx.x;
          #pragma unroll
          for (index_t part_ = 0; part_ < 8; ++part_) {
            {
              const index_t more_ = 0;
              // text:9
              a_next_[part_ + more_] = a_[min_of(block_y_ * 64 + (t_1_ / 16 + part_ * 8), n_ - 1) * k_ + min_of(t_1_ % 16 + more_ * 16, k_ - 1)];
            }
          }
          #pragma unroll
          for (index_t part_1_ = 0; part_1_ < 8; ++part_1_) {
            {
              const index_t more_1_ = 0;
              b_next_[part_1_ + more_1_] = b_[min_of(t_1_ / 64 + part_1_ * 2, k_ - 1) * m_ + min_of(block_x_ * 64 + (t_1_ % 64 + more_1_ * 64), m_ - 1)];
            }
          }
        }
        for (index_t l_step_ = 0; l_step_ < (k_ + 15) / 16; ++l_step_) {
          {
            const index_t t_2_ = threadIdx.x;
            #pragma unroll
            for (index_t part_2_ = 0; part_2_ < 8; ++part_2_) {
              {
                const index_t more_2_ = 0;
                a_tile_[(t_2_ % 16 + more_2_ * 16) * 68 + t_2_ / 16 + part_2_ * 8] = a_next_[part_2_ + more_2_];
              }
            }
            #pragma unroll
            for (index_t part_3_ = 0; part_3_ < 8; ++part_3_) {
              {
                const index_t more_3_ = 0;
                b_tile_[(t_2_ / 64 + part_3_ * 2) * 68 + t_2_ % 64 + more_3_ * 64] = b_next_[part_3_ + more_3_];
              }
            }
          }
          __syncthreads();
          if (l_step_ * 16 + 16 < k_) {
            {
              const index_t t_3_ = threadIdx.x;
              #pragma unroll
              for (index_t part_4_ = 0; part_4_ < 8; ++part_4_) {
                {
                  const index_t more_4_ = 0;
                  a_next_[part_4_ + more_4_] = a_[min_of(block_y_ * 64 + (t_3_ / 16 + part_4_ * 8), n_ - 1) * k_ + min_of(l_step_ * 16 + 16 + (t_3_ % 16 + more_4_ * 16), k_ - 1)];
                }
              }
              #pragma unroll
              for (index_t part_5_ = 0; part_5_ < 8; ++part_5_) {
                {
                  const index_t more_5_ = 0;
                  b_next_[part_5_ + more_5_] = b_[min_of(l_step_ * 16 + 16 + (t_3_ / 64 + part_5_ * 2), k_ - 1) * m_ + min_of(block_x_ * 64 + (t_3_ % 64 + more_5_ * 64), m_ - 1)];
                }
              }
            }
          }
          if (k_ - l_step_ * 16 >= 16) {
            {
              const index_t t_4_ = threadIdx.x;
              #pragma unroll
              for (index_t l_ = 0; l_ < 16; ++l_) {
                float b_own_[4];
                double a_own_[8];
                #pragma unroll
                for (index_t row_1_ = 0; row_1_ < 8; ++row_1_) {
                  a_own_[row_1_] = a_tile_[l_ * 68 + t_4_ / 16 * 8 + row_1_];
                }
                #pragma unroll
                for (index_t column_1_ = 0; column_1_ < 4; ++column_1_) {
                  b_own_[column_1_] = b_tile_[l_ * 68 + t_4_ % 16 * 4 + column_1_];
                }
                #pragma unroll
                for (index_t row_2_ = 0; row_2_ < 8; ++row_2_) {
                  #pragma unroll
                  for (index_t column_2_ = 0; column_2_ < 4; ++column_2_) {
                    // text:10
                    c_now_[row_2_ * 4 + column_2_] = fused(a_own_[row_2_], double(b_own_[column_2_]), c_now_[row_2_ * 4 + column_2_]);
                  }
                }
              }
            }
            __syncthreads();
          } else {
            {
              const index_t t_5_ = threadIdx.x;
              // text:9
              for (index_t l_1_ = 0; l_1_ < k_ - l_step_ * 16; ++l_1_) {
                float b_own_1_[4];
                double a_own_1_[8];
                #pragma unroll
                for (index_t row_3_ = 0; row_3_ < 8; ++row_3_) {
                  a_own_1_[row_3_] = a_tile_[l_1_ * 68 + t_5_ / 16 * 8 + row_3_];
                }
                #pragma unroll
                for (index_t column_3_ = 0; column_3_ < 4; ++column_3_) {
                  b_own_1_[column_3_] = b_tile_[l_1_ * 68 + t_5_ % 16 * 4 + column_3_];
                }
                #pragma unroll
                for (index_t row_4_ = 0; row_4_ < 8; ++row_4_) {
                  #pragma unroll
                  for (index_t column_4_ = 0; column_4_ < 4; ++column_4_) {
                    // text:10
                    c_now_[row_4_ * 4 + column_4_] = fused(a_own_1_[row_4_], double(b_own_1_[column_4_]), c_now_[row_4_ * 4 + column_4_]);
                  }
                }
              }
            }
            __syncthreads();
          }
        }
      }
      {
        const index_t t_6_ = threadIdx.x;
        #pragma unroll
        for (index_t row_5_ = 0; row_5_ < 8; ++row_5_) {
          #pragma unroll
          for (index_t column_5_ = 0; column_5_ < 4; ++column_5_) {
            if (block_y_ * 64 + (t_6_ / 16 * 8 + row_5_) < n_ && block_x_ * 64 + (t_6_ % 16 * 4 + column_5_) < m_) {
              c_[(block_y_ * 64 + (t_6_ / 16 * 8 + row_5_)) * m_ + block_x_ * 64 + (t_6_ % 16 * 4 + column_5_)] = c_now_[row_5_ * 4 + column_5_];
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
//   i, j (text:6), shared tiles: blocks of 128 threads keep what 64 iterations of 'i' and 64 of 'j' load in 16 steps of 'l', where tiles are full and enough
extern "C" __global__ void __launch_bounds__(256) products_1_(index_t n_, index_t m_, index_t k_, index_t threads_x_,
    index_t threads_y_, index_t blocks_y_, index_t blocks_x_, const double* a_, const float* b_,
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
//   i, j (text:6), shared tiles: blocks of 128 threads keep what 64 iterations of 'i' and 64 of 'j' load in 16 steps of 'l', where tiles are full and enough
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
//   i, j (text:6), shared tiles: blocks of 128 threads keep what 64 iterations of 'i' and 64 of 'j' load in 16 steps of 'l', where tiles are full and enough
extern "C" __global__ void __launch_bounds__(256) products_3_(index_t n_, index_t m_, index_t k_, index_t threads_x_,
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
//   i, j (text:6), shared tiles: blocks of 128 threads keep what 64 iterations of 'i' and 64 of 'j' load in 16 steps of 'l', where tiles are full and enough
extern "C" __global__ void __launch_bounds__(256) products_4_(index_t n_, index_t m_, index_t k_, index_t threads_,
    const double* a_, const float* b_, double* __restrict__ c_) {
  for (index_t i_ = index_t(blockIdx.y); i_ < n_; i_ += gridDim.y) {
    for (index_t j_ = (index_t(blockIdx.x) * index_t(blockDim.y) + index_t(threadIdx.y)); j_ < m_; j_ += gridDim.x * blockDim.y) {
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

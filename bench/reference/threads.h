// Work and memory of each thread.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace loopgrad::bench {

struct Range {
  std::int64_t begin, end;
};

/// The consecutive part of [begin, end) that is one thread's.
inline Range share_of(std::int64_t begin, std::int64_t end, int thread, int threads) {
  const std::int64_t n = end > begin ? end - begin : 0;
  return {begin + n * thread / threads, begin + n * (thread + 1) / threads};
}

/// The calling thread's part, inside a parallel region.
inline Range my_share(std::int64_t begin, std::int64_t end) {
  return share_of(begin, end, omp_get_thread_num(), omp_get_num_threads());
}

/// An array per thread, each on cache lines of its own.
class PerThread {
 public:
  explicit PerThread(std::int64_t size)
      : size_(size), stride_((size + 31) / 16 * 16), values_(static_cast<std::size_t>(stride_) * count()) {}
  float* of(int thread) { return values_.data() + thread * stride_; }
  float* mine() { return of(omp_get_thread_num()); }
  std::int64_t size() const { return size_; }

  /// out[i] = the sum over the threads, always in the same order. Starts a parallel region of its own.
  void sum_into(float* out) {
    const int threads = omp_get_max_threads();
#pragma omp parallel for schedule(static)
    for (std::int64_t i = 0; i < size_; ++i) {
      float sum = 0;
      for (int t = 0; t < threads; ++t) sum += of(t)[i];
      out[i] = sum;
    }
  }

  /// The calling thread's share of the rows [0, rows) of `out`, where a thread's shadow counts in its own share and one
  /// row around that only. To be called by all threads of a region, after a barrier.
  void sum_rows_into(float* out, std::int64_t rows, std::int64_t row_size) {
    const int threads = omp_get_num_threads();
    const Range mine = my_share(0, rows);
    for (std::int64_t i = mine.begin; i < mine.end; ++i) {
      std::fill_n(out + i * row_size, row_size, 0.0f);
      for (int t = 0; t < threads; ++t) {
        const Range theirs = share_of(0, rows, t, threads);
        if (i < theirs.begin - 1 || i > theirs.end) continue;
        const float* shadow = of(t) + i * row_size;
        for (std::int64_t j = 0; j < row_size; ++j) out[i * row_size + j] += shadow[j];
      }
    }
  }

  /// Zeroes what `sum_rows_into` will read of the calling thread's shadow, and returns that shadow.
  float* clear_rows(std::int64_t rows, std::int64_t row_size) {
    const Range r = my_share(0, rows);
    const std::int64_t begin = std::max<std::int64_t>(0, r.begin - 1), end = std::min(rows, r.end + 1);
    std::fill(mine() + begin * row_size, mine() + end * row_size, 0.0f);
    return mine();
  }

 private:
  static std::size_t count() { return static_cast<std::size_t>(omp_get_max_threads()); }
  std::int64_t size_, stride_;
  std::vector<float> values_;
};

}  // namespace loopgrad::bench

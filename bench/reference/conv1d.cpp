// y[i] = sum_j x[i+j] w[j].
#include "bench/reference/reference.h"
#include "bench/reference/tape.h"
#include "bench/reference/threads.h"
#include "bench/reference/vec.h"

#include <algorithm>
#include <memory>

namespace loopgrad::bench {
namespace {

/// `Blocks` vectors of outputs stay in registers over the whole sum.
template <int Blocks>
void correlate_block(const float* x, const float* w, std::int64_t k, float* y) {
  Vec sums[Blocks] = {};
  for (std::int64_t j = 0; j < k; ++j)
#pragma GCC unroll 8
    for (int b = 0; b < Blocks; ++b) sums[b] += load(x + j + b * kLanes) * splat(w[j]);
#pragma GCC unroll 8
  for (int b = 0; b < Blocks; ++b) store(y + b * kLanes, sums[b]);
}

/// y[i] = sum_j x[i+j] w[j] for i in [0, n).
void correlate(const float* x, const float* w, std::int64_t k, float* y, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + 8 * kLanes <= n; i += 8 * kLanes) correlate_block<8>(x + i, w, k, y + i);
  for (; i + kLanes <= n; i += kLanes) correlate_block<1>(x + i, w, k, y + i);
  for (; i < n; ++i) {
    float sum = 0;
    for (std::int64_t j = 0; j < k; ++j) sum += x[i + j] * w[j];
    y[i] = sum;
  }
}

/// dx[p] = sum_j dy[p-j] w[j]: a correlation with the reversed filter, except where it sticks out of dy.
void input_gradient(const float* dy, const float* reversed, std::int64_t n, std::int64_t k, float* dx) {
  const auto edge = [&](std::int64_t p) {
    float sum = 0;
    for (std::int64_t q = std::max<std::int64_t>(0, p - k + 1); q < std::min(n, p + 1); ++q)
      sum += dy[q] * reversed[q - p + k - 1];
    dx[p] = sum;
  };
  const std::int64_t inner = std::min(n, k - 1);
#pragma omp parallel
  {
    const Range r = my_share(inner, n);
    correlate(dy + r.begin - (k - 1), reversed, k, dx + r.begin, r.end - r.begin);
  }
  for (std::int64_t p = 0; p < inner; ++p) edge(p);
  for (std::int64_t p = std::max(n, inner); p < n + k - 1; ++p) edge(p);
}

/// Adds to the 64 sums over i of dy[i] x[i+j], held in registers.
void filter_gradient_block(const float* x, const float* dy, std::int64_t n, float* dw) {
  Vec even[4] = {}, odd[4] = {};
  std::int64_t i = 0;
  for (; i + 2 <= n; i += 2) {
#pragma GCC unroll 4
    for (int b = 0; b < 4; ++b) {
      even[b] += load(x + i + b * kLanes) * splat(dy[i]);
      odd[b] += load(x + i + 1 + b * kLanes) * splat(dy[i + 1]);
    }
  }
  for (; i < n; ++i)
    for (int b = 0; b < 4; ++b) even[b] += load(x + i + b * kLanes) * splat(dy[i]);
  for (int b = 0; b < 4; ++b) store(dw + b * kLanes, load(dw + b * kLanes) + even[b] + odd[b]);
}

void filter_gradient(const float* x, const float* dy, Range r, std::int64_t k, float* dw) {
  constexpr std::int64_t chunk = 4096;  // of x and dy: stays in the first cache for all blocks of j; also sums by parts
  std::fill_n(dw, k, 0.0f);
  for (std::int64_t i = r.begin; i < r.end; i += chunk) {
    const std::int64_t n = std::min(chunk, r.end - i);
    std::int64_t j = 0;
    for (; j + 4 * kLanes <= k; j += 4 * kLanes) filter_gradient_block(x + i + j, dy + i, n, dw + j);
    for (; j < k; ++j) {
      float sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t q = 0; q < n; ++q) sum += dy[i + q] * x[i + j + q];
      dw[j] += sum;
    }
  }
}

Implementation by_hand(const Data& data) {
  const std::int64_t n = data.size("n"), k = data.size("k");
  const float *x = data.floats("x"), *w = data.floats("w"), *dy = data.floats("d_y");
  float *y = data.floats("y"), *dx = data.floats("d_x"), *dw = data.floats("d_w");
  auto partial = std::make_shared<PerThread>(k);
  return {[=] {
#pragma omp parallel
            {
              const Range r = my_share(0, n);
              correlate(x + r.begin, w, k, y + r.begin, r.end - r.begin);
            }
          },
          [=] {
            std::vector<float> reversed(static_cast<std::size_t>(k));
            std::reverse_copy(w, w + k, reversed.begin());
            input_gradient(dy, reversed.data(), n, k, dx);
#pragma omp parallel
            filter_gradient(x, dy, my_share(0, n), k, partial->mine());
            partial->sum_into(dw);
          }};
}

void push_all(const float* x, const float* w, std::int64_t k, float* y, Range r, Tape& tape) {
  for (std::int64_t i = r.begin; i < r.end; ++i) {
    float sum = 0;
    for (std::int64_t j = 0; j < k; ++j) {
      tape.push(w[j]);
      tape.push(x[i + j]);
      sum += x[i + j] * w[j];
    }
    y[i] = sum;
  }
}

void pop_all(const float* dy, std::int64_t k, float* dx, float* dw, Range r, Tape& tape) {
  for (std::int64_t i = r.end - 1; i >= r.begin; --i) {
    for (std::int64_t j = k - 1; j >= 0; --j) {
      const float x = tape.pop(), w = tape.pop();
      dx[i + j] += dy[i] * w;
      dw[j] += dy[i] * x;
    }
  }
}

Implementation by_tape(const Data& data) {
  const std::int64_t n = data.size("n"), k = data.size("k");
  const float *x = data.floats("x"), *w = data.floats("w"), *dy = data.floats("d_y");
  float *y = data.floats("y"), *dx = data.floats("d_x"), *dw = data.floats("d_w");
  auto tapes = std::make_shared<Tapes>();
  auto x_shadow = std::make_shared<PerThread>(n + k - 1), w_shadow = std::make_shared<PerThread>(k);
  return {[=] {
#pragma omp parallel
            push_all(x, w, k, y, my_share(0, n), tapes->mine());
          },
          [=] {
#pragma omp parallel
            {
              std::fill_n(x_shadow->mine(), n + k - 1, 0.0f);
              std::fill_n(w_shadow->mine(), k, 0.0f);
              pop_all(dy, k, x_shadow->mine(), w_shadow->mine(), my_share(0, n), tapes->mine());
            }
            x_shadow->sum_into(dx);
            w_shadow->sum_into(dw);
          }};
}

}  // namespace

Reference conv1d() {
  return {"conv1d", by_hand, by_tape,
          [](const Sizes& s) { return 8.0 * static_cast<double>(s.at("n")) * static_cast<double>(s.at("k")); }};
}

}  // namespace loopgrad::bench

// Every element through the same layers v <- tanh(a v + b).
#include "bench/reference/reference.h"
#include "bench/reference/tape.h"
#include "bench/reference/threads.h"
#include "bench/reference/vec.h"

#include <algorithm>
#include <memory>

namespace loopgrad::bench {
namespace {

constexpr std::int64_t kBlock = 256;  // elements that go through all layers together, in the first cache

struct Scalars {
  float a, b;
};

/// in and out may be the same.
void layer(const float* in, Scalars s, std::int64_t n, float* out) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) out[i] = tanhf(s.a * in[i] + s.b);
}

/// The gradient by a block of x, with the chain computed once more; adds the block's share of those by a and b.
/// `values` has room for a block per layer and one more.
void block_gradient(const float* x, const float* dy, Scalars s, std::int64_t layers, std::int64_t n, float* values,
                    float* dx, double& da, double& db) {
  std::copy_n(x, n, values);
  for (std::int64_t l = 0; l < layers; ++l) layer(values + l * kBlock, s, n, values + (l + 1) * kBlock);
  float d[kBlock];
  std::copy_n(dy, n, d);
  for (std::int64_t l = layers - 1; l >= 0; --l) {
    const float *in = values + l * kBlock, *out = in + kBlock;
    float by_a = 0, by_b = 0;
#pragma omp simd reduction(+ : by_a, by_b)
    for (std::int64_t i = 0; i < n; ++i) {
      const float e = d[i] * (1 - out[i] * out[i]);
      by_a += e * in[i];
      by_b += e;
      d[i] = e * s.a;
    }
    da += by_a;
    db += by_b;
  }
  std::copy_n(d, n, dx);
}

Implementation by_hand(const Data& data) {
  const std::int64_t n = data.size("n"), layers = data.size("layers");
  const float *x = data.floats("x"), *a = data.floats("a"), *b = data.floats("b"), *dy = data.floats("d_y");
  float *y = data.floats("y"), *dx = data.floats("d_x"), *da = data.floats("d_a"), *db = data.floats("d_b");
  auto values = std::make_shared<PerThread>((layers + 1) * kBlock), a_part = std::make_shared<PerThread>(1),
       b_part = std::make_shared<PerThread>(1);
  return {[=] {
#pragma omp parallel for schedule(static)
            for (std::int64_t i = 0; i < n; i += kBlock) {
              const std::int64_t count = std::min(kBlock, n - i);
              if (layers == 0) std::copy_n(x + i, count, y + i);
              for (std::int64_t l = 0; l < layers; ++l) layer(l == 0 ? x + i : y + i, {*a, *b}, count, y + i);
            }
          },
          [=] {
#pragma omp parallel
            {
              double by_a = 0, by_b = 0;
#pragma omp for schedule(static) nowait
              for (std::int64_t i = 0; i < n; i += kBlock)
                block_gradient(x + i, dy + i, {*a, *b}, layers, std::min(kBlock, n - i), values->mine(), dx + i, by_a,
                               by_b);
              *a_part->mine() = static_cast<float>(by_a);
              *b_part->mine() = static_cast<float>(by_b);
            }
            a_part->sum_into(da);
            b_part->sum_into(db);
          }};
}

Implementation by_tape(const Data& data) {
  const std::int64_t n = data.size("n"), layers = data.size("layers");
  const float *x = data.floats("x"), *a = data.floats("a"), *b = data.floats("b"), *dy = data.floats("d_y");
  float *y = data.floats("y"), *dx = data.floats("d_x"), *da = data.floats("d_a"), *db = data.floats("d_b");
  auto tapes = std::make_shared<Tapes>();
  auto a_part = std::make_shared<PerThread>(1), b_part = std::make_shared<PerThread>(1);
  return {[=] {
#pragma omp parallel
            {
              Tape& tape = tapes->mine();
              const Range mine = my_share(0, n);
              for (std::int64_t i = mine.begin; i < mine.end; ++i) {
                float v = x[i];
                for (std::int64_t l = 0; l < layers; ++l) {
                  tape.push(*a);
                  tape.push(v);
                  v = std::tanh(*a * v + *b);
                  tape.push(v);
                }
                y[i] = v;
              }
            }
          },
          [=] {
#pragma omp parallel
            {
              Tape& tape = tapes->mine();
              const Range mine = my_share(0, n);
              double by_a = 0, by_b = 0;  // as good as pairwise sums, and no slower here
              for (std::int64_t i = mine.end - 1; i >= mine.begin; --i) {
                float d = dy[i];
                for (std::int64_t l = 0; l < layers; ++l) {
                  const float out = tape.pop(), in = tape.pop(), factor = tape.pop(), e = d * (1 - out * out);
                  by_a += e * in;
                  by_b += e;
                  d = e * factor;
                }
                dx[i] = d;
              }
              *a_part->mine() = static_cast<float>(by_a);
              *b_part->mine() = static_cast<float>(by_b);
            }
            a_part->sum_into(da);
            b_part->sum_into(db);
          }};
}

}  // namespace

Reference tanh_chain() {
  return {"tanh_chain", by_hand, by_tape,
          [](const Sizes& s) { return 12.0 * static_cast<double>(s.at("n")) * static_cast<double>(s.at("layers")); }};
}

}  // namespace loopgrad::bench

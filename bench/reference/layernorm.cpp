// Every row to mean 0 and variance 1, then scaled and shifted by column.
#include "bench/reference/reference.h"
#include "bench/reference/tape.h"
#include "bench/reference/threads.h"

#include <algorithm>
#include <cmath>
#include <memory>

namespace loopgrad::bench {
namespace {

struct Row {
  float mean, scale;
};

Row normalise(const float* x, const float* g, const float* b, std::int64_t cols, float* __restrict y) {
  float sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t c = 0; c < cols; ++c) sum += x[c];
  const float mean = sum / static_cast<float>(cols);
#pragma omp simd reduction(+ : squares)
  for (std::int64_t c = 0; c < cols; ++c) squares += (x[c] - mean) * (x[c] - mean);
  const float scale = 1 / std::sqrt(squares / static_cast<float>(cols) + 1e-5f);
#pragma omp simd
  for (std::int64_t c = 0; c < cols; ++c) y[c] = (x[c] - mean) * scale * g[c] + b[c];
  return {mean, scale};
}

/// The gradient by a row of x; adds the row's share of those by g and b.
void row_gradient(const float* x, const float* g, const float* dy, Row row, std::int64_t cols, float* __restrict dx,
                  float* __restrict dg, float* __restrict db) {
  float plain = 0, weighted = 0;
#pragma omp simd reduction(+ : plain, weighted)
  for (std::int64_t c = 0; c < cols; ++c) {
    const float normal = (x[c] - row.mean) * row.scale, d = dy[c] * g[c];
    plain += d;
    weighted += d * normal;
    dg[c] += dy[c] * normal;
    db[c] += dy[c];
  }
  plain /= static_cast<float>(cols);
  weighted /= static_cast<float>(cols);
#pragma omp simd
  for (std::int64_t c = 0; c < cols; ++c) {
    const float normal = (x[c] - row.mean) * row.scale;
    dx[c] = row.scale * (dy[c] * g[c] - plain - normal * weighted);
  }
}

Implementation by_hand(const Data& data) {
  const std::int64_t rows = data.size("rows"), cols = data.size("cols");
  const float *x = data.floats("x"), *g = data.floats("g"), *b = data.floats("b"), *dy = data.floats("d_y");
  float *y = data.floats("y"), *dx = data.floats("d_x"), *dg = data.floats("d_g"), *db = data.floats("d_b");
  auto kept = std::make_shared<std::vector<Row>>(static_cast<std::size_t>(rows));
  auto g_part = std::make_shared<PerThread>(cols), b_part = std::make_shared<PerThread>(cols);
  return {[=] {
#pragma omp parallel for schedule(static)
            for (std::int64_t r = 0; r < rows; ++r)
              (*kept)[static_cast<std::size_t>(r)] = normalise(x + r * cols, g, b, cols, y + r * cols);
          },
          [=] {
#pragma omp parallel
            {
              float *my_g = g_part->mine(), *my_b = b_part->mine();
              std::fill_n(my_g, cols, 0.0f);
              std::fill_n(my_b, cols, 0.0f);
              const Range mine = my_share(0, rows);
              for (std::int64_t r = mine.begin; r < mine.end; ++r)
                row_gradient(x + r * cols, g, dy + r * cols, (*kept)[static_cast<std::size_t>(r)], cols, dx + r * cols,
                             my_g, my_b);
            }
            g_part->sum_into(dg);
            b_part->sum_into(db);
          }};
}

void push_row(const float* x, const float* g, const float* b, std::int64_t cols, float* y, Tape& tape) {
  float mean = 0, variance = 0;
  for (std::int64_t c = 0; c < cols; ++c) mean += x[c];
  mean /= static_cast<float>(cols);
  for (std::int64_t c = 0; c < cols; ++c) {
    tape.push(x[c] - mean);
    variance += (x[c] - mean) * (x[c] - mean);
  }
  const float scale = 1 / std::sqrt(variance / static_cast<float>(cols) + 1e-5f);
  for (std::int64_t c = 0; c < cols; ++c) {
    tape.push(g[c]);
    tape.push(scale);
    tape.push(x[c] - mean);
    y[c] = (x[c] - mean) * scale * g[c] + b[c];
  }
  tape.push(scale);
}

void pop_row(const float* dy, std::int64_t cols, float* dx, float* dg, float* db, Tape& tape) {
  float d_mean = 0, d_scale = 0;
  const float row_scale = tape.pop();
  for (std::int64_t c = cols - 1; c >= 0; --c) {
    const float centred = tape.pop(), scale = tape.pop(), g = tape.pop();
    dx[c] = dy[c] * g * scale;
    d_mean -= dy[c] * g * scale;
    d_scale += dy[c] * g * centred;
    dg[c] += dy[c] * centred * scale;
    db[c] += dy[c];
  }
  const float d_variance = -0.5f * d_scale * row_scale * row_scale * row_scale / static_cast<float>(cols);
  for (std::int64_t c = cols - 1; c >= 0; --c) {
    const float centred = tape.pop();
    dx[c] += 2 * d_variance * centred;
    d_mean -= 2 * d_variance * centred;
  }
  d_mean /= static_cast<float>(cols);
  for (std::int64_t c = 0; c < cols; ++c) dx[c] += d_mean;
}

Implementation by_tape(const Data& data) {
  const std::int64_t rows = data.size("rows"), cols = data.size("cols");
  const float *x = data.floats("x"), *g = data.floats("g"), *b = data.floats("b"), *dy = data.floats("d_y");
  float *y = data.floats("y"), *dx = data.floats("d_x"), *dg = data.floats("d_g"), *db = data.floats("d_b");
  auto tapes = std::make_shared<Tapes>();
  auto g_shadow = std::make_shared<PerThread>(cols), b_shadow = std::make_shared<PerThread>(cols);
  return {[=] {
#pragma omp parallel
            {
              const Range mine = my_share(0, rows);
              for (std::int64_t r = mine.begin; r < mine.end; ++r)
                push_row(x + r * cols, g, b, cols, y + r * cols, tapes->mine());
            }
          },
          [=] {
#pragma omp parallel
            {
              std::fill_n(g_shadow->mine(), cols, 0.0f);
              std::fill_n(b_shadow->mine(), cols, 0.0f);
              const Range mine = my_share(0, rows);
              for (std::int64_t r = mine.end - 1; r >= mine.begin; --r)
                pop_row(dy + r * cols, cols, dx + r * cols, g_shadow->mine(), b_shadow->mine(), tapes->mine());
            }
            g_shadow->sum_into(dg);
            b_shadow->sum_into(db);
          }};
}

}  // namespace

Reference layernorm() {
  return {"layernorm", by_hand, by_tape,
          [](const Sizes& s) { return 24.0 * static_cast<double>(s.at("rows")) * static_cast<double>(s.at("cols")); }};
}

}  // namespace loopgrad::bench

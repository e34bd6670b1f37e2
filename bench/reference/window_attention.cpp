// Attention to a window of positions (longformer): scores beyond the ends are 0 and count in the softmax.
#include "bench/reference/reference.h"
#include "bench/reference/tape.h"
#include "bench/reference/threads.h"
#include "bench/reference/vec.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

namespace loopgrad::bench {
namespace {

constexpr int kTile = 4;  // queries, or keys, whose rows are computed together

/// The positions first, first + dilation, ... of a head: attention to them has a dense band.
struct Sequence {
  std::int64_t length, offset, stride;  // of rows of `width` floats, in floats
  std::int64_t band;                    // where its bands start, in rows
};

struct Shape {
  std::int64_t heads, dilated, length, width, window;
  std::int64_t band() const { return 2 * window + 1; }
  /// Of a stored band: zeros on both sides make the bands of a tile of keys contiguous.
  std::int64_t band_stride() const { return band() + 2 * (kTile - 1); }
  std::int64_t tile_stride() const { return (band() + kTile - 1 + kLanes - 1) / kLanes * kLanes; }
  std::int64_t columns() const { return length + 2 * window + tile_stride(); }
  float root() const { return std::sqrt(static_cast<float>(width)); }

  std::vector<Sequence> sequences() const {
    std::vector<Sequence> all;
    std::int64_t band_row = 0;
    for (std::int64_t h = 0; h < heads; ++h) {
      const std::int64_t dilation = h < dilated ? 4 : 1;
      for (std::int64_t first = 0; first < std::min(dilation, length); ++first) {
        const std::int64_t n = (length - first + dilation - 1) / dilation;
        all.push_back({n, (h * length + first) * width, dilation * width, band_row});
        band_row += n;
      }
    }
    return all;
  }
};

/// columns[d][window + s] = rows[s][d], with zeros around. For all threads of a region.
void transpose(const Shape& shape, const Sequence& seq, const float* rows, float* columns) {
#pragma omp for schedule(static)
  for (std::int64_t d = 0; d < shape.width; ++d) {
    float* column = columns + d * shape.columns();
    std::fill_n(column, shape.columns(), 0.0f);
    for (std::int64_t s = 0; s < seq.length; ++s) column[shape.window + s] = rows[seq.offset + s * seq.stride + d];
  }
}

/// tile[q][m] = sum_d rows[q][d] columns[d][m] for `Blocks` vectors of m.
template <int Queries, int Blocks>
void products_block(const float* rows, std::int64_t row_stride, const float* columns, std::int64_t column_stride,
                    std::int64_t width, float* tile, std::int64_t tile_stride) {
  Vec sums[Queries][Blocks] = {};
  for (std::int64_t d = 0; d < width; ++d) {
    Vec column[Blocks];
#pragma GCC unroll 8
    for (int b = 0; b < Blocks; ++b) column[b] = load(columns + d * column_stride + b * kLanes);
#pragma GCC unroll 8
    for (int q = 0; q < Queries; ++q)
#pragma GCC unroll 8
      for (int b = 0; b < Blocks; ++b) sums[q][b] += splat(rows[q * row_stride + d]) * column[b];
  }
  for (int q = 0; q < Queries; ++q)
    for (int b = 0; b < Blocks; ++b) store(tile + q * tile_stride + b * kLanes, sums[q][b]);
}

template <int Queries>
void products(const Shape& shape, const float* rows, std::int64_t row_stride, const float* columns, float* tile) {
  const std::int64_t n = shape.tile_stride();
  std::int64_t m = 0;
  for (; m + 5 * kLanes <= n; m += 5 * kLanes)
    products_block<Queries, 5>(rows, row_stride, columns + m, shape.columns(), shape.width, tile + m, n);
  for (; m < n; m += kLanes)
    products_block<Queries, 1>(rows, row_stride, columns + m, shape.columns(), shape.width, tile + m, n);
}

/// Coefficient of row i for the q-th result: first[i * by_row + q * by_result].
struct Coefficients {
  const float* first;
  std::int64_t by_row, by_result;
};

template <int Results, int Blocks>
void combine_block(const Coefficients& c, const float* rows, std::int64_t row_stride, std::int64_t count, float* out,
                   std::int64_t out_stride) {
  Vec sums[Results][Blocks] = {};
  for (std::int64_t i = 0; i < count; ++i) {
    Vec row[Blocks];
#pragma GCC unroll 8
    for (int b = 0; b < Blocks; ++b) row[b] = load(rows + i * row_stride + b * kLanes);
#pragma GCC unroll 8
    for (int q = 0; q < Results; ++q)
#pragma GCC unroll 8
      for (int b = 0; b < Blocks; ++b) sums[q][b] += splat(c.first[i * c.by_row + q * c.by_result]) * row[b];
  }
  for (int q = 0; q < Results; ++q)
    for (int b = 0; b < Blocks; ++b) store(out + q * out_stride + b * kLanes, sums[q][b]);
}

/// out[q][d] = sum_i coefficient(i, q) rows[i][d].
template <int Results>
void combine(const Coefficients& c, const float* rows, std::int64_t row_stride, std::int64_t count, std::int64_t width,
             float* out, std::int64_t out_stride) {
  std::int64_t d = 0;
  for (; d + 4 * kLanes <= width; d += 4 * kLanes)
    combine_block<Results, 4>(c, rows + d, row_stride, count, out + d, out_stride);
  for (; d + kLanes <= width; d += kLanes)
    combine_block<Results, 1>(c, rows + d, row_stride, count, out + d, out_stride);
  for (; d < width; ++d) {
    for (int q = 0; q < Results; ++q) {
      float sum = 0;
      for (std::int64_t i = 0; i < count; ++i)
        sum += c.first[i * c.by_row + q * c.by_result] * rows[i * row_stride + d];
      out[q * out_stride + d] = sum;
    }
  }
}

/// out[q] = sum over the keys s in the band of query j+q of tile[q][s - (j - window)] rows[s].
template <int Queries>
void combine_keys(const Shape& shape, const Sequence& seq, std::int64_t j, const float* tile, const float* rows,
                  float* out) {
  const std::int64_t first = std::max<std::int64_t>(0, j - shape.window),
                     last = std::min(seq.length, j + Queries + shape.window);
  combine<Queries>({tile + first - (j - shape.window), 1, shape.tile_stride()}, rows + seq.offset + first * seq.stride,
                   seq.stride, last - first, shape.width, out + seq.offset + j * seq.stride, seq.stride);
}

/// Puts a band into its place: stored[3 + o] = tile[q + o]; zeroes the tile around it.
void keep_band(const Shape& shape, std::int64_t q, float* tile_row, float* stored) {
  std::copy_n(tile_row + q, shape.band(), stored + kTile - 1);
  std::fill_n(tile_row, q, 0.0f);
  std::fill(tile_row + q + shape.band(), tile_row + shape.tile_stride(), 0.0f);
}

/// softmax / sqrt(D), in place.
void normalise(const Shape& shape, float* scores) {
  const std::int64_t n = shape.band();
  float largest = scores[0], sum = 0;
#pragma omp simd reduction(max : largest)
  for (std::int64_t o = 0; o < n; ++o) largest = scores[o] > largest ? scores[o] : largest;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t o = 0; o < n; ++o) {
    scores[o] = expf(scores[o] - largest);
    sum += scores[o];
  }
  const float factor = 1 / (sum * shape.root());
  for (std::int64_t o = 0; o < n; ++o) scores[o] *= factor;
}

/// From the gradient by the weights to that by the scores, in place.
void softmax_gradient(const Shape& shape, const float* weights, float* d) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t o = 0; o < shape.band(); ++o) sum += weights[o] * d[o];
  sum *= shape.root();
  for (std::int64_t o = 0; o < shape.band(); ++o) d[o] = weights[o] * (d[o] - sum);
}

struct Arrays {
  const float *q, *k, *v, *dy;
  float *y, *dq, *dk, *dv;
  explicit Arrays(const Data& data)
      : q(data.floats("q")),
        k(data.floats("k")),
        v(data.floats("v")),
        dy(data.floats("d_y")),
        y(data.floats("y")),
        dq(data.floats("d_q")),
        dk(data.floats("d_k")),
        dv(data.floats("d_v")) {}
};

struct Work {
  std::vector<float> columns, weights, d_scores;
  explicit Work(const Shape& s)
      : columns(static_cast<std::size_t>(s.width * s.columns())),
        weights(static_cast<std::size_t>(s.heads * s.length * s.band_stride())),
        d_scores(weights.size()) {}
};

template <int Queries>
void attend(const Shape& shape, const Sequence& seq, const Arrays& a, std::int64_t j, Work& work, float* tile) {
  products<Queries>(shape, a.q + seq.offset + j * seq.stride, seq.stride, work.columns.data() + j, tile);
  for (std::int64_t q = 0; q < Queries; ++q) {
    float* row = tile + q * shape.tile_stride();
    normalise(shape, row + q);
    keep_band(shape, q, row, work.weights.data() + (seq.band + j + q) * shape.band_stride());
  }
  combine_keys<Queries>(shape, seq, j, tile, a.v, a.y);
}

template <int Queries>
void query_gradient(const Shape& shape, const Sequence& seq, const Arrays& a, std::int64_t j, Work& work, float* tile) {
  products<Queries>(shape, a.dy + seq.offset + j * seq.stride, seq.stride, work.columns.data() + j, tile);
  for (std::int64_t q = 0; q < Queries; ++q) {
    float* row = tile + q * shape.tile_stride();
    const std::int64_t stored = (seq.band + j + q) * shape.band_stride();
    softmax_gradient(shape, work.weights.data() + stored + kTile - 1, row + q);
    keep_band(shape, q, row, work.d_scores.data() + stored);
  }
  combine_keys<Queries>(shape, seq, j, tile, a.k, a.dq);
}

/// out[s+i] = sum over the queries j whose band holds key s+i of bands[j][s+i - j + window] rows[j].
template <int Keys>
void key_gradient(const Shape& shape, const Sequence& seq, std::int64_t s, const std::vector<float>& bands,
                  const float* rows, float* out) {
  const std::int64_t first = std::max<std::int64_t>(0, s - shape.window),
                     last = std::min(seq.length, s + Keys + shape.window);
  const float* coefficients =
      bands.data() + (seq.band + first) * shape.band_stride() + kTile - 1 + s - first + shape.window;
  combine<Keys>({coefficients, shape.band_stride() - 1, 1}, rows + seq.offset + first * seq.stride, seq.stride,
                last - first, shape.width, out + seq.offset + s * seq.stride, seq.stride);
}

/// Calls tile(j) for whole tiles and single(j) for the rest. For all threads of a region; ends with a barrier.
template <class Tiled, class Single>
void for_tiles(std::int64_t length, Tiled tiled, Single single) {
#pragma omp for schedule(static)
  for (std::int64_t j = 0; j < length; j += kTile) {
    if (j + kTile <= length) {
      tiled(j);
    } else {
      for (std::int64_t i = j; i < length; ++i) single(i);
    }
  }
}

Implementation by_hand(const Data& data) {
  const Shape shape{data.size("H"), data.size("dilated"), data.size("S"), data.size("D"), data.size("w")};
  const Arrays a(data);
  auto work = std::make_shared<Work>(shape);
  auto tiles = std::make_shared<PerThread>(kTile * shape.tile_stride());
  const auto forward = [=] {
#pragma omp parallel
    for (const Sequence& seq : shape.sequences()) {
      float* tile = tiles->mine();
      transpose(shape, seq, a.k, work->columns.data());
      for_tiles(
          seq.length, [&](std::int64_t j) { attend<kTile>(shape, seq, a, j, *work, tile); },
          [&](std::int64_t j) { attend<1>(shape, seq, a, j, *work, tile); });
    }
  };
  const auto backward = [=] {
#pragma omp parallel
    for (const Sequence& seq : shape.sequences()) {
      float* tile = tiles->mine();
      transpose(shape, seq, a.v, work->columns.data());
      for_tiles(
          seq.length, [&](std::int64_t j) { query_gradient<kTile>(shape, seq, a, j, *work, tile); },
          [&](std::int64_t j) { query_gradient<1>(shape, seq, a, j, *work, tile); });
      const auto by_key = [&]<int Keys>(std::int64_t s) {
        key_gradient<Keys>(shape, seq, s, work->d_scores, a.q, a.dk);
        key_gradient<Keys>(shape, seq, s, work->weights, a.dy, a.dv);
      };
      for_tiles(
          seq.length, [&](std::int64_t s) { by_key.template operator()<kTile>(s); },
          [&](std::int64_t s) { by_key.template operator()<1>(s); });
    }
  };
  return {forward, backward};
}

/// A query on the tape; `weights` is room for a band.
void push_query(const Shape& shape, const Sequence& seq, const Arrays& a, std::int64_t j, float* weights, Tape& tape) {
  const std::int64_t n = shape.band(), width = shape.width;
  const float* q = a.q + seq.offset + j * seq.stride;
  float* y = a.y + seq.offset + j * seq.stride;
  for (std::int64_t o = 0; o < n; ++o) {
    const std::int64_t s = j + o - shape.window;
    weights[o] = 0;
    if (s < 0 || s >= seq.length) continue;
    const float* k = a.k + seq.offset + s * seq.stride;
    for (std::int64_t d = 0; d < width; ++d) {
      tape.push(k[d]);
      tape.push(q[d]);
      weights[o] += q[d] * k[d];
    }
  }
  const float largest = *std::max_element(weights, weights + n);
  float sum = 0;
  for (std::int64_t o = 0; o < n; ++o) {
    weights[o] = std::exp(weights[o] - largest);
    tape.push(weights[o]);
    sum += weights[o];
  }
  for (std::int64_t o = 0; o < n; ++o) weights[o] /= sum * shape.root();
  tape.push(sum);
  std::fill_n(y, width, 0.0f);
  for (std::int64_t o = 0; o < n; ++o) {
    const std::int64_t s = j + o - shape.window;
    if (s < 0 || s >= seq.length) continue;
    const float* v = a.v + seq.offset + s * seq.stride;
    for (std::int64_t d = 0; d < width; ++d) {
      tape.push(v[d]);
      tape.push(weights[o]);
      y[d] += weights[o] * v[d];
    }
  }
}

void pop_query(const Shape& shape, const Sequence& seq, const Arrays& a, std::int64_t j, float* d_band, float* dk,
               float* dv, Tape& tape) {
  const std::int64_t n = shape.band(), width = shape.width;
  const float* dy = a.dy + seq.offset + j * seq.stride;
  float* dq = a.dq + seq.offset + j * seq.stride;
  for (std::int64_t o = n - 1; o >= 0; --o) {
    const std::int64_t s = j + o - shape.window;
    d_band[o] = 0;
    if (s < 0 || s >= seq.length) continue;
    for (std::int64_t d = width - 1; d >= 0; --d) {
      const float weight = tape.pop(), v = tape.pop();
      d_band[o] += dy[d] * v;
      dv[seq.offset + s * seq.stride + d] += dy[d] * weight;
    }
  }
  const float sum = tape.pop(), factor = 1 / (sum * shape.root());
  std::vector<float> exponentials(static_cast<std::size_t>(n));
  float d_sum = 0;
  for (std::int64_t o = n - 1; o >= 0; --o) {
    const float e = exponentials[static_cast<std::size_t>(o)] = tape.pop();
    d_sum -= d_band[o] * e * factor / sum;
  }
  for (std::int64_t o = 0; o < n; ++o)
    d_band[o] = (d_band[o] * factor + d_sum) * exponentials[static_cast<std::size_t>(o)];
  std::fill_n(dq, width, 0.0f);
  for (std::int64_t o = n - 1; o >= 0; --o) {
    const std::int64_t s = j + o - shape.window;
    if (s < 0 || s >= seq.length) continue;
    for (std::int64_t d = width - 1; d >= 0; --d) {
      const float q = tape.pop(), k = tape.pop();
      dq[d] += d_band[o] * k;
      dk[seq.offset + s * seq.stride + d] += d_band[o] * q;
    }
  }
}

Implementation by_tape(const Data& data) {
  const Shape shape{data.size("H"), data.size("dilated"), data.size("S"), data.size("D"), data.size("w")};
  const Arrays a(data);
  const std::int64_t size = shape.heads * shape.length * shape.width;
  auto tapes = std::make_shared<Tapes>();
  auto bands = std::make_shared<PerThread>(shape.band());
  auto k_shadow = std::make_shared<PerThread>(size), v_shadow = std::make_shared<PerThread>(size);
  return {[=] {
#pragma omp parallel
            for (const Sequence& seq : shape.sequences()) {
              const Range mine = my_share(0, seq.length);
              for (std::int64_t j = mine.begin; j < mine.end; ++j)
                push_query(shape, seq, a, j, bands->mine(), tapes->mine());
            }
          },
          [=] {
#pragma omp parallel
            {
              std::fill_n(k_shadow->mine(), size, 0.0f);
              std::fill_n(v_shadow->mine(), size, 0.0f);
              const std::vector<Sequence> sequences = shape.sequences();
              for (auto seq = sequences.rbegin(); seq != sequences.rend(); ++seq) {
                const Range mine = my_share(0, seq->length);
                for (std::int64_t j = mine.end - 1; j >= mine.begin; --j)
                  pop_query(shape, *seq, a, j, bands->mine(), k_shadow->mine(), v_shadow->mine(), tapes->mine());
              }
            }
            k_shadow->sum_into(a.dk);
            v_shadow->sum_into(a.dv);
          }};
}

}  // namespace

Reference window_attention() {
  return {"window_attention", by_hand, by_tape, [](const Sizes& s) {
            return 16.0 * static_cast<double>(s.at("H")) * static_cast<double>(s.at("S")) *
                   static_cast<double>(s.at("D")) * static_cast<double>(2 * s.at("w") + 1);
          }};
}

}  // namespace loopgrad::bench

// T upwind steps of u_t + u (u_x + u_y) = 0 inside a border that stays.
#include "bench/reference/reference.h"
#include "bench/reference/tape.h"
#include "bench/reference/threads.h"

#include <algorithm>
#include <memory>

namespace loopgrad::bench {
namespace {

constexpr float kDt = 0.1f;

struct Grid {
  std::int64_t n, m;
  std::int64_t size() const { return n * m; }
  bool inside(std::int64_t i, std::int64_t j) const { return i > 0 && i < n - 1 && j > 0 && j < m - 1; }
};

inline float positive(float v) { return v < 0 ? 0 : v; }
inline float negative(float v) { return v > 0 ? 0 : v; }

/// d u'[p] / d u[p] from u[p] and its neighbours above, below, left and right.
inline float own_derivative(float v, float up, float down, float left, float right) {
  const float backward = 2 * v - up - left, forward = down + right - 2 * v;
  const float slopes = (v >= 0 ? backward : 0.0f) + (v <= 0 ? forward : 0.0f);
  return 1 - kDt * (slopes + 2 * positive(v) - 2 * negative(v));
}

void step(const Grid& grid, const float* u, float* __restrict next, Range rows) {
  const std::int64_t m = grid.m;
  for (std::int64_t i = rows.begin; i < rows.end; ++i) {
    const float* here = u + i * m;
    float* out = next + i * m;
    if (i == 0 || i == grid.n - 1) {
      std::copy_n(here, m, out);
      continue;
    }
    out[0] = here[0];
    out[m - 1] = here[m - 1];
#pragma omp simd
    for (std::int64_t j = 1; j < m - 1; ++j) {
      const float v = here[j], backward = 2 * v - here[j - m] - here[j - 1],
                  forward = here[j + m] + here[j + 1] - 2 * v;
      out[j] = v - kDt * (positive(v) * backward + negative(v) * forward);
    }
  }
}

/// The gradient by one element of u, gathered from those elements of the next state that read it.
float gather(const Grid& grid, const float* u, const float* d_next, std::int64_t i, std::int64_t j) {
  const std::int64_t m = grid.m, p = i * m + j;
  float d = d_next[p];
  if (grid.inside(i, j)) d *= own_derivative(u[p], u[p - m], u[p + m], u[p - 1], u[p + 1]);
  if (grid.inside(i + 1, j)) d += kDt * positive(u[p + m]) * d_next[p + m];
  if (grid.inside(i, j + 1)) d += kDt * positive(u[p + 1]) * d_next[p + 1];
  if (grid.inside(i - 1, j)) d -= kDt * negative(u[p - m]) * d_next[p - m];
  if (grid.inside(i, j - 1)) d -= kDt * negative(u[p - 1]) * d_next[p - 1];
  return d;
}

void step_back(const Grid& grid, const float* u, const float* d_next, float* __restrict d, Range rows) {
  const std::int64_t m = grid.m;
  for (std::int64_t i = rows.begin; i < rows.end; ++i) {
    const bool near_border = i < 2 || i >= grid.n - 2;
    const std::int64_t begin = near_border ? m : std::min<std::int64_t>(2, m),
                       end = near_border ? m : std::max(begin, m - 2);
    for (std::int64_t j = 0; j < begin; ++j) d[i * m + j] = gather(grid, u, d_next, i, j);
    const float *here = u + i * m, *g = d_next + i * m;
    float* out = d + i * m;
#pragma omp simd
    for (std::int64_t j = begin; j < end; ++j) {
      const float up = here[j - m], down = here[j + m], left = here[j - 1], right = here[j + 1];
      out[j] = g[j] * own_derivative(here[j], up, down, left, right) +
               kDt * (positive(down) * g[j + m] + positive(right) * g[j + 1] - negative(up) * g[j - m] -
                      negative(left) * g[j - 1]);
    }
    for (std::int64_t j = end; j < m; ++j) d[i * m + j] = gather(grid, u, d_next, i, j);
  }
}

/// Every state but the last is kept; the input is the first of them.
Implementation by_hand(const Data& data) {
  const Grid grid{data.size("n"), data.size("m")};
  const std::int64_t steps = data.size("T");
  const float *u0 = data.floats("u0"), *d_last = data.floats("d_last");
  float *last = data.floats("last"), *du0 = data.floats("d_u0");
  auto kept = std::make_shared<std::vector<float>>(std::max<std::int64_t>(0, steps - 1) * grid.size());
  auto spare = std::make_shared<std::vector<float>>(2 * grid.size());
  const auto state = [=](std::int64_t t) {
    return t == 0 ? u0 : t == steps ? last : kept->data() + (t - 1) * grid.size();
  };
  return {[=] {
            if (steps == 0) std::copy_n(u0, grid.size(), last);
            for (std::int64_t t = 0; t < steps; ++t)
#pragma omp parallel
              step(grid, state(t), const_cast<float*>(state(t + 1)), my_share(0, grid.n));
          },
          [=] {
            const float* d_next = d_last;
            if (steps == 0) std::copy_n(d_last, grid.size(), du0);
            for (std::int64_t t = steps - 1; t >= 0; --t) {
              float* d = t == 0 ? du0 : spare->data() + t % 2 * grid.size();
#pragma omp parallel
              step_back(grid, state(t), d_next, d, my_share(0, grid.n));
              d_next = d;
            }
          }};
}

void push_step(const Grid& grid, const float* u, Range rows, Tape& tape) {
  const std::int64_t m = grid.m;
  for (std::int64_t i = std::max<std::int64_t>(1, rows.begin); i < std::min(grid.n - 1, rows.end); ++i)
    for (std::int64_t j = 1; j < m - 1; ++j)
      for (const std::int64_t q : {-m, +m, std::int64_t{-1}, std::int64_t{1}, std::int64_t{0}})
        tape.push(u[i * m + j + q]);
}

void pop_step(const Grid& grid, const float* d_next, float* d, Range rows, Tape& tape) {
  const std::int64_t m = grid.m;
  for (std::int64_t i = rows.end - 1; i >= rows.begin; --i) {
    for (std::int64_t j = m - 1; j >= 0; --j) {
      const std::int64_t p = i * m + j;
      const float g = d_next[p];
      if (!grid.inside(i, j)) {
        d[p] += g;
        continue;
      }
      const float v = tape.pop(), right = tape.pop(), left = tape.pop(), down = tape.pop(), up = tape.pop();
      d[p] += g * own_derivative(v, up, down, left, right);
      d[p - m] += g * kDt * positive(v);
      d[p - 1] += g * kDt * positive(v);
      d[p + m] -= g * kDt * negative(v);
      d[p + 1] -= g * kDt * negative(v);
    }
  }
}

Implementation by_tape(const Data& data) {
  const Grid grid{data.size("n"), data.size("m")};
  const std::int64_t steps = data.size("T");
  const float *u0 = data.floats("u0"), *d_last = data.floats("d_last");
  float *last = data.floats("last"), *du0 = data.floats("d_u0");
  auto tapes = std::make_shared<Tapes>();
  auto shadows = std::make_shared<PerThread>(grid.size());
  auto spare = std::make_shared<std::vector<float>>(grid.size());
  return {[=] {
            std::copy_n(u0, grid.size(), last);
            for (std::int64_t t = 0; t < steps; ++t) {
#pragma omp parallel
              {
                const Range rows = my_share(0, grid.n);
                push_step(grid, last, rows, tapes->mine());
                step(grid, last, spare->data(), rows);
#pragma omp barrier
                std::copy(spare->data() + rows.begin * grid.m, spare->data() + rows.end * grid.m,
                          last + rows.begin * grid.m);
              }
            }
          },
          [=] {
            std::copy_n(d_last, grid.size(), du0);
            for (std::int64_t t = 0; t < steps; ++t) {
#pragma omp parallel
              {
                float* shadow = shadows->clear_rows(grid.n, grid.m);
                pop_step(grid, du0, shadow, my_share(0, grid.n), tapes->mine());
#pragma omp barrier
                shadows->sum_rows_into(du0, grid.n, grid.m);
              }
            }
          }};
}

}  // namespace

Reference burgers() {
  return {"burgers", by_hand, by_tape, [](const Sizes& s) {
            return 20.0 * static_cast<double>(s.at("T")) * static_cast<double>(s.at("n")) *
                   static_cast<double>(s.at("m"));
          }};
}

}  // namespace loopgrad::bench

// T steps of u' = u + dt (lap u - u^3) inside a border that stays.
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
      const float v = here[j], lap = here[j - m] + here[j + m] + here[j - 1] + here[j + 1] - 4 * v;
      out[j] = v + kDt * (lap - v * v * v);
    }
  }
}

/// The gradient by one element of u, gathered from those elements of the next state that read it.
float gather(const Grid& grid, const float* u, const float* d_next, std::int64_t i, std::int64_t j) {
  const auto d = [&](std::int64_t r, std::int64_t c) { return grid.inside(r, c) ? d_next[r * grid.m + c] : 0.0f; };
  const float v = u[i * grid.m + j], own = d_next[i * grid.m + j];
  const float around = d(i - 1, j) + d(i + 1, j) + d(i, j - 1) + d(i, j + 1);
  return own + kDt * (around - d(i, j) * (4 + 3 * v * v));
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
      const float around = g[j - m] + g[j + m] + g[j - 1] + g[j + 1];
      out[j] = g[j] + kDt * (around - g[j] * (4 + 3 * here[j] * here[j]));
    }
    for (std::int64_t j = end; j < m; ++j) d[i * m + j] = gather(grid, u, d_next, i, j);
  }
}

/// Every state but the last is kept; the input is the first of them.
Implementation by_hand(const Data& data) {
  const Grid grid{data.size("n"), data.size("m")};
  const std::int64_t steps = data.size("T");
  const float *u0 = data.floats("u0"), *du = data.floats("d_u");
  float *u = data.floats("u"), *du0 = data.floats("d_u0");
  auto kept = std::make_shared<std::vector<float>>(std::max<std::int64_t>(0, steps - 1) * grid.size());
  auto spare = std::make_shared<std::vector<float>>(2 * grid.size());
  const auto state = [=](std::int64_t t) {
    return t == 0 ? u0 : t == steps ? u : kept->data() + (t - 1) * grid.size();
  };
  return {[=] {
            if (steps == 0) std::copy_n(u0, grid.size(), u);
            for (std::int64_t t = 0; t < steps; ++t)
#pragma omp parallel
              step(grid, state(t), const_cast<float*>(state(t + 1)), my_share(0, grid.n));
          },
          [=] {
            const float* d_next = du;
            if (steps == 0) std::copy_n(du, grid.size(), du0);
            for (std::int64_t t = steps - 1; t >= 0; --t) {
              float* d = t == 0 ? du0 : spare->data() + t % 2 * grid.size();
#pragma omp parallel
              step_back(grid, state(t), d_next, d, my_share(0, grid.n));
              d_next = d;
            }
          }};
}

void push_step(const Grid& grid, const float* u, Range rows, Tape& tape) {
  for (std::int64_t i = std::max<std::int64_t>(1, rows.begin); i < std::min(grid.n - 1, rows.end); ++i)
    for (std::int64_t j = 1; j < grid.m - 1; ++j) tape.push(u[i * grid.m + j]);
}

void pop_step(const Grid& grid, const float* d_next, float* d, Range rows, Tape& tape) {
  const std::int64_t m = grid.m;
  for (std::int64_t i = rows.end - 1; i >= rows.begin; --i) {
    for (std::int64_t j = m - 1; j >= 0; --j) {
      const std::int64_t p = i * m + j;
      const float g = d_next[p];
      d[p] += g;
      if (!grid.inside(i, j)) continue;
      const float u = tape.pop();
      d[p] -= g * kDt * (4 + 3 * u * u);
      for (const std::int64_t q : {p - m, p + m, p - 1, p + 1}) d[q] += g * kDt;
    }
  }
}

Implementation by_tape(const Data& data) {
  const Grid grid{data.size("n"), data.size("m")};
  const std::int64_t steps = data.size("T");
  const float *u0 = data.floats("u0"), *du = data.floats("d_u");
  float *u = data.floats("u"), *du0 = data.floats("d_u0");
  auto tapes = std::make_shared<Tapes>();
  auto shadows = std::make_shared<PerThread>(grid.size());
  auto spare = std::make_shared<std::vector<float>>(grid.size());
  return {[=] {
            std::copy_n(u0, grid.size(), u);
            for (std::int64_t t = 0; t < steps; ++t) {
#pragma omp parallel
              {
                const Range rows = my_share(0, grid.n);
                push_step(grid, u, rows, tapes->mine());
                step(grid, u, spare->data(), rows);
#pragma omp barrier
                std::copy(spare->data() + rows.begin * grid.m, spare->data() + rows.end * grid.m,
                          u + rows.begin * grid.m);
              }
            }
          },
          [=] {
            std::copy_n(du, grid.size(), du0);
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

Reference heat2d() {
  return {"heat2d", by_hand, by_tape, [](const Sizes& s) {
            return 4.0 * static_cast<double>(s.at("T")) * static_cast<double>(s.at("n")) *
                   static_cast<double>(s.at("m"));
          }};
}

}  // namespace loopgrad::bench

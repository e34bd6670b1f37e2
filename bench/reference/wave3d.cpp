// T steps of u+ = 2u - u- + 0.1 c lap(u) in a cube, from rest, with zeros around it.
#include "bench/reference/reference.h"
#include "bench/reference/tape.h"
#include "bench/reference/threads.h"

#include <algorithm>
#include <memory>

namespace loopgrad::bench {
namespace {

constexpr float kFactor = 0.1f;

/// A cube of n^3 values, as it is or inside one layer of zeros.
struct Field {
  float* data;
  std::int64_t n, border;
  std::int64_t side() const { return n + 2 * border; }
  std::int64_t size() const { return side() * side() * side(); }
  /// Rows -1 and n exist where there is a border.
  float* row(std::int64_t i, std::int64_t j) const {
    return data + ((i + border) * side() + j + border) * side() + border;
  }
};

std::int64_t padded_size(std::int64_t n) { return (n + 2) * (n + 2) * (n + 2); }

void copy(const Field& from, const Field& to) {
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < from.n; ++i)
    for (std::int64_t j = 0; j < from.n; ++j) std::copy_n(from.row(i, j), from.n, to.row(i, j));
}

/// The rows around (i, j) of a field with a border.
struct Around {
  const float *here, *above, *below, *before, *behind;
  Around(const Field& f, std::int64_t i, std::int64_t j)
      : here(f.row(i, j)),
        above(f.row(i - 1, j)),
        below(f.row(i + 1, j)),
        before(f.row(i, j - 1)),
        behind(f.row(i, j + 1)) {}
  float lap(std::int64_t k) const {
    return above[k] + below[k] + before[k] + behind[k] + here[k - 1] + here[k + 1] - 6 * here[k];
  }
};

void step(const Field& u, const Field& previous, const Field& c, const Field& next, Range planes) {
  for (std::int64_t i = planes.begin; i < planes.end; ++i) {
    for (std::int64_t j = 0; j < u.n; ++j) {
      const Around now(u, i, j);
      const float *before = previous.row(i, j), *speed = c.row(i, j);
      float* __restrict out = next.row(i, j);
#pragma omp simd
      for (std::int64_t k = 0; k < u.n; ++k) out[k] = 2 * now.here[k] - before[k] + kFactor * speed[k] * now.lap(k);
    }
  }
}

/// From the gradients by the states t+1 (`d1`) and t+2 (`d2`) to that by the state t, which replaces `d2`; adds to the
/// gradient by c. `c` has a border too.
void step_back(const Field& u, const Field& c, const Field& d1, const Field& d2, const Field& dc, Range planes) {
  for (std::int64_t i = planes.begin; i < planes.end; ++i) {
    for (std::int64_t j = 0; j < u.n; ++j) {
      const Around now(u, i, j), d(d1, i, j), s(c, i, j);
      float* __restrict out = d2.row(i, j), * __restrict by_c = dc.row(i, j);
#pragma omp simd
      for (std::int64_t k = 0; k < u.n; ++k) {
        const float lap = s.above[k] * d.above[k] + s.below[k] * d.below[k] + s.before[k] * d.before[k] +
                          s.behind[k] * d.behind[k] + s.here[k - 1] * d.here[k - 1] + s.here[k + 1] * d.here[k + 1] -
                          6 * s.here[k] * d.here[k];
        out[k] = 2 * d.here[k] - out[k] + kFactor * lap;
        by_c[k] += kFactor * now.lap(k) * d.here[k];
      }
    }
  }
}

/// du0 = the gradient by the state 1 plus that by the state 0, which is minus that by the state 2.
void both_first(const Field& d1, const Field& d2, const Field& du0) {
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < du0.n; ++i)
    for (std::int64_t j = 0; j < du0.n; ++j)
      for (std::int64_t k = 0; k < du0.n; ++k) du0.row(i, j)[k] = d1.row(i, j)[k] - d2.row(i, j)[k];
}

struct Arrays {
  std::int64_t n, steps;
  Field u0, c, last, d_last, du0, dc;
  explicit Arrays(const Data& data)
      : n(data.size("n")),
        steps(data.size("T")),
        u0{data.floats("u0"), n, 0},
        c{data.floats("c"), n, 0},
        last{data.floats("last"), n, 0},
        d_last{data.floats("d_last"), n, 0},
        du0{data.floats("d_u0"), n, 0},
        dc{data.floats("d_c"), n, 0} {}
};

/// Fields with borders, zero at first; the borders stay so.
class Fields {
 public:
  Fields(std::int64_t count, std::int64_t n)
      : n_(n), size_(padded_size(n)), values_(static_cast<std::size_t>(count * size_)) {}
  Field at(std::int64_t index) { return {values_.data() + index * size_, n_, 1}; }

 private:
  std::int64_t n_, size_;
  std::vector<float> values_;
};

/// All states are kept but the last, with their borders; the states 0 and 1 are one.
Implementation by_hand(const Data& data) {
  const Arrays a(data);
  auto kept = std::make_shared<Fields>(std::max<std::int64_t>(1, a.steps), a.n);
  auto spare = std::make_shared<Fields>(3, a.n);  // c, two gradients
  const auto state = [=](std::int64_t t) { return kept->at(std::max<std::int64_t>(t, 1) - 1); };
  return {[=] {
            copy(a.u0, a.steps == 0 ? a.last : state(0));
            for (std::int64_t t = 1; t <= a.steps; ++t)
#pragma omp parallel
              step(state(t), state(t - 1), a.c, t == a.steps ? a.last : state(t + 1), my_share(0, a.n));
          },
          [=] {
            const Field c = spare->at(0);
            Field d1 = spare->at(1), d2 = spare->at(2);
            copy(a.c, c);
            copy(a.d_last, d1);
            std::fill_n(d2.data, d2.size(), 0.0f);
            std::fill_n(a.dc.data, a.dc.size(), 0.0f);
            for (std::int64_t t = a.steps; t >= 1; --t) {
#pragma omp parallel
              step_back(state(t), c, d1, d2, a.dc, my_share(0, a.n));
              std::swap(d1, d2);
            }
            both_first(d1, d2, a.du0);
          }};
}

void push_step(const Field& u, const Field& c, Range planes, Tape& tape) {
  for (std::int64_t i = planes.begin; i < planes.end; ++i) {
    for (std::int64_t j = 0; j < u.n; ++j) {
      const Around now(u, i, j);
      for (std::int64_t k = 0; k < u.n; ++k) {
        tape.push(c.row(i, j)[k]);
        for (const float* row : {now.above, now.below, now.before, now.behind, now.here - 1, now.here + 1, now.here})
          tape.push(row[k]);
      }
    }
  }
}

/// Scatters the gradient by the state t+1 (`d_next`) to that by the state t (`d`).
void pop_step(const Field& d_next, const Field& d, const Field& dc, Range planes, Tape& tape) {
  const std::int64_t n = d.n, side = d.side();
  for (std::int64_t i = planes.end - 1; i >= planes.begin; --i) {
    for (std::int64_t j = n - 1; j >= 0; --j) {
      float* row = d.row(i, j);
      for (std::int64_t k = n - 1; k >= 0; --k) {
        const float g = d_next.row(i, j)[k];
        float lap = -6 * tape.pop();
        for (int side_of_six = 0; side_of_six < 6; ++side_of_six) lap += tape.pop();
        const float to_lap = kFactor * tape.pop() * g;
        dc.row(i, j)[k] += kFactor * lap * g;
        row[k] += 2 * g - 6 * to_lap;
        for (const std::int64_t q : {-side * side, side * side, -side, side, std::int64_t{-1}, std::int64_t{1}})
          row[k + q] += to_lap;
      }
    }
  }
}

Implementation by_tape(const Data& data) {
  const Arrays a(data);
  const std::int64_t side = a.n + 2;
  auto tapes = std::make_shared<Tapes>();
  auto states = std::make_shared<Fields>(3, a.n);
  auto gradients = std::make_shared<Fields>(3, a.n);
  auto shadows = std::make_shared<PerThread>(padded_size(a.n));
  return {[=] {
            copy(a.u0, states->at(0));
            copy(a.u0, states->at(1));
            for (std::int64_t t = 1; t <= a.steps; ++t) {
              const Field now = states->at(t % 3);
#pragma omp parallel
              {
                const Range planes = my_share(0, a.n);
                push_step(now, a.c, planes, tapes->mine());
                step(now, states->at((t - 1) % 3), a.c, states->at((t + 1) % 3), planes);
              }
            }
            copy(states->at((a.steps + 1) % 3), a.last);
          },
          [=] {
            Field d2 = gradients->at(0), d1 = gradients->at(1), d0 = gradients->at(2);  // of t+1, t and t-1
            copy(a.d_last, d2);
            std::fill_n(d1.data, d1.size(), 0.0f);
            std::fill_n(a.dc.data, a.dc.size(), 0.0f);
            for (std::int64_t t = a.steps; t >= 1; --t) {
#pragma omp parallel
              {
                const Range planes = my_share(0, a.n);
                const Range slab{planes.begin * side * side, (planes.end + 2) * side * side};
                std::fill(shadows->mine() + slab.begin, shadows->mine() + slab.end, 0.0f);
                pop_step(d2, {shadows->mine(), a.n, 1}, a.dc, planes, tapes->mine());
#pragma omp barrier
                for (std::int64_t i = planes.begin; i < planes.end; ++i) {
                  for (std::int64_t j = 0; j < a.n; ++j) {
                    float *sum = d1.row(i, j), *first = d0.row(i, j);
                    const float* from = d2.row(i, j);
                    for (int other = 0; other < omp_get_num_threads(); ++other) {
                      const Range theirs = share_of(0, a.n, other, omp_get_num_threads());
                      if (i < theirs.begin - 1 || i > theirs.end) continue;
                      const float* shadow = Field{shadows->of(other), a.n, 1}.row(i, j);
                      for (std::int64_t k = 0; k < a.n; ++k) sum[k] += shadow[k];
                    }
                    for (std::int64_t k = 0; k < a.n; ++k) first[k] = -from[k];
                  }
                }
              }
              std::swap(d2, d1);
              std::swap(d1, d0);
            }
#pragma omp parallel for schedule(static)
            for (std::int64_t i = 0; i < a.n; ++i)
              for (std::int64_t j = 0; j < a.n; ++j)
                for (std::int64_t k = 0; k < a.n; ++k) a.du0.row(i, j)[k] = d2.row(i, j)[k] + d1.row(i, j)[k];
          }};
}

}  // namespace

Reference wave3d() {
  return {"wave3d", by_hand, by_tape, [](const Sizes& s) {
            const double n = static_cast<double>(s.at("n"));
            return 32.0 * static_cast<double>(s.at("T")) * n * n * n;
          }};
}

}  // namespace loopgrad::bench

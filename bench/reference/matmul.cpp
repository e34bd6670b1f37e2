// c = a b, by the BLAS.
#include "bench/reference/reference.h"
#include "bench/reference/tape.h"
#include "bench/reference/threads.h"

#ifdef LOOPGRAD_BENCH_BLAS
#include <cblas.h>
#endif

#include <algorithm>
#include <memory>

namespace loopgrad::bench {
namespace {

#ifdef LOOPGRAD_BENCH_BLAS
Implementation by_blas(const Data& data) {
  const int m = static_cast<int>(data.size("m")), n = static_cast<int>(data.size("n")),
            k = static_cast<int>(data.size("k"));
  const float *a = data.floats("a"), *b = data.floats("b"), *dc = data.floats("d_c");
  float *c = data.floats("c"), *da = data.floats("d_a"), *db = data.floats("d_b");
  openblas_set_num_threads(omp_get_max_threads());
  return {[=] { cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1, a, k, b, n, 0, c, n); },
          [=] {
            cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, k, n, 1, dc, n, b, n, 0, da, k);
            cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, k, n, m, 1, a, k, dc, n, 0, db, n);
          }};
}
#endif

struct Shape {
  std::int64_t m, n, k;
};

void push_all(const Shape& s, const float* a, const float* b, float* c, Range rows, Tape& tape) {
  for (std::int64_t i = rows.begin; i < rows.end; ++i) {
    for (std::int64_t j = 0; j < s.n; ++j) {
      float sum = 0;
      for (std::int64_t l = 0; l < s.k; ++l) {
        tape.push(b[l * s.n + j]);
        tape.push(a[i * s.k + l]);
        sum += a[i * s.k + l] * b[l * s.n + j];
      }
      c[i * s.n + j] = sum;
    }
  }
}

void pop_all(const Shape& s, const float* dc, float* da, float* db, Range rows, Tape& tape) {
  for (std::int64_t i = rows.end - 1; i >= rows.begin; --i) {
    for (std::int64_t j = s.n - 1; j >= 0; --j) {
      const float d = dc[i * s.n + j];
      for (std::int64_t l = s.k - 1; l >= 0; --l) {
        const float a = tape.pop(), b = tape.pop();
        da[i * s.k + l] += d * b;
        db[l * s.n + j] += d * a;
      }
    }
  }
}

Implementation by_tape(const Data& data) {
  const Shape s{data.size("m"), data.size("n"), data.size("k")};
  const float *a = data.floats("a"), *b = data.floats("b"), *dc = data.floats("d_c");
  float *c = data.floats("c"), *da = data.floats("d_a"), *db = data.floats("d_b");
  auto tapes = std::make_shared<Tapes>();
  auto b_shadow = std::make_shared<PerThread>(s.k * s.n);
  return {[=] {
#pragma omp parallel
            push_all(s, a, b, c, my_share(0, s.m), tapes->mine());
          },
          [=] {
#pragma omp parallel
            {
              const Range rows = my_share(0, s.m);  // of da: no other thread adds to them
              std::fill(da + rows.begin * s.k, da + rows.end * s.k, 0.0f);
              std::fill_n(b_shadow->mine(), s.k * s.n, 0.0f);
              pop_all(s, dc, da, b_shadow->mine(), rows, tapes->mine());
            }
            b_shadow->sum_into(db);
          }};
}

}  // namespace

Reference matmul() {
  Reference reference{"matmul", {}, by_tape, [](const Sizes& s) {
                        return 8.0 * static_cast<double>(s.at("m")) * static_cast<double>(s.at("n")) *
                               static_cast<double>(s.at("k"));
                      }};
#ifdef LOOPGRAD_BENCH_BLAS
  reference.hand = by_blas;
#endif
  return reference;
}

}  // namespace loopgrad::bench

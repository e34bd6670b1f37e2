// A BLAS of plain loops that counts its calls and refuses what a real one refuses: for tests.
#include <atomic>
#include <cstdint>

namespace {

std::atomic<int> calls{0}, refused{0};

template <class T>
void gemm(char ta, char tb, int m, int n, int k, T alpha, const T* a, int lda, const T* b, int ldb, T beta, T* c,
          int ldc) {
  ++calls;
  const int rows_a = ta == 'N' ? m : k, rows_b = tb == 'N' ? k : n;
  if (m < 0 || n < 0 || k < 0 || lda < rows_a || ldb < rows_b || ldc < m || lda < 1 || ldb < 1 || ldc < 1) {
    ++refused;
    return;
  }
  for (std::int64_t j = 0; j < n; ++j)
    for (std::int64_t i = 0; i < m; ++i) {
      T sum = 0;
      for (std::int64_t l = 0; l < k; ++l)
        sum += (ta == 'N' ? a[i + l * lda] : a[l + i * lda]) * (tb == 'N' ? b[l + j * ldb] : b[j + l * ldb]);
      c[i + j * ldc] = alpha * sum + (beta == 0 ? 0 : beta * c[i + j * ldc]);
    }
}

}  // namespace

extern "C" {

void sgemm_(const char* ta, const char* tb, const int* m, const int* n, const int* k, const float* alpha,
            const float* a, const int* lda, const float* b, const int* ldb, const float* beta, float* c,
            const int* ldc) {
  gemm(*ta, *tb, *m, *n, *k, *alpha, a, *lda, b, *ldb, *beta, c, *ldc);
}
void dgemm_(const char* ta, const char* tb, const int* m, const int* n, const int* k, const double* alpha,
            const double* a, const int* lda, const double* b, const int* ldb, const double* beta, double* c,
            const int* ldc) {
  gemm(*ta, *tb, *m, *n, *k, *alpha, a, *lda, b, *ldb, *beta, c, *ldc);
}
int counting_blas_calls() { return calls; }
int counting_blas_refused() { return refused; }
}

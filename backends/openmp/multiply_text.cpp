#include "backends/openmp/multiply_text.h"

#include <fmt/format.h>

namespace loopgrad::backend {

const char* const multiply_text = R"(
// Element (p, i, j) of a matrix is data[p * batch + i * row + j * column].
template <class T>
struct Matrix {
  T* data;
  int64_t batch, row, column;
  Matrix transposed() const { return {data, batch, column, row}; }
};
struct Extents {
  int64_t batch, m, n, k;
};

// c = alpha a b + beta c, row-major: to Fortran the transposes, in the other order.
template <class T>
inline void gemm(const loopgrad_blas* blas, int64_t m, int64_t n, int64_t k, T alpha, Matrix<const T> a,
                 Matrix<const T> b, T beta, Matrix<T> c) {
  using Function = void (*)(const char*, const char*, const int*, const int*, const int*, const T*, const T*,
                            const int*, const T*, const int*, const T*, T*, const int*);
  // Between single rows or columns there is no stride, but what is given must be valid.
  auto leading = [](const Matrix<const T>& x, int64_t rows, int64_t columns) {
    const int64_t stride = x.column == 1 ? x.row : x.column, least = x.column == 1 ? columns : rows;
    return static_cast<int>(stride > least ? stride : least);
  };
  const int rows = static_cast<int>(m), columns = static_cast<int>(n), depth = static_cast<int>(k);
  const int lda = leading(a, m, k), ldb = leading(b, k, n), ldc = leading({c.data, 0, c.row, c.column}, m, n);
  reinterpret_cast<Function>(sizeof(T) == 4 ? blas->sgemm : blas->dgemm)(
      b.column == 1 ? "N" : "T", a.column == 1 ? "N" : "T", &columns, &rows, &depth, &alpha, b.data, &ldb, a.data, &lda,
      &beta, c.data, &ldc);
}

// c = alpha a b + beta c by the library, on panels of c whose sizes depend on the extents only, each by one thread: the
// bits do not depend on the number of threads. False when there is no library or it would not pay.
template <class T>
bool multiply(const loopgrad_blas* blas, int threads, Extents e, T alpha, Matrix<const T> a, Matrix<const T> b, T beta,
              Matrix<T> c) {
  if (!blas || e.batch < 1 || e.m < 1 || e.n < 1 || e.k < 1) return false;
  const double one = static_cast<double>(e.m) * e.n * e.k;
  if (one * e.batch < blas->least_work || one < blas->least_work / 64) return false;
  if (c.column != 1)
    return multiply<T>(blas, threads, {e.batch, e.n, e.m, e.k}, alpha, b.transposed(), a.transposed(), beta,
                       c.transposed());
  // Rows (or columns) that overlap are no matrix to it.
  auto overlaps = [](const Matrix<const T>& x, int64_t rows, int64_t columns) {
    return x.column == 1 ? x.row < columns && rows > 1 : x.column < rows && columns > 1;
  };
  if (overlaps(a, e.m, e.k) || overlaps(b, e.k, e.n)) return false;
  for (const int64_t number : {e.m, e.n, e.k, a.row, a.column, b.row, b.column, c.row})
    if (number > 2147483647) return false;
  // The library copies what it multiplies once for every panel: wide ones of many rows are nearly as fast as the whole,
  // and there must be enough of them for many threads. Where there are few rows, panels are made narrower instead.
  auto part = [](int64_t extent, int64_t parts, int64_t least, int64_t most) {
    const int64_t size = (extent + parts - 1) / parts;
    return size < least ? least : size > most ? most : (size + 31) / 32 * 32;
  };
  auto parts_of = [](int64_t extent, int64_t size) { return (extent + size - 1) / size; };
  const int64_t wide = parts_of(e.n, 1024);
  const int64_t height = part(e.m, parts_of(16, e.batch * wide), 128, 512), down = parts_of(e.m, height);
  const int64_t few = parts_of(4, e.batch * down);
  const int64_t width = part(e.n, wide < few ? few : wide, 128, 1024), across = parts_of(e.n, width);
  const int64_t panels = down * across;
  const bool parallel = e.batch * panels > 1;
#pragma omp parallel for num_threads(threads) if (parallel) schedule(dynamic, 1)
  for (int64_t number = 0; number < e.batch * panels; ++number) {
    const int64_t p = number / panels, i = number % panels / across * height, j = number % across * width;
    gemm<T>(blas, e.m - i < height ? e.m - i : height, e.n - j < width ? e.n - j : width, e.k, alpha,
            {a.data + p * a.batch + i * a.row, 0, a.row, a.column}, {b.data + p * b.batch + j * b.column, 0, b.row, b.column},
            beta, {c.data + p * c.batch + i * c.row + j, 0, c.row, 1});
  }
  return true;
}
)";

std::vector<std::string> multiply_arguments(const ir::Contraction& n, EmitState& state) {
  const auto list = [&](const std::vector<ir::Expr>& es, std::size_t from) {
    std::string out;
    for (std::size_t k = from; k < es.size(); ++k) out += (k > from ? ", " : "") + text_of(es[k], state);
    return out;
  };
  const auto matrix = [&](const ir::Array& array, const std::vector<ir::Expr>& place) {
    const std::string name = state.names.of(array);
    const std::string start = ir::as_int(place[0]) == 0 ? name : name + " + " + text_of(place[0], state, Level::Sum);
    return fmt::format("{{{}, {}}}", start, list(place, 1));
  };
  return {"blas",
          "threads",
          "{" + list(n.extents, 0) + "}",
          text_of(ir::float_const(n.alpha, n.c->type), state),
          matrix(n.a, n.a_place),
          matrix(n.b, n.b_place),
          n.overwrites ? "0" : "1",
          matrix(n.c, n.c_place)};
}

}  // namespace loopgrad::backend

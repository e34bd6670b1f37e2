#include "backends/cuda/matrix_library.h"

#include "backends/runtime/shared_library.h"

#include <fmt/format.h>
#include <loopgrad/error.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace loopgrad::backend::cuda {
namespace {

constexpr std::int64_t workspace_bytes = 32 << 20;  // what NVIDIA recommends for Hopper

/// The part of cublas_v2.h that is used, so that building needs no cuBLAS. The interface is stable since CUDA 9.
struct Cublas {
  using Handle = void*;
  template <class T>
  using Gemm = int (*)(Handle, int, int, int, int, int, const T*, const T*, int, const T*, int, const T*, T*, int);
  template <class T>
  using GemmBatched = int (*)(Handle, int, int, int, int, int, const T*, const T*, int, long long, const T*, int,
                              long long, const T*, T*, int, long long, int);
  int (*create)(Handle*) = nullptr;
  int (*destroy)(Handle) = nullptr;
  int (*set_stream)(Handle, void*) = nullptr;
  int (*set_workspace)(Handle, void*, std::size_t) = nullptr;
  Gemm<float> sgemm = nullptr;
  Gemm<double> dgemm = nullptr;
  GemmBatched<float> sgemm_batched = nullptr;
  GemmBatched<double> dgemm_batched = nullptr;
  bool found = false;
};

Cublas open_cublas() {
  for (const std::string& path : toolkit_paths("LOOPGRAD_CUBLAS", {"libcublas.so.13", "libcublas.so.12"})) {
    void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) continue;
    Cublas c;
    c.found = find_symbol(library, "cublasCreate_v2", c.create) &&
              find_symbol(library, "cublasDestroy_v2", c.destroy) &&
              find_symbol(library, "cublasSetStream_v2", c.set_stream) &&
              find_symbol(library, "cublasSetWorkspace_v2", c.set_workspace) &&
              find_symbol(library, "cublasSgemm_v2", c.sgemm) && find_symbol(library, "cublasDgemm_v2", c.dgemm) &&
              find_symbol(library, "cublasSgemmStridedBatched", c.sgemm_batched) &&
              find_symbol(library, "cublasDgemmStridedBatched", c.dgemm_batched);
    if (c.found) return c;
  }
  return {};
}

const Cublas& cublas() {
  static const Cublas opened = open_cublas();
  return opened;
}

void require_success(int status, const char* call, const std::string& program) {
  if (status == 0) return;
  const bool memory = status == 3;  // CUBLAS_STATUS_ALLOC_FAILED
  throw RuntimeError({.code = memory ? ErrorCode::OutOfMemory : ErrorCode::DeviceFailed,
                      .message = fmt::format("{} failed with status {}", call, status),
                      .program = program,
                      .hint = "set LOOPGRAD_CUBLAS=none to run products of matrices as loops"});
}

/// Row-major matrices are to the library the transposes: c' = b' a'.
template <class T>
int call(Cublas::Handle handle, const Product& p, Cublas::Gemm<T> gemm, Cublas::GemmBatched<T> gemm_batched) {
  auto operation = [](const DeviceMatrix& x) { return x.column == 1 ? 0 : 1; };  // CUBLAS_OP_N, CUBLAS_OP_T
  // Between single rows or columns there is no stride, but what is given must be valid.
  auto leading = [](const DeviceMatrix& x, std::int64_t rows, std::int64_t columns) {
    return static_cast<int>(x.column == 1 ? std::max(x.row, columns) : std::max(x.column, rows));
  };
  const int m = static_cast<int>(p.m), n = static_cast<int>(p.n), k = static_cast<int>(p.k);
  const int lda = leading(p.a, p.m, p.k), ldb = leading(p.b, p.k, p.n), ldc = leading(p.c, p.m, p.n);
  const T alpha = static_cast<T>(p.alpha), beta = static_cast<T>(p.beta);
  const T *a = static_cast<const T*>(p.a.data), *b = static_cast<const T*>(p.b.data);
  T* const c = static_cast<T*>(p.c.data);
  const int of_a = operation(p.a), of_b = operation(p.b);
  if (p.batch == 1) return gemm(handle, of_b, of_a, n, m, k, &alpha, b, ldb, a, lda, &beta, c, ldc);
  return gemm_batched(handle, of_b, of_a, n, m, k, &alpha, b, ldb, p.b.batch, a, lda, p.a.batch, &beta, c, ldc,
                      p.c.batch, static_cast<int>(p.batch));
}

}  // namespace

std::optional<Product> normalized(Product p) {
  if (p.c.column != 1) {  // the transposed product
    std::swap(p.m, p.n);
    std::swap(p.a, p.b);
    for (DeviceMatrix* x : {&p.a, &p.b, &p.c}) std::swap(x->row, x->column);
  }
  auto overlaps = [](const DeviceMatrix& x, std::int64_t rows, std::int64_t columns) {
    return x.column == 1 ? x.row < columns && rows > 1 : x.column < rows && columns > 1;
  };
  if (p.c.column != 1 || overlaps(p.a, p.m, p.k) || overlaps(p.b, p.k, p.n)) return std::nullopt;
  for (const std::int64_t number : {p.batch, p.m, p.n, p.k, p.a.row, p.a.column, p.b.row, p.b.column, p.c.row})
    if (number > std::numeric_limits<int>::max()) return std::nullopt;
  return p;
}

bool MatrixLibrary::found() { return cublas().found; }

MatrixLibrary::MatrixLibrary(const std::string& program) : workspace_(allocate(workspace_bytes, program)) {
  Cublas::Handle handle = nullptr;
  require_success(cublas().create(&handle), "cublasCreate", program);
  handle_ = std::shared_ptr<void>(handle, [](void* h) { cublas().destroy(h); });
}

void MatrixLibrary::multiply(const Product& p, Stream stream, const std::string& program) const {
  const Cublas& c = cublas();
  require_success(c.set_stream(handle_.get(), stream), "cublasSetStream", program);
  // The library forgets the workspace with every stream.
  require_success(c.set_workspace(handle_.get(), workspace_.get(), workspace_bytes), "cublasSetWorkspace", program);
  const int status = p.type == ScalarType::F32 ? call<float>(handle_.get(), p, c.sgemm, c.sgemm_batched)
                                               : call<double>(handle_.get(), p, c.dgemm, c.dgemm_batched);
  if (status != 0)
    require_success(status, fmt::format("cublas gemm of {} x {} x {} x {}", p.batch, p.m, p.n, p.k).c_str(), program);
}

}  // namespace loopgrad::backend::cuda

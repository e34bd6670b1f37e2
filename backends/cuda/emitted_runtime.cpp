#include "backends/cuda/emitted_runtime.h"

#include <fmt/format.h>

namespace loopgrad::backend {
namespace {

constexpr const char* products_text = R"(
// Element (p, i, j) of a matrix is data[place + p * batch + i * row + j * column].
struct Matrix {
  const void* data;
  Number place, batch, row, column;
};

#ifndef @_NO_CUBLAS
// A handle for each thread and device, made by its first product and kept.
inline cublasHandle_t cublas_handle() {
  static thread_local cublasHandle_t handles[64] = {};
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess || device >= 64) return nullptr;
  if (!handles[device] && cublasCreate(&handles[device]) != CUBLAS_STATUS_SUCCESS) handles[device] = nullptr;
  return handles[device];
}
inline cublasStatus_t gemm(cublasHandle_t h, cublasOperation_t x, cublasOperation_t y, int m, int n, int k, const float* alpha,
                           const float* a, int lda, long long sa, const float* b, int ldb, long long sb, const float* beta,
                           float* c, int ldc, long long sc, int batch) {
  if (batch == 1) return cublasSgemm(h, x, y, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  return cublasSgemmStridedBatched(h, x, y, m, n, k, alpha, a, lda, sa, b, ldb, sb, beta, c, ldc, sc, batch);
}
inline cublasStatus_t gemm(cublasHandle_t h, cublasOperation_t x, cublasOperation_t y, int m, int n, int k, const double* alpha,
                           const double* a, int lda, long long sa, const double* b, int ldb, long long sb, const double* beta,
                           double* c, int ldc, long long sc, int batch) {
  if (batch == 1) return cublasDgemm(h, x, y, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  return cublasDgemmStridedBatched(h, x, y, m, n, k, alpha, a, lda, sa, b, ldb, sb, beta, c, ldc, sc, batch);
}
#endif
)";

constexpr const char* class_text = R"(
// A local array of a kernel: a part for each block, or each thread.
struct Local {
  int64_t element;  // bytes
  Number elements;
  bool per_thread;
  int slot;
};

inline int64_t word(const void* pointer) { return static_cast<int64_t>(reinterpret_cast<intptr_t>(pointer)); }
inline int64_t rounded_up(int64_t bytes, int64_t step) { return (bytes + step - 1) / step * step; }

// One run of a program. At first it only adds up what memory its launches need; after `start` it launches them.
class Run {
 public:
  explicit Run(cudaStream_t stream) : stream_(stream) {
    int device = 0;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&processors_, cudaDevAttrMultiProcessorCount, device) != cudaSuccess ||
        cudaDeviceGetAttribute(&threads_, cudaDevAttrMaxThreadsPerMultiProcessor, device) != cudaSuccess ||
        cudaDeviceGetAttribute(&shared_, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) != cudaSuccess)
      status = device_failed;
  }
  bool narrow = false;  // indices fit in 32 bits
  int status = 0;

  Number bytes() const {
    Number all = 0;
    for (int k = 0; k < slots; ++k) all = all + rounded_up(bytes_[k], line);
    return all;
  }
  void start(char* memory) {
    for (int k = 0; k < slots; ++k) {
      places_[k] = memory;
      memory += rounded_up(bytes_[k], line);
    }
    starts_ = true;
  }

  int64_t value(Number number) {
    if (!number.fits) status = bad_size;
    return number.fits ? number.value : 0;
  }
  // Memory of a slot, which is as large as its largest use.
  void* memory(int slot, Number bytes) {
    const int64_t wanted = value(bytes);
    if (wanted > bytes_[slot]) bytes_[slot] = wanted;
    return places_[slot];
  }

  // Grid and block, x first. `forms`: the kernel with narrow indices and a block for each iteration, with narrow indices
  // and blocks that take turns, and with wide indices. Words are its parameters, before those of locals.
  void launch(std::initializer_list<const void*> forms, std::initializer_list<Number> grid,
              std::initializer_list<Number> threads, std::initializer_list<Local> locals,
              std::initializer_list<int64_t> words) {
    int64_t blocks[3] = {1, 1, 1}, team[3] = {1, 1, 1};
    bool one_turn = true;
    int axis = 0;
    for (const Number& number : grid) {
      const int64_t extent = value(number), most = axis == 0 ? 2147483647 : 65535;
      if (status != 0 || extent <= 0) return;
      const int64_t all = blocks[axis] * (extent < most ? extent : most);
      one_turn &= extent <= most && all <= most;
      blocks[axis] = all < most ? all : most;
      if (axis < 2) ++axis;
    }
    axis = 0;
    for (const Number& number : threads) team[axis++] = value(number);
    one_turn |= locals.size() > 0;
    int64_t parameters[most_words + 1], shared_bytes = 0;
    int count = 0;
    for (const int64_t one : words) parameters[count++] = one;
    place(locals, blocks, team[0] * team[1] * team[2], parameters, count, shared_bytes);
    if (!starts_ || status != 0) return;
    void* pointers[most_words + 1];
    for (int k = 0; k < count; ++k) pointers[k] = &parameters[k];
    const void* const function = forms.begin()[!narrow ? 2 : one_turn ? 0 : 1];
    // Of the 48 KiB that need no word, kernels declare up to 44 themselves.
    if (shared_bytes > 4 * 1024 &&
        cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)) !=
            cudaSuccess)
      status = device_failed;
    if (cudaLaunchKernel(function, shape(blocks), shape(team), pointers, static_cast<size_t>(shared_bytes), stream_) !=
        cudaSuccess)
      status = device_failed;
  }
@MULTIPLY@
 private:
  // Local arrays of blocks are in shared memory where they fit. With memory of their own there are only as many blocks as
  // run at once, and each takes several turns.
  void place(std::initializer_list<Local> locals, int64_t (&blocks)[3], int64_t threads, int64_t* parameters, int& count,
             int64_t& shared_bytes) {
    Number shared = 0, per_thread = 0;
    for (const Local& local : locals) {
      Number& sum = local.per_thread ? per_thread : shared;
      sum = sum + quotient(elements_of(local) * local.element + 15, 16) * 16;
    }
    if (value(shared + per_thread) == 0 && locals.size() == 0) return;
    const int64_t most_shared = shared_ - 44 * 1024 < 64 * 1024 ? shared_ - 44 * 1024 : 64 * 1024;
    const bool fits = shared.value <= most_shared;
    if (per_thread.value > 0 || !fits) {
      int64_t most = processors_ * (threads_ / (threads > 32 ? threads : 32));
      if (most < 1) most = 1;
      for (int64_t& extent : blocks) {
        if (extent > most) extent = most;
        most = most / extent > 1 ? most / extent : 1;
      }
    }
    const int64_t all_blocks = blocks[0] * blocks[1] * blocks[2];
    for (const Local& local : locals) {
      const Number elements = elements_of(local), bytes = elements * local.element;
      if (!local.per_thread && fits) {
        parameters[count++] = 0;
        parameters[count++] = shared_bytes;
        shared_bytes += rounded_up(bytes.value, 16);
        continue;
      }
      parameters[count++] = word(memory(local.slot, bytes * (local.per_thread ? all_blocks * threads : all_blocks)));
      parameters[count++] = elements.value;
    }
  }
  static dim3 shape(const int64_t (&extents)[3]) {
    return dim3(static_cast<unsigned>(extents[0]), static_cast<unsigned>(extents[1]), static_cast<unsigned>(extents[2]));
  }
  // With room for accesses of four.
  static Number elements_of(const Local& local) { return quotient(local.elements + 3, 4) * 4; }

  const cudaStream_t stream_;
  int processors_ = 1, threads_ = 1024, shared_ = 48 * 1024;
  bool starts_ = false;
  int64_t bytes_[slots + 1] = {};
  char* places_[slots + 1] = {};
};
)";

constexpr const char* multiply_text = R"(
  // c = alpha a b + beta c by cuBLAS. False when there is none or it would not pay: then loops do it.
  template <class T>
  bool multiply([[maybe_unused]] int slot, [[maybe_unused]] std::initializer_list<Number> extents,
                [[maybe_unused]] double times, [[maybe_unused]] double plus, [[maybe_unused]] Matrix a,
                [[maybe_unused]] Matrix b, [[maybe_unused]] Matrix c) {
#ifdef @_NO_CUBLAS
    return false;
#else
    const int64_t batch = value(extents.begin()[0]), k = value(extents.begin()[3]);
    int64_t m = value(extents.begin()[1]), n = value(extents.begin()[2]);
    const double one = double(m) * double(n) * double(k), least = 32768;
    if (batch < 1 || m < 1 || n < 1 || k < 1 || double(batch) * one < least || one < least / 64) return false;
    if (c.column.value != 1) {  // the transposed product
      const int64_t rows = m;
      m = n;
      n = rows;
      const Matrix first = a;
      a = b;
      b = first;
      for (Matrix* x : {&a, &b, &c}) {
        const Number row = x->row;
        x->row = x->column;
        x->column = row;
      }
    }
    const auto overlaps = [](const Matrix& x, int64_t rows, int64_t columns) {
      return x.column.value == 1 ? x.row.value < columns && rows > 1 : x.column.value < rows && columns > 1;
    };
    if (c.column.value != 1 || overlaps(a, m, k) || overlaps(b, k, n)) return false;
    for (const int64_t number :
         {batch, m, n, k, a.row.value, a.column.value, b.row.value, b.column.value, c.row.value})
      if (number > 2147483647) return false;
    constexpr int64_t workspace_bytes = int64_t(32) << 20;  // what NVIDIA recommends for Hopper
    void* const workspace = memory(slot, workspace_bytes);
    if (!starts_) return false;  // loops need memory as well where the library is refused
    const cublasHandle_t handle = cublas_handle();
    // The library forgets the workspace with every stream.
    if (!handle || cublasSetStream(handle, stream_) != CUBLAS_STATUS_SUCCESS ||
        cublasSetWorkspace(handle, workspace, static_cast<size_t>(workspace_bytes)) != CUBLAS_STATUS_SUCCESS) {
      status = device_failed;
      return true;
    }
    const auto operation = [](const Matrix& x) { return x.column.value == 1 ? CUBLAS_OP_N : CUBLAS_OP_T; };
    // Between single rows or columns there is no stride, but what is given must be valid.
    const auto leading = [](const Matrix& x, int64_t rows, int64_t columns) {
      const int64_t stride = x.column.value == 1 ? x.row.value : x.column.value;
      const int64_t least_one = x.column.value == 1 ? columns : rows;
      return static_cast<int>(stride > least_one ? stride : least_one);
    };
    const auto data = [](const Matrix& x) { return static_cast<const T*>(x.data) + x.place.value; };
    const T alpha = static_cast<T>(times), beta = static_cast<T>(plus);
    // Row-major matrices are to the library the transposes: c' = b' a'.
    if (gemm(handle, operation(b), operation(a), int(n), int(m), int(k), &alpha, data(b), leading(b, k, n),
             b.batch.value, data(a), leading(a, m, k), a.batch.value, &beta, const_cast<T*>(data(c)), leading(c, m, n),
             c.batch.value, int(batch)) != CUBLAS_STATUS_SUCCESS)
      status = device_failed;
    return true;
#endif
  }
)";

void replace_all(std::string& text, const std::string& what, const std::string& with) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
}

}  // namespace

const char* const device_memory_text = R"(
// Memory of the host is out of reach for kernels.
inline bool is_reachable(const void* pointer) {
  cudaPointerAttributes attributes{};
  return cudaPointerGetAttributes(&attributes, pointer) == cudaSuccess &&
         (attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged);
}
// Memory for the time of a call, unless the caller has given some.
class Scratch {
 public:
  Scratch(char* given, Number bytes) : memory_(given) {
    if (!given && bytes.fits && cudaMalloc(&own_, static_cast<size_t>(bytes.value)) == cudaSuccess)
      memory_ = static_cast<char*>(own_);
  }
  Scratch(const Scratch&) = delete;
  ~Scratch() { cudaFree(own_); }
  char* get() const { return memory_; }

 private:
  void* own_ = nullptr;
  char* memory_;
};
inline bool is_capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  return cudaStreamIsCapturing(stream, &status) != cudaSuccess || status != cudaStreamCaptureStatusNone;
}
// What has been computed on the device, once it is there.
inline bool fetch(int64_t* to, const void* from, int count, cudaStream_t stream) {
  return cudaMemcpyAsync(to, from, static_cast<size_t>(count) * 8, cudaMemcpyDeviceToHost, stream) == cudaSuccess &&
         cudaStreamSynchronize(stream) == cudaSuccess;
}
)";

std::string run_text(int slots, int most_words, bool uses_products, const std::string& macro) {
  std::string text = fmt::format("\nconstexpr int slots = {}, most_words = {};\n", slots, most_words);
  if (uses_products) text += products_text;
  text += class_text;
  replace_all(text, "@MULTIPLY@", uses_products ? multiply_text : "");
  replace_all(text, "@", macro);
  return text;
}

}  // namespace loopgrad::backend

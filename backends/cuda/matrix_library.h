// cuBLAS, opened at run time, for products of matrices. loopgrad does not need it.
#pragma once

#include "backends/cuda/device.h"

#include <loopgrad/types.h>

#include <optional>

namespace loopgrad::backend::cuda {

/// Element (p, row, column) is data[p * batch + row * row_stride + column * column_stride].
struct DeviceMatrix {
  void* data = nullptr;
  std::int64_t batch = 0, row = 0, column = 0;
};

/// c = alpha a b + beta c, for m x k times k x n matrices.
struct Product {
  ScalarType type = ScalarType::F32;  // or F64
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  double alpha = 1, beta = 0;
  DeviceMatrix a, b, c;
};

/// The same with unit column stride in c; nullopt when a library cannot do it: overlapping rows, numbers beyond 32
/// bits.
std::optional<Product> normalized(Product product);

/// A handle of the library with its workspace, on the device that was current when it was made.
///
/// Always the same call for the same product, in full f32 (no TF32) and with a workspace of its own: the same bits from
/// run to run. Products on one object must follow each other.
class MatrixLibrary {
 public:
  /// LOOPGRAD_CUBLAS names the library, or none; else that of the toolkit, where it is found.
  static bool found();

  /// Allocates. Throws RuntimeError(DeviceFailed, OutOfMemory).
  explicit MatrixLibrary(const std::string& program);
  const void* workspace() const { return workspace_.get(); }
  /// Allocates and waits for nothing. `product` is normalized.
  void multiply(const Product& product, Stream stream, const std::string& program) const;

 private:
  std::shared_ptr<void> workspace_, handle_;
};

}  // namespace loopgrad::backend::cuda

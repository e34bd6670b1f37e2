// The BLAS that generated code may hand products of matrices to, opened at run time. loopgrad does not need it.
#pragma once

#include "backends/runtime/kernel_types.h"

namespace loopgrad::backend {

/// Products of fewer multiplications are left to the loops: LOOPGRAD_LEAST_PRODUCT, by default 32768. Throws UsageError
/// where that is no number.
double least_product();
/// Large enough, and so is each of the batch.
bool is_worth_a_library(std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k);

/// The library for the time of one call. It is told to run on one thread meanwhile, since the calls are spread over
/// threads by loopgrad, in a way that no result depends on; what it was told before holds again afterwards.
class BlasSession {
 public:
  BlasSession();
  ~BlasSession();
  BlasSession(const BlasSession&) = delete;
  BlasSession& operator=(const BlasSession&) = delete;

  /// Null without a library.
  const KernelBlas* kernel() const { return found_ ? &kernel_ : nullptr; }

  /// How many threads the caller's parallel loops have where the session changes OpenMP's own setting; 0 elsewhere.
  int openmp_threads() const { return openmp_threads_; }

 private:
  KernelBlas kernel_;
  bool found_ = false;
  int openmp_threads_ = 0;
};

}  // namespace loopgrad::backend

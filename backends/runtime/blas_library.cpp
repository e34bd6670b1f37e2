#include "backends/runtime/blas_library.h"

#include "backends/runtime/shared_library.h"

#include <loopgrad/error.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

namespace loopgrad::backend {
namespace {

struct Library {
  void (*sgemm)() = nullptr;
  void (*dgemm)() = nullptr;
  void (*set_threads)(int) = nullptr;  // null: a library that has no threads, or whose user has set them
  int (*threads)() = nullptr;
  // A build on OpenMP takes its number of threads from there, each calling thread its own.
  void (*set_openmp_threads)(int) = nullptr;
  int (*openmp_threads)() = nullptr;
  int users = 0;

  bool is_on_openmp() const { return set_openmp_threads && openmp_threads; }
  int threads_before = 0;
};

std::mutex mutex;

/// LOOPGRAD_BLAS names a library, or none. Kept open: its threads outlive any call.
Library* library() {
  static std::map<std::string, Library> opened;
  const char* const chosen = std::getenv("LOOPGRAD_BLAS");
  const std::string name = chosen && *chosen ? chosen : "libopenblas.so.0";
  const auto [entry, is_new] = opened.try_emplace(name);
  Library& found = entry->second;
  if (void* const handle = is_new ? ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr) {
    find_symbol(handle, "sgemm_", found.sgemm);
    find_symbol(handle, "dgemm_", found.dgemm);
    find_symbol(handle, "openblas_set_num_threads", found.set_threads);
    find_symbol(handle, "openblas_get_num_threads", found.threads);
    constexpr int on_openmp = 2;
    int (*parallel)() = nullptr;
    find_symbol(handle, "openblas_get_parallel", parallel);
    if (parallel && parallel() == on_openmp) {
      find_symbol(handle, "omp_set_num_threads", found.set_openmp_threads);
      find_symbol(handle, "omp_get_max_threads", found.openmp_threads);
    }
  }
  return found.sgemm && found.dgemm ? &found : nullptr;
}

Library* in_use = nullptr;  // by the sessions that are open

}  // namespace

double least_product() {
  const char* const chosen = std::getenv("LOOPGRAD_LEAST_PRODUCT");
  if (!chosen || !*chosen) return 32768;
  char* end = nullptr;
  const double least = std::strtod(chosen, &end);
  if (*end == 0 && !std::isnan(least)) return least;
  throw UsageError({.code = ErrorCode::BadInput,
                    .message = std::string("LOOPGRAD_LEAST_PRODUCT is '") + chosen + "', which is no number",
                    .hint = "set it to a number of multiplications, e.g. 32768, or leave it out"});
}

bool is_worth_a_library(std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k) {
  const double one = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  return static_cast<double>(batch) * one >= least_product() && one >= least_product() / 64;
}

BlasSession::BlasSession() {
  const double least = least_product();  // may throw: before anything is set
  const std::lock_guard lock(mutex);
  Library* const wanted = library();
  // The setting is the library's, not the call's: sessions that overlap share it.
  if (!wanted || (in_use && in_use != wanted)) return;
  in_use = wanted;
  if (wanted->is_on_openmp()) {
    openmp_threads_ = wanted->openmp_threads();
    wanted->set_openmp_threads(1);
    ++wanted->users;
  } else if (wanted->users++ == 0 && wanted->set_threads && wanted->threads) {
    wanted->threads_before = wanted->threads();
    wanted->set_threads(1);
  }
  kernel_ = {wanted->sgemm, wanted->dgemm, least};
  found_ = true;
}

BlasSession::~BlasSession() {
  if (!found_) return;
  const std::lock_guard lock(mutex);
  if (in_use->is_on_openmp()) in_use->set_openmp_threads(openmp_threads_);
  if (--in_use->users > 0) return;
  if (!in_use->is_on_openmp() && in_use->set_threads && in_use->threads) in_use->set_threads(in_use->threads_before);
  in_use = nullptr;
}

}  // namespace loopgrad::backend

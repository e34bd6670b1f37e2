#include "backends/openmp/library_text.h"

#include <fmt/format.h>

namespace loopgrad::backend {

std::string library_declarations(const std::string& macro) {
  return fmt::format(R"(
#ifndef {0}_NO_BLAS
extern "C" {{
void sgemm_(void);
void dgemm_(void);
// Of OpenBLAS; another library does without.
__attribute__((weak)) void openblas_set_num_threads(int);
__attribute__((weak)) int openblas_get_num_threads(void);
__attribute__((weak)) int openblas_get_parallel(void);
}}
// The number of threads is the library's, so who has set it is counted once for all sources of a process.
namespace loopgrad_blas_users_1 {{
__attribute__((visibility("default"))) inline std::mutex mutex;
__attribute__((visibility("default"))) inline int count = 0, threads_before = 1;
}}  // namespace loopgrad_blas_users_1
#endif
)",
                     macro);
}

std::string library_session(const std::string& macro) {
  return fmt::format(R"(
#ifndef {0}_NO_BLAS
namespace users = loopgrad_blas_users_1;

// A BLAS that runs on one thread while this lives: products are shared out to threads in panels.
class Library {{
 public:
  Library() {{
    if (on_openmp()) {{  // its number of threads is that of OpenMP, for each calling thread
      openmp_threads_ = omp_get_max_threads();
      omp_set_num_threads(1);
    }} else if (openblas_set_num_threads && openblas_get_num_threads) {{
      const std::lock_guard<std::mutex> lock(users::mutex);
      if (users::count++ == 0) {{
        users::threads_before = openblas_get_num_threads();
        openblas_set_num_threads(1);
      }}
    }}
  }}
  Library(const Library&) = delete;
  ~Library() {{
    if (on_openmp()) {{
      omp_set_num_threads(openmp_threads_);
    }} else if (openblas_set_num_threads && openblas_get_num_threads) {{
      const std::lock_guard<std::mutex> lock(users::mutex);
      if (--users::count == 0) openblas_set_num_threads(users::threads_before);
    }}
  }}
  const loopgrad_blas* functions() const {{ return &functions_; }}

 private:
  static bool on_openmp() {{ return openblas_get_parallel && openblas_get_parallel() == 2; }}
  const loopgrad_blas functions_ = {{sgemm_, dgemm_, 32768}};
  int openmp_threads_ = 1;
}};
#else
// Loops do all products.
class Library {{
 public:
  const loopgrad_blas* functions() const {{ return nullptr; }}
}};
#endif
)",
                     macro);
}

}  // namespace loopgrad::backend

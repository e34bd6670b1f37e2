#include "backends/interface/backend.h"

#include <fmt/format.h>
#include <loopgrad/error.h>

#include <cstdio>
#include <cstdlib>

namespace loopgrad {

namespace backend {

namespace {

struct Row {
  Target target;
  const Backend& (*backend)();
};

constexpr Row backends[] = {
    {Target::Interpreter, interpreter_backend},
    {Target::OpenMP, openmp_backend},
    {Target::Cuda, cuda_backend},
};

}  // namespace

const Backend& backend_of(Target target) {
  for (const Row& row : backends)
    if (row.target == target) return row.backend();
  throw UsageError({.code = ErrorCode::BadArgument,
                    .message = fmt::format("there is no target {}", static_cast<int>(target)),
                    .hint = "use a value of Target"});
}

bool runs_as_written(const CompileOptions& options) {
  return backend_of(options.target).interprets() && !options.gpu_mapped;
}

void report_time(const char* what, const std::string& program, std::chrono::steady_clock::time_point start) {
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
  const char* const wanted = std::getenv("LOOPGRAD_TIME");
  if (wanted && *wanted && *wanted != '0')
    fmt::print(stderr, "loopgrad: {:>9.3f} ms  {} ({})\n", time.count(), what, program);
}

}  // namespace backend

const char* name_of(Target target) { return backend::backend_of(target).name(); }

}  // namespace loopgrad

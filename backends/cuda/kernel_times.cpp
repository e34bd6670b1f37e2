#include "backends/cuda/kernel_times.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

namespace loopgrad::backend::cuda {

bool times_kernels() {
  const char* const wanted = std::getenv("LOOPGRAD_TIME");
  return wanted && std::string(wanted) == "kernels";
}

void KernelTimes::run(const std::vector<Launch>& launches, Stream stream) {
  ++runs_;
  for (const Launch& one : launches) {
    timer_.start(stream);
    launch(one, stream, program_);
    const double ms = timer_.stop(stream);
    const std::string kernel = one.kernel ? *one.kernel : "(a product by cuBLAS)";
    const auto [found, is_new] = row_of_.try_emplace(kernel, rows_.size());
    if (is_new) rows_.push_back({.kernel = kernel});
    Row& row = rows_[found->second];
    if (one.kernel)
      row.shape = fmt::format("{} x {} x {} blocks of {} x {} x {}", one.grid[0], one.grid[1], one.grid[2],
                              one.threads[0], one.threads[1], one.threads[2]);
    ++row.launches;
    row.ms += ms;
  }
}

KernelTimes::~KernelTimes() {
  if (runs_ == 0) return;
  double total = 0;
  for (const Row& row : rows_) total += row.ms;
  fmt::print(stderr, "{:10.4f} ms  {}: its kernels one by one, mean of {} runs\n", total / runs_, program_, runs_);
  for (const Row& row : rows_)
    fmt::print(stderr, "{:10.4f} ms  {:6.1f} x {}  {}\n", row.ms / runs_, 1.0 * row.launches / runs_, row.kernel,
               row.shape);
}

}  // namespace loopgrad::backend::cuda

// How long each kernel of a program takes, for LOOPGRAD_TIME=kernels.
#pragma once

#include "backends/cuda/device.h"

#include <map>
#include <string>
#include <vector>

namespace loopgrad::backend::cuda {

/// Whether LOOPGRAD_TIME asks for it.
bool times_kernels();

/// Launches one by one, waiting for each, and adds up their times by kernel. Prints a table to standard error when it
/// ends: milliseconds of a run and launches in it (means over all runs), in the order of the first launches.
class KernelTimes {
 public:
  explicit KernelTimes(std::string program) : program_(std::move(program)) {}
  ~KernelTimes();
  KernelTimes(const KernelTimes&) = delete;
  KernelTimes& operator=(const KernelTimes&) = delete;

  void run(const std::vector<Launch>& launches, Stream stream);

 private:
  struct Row {
    std::string kernel;
    std::string shape = {};
    int launches = 0;
    double ms = 0;
  };

  const std::string program_;
  Timer timer_;
  std::vector<Row> rows_;
  std::map<std::string, std::size_t> row_of_;
  int runs_ = 0;
};

}  // namespace loopgrad::backend::cuda

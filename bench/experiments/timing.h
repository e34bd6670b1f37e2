// Times a compiled gradient on its target.
#pragma once

#include "tools/cli/device_buffers.h"

#include <functional>
#include <optional>

namespace experiments {

namespace lg = loopgrad;

/// Where a program runs.
struct Place {
  std::string name;  // "serial", "openmp", "cuda"
  lg::CompileOptions options;
  bool on_device() const { return options.target == lg::Target::Cuda; }
};

/// serial: OpenMP's code on one thread; openmp; and cuda where there is a GPU. `wanted`: names, empty for all.
std::vector<Place> places(const std::vector<std::string>& wanted);

/// Median milliseconds of `start`: on the host of the call, on a GPU of what it starts (device events over a batch, so
/// that a launch costs what it costs in a stream of them). A call of more than a third of a second is made once more
/// only.
double milliseconds(const Place& place, const std::function<void()>& start);

/// Arguments of a gradient's programs where they run. Refers to `buffers`.
class Bound {
 public:
  Bound(const lg::cli::Buffers& buffers, const Place& place, std::size_t programs);
  lg::Arguments arguments(std::size_t program) const;
  /// Results to `buffers`.
  void download() const;
  /// The first element of an array.
  double first(const std::string& name) const;

 private:
  const lg::cli::Buffers& buffers_;
  std::optional<lg::cli::DeviceBuffers> device_;
};

}  // namespace experiments

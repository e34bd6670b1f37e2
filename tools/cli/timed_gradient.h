// A gradient on its target with arguments of its own, run and timed.
#pragma once

#include "tools/cli/device_buffers.h"
#include "tools/cli/device_hash.h"

#include <optional>

namespace loopgrad::cli {

class TimedGradient {
 public:
  /// Both must outlive this. Arguments of programs 0 and 1 of `buffers` are those of forward and backward; `versioned`:
  /// inputs of integers are passed as such, so that what follows from them is kept from run to run.
  TimedGradient(const GradientExecutable& gradient, Buffers& buffers, Target target, bool versioned = false);

  struct Milliseconds {
    double forward = 0, backward = 0;
  };
  /// Runs both on the initial contents. On a GPU the times are the device's, of several runs in a row where a run does
  /// not change its own input.
  Milliseconds run();
  /// Results to the host's buffers.
  void fetch() const;
  /// A number that is the same for two runs when all bits of these arrays are.
  std::uint64_t bits(const std::vector<std::string>& names) const;

 private:
  Milliseconds run_on_device();

  const GradientExecutable& gradient_;
  Buffers& buffers_;
  std::optional<DeviceBuffers> device_;
  std::optional<DeviceHash> hash_;
  Arguments forward_, backward_;
  bool changes_input_ = false, uploaded_ = false;
};

}  // namespace loopgrad::cli

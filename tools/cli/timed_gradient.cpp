#include "tools/cli/timed_gradient.h"

#include "backends/cuda/device.h"

#include <algorithm>
#include <chrono>

namespace loopgrad::cli {
namespace {

constexpr double kLongMilliseconds = 2;  // a run of this length needs no repetition
constexpr int kRepetitions = 10;

template <class F>
double milliseconds(F&& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

bool changes_input(const Program& program) {
  const auto& arrays = program.ir().arrays;
  return std::any_of(arrays.begin(), arrays.end(),
                     [](const ir::Array& array) { return array->role == ir::ArrayRole::InOut; });
}

}  // namespace

TimedGradient::TimedGradient(const GradientExecutable& gradient, Buffers& buffers, Target target, bool versioned)
    : gradient_(gradient), buffers_(buffers) {
  if (target == Target::Cuda) {
    device_.emplace(buffers, 2);
    hash_.emplace();
  }
  forward_ = device_ ? device_->arguments(0) : buffers.arguments(0);
  backward_ = device_ ? device_->arguments(1) : buffers.arguments(1);
  if (versioned) {
    forward_ = with_versions(forward_, gradient.gradient().forward);
    backward_ = with_versions(backward_, gradient.gradient().backward);
  }
  changes_input_ = changes_input(gradient.gradient().forward) || changes_input(gradient.gradient().backward);
}

TimedGradient::Milliseconds TimedGradient::run() {
  if (device_) return run_on_device();
  buffers_.reset();
  Milliseconds times;
  times.forward = milliseconds([&] { gradient_.forward(forward_, buffers_.sizes()); });
  times.backward = milliseconds([&] { gradient_.backward(backward_, buffers_.sizes()); });
  return times;
}

TimedGradient::Milliseconds TimedGradient::run_on_device() {
  if (changes_input_ || !uploaded_) {
    buffers_.reset();
    device_->upload();
    uploaded_ = true;
  }
  backend::cuda::Timer timer;
  auto timed = [&](auto&& start) {
    timer.start();
    start();
    const double once = timer.stop();
    if (changes_input_ || once > kLongMilliseconds) return once;
    timer.start();
    for (int i = 0; i < kRepetitions; ++i) start();
    return timer.stop() / kRepetitions;
  };
  Milliseconds times;
  times.forward = timed([&] { gradient_.forward(forward_, buffers_.sizes()); });
  times.backward = timed([&] { gradient_.backward(backward_, buffers_.sizes()); });
  return times;
}

void TimedGradient::fetch() const {
  if (device_) device_->download();
}

std::uint64_t TimedGradient::bits(const std::vector<std::string>& names) const {
  return device_ ? (*hash_)(device_->views(names)) : hash_bits(buffers_, names);
}

}  // namespace loopgrad::cli

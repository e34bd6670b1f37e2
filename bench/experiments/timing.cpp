#include "bench/experiments/timing.h"

#include "backends/cuda/device.h"
#include "bench/median.h"

#include <algorithm>
#include <chrono>

namespace experiments {
namespace {

constexpr double kLongMilliseconds = 300, kEnoughMilliseconds = 200, kBatchMilliseconds = 2;
constexpr int kFewestRuns = 3, kMostRuns = 15, kLargestBatch = 50;

double on_host(const std::function<void()>& start) {
  const auto begin = std::chrono::steady_clock::now();
  start();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

std::vector<Place> places(const std::vector<std::string>& wanted) {
  std::vector<Place> all = {{"serial", {}}, {"openmp", {}}};
  all[0].options.threads = 1;
  if (lg::has_cuda()) {
    all.push_back({"cuda", {}});
    all.back().options.target = lg::Target::Cuda;
  }
  std::erase_if(all, [&](const Place& place) {
    return !wanted.empty() && std::find(wanted.begin(), wanted.end(), place.name) == wanted.end();
  });
  return all;
}

double milliseconds(const Place& place, const std::function<void()>& start) {
  std::optional<lg::backend::cuda::Timer> timer;
  if (place.on_device()) timer.emplace();
  auto batch = [&](int count) {
    if (!timer)
      return on_host([&] {
               for (int i = 0; i < count; ++i) start();
             }) /
             count;
    timer->start();
    for (int i = 0; i < count; ++i) start();
    return timer->stop() / count;
  };
  start();                       // allocates
  const double once = batch(1);  // warm
  if (once > kLongMilliseconds) return once;
  const int count = std::clamp(static_cast<int>(kBatchMilliseconds / std::max(once, 1e-4)), 1, kLargestBatch);
  std::vector<double> times;
  double total = 0;
  for (int run = 0; run < kMostRuns && (run < kFewestRuns || total < kEnoughMilliseconds); ++run) {
    times.push_back(batch(count));
    total += times.back() * count;
  }
  return lg::bench::median(times);
}

Bound::Bound(const lg::cli::Buffers& buffers, const Place& place, std::size_t programs) : buffers_(buffers) {
  if (!place.on_device()) return;
  device_.emplace(buffers, programs);
  device_->upload();
}

lg::Arguments Bound::arguments(std::size_t program) const {
  return device_ ? device_->arguments(program) : buffers_.arguments(program);
}

void Bound::download() const {
  if (device_) device_->download();
}

double Bound::first(const std::string& name) const {
  if (device_) device_->download({name});
  return buffers_.at(name).get(0);
}

}  // namespace experiments

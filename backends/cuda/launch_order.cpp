#include "backends/cuda/launch_order.h"

#include <algorithm>

namespace loopgrad::backend::cuda {

std::vector<std::size_t> LaunchOrder::dependences(const std::vector<const void*>& reads,
                                                  const std::vector<const void*>& writes) {
  std::vector<std::size_t> before;
  const std::size_t current = steps_.size();
  for (const void* place : writes) {
    Memory& memory = memory_[place];
    if (memory.writer == current) continue;  // two of its arrays are in one place
    if (memory.writer != none) before.push_back(memory.writer);
    before.insert(before.end(), memory.readers.begin(), memory.readers.end());
    memory = {.writer = current, .readers = {}};
  }
  for (const void* place : reads) {
    Memory& memory = memory_[place];
    if (memory.writer == current) continue;
    if (memory.writer != none) before.push_back(memory.writer);
    memory.readers.push_back(current);
  }
  std::sort(before.begin(), before.end());
  before.erase(std::unique(before.begin(), before.end()), before.end());
  return before;
}

/// The lane whose end this launch waits for anyway, the latest of these; else an unused one; else the one that has been
/// left alone for longest.
std::size_t LaunchOrder::choose_lane(const std::vector<std::size_t>& before) const {
  for (auto it = before.rbegin(); it != before.rend(); ++it)
    for (std::size_t lane = 0; lane < last_on_.size(); ++lane)
      if (last_on_[lane] == *it) return lane;
  std::size_t best = 0;
  for (std::size_t lane = 0; lane < last_on_.size(); ++lane) {
    if (last_on_[lane] == none) return lane;
    if (last_on_[lane] < last_on_[best]) best = lane;
  }
  return best;
}

void LaunchOrder::add(const std::vector<const void*>& reads, const std::vector<const void*>& writes) {
  const std::vector<std::size_t> before = dependences(reads, writes);
  Step step;
  step.lane = choose_lane(before);
  // Of each other lane only the latest matters: the lane itself keeps the rest in order.
  std::map<std::size_t, std::size_t> latest;
  for (const std::size_t k : before)
    if (steps_[k].lane != step.lane) latest[steps_[k].lane] = k;
  for (const auto& [lane, k] : latest) {
    step.after.push_back(k);
    steps_[k].awaited = true;
  }
  std::sort(step.after.begin(), step.after.end());
  last_on_[step.lane] = steps_.size();
  steps_.push_back(std::move(step));
}

std::vector<std::size_t> LaunchOrder::ends() const {
  std::vector<std::size_t> ends;
  for (std::size_t lane = 1; lane < last_on_.size(); ++lane)
    if (last_on_[lane] != none) ends.push_back(last_on_[lane]);
  return ends;
}

bool LaunchOrder::uses_several_lanes() const { return !ends().empty(); }

}  // namespace loopgrad::backend::cuda

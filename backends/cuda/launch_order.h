// Which launches of a run must wait for which, decided from the memory that they touch; and how to spread them over
// several streams, so that independent kernels of a backward pass run side by side.
//
// Two launches are ordered when one writes memory that the other touches. Memory is told apart by where it begins, so
// arrays that overlap otherwise must be given as one.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

namespace loopgrad::backend::cuda {

class LaunchOrder {
 public:
  /// Where a launch goes, and what it waits for besides the launches before it on its own lane.
  struct Step {
    std::size_t lane = 0;
    std::vector<std::size_t> after;  // numbers of launches on other lanes, ascending
    bool awaited = false;            // some launch of another lane waits for this one
  };

  /// With one lane everything stays in sequence.
  explicit LaunchOrder(std::size_t lanes) : last_on_(lanes, none) {}

  /// The next launch. What it both reads and writes is in both lists.
  void add(const std::vector<const void*>& reads, const std::vector<const void*>& writes);

  const std::vector<Step>& steps() const { return steps_; }
  /// The last launch of every lane in use but lane 0, for whoever must wait for all.
  std::vector<std::size_t> ends() const;
  bool uses_several_lanes() const;

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  struct Memory {
    std::size_t writer = none;
    std::vector<std::size_t> readers;  // since then
  };

  std::vector<std::size_t> dependences(const std::vector<const void*>& reads, const std::vector<const void*>& writes);
  std::size_t choose_lane(const std::vector<std::size_t>& before) const;

  std::vector<Step> steps_;
  std::vector<std::size_t> last_on_;  // of each lane
  std::map<const void*, Memory> memory_;
};

}  // namespace loopgrad::backend::cuda

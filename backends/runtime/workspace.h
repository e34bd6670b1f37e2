// The memory of a kernel's local arrays: kept from run to run, and never shared by two runs at once.
#pragma once

#include "backends/runtime/binding.h"
#include "backends/runtime/kernel_types.h"

#include <cstdlib>
#include <memory>
#include <mutex>
#include <vector>

namespace loopgrad::backend {

/// What one run at a time uses.
class Workspace {
 public:
  explicit Workspace(std::size_t blocks) : blocks_(blocks) {}
  Workspace(const Workspace&) = delete;
  ~Workspace() {
    for (const KernelBlock& block : blocks_) std::free(block.data);
  }
  KernelBlock* data() { return blocks_.empty() ? nullptr : blocks_.data(); }

  /// The sizes under which the extents of local arrays were last found to be good.
  SizeValues checked_sizes;
  /// The last argument struct, for its memory.
  std::vector<std::int64_t> words;

 private:
  std::vector<KernelBlock> blocks_;
};

/// As many workspaces as there have been runs at once. Any thread may take one and give it back; while one thread runs
/// after the other they take the same one, and nothing is allocated.
class WorkspacePool {
 public:
  explicit WorkspacePool(int blocks) : blocks_(static_cast<std::size_t>(blocks)) {}

  std::unique_ptr<Workspace> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) {
      auto made = std::make_unique<Workspace>(blocks_);
      free_.reserve(++made_);  // so that `give` never allocates
      return made;
    }
    std::unique_ptr<Workspace> last = std::move(free_.back());
    free_.pop_back();
    return last;
  }
  void give(std::unique_ptr<Workspace> workspace) noexcept {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(workspace));
  }

 private:
  const std::size_t blocks_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Workspace>> free_;
  std::size_t made_ = 0;
};

}  // namespace loopgrad::backend

// One process builds a kernel, the others wait for it.
#pragma once

#include "backends/jit/cache_folder.h"

namespace loopgrad::backend {

/// The right to build the entry `name`, for one thread of one process among all that share the folder. The constructor
/// waits until it has the right or `name` is there, and half an hour at most, as a process that was stopped is waited
/// for in vain. A process that dies loses the right at once. Where files cannot be locked there is nothing to wait for:
/// what is built twice is the same.
class BuildLock {
 public:
  BuildLock(const CacheFolder& folder, const std::string& name);
  BuildLock(const BuildLock&) = delete;
  ~BuildLock();

 private:
  bool take();

  const CacheFolder& folder_;
  const std::string lock_name_;
  Descriptor lock_;
};

}  // namespace loopgrad::backend

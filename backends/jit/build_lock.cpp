#include "backends/jit/build_lock.h"

#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

namespace loopgrad::backend {

using namespace std::chrono_literals;

/// Returns whether waiting is over. The last holder removes the file, so a lock counts only while it has its name.
bool BuildLock::take() {
  for (;;) {
    lock_ = folder_.open_lock(lock_name_);
    if (!lock_) return true;
    if (::flock(lock_.value(), LOCK_EX | LOCK_NB) != 0) {
      const bool held = errno == EWOULDBLOCK || errno == EINTR;
      lock_ = Descriptor();
      return !held;
    }
    if (folder_.is_current(lock_, lock_name_)) return true;
  }
}

BuildLock::BuildLock(const CacheFolder& folder, const std::string& name) : folder_(folder), lock_name_(name + ".lock") {
  const auto end = std::chrono::steady_clock::now() + 30min;
  // Asking again and again, and not a lock that waits: also a copy of the holder made by fork() keeps a lock, and what
  // it was for may be there by then.
  for (auto pause = 1ms; !take() && std::chrono::steady_clock::now() < end; pause = std::min(2 * pause, 50ms)) {
    std::this_thread::sleep_for(pause);
    if (folder_.contains(name)) return;
  }
}

BuildLock::~BuildLock() {
  if (!lock_) return;
  if (folder_.is_current(lock_, lock_name_)) folder_.remove(lock_name_);
  ::flock(lock_.value(), LOCK_UN);  // closing leaves it to copies made by fork()
}

}  // namespace loopgrad::backend

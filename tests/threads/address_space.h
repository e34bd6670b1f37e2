// How much of its address space the process has taken.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <fstream>

namespace loopgrad::test {

inline std::int64_t address_space_bytes() {
  std::int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * ::sysconf(_SC_PAGESIZE);
}

}  // namespace loopgrad::test

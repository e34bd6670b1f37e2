// Tests that compile kernels keep them in the build folder.
#pragma once

#include <cstdlib>

namespace loopgrad::test {

inline const int use_test_cache = ::setenv("LOOPGRAD_CACHE_DIR", LOOPGRAD_TEST_CACHE, 0);

}  // namespace loopgrad::test

// Which width the indices of kernels have.
#include "backends/cuda/index_width.h"
#include "tests/support/ir_text.h"

#include <gtest/gtest.h>

namespace loopgrad {
namespace {

bool is_narrow(const std::string& body) {
  const ir::Program program = ir::parse_program("program p(n)\n  inout  i64 y[n]\n" + body);
  return backend::has_narrow_indices(program, {{program.sizes[0], 65}});
}

/// As is what the host computes for a kernel, which it gets in that width.
TEST(IndexWidth, IsThatOfWhatTheHostComputes) {
  const auto kernel = [](const std::string& value) {
    return "for known in " + value + ".." + value + " + 1:\n  grid for b in 0..n:\n    y[b] = known\n";
  };
  EXPECT_TRUE(is_narrow(kernel("max(n - 3, 1)")));
  EXPECT_FALSE(is_narrow(kernel("select(1 >= n, 1, -9223372036854775807)")));
  EXPECT_TRUE(is_narrow(kernel("select(1 >= n, -9223372036854775807, 1)")));  // not for these sizes
}

}  // namespace
}  // namespace loopgrad

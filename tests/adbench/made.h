// Files of problems that tests make for themselves.
#pragma once

#include "bench/adbench/generate.h"

#include <gtest/gtest.h>

namespace adbench {

/// The file of this name, as generate() makes it, in a folder of the running test.
inline std::filesystem::path made(const std::string& name, const GeneratorOptions& options) {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  const auto folder = std::filesystem::path(testing::TempDir()) / test->test_suite_name() / test->name();
  generate(folder / name, options);
  return folder / name;
}

}  // namespace adbench

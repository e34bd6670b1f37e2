// The ways to run a program that verify facts and bounds, as the parameter of a test.
#pragma once

#include <loopgrad/compile.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>

namespace loopgrad::test {

struct CompiledCase {
  Target target;
  Variant variant;
  bool gpu_mapped = false;
  CompileOptions options(Facts facts = Facts::Verify) const {
    CompileOptions options{.target = target};
    options.gpu_mapped = gpu_mapped;
    options.facts = facts;
    return options;
  }
};

inline void PrintTo(const CompiledCase& c, std::ostream* out) {
  *out << name_of(c.target) << ", " << name_of(c.variant) << (c.gpu_mapped ? ", mapped" : "");
}

inline std::string case_name(const testing::TestParamInfo<CompiledCase>& info) {
  std::string name = name_of(info.param.variant);
  std::erase(name, '-');
  return std::string(name_of(info.param.target)) + (info.param.gpu_mapped ? "_mapped_" : "_") + name;
}

}  // namespace loopgrad::test

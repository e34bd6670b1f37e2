// Running a forward program before and after passes that may fill less, or more, of a tape than the program does.
#pragma once

#include "tests/unit/transforms/lowered.h"

namespace loopgrad::transforms {

/// All arrays hold the same bits, tapes as far as the program fills them and somebody reads them later.
inline void expect_same_forward(const LoweredProgram& l, const Sizes& sizes) {
  Buffers before = run_checked(l.before, sizes), after = run_checked(l.after, sizes);
  backend::SizeValues values;
  for (const ir::Symbol& size : l.before.sizes) values[size] = sizes.at(size.name);
  const Buffers untouched = inputs_for(l.before, values);
  for (const ir::Array& array : l.before.arrays) {
    const HostArray &expected = before.at(array->name), &actual = after.at(array->name);
    std::int64_t count = expected.size();
    for (const ir::Fact& fact : l.before.facts) {
      if (fact.kind != ir::FactKind::ReadUpTo || fact.array != array) continue;
      std::int64_t level = 1;
      for (std::size_t d = 1; d < array->shape.size(); ++d) level *= backend::evaluate(array->shape[d], values);
      count = std::min(count, (backend::evaluate(fact.upper, values) + 1) * level);
    }
    for (std::int64_t k = 0; k < count; ++k) {
      const bool unset = expected.get(k) == untouched.at(array->name).get(k);
      if (array->role == ir::ArrayRole::Tape && unset) continue;
      ASSERT_EQ(actual.get(k), expected.get(k)) << array->name << "[" << k << "]\n" << l.text;
    }
  }
}

}  // namespace loopgrad::transforms

// Programs of which something was wrong once, each as small as it shows that.
#pragma once

#include "tools/fuzz/check.h"
#include "tools/fuzz/compiled.h"

#include <gtest/gtest.h>

namespace loopgrad::fuzz {

/// Integer inputs have what facts say of them.
inline Case case_of(const Program& program, const Sizes& sizes) {
  Case c{7919, program, sizes, sizes, {}, {}, {}, {}};
  for (const ir::Fact& fact : program.ir().facts) {
    IndexContents& contents = c.contents[fact.array->name];
    if (fact.kind == ir::FactKind::InRange) {
      const std::int64_t least = ir::as_int(fact.lower).value_or(0);
      contents = {IndexContents::Kind::Below, fact.upper - ir::int_const(least), least};
    } else if (fact.kind == ir::FactKind::CsrPointer) {
      contents = {IndexContents::Kind::CsrPointer, fact.upper};
    } else {
      c.contents.erase(fact.array->name);
      if (fact.kind == ir::FactKind::MayAlias) c.shared[fact.other->name] = fact.array->name;
    }
  }
  return c;
}

/// All forms of the program and of its gradient agree (check.h), at these sizes. A program whose gradient is refused is
/// compared without.
inline void expect_right(Program (*written)(), const std::vector<Sizes>& all_sizes) {
  const Program program = written();
  for (const Sizes& sizes : all_sizes) {
    const Outcome outcome = check(case_of(program, sizes), {.axes = {}, .thorough = true});
    EXPECT_FALSE(outcome.failure) << outcome.failure->stage << ": " << outcome.failure->message;
    EXPECT_FALSE(outcome.unfinished);
    EXPECT_GT(outcome.tried.size(), 1u);
  }
}

struct Written {
  Program (*program)();
  Sizes sizes;
};

/// Compiled for the CPU they agree with the interpreter (compiled.h): for what only emitted text can get wrong.
inline void expect_right_compiled(const std::vector<Written>& all) {
  std::vector<Case> cases;
  for (const Written& one : all) cases.push_back(case_of(one.program(), one.sizes));
  for (const Outcome& outcome : check_compiled(cases, {})) {
    EXPECT_FALSE(outcome.failure) << outcome.failure->stage << ": " << outcome.failure->message;
    EXPECT_GT(outcome.tried.size(), 1u);
  }
}

}  // namespace loopgrad::fuzz

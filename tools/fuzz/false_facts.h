// Facts that do not hold.
#pragma once

#include "tools/fuzz/case.h"

#include <loopgrad/error.h>

#include <optional>

namespace loopgrad::fuzz {

/// Changes the contents of one index array so that a fact about it is false; the seed chooses which. Gives the array's
/// name, or nothing where no fact can be broken (none is stated, or arrays are too short).
std::optional<std::string> break_a_fact(const Case& c, Arrays& arrays);

/// A program with a promise that its inputs break: the loop of that name makes one trip more than its `at_most`.
struct BrokenPromise {
  Program program;
  std::string loop;
};
/// Of the loops with an `at_most` the seed chooses one. Nothing where there is none, or where it makes no trip with
/// these inputs. Interprets the program, in f64 or in its types, which the arrays have.
std::optional<BrokenPromise> break_a_promise(const Case& c, const Arrays& inputs, bool f64);
/// Throws Disagreement unless the error is that of the broken promise.
void expect_broken(const BrokenPromise& promise, const Error& error);

}  // namespace loopgrad::fuzz

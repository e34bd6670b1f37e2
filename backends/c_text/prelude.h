// The few C++ helpers that generated code calls. Each is printed only where a program uses it. Those that are the same
// for every target are here, the others with the target that has them.
#pragma once

#include <map>
#include <set>
#include <string>

namespace loopgrad::backend {

enum class Helper {
  FloorDiv,
  FloorMod,
  MinOf,
  MaxOf,
  MinReduction,
  MaxReduction,
  AbsOf,
  ToInteger,
  Wrapping,
  Power,
  Sigmoid,
  Fused,
  Library,
  F16,
  BF16,
  ExpF32,
  LogF32,
  TanhF32,
  SigmoidF32,
  AtomicUpdate,
  OrderFree,
  Multiply,
  LaneSums,
  Streams,
  Scratch,
  Stack,
};

using HelperTexts = std::map<Helper, const char*>;

/// The definitions of `used` in a fixed order: a target's own, else those of all targets.
std::string helper_definitions(const std::set<Helper>& used, const HelperTexts& own);

/// How everything that a program names is spelled in generated code: `x` is `x_`. No keyword, macro or function of a
/// library ends in one underscore and starts with none, and nothing does that helpers and the frame of a function name:
/// only what comes from here ends in an underscore. What C does not allow in a name, or keeps for itself (a leading or
/// a double underscore), becomes one underscore or nothing.
std::string generated_name(const std::string& name);

}  // namespace loopgrad::backend

// The few C++ helpers that generated code calls. Each is printed only where a program uses it. `Wrapping` and `Power`
// are called by CUDA code only.
#pragma once

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
  Multiply,
  LaneSums,
  Streams,
  Scratch,
  Stack,
};

/// The definitions of `used` and of what those use, in a fixed order.
std::string helper_definitions(const std::set<Helper>& used);

/// How everything that a program names is spelled in generated code: `x` is `x_`. No keyword, macro or function of a
/// library ends in one underscore and starts with none, and nothing does that helpers and the frame of a function name:
/// only what comes from here ends in an underscore. What C does not allow in a name, or keeps for itself (a leading or
/// a double underscore), becomes one underscore or nothing.
std::string generated_name(const std::string& name);

}  // namespace loopgrad::backend

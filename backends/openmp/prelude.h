// The few C++ helpers that generated code calls. Each is printed only where a program uses it.
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
  Sigmoid,
  Fused,
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

/// Names that generated code must not give to a program's arrays, sizes and iterators: the keywords of C++ and
/// everything that the helpers and the frame of a generated function use.
const std::set<std::string>& reserved_names();

/// `name` with everything that C does not allow in an identifier replaced by '_'.
std::string identifier(const std::string& name);

}  // namespace loopgrad::backend

// How values of loopgrad's types appear in the names of tests and in their messages.
#pragma once

#include <loopgrad/compile.h>

#include <ostream>

namespace loopgrad {

inline void PrintTo(Target target, std::ostream* out) { *out << name_of(target); }
inline void PrintTo(Variant variant, std::ostream* out) { *out << name_of(variant); }

}  // namespace loopgrad

// The C interface of emitted sources: what every target's header declares and every source defines.
#pragma once

#include "backends/emit/plan.h"

namespace loopgrad::backend {

/// What differs between targets in the interface.
struct InterfaceWords {
  std::string target;      // "OpenMP"
  std::string tail;        // the parameter that says where a function runs: "int threads"
  std::string about_tail;  // sentences for the header, a line each
  std::string memory;      // "the host"
  std::string build;       // how the source is compiled and linked, a line each
};

/// The functions, by what follows NAME_.
enum class Entry { Memory, Sizes, Check, Forward, Backward };

/// Whether a source has that function.
bool has_entry(const EmitPlan& plan, Entry entry);

/// `int NAME_forward(int64_t n_, const float* x_, ..)`, without what follows.
std::string prototype(const EmitPlan& plan, Entry entry, const InterfaceWords& words);

/// The arrays that the caller passes.
const std::vector<EmitArray>& arrays_of(const EmitPlan& plan, Entry entry);

/// NAME.h. Statuses must all have been given out, so this comes last.
std::string header_text(const EmitPlan& plan, const InterfaceWords& words);

/// The definition of NAME_error_text; the same.
std::string error_text_definition(const EmitPlan& plan);

}  // namespace loopgrad::backend

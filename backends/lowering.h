// From what a user asks for to the programs that are emitted: the one way that compiling, showing and explaining share.
#pragma once

#include "transforms/pipeline.h"

#include <loopgrad/compile.h>

namespace loopgrad::backend {

/// How sums of a variant are done.
transforms::SumMode sum_mode(Variant variant);

/// What `lower_for` is asked for a program of the user's.
transforms::LowerOptions lowering_of(const CompileOptions& options, transforms::SumMode mode,
                                     const Schedule& schedule = {});

/// The programs of a gradient as they are emitted. The sizing program's body may be empty.
struct LoweredGradient {
  transforms::Lowered sizing, forward, backward;
};

/// How far: to what is emitted, or only until it is decided how sums are done.
enum class Until { Emitted, Summed, BeforeSchedule };

/// What was decided about the forward and the backward program goes to a report each. `orders`: Compared where
/// the library runs them, which has memory for what they have seen.
LoweredGradient lower_gradient(const Gradient& gradient, const CompileOptions& options, Report& forward,
                               Report& backward, Until until = Until::Emitted,
                               transforms::Orders orders = transforms::Orders::Compared);

/// The program that verifies facts (see facts_program.h), lowered for the target like any other one.
ir::Program lowered_facts(const ir::Program& facts, const CompileOptions& options);

/// Whether a run of the target starts by verifying the facts of `facts`.
bool verifies(const ir::Program& facts, const CompileOptions& options);

/// The C++ or CUDA C++ that `compile` compiles, without a compiler or a device. Throws UsageError for the interpreter,
/// which has none.
std::string source_of(const Gradient& gradient, const CompileOptions& options);

}  // namespace loopgrad::backend

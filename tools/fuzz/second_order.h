// A gradient as one program, so that it can be differentiated again.
#pragma once

#include <loopgrad/autodiff.h>

namespace loopgrad::fuzz {

/// What `d_<array>` is called in the joined program, whose own gradient has arrays of that name: `g_<array>`.
std::string gradient_name(const std::string& name);

/// Forward and backward program one after the other: outputs are those of both, inputs those of the forward program and
/// the incoming gradients, tapes are locals. For gradients without a stack and without a sizing program.
Program joined(const Gradient& gradient);

}  // namespace loopgrad::fuzz

// What the assembler of the CUDA toolkit is known to get wrong, found in the assembly that it is given.
//
// max(max(-a, b), c) of 32-bit integers: the assembler of CUDA 13.0 makes one instruction of three operands of it, for
// sm_90 and later, and loses the minus. Programs seldom say so, but compilers do when they count the trips of loops
// whose bounds are minima. The source is then compiled again, with minima and maxima of 32-bit integers that no such
// instruction is made of: slower, but right.
#pragma once

#include <string>

namespace loopgrad::backend {

/// Whether the assembly (PTX) has a minimum of a minimum, or a maximum of a maximum, of 32-bit integers of which the
/// inner one has a negated operand.
bool may_lose_minus(const std::string& assembly);

/// Before the helpers of a source: min_of and max_of of 32-bit integers that are each made of several instructions.
extern const char* const separate_extrema;

}  // namespace loopgrad::backend

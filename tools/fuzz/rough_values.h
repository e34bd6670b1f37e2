// What rounding can make of a program where targets may round otherwise: an error in each step of its sums and in each
// function of a mathematical library.
#pragma once

#include "dsl/ir/program.h"

#include "tools/fuzz/execution.h"

#include <cstdint>
#include <functional>

namespace loopgrad::fuzz {

/// Follows each sum of floats by the largest error that rounding its step to f32 can make (to f64, where it is stored
/// as that). Beside the element its mass is summed up, the magnitudes of all terms so far, and their number:
///
///   s[i] += v   ->   s_mass[i] += abs(v)
///                    s_late = s_terms[i]*abs(v)
///                    s_terms[i] += 1
///                    s[i] += v
///                    s[i] += u*(max(s_mass[i], abs(s[i])) + s_late)
///
/// Run in f64, the result of n terms differs from that of the program by u*n*mass, the bound of a sum in whatever order
/// (Higham, "Accuracy and Stability of Numerical Algorithms", 4.2): where the last term is the largest, another order
/// begins with it, and all others are rounded to its units. It grows with the terms that meet in one element and with
/// how much they cancel, and what is computed from the sum makes of it what it makes of a real error. Products (`*=`)
/// err by u*abs(s[i]); they are infinite where the factors above one, or those below, leave the type's range by
/// themselves: some order overflows.
///
/// `exp`, `tanh` and others that no standard rounds correctly are those of the target's library, which differ by units
/// in the last place: `exp(v)` becomes `exp(v)*(1 + 4*u)`. That is nothing, but for what cancels: `exp(v) - 1` near
/// zero.
///
/// Of each sum's statement the errors have one sign, and so they have of each function, so that equal values stay
/// equal: all have the same for seed 0, others draw them.
/// `f64`: floats are f64 whatever the program says, and so are the errors.
ir::Program rough_values(const ir::Program& program, std::uint64_t seed, bool f64 = false);

/// How much a few runs with errors differ from the exact one, for each element of the arrays of `exact`: infinity where
/// an index follows from a rounded value and leaves its array. `run_with` runs the program with the errors of a seed.
std::map<std::string, std::vector<double>> errors_of_rounding(
    const Arrays& exact, std::uint64_t seed, const std::function<Arrays(std::uint64_t seed)>& run_with);

}  // namespace loopgrad::fuzz

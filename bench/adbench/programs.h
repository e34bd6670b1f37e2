// The objectives of ADBench as loop programs in f64, written as ADBench's authors wrote theirs.
#pragma once

#include <loopgrad/loopgrad.h>

namespace adbench {

/// `err` of alphas, means and icf. The prior is a constant, a multiple of the squares in the matrices, and one of the
/// logarithms of their diagonals; ADBench and GradBench give it different signs.
loopgrad::Program gmm_program();

/// `reprojection[p, 2]` and `weight_error[p]` of cameras, points and weights.
loopgrad::Program ba_program();

/// `err[points, 3]` of theta; complicated: of us and theta.
loopgrad::Program hand_program(bool complicated);

/// `loss` of main and extra parameters.
loopgrad::Program lstm_program();

/// `y` of x, its square.
loopgrad::Program square_program();

}  // namespace adbench

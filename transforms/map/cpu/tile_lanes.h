// Vectorises a loop that has loops inside: the iterations of a tile advance through the inner loops side by side, one
// lane each.
//
// before                               after (64 lanes of f32)
//   parallel for i in 0..n:              parallel for t in 0..n/64:
//     local s                              local s[64]
//     s = 0                                parallel for l in 0..64: s[l] = 0
//     for j in 0..k:                       for j in 0..k:
//       s += x[i + j]*w[j]                   parallel for l in 0..64: s[l] += x[64*t + l + j]*w[j]
//     y[i] = s                             parallel for l in 0..64: y[64*t + l] = s[l]
//                                        parallel for i in n/64*64..n: (as before)
//
// Lanes keep the order of their own sums, so the result has the same bits as before; w[j] is loaded once for all lanes,
// and no sum has to be added up across lanes. Inner loops whose bounds vary from lane to lane by affine functions
// (gathers near a border, triangles) are split into a part that all lanes run and two in which only some lanes run;
// bounds that move along with the lanes are counted from the lane where that takes fewer iterations (shift_loop.h). In
// a loop that is within a parallel one already, what full tiles leave over runs in fewer lanes, too: half a tile and a
// quarter where there is one inner loop (sums in a fixed number of lanes stay in registers), then a variable number.
//
// Loops whose iterations share nothing but sums, each into an element that all of them have in common, are done the
// same way where the loops inside would jump through memory; lanes add up what they share:
//
//   for j in 0..m:                       for t in 0..m/64:
//     s = f(g[j])                          parallel for l in 0..64: s[l] = f(g[64*t + l])
//     for k in 0..q:              ->       for k in 0..q:
//       b[k] += s*x[k, j]                    b_lanes = 0
//       d[k, j] += s*a[k]                    for l in 0..64:
//                                              b_lanes += s[l]*x[k, 64*t + l]
//                                              d[k, 64*t + l] += s[l]*a[k]
//                                            b[k] += b_lanes
//
// Requires: parallel loops marked; sums in scalars where possible (accumulate_in_registers).
// Guarantees: same bits, but for the order of the terms of what lanes add up, which depends on the sizes only.
// Leaves alone: what lane_loops.h says.
#pragma once

#include "transforms/pass/pass.h"

namespace loopgrad::transforms {

ir::Program tile_lanes(const ir::Program& program, PassContext& context);

}  // namespace loopgrad::transforms

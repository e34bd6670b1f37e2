// Elementary functions of f32 that a compiler can put into vector lanes.
//
// The standard library's functions stay scalar without -ffast-math, and its vector versions give other bits than its
// scalar ones, so that a result would depend on where a thread's share of a loop ends. These are straight-line code
// with every rounding written down: the same bits in a lane and out of it. Errors, found by trying one in 97 of all
// floats: exp 1.0 ulp, log 0.8, tanh 1.3, sigmoid 2.0. Infinities, NaNs, signed zeros and denormal results are as in
// the standard library.
#pragma once

namespace loopgrad::backend {

extern const char* const vector_math_basics;  // what the others use
extern const char* const exp_f32_text;
extern const char* const log_f32_text;
extern const char* const tanh_f32_text;     // uses exp_f32
extern const char* const sigmoid_f32_text;  // uses exp_f32

}  // namespace loopgrad::backend

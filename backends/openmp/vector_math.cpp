#include "backends/openmp/vector_math.h"

namespace loopgrad::backend {

const char* const vector_math_basics = R"(
inline float float_of(int32_t bits) { return __builtin_bit_cast(float, bits); }
inline int32_t bits_of(float value) { return __builtin_bit_cast(int32_t, value); }
)";

// exp(x) = 2^k exp(r) with |r| <= ln(2) / 2. The power of two is applied in two steps, so that results may be denormal.
const char* const exp_f32_text = R"(
inline float exp_f32(float x) {
  const float shifted = fused(x, 0x1.715476p+0f, 0x1.8p23f);  // x / ln 2, rounded, in the low bits
  const float k = shifted - 0x1.8p23f;
  const float r = fused(k, -0x1.7f7d1cp-20f, fused(k, -0x1.62e4p-1f, x));
  float p = fused(0x1.6a23dp-10f, r, 0x1.123a2p-7f);
  p = fused(p, r, 0x1.5558f2p-5f);
  p = fused(p, r, 0x1.555492p-3f);
  p = fused(p, r, 0x1.fffffcp-2f);
  p = fused(p, r * r, r) + 1.0f;
  const int32_t power = bits_of(shifted) - bits_of(0x1.8p23f), half = power >> 1;
  const float y = p * float_of((half + 127) << 23) * float_of((power - half + 127) << 23);
  const float above = x < -104.0f ? 0.0f : y;
  return x > 89.0f ? INFINITY : above;
}
)";

// log(x) = k log(2) + log(1 + m) with 1 + m in [sqrt(1/2), sqrt(2)).
const char* const log_f32_text = R"(
inline float log_f32(float x) {
  const bool denormal = x < 0x1p-126f;
  const float normal = denormal ? x * 0x1p23f : x;
  const int32_t power = (bits_of(normal) - 0x3f3504f3) >> 23;
  const float m = float_of(bits_of(normal) - (power << 23)) - 1.0f;
  const float k = float(power) - (denormal ? 23.0f : 0.0f);
  float p = fused(0x1.1457a8p-4f, m, -0x1.de3c16p-4f);
  p = fused(p, m, 0x1.e6f06ap-4f);
  p = fused(p, m, -0x1.fc2208p-4f);
  p = fused(p, m, 0x1.233768p-3f);
  p = fused(p, m, -0x1.555c4ep-3f);
  p = fused(p, m, 0x1.99a4b6p-3f);
  p = fused(p, m, -0x1.000006p-2f);
  p = fused(p, m, 0x1.555548p-2f);
  const float square = m * m;
  const float tail = fused(square, -0.5f, fused(k, 0x1.7f7d1cp-20f, m * square * p));
  const float y = fused(k, 0x1.62e4p-1f, m + tail);
  const float positive = x > 0.0f ? y : x == 0.0f ? -INFINITY : NAN;
  return x < INFINITY ? positive : x;
}
)";

// A polynomial near zero, where 1 - 2 / (exp(2x) + 1) would lose digits.
const char* const tanh_f32_text = R"(
inline float tanh_f32(float x) {
  const float a = std::abs(x), square = a * a;
  float p = fused(-0x1.75e1ccp-8f, square, 0x1.52269cp-6f);
  p = fused(p, square, -0x1.b83c5ap-5f);
  p = fused(p, square, 0x1.110726p-3f);
  p = fused(p, square, -0x1.555532p-2f);
  const float small = fused(p * square, a, a);
  const float large = 1.0f - 2.0f / (exp_f32(2.0f * a) + 1.0f);
  return std::copysign(a < 0.625f ? small : large, x);
}
)";

const char* const sigmoid_f32_text = R"(
// 1 / (1 + exp(-a)) without overflow.
inline float sigmoid_f32(float a) {
  const float z = exp_f32(-std::abs(a));
  return (a >= 0.0f ? 1.0f : z) / (1.0f + z);
}
)";

}  // namespace loopgrad::backend

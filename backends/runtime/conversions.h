// Conversions that C++ leaves undefined or does not have: float to integer with a range test, and 16-bit floats.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

namespace loopgrad::backend {

/// The value truncated towards zero, or nullopt when it is NaN or does not fit.
template <class Integer>
std::optional<Integer> to_integer(double value) {
  // The largest i64 is no double: compare with its successor, which is.
  const double end = std::ldexp(1.0, std::numeric_limits<Integer>::digits);
  const double truncated = std::trunc(value);
  if (truncated >= -end && truncated < end) return static_cast<Integer>(truncated);
  return std::nullopt;
}

/// A binary float format of 16 bits: 1 sign bit, `mantissa_bits` explicit bits, the rest exponent. Rounds to nearest
/// even.
template <int mantissa_bits>
struct Float16Format {
  static constexpr int exponent_bits = 15 - mantissa_bits;
  static constexpr int bias = (1 << (exponent_bits - 1)) - 1;
  static constexpr std::uint16_t infinity = static_cast<std::uint16_t>(((1 << exponent_bits) - 1) << mantissa_bits);

  /// The nearest value of the format, ties to even; too large becomes infinity. Takes a double so that f32 values and
  /// f64 values are both rounded once.
  static std::uint16_t encode(double value) {
    const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    if (std::isnan(value)) return static_cast<std::uint16_t>(sign | infinity | (1 << (mantissa_bits - 1)));
    const double magnitude = std::fabs(value);
    if (std::isinf(magnitude)) return static_cast<std::uint16_t>(sign | infinity);
    if (magnitude == 0) return sign;
    int exponent = 0;
    std::frexp(magnitude, &exponent);             // magnitude is in [2^(exponent-1), 2^exponent)
    exponent = std::max(exponent - 1, 1 - bias);  // subnormals share the smallest normal exponent
    if (exponent > bias) return static_cast<std::uint16_t>(sign | infinity);
    const double units = std::nearbyint(std::ldexp(magnitude, mantissa_bits - exponent));
    // A carry out of the mantissa moves into the exponent by itself, up to and including infinity.
    const int bits = ((exponent + bias - 1) << mantissa_bits) + static_cast<int>(units);
    return static_cast<std::uint16_t>(sign | bits);
  }

  static float decode(std::uint16_t bits) {
    const int exponent = (bits & 0x7fff) >> mantissa_bits;
    const int mantissa = bits & ((1 << mantissa_bits) - 1);
    float magnitude = 0;
    if (exponent == (1 << exponent_bits) - 1) {
      magnitude = mantissa ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
    } else if (exponent == 0) {
      magnitude = std::ldexp(static_cast<float>(mantissa), 1 - bias - mantissa_bits);
    } else {
      magnitude = std::ldexp(static_cast<float>(mantissa + (1 << mantissa_bits)), exponent - bias - mantissa_bits);
    }
    return bits & 0x8000 ? -magnitude : magnitude;
  }
};

using F16Format = Float16Format<10>;
using BF16Format = Float16Format<7>;

}  // namespace loopgrad::backend

#include "backends/c_text/prelude.h"

#include <cctype>

namespace loopgrad::backend {
namespace {

/// What is the same C++ for every target.
const HelperTexts& common_texts() {
  static const HelperTexts texts = {
      // Both choose instead of branching on the divisor: of a loop with branches on what does not change in it,
      // compilers make a copy for each way that these go. For four divisions in a loop that is unrolled four times
      // NVRTC needed 77 s instead of 2.
      {Helper::FloorDiv, R"(
// Division that rounds towards minus infinity; division by zero gives 0 instead of a trap.
template <class T>
inline T floor_div(T a, T b) {
  const T by = b == 0 || b == -1 ? 1 : b;
  const T quotient = a / by - ((a % by != 0) & ((a < 0) != (by < 0)));
  return b == 0 ? 0 : b == -1 ? static_cast<T>(0ull - a) : quotient;
}
)"},
      {Helper::FloorMod, R"(
// What floor division leaves: never negative for a positive divisor.
template <class T>
inline T floor_mod(T a, T b) {
  const T by = b == 0 || b == -1 ? 1 : b;
  const T rest = a % by;
  return rest + (((rest != 0) & ((rest < 0) != (by < 0))) ? by : 0);
}
)"},
      {Helper::MinOf, R"(
template <class T>
inline T min_of(T a, T b) { return b < a ? b : a; }
)"},
      {Helper::MaxOf, R"(
template <class T>
inline T max_of(T a, T b) { return a < b ? b : a; }
)"},
      {Helper::AbsOf, R"(
template <class T>
inline T abs_of(T a) { return a < 0 ? static_cast<T>(0ull - a) : a; }
)"},
      {Helper::Sigmoid, R"(
// 1 / (1 + exp(-a)) without overflow.
template <class T>
inline T sigmoid(T a) {
  const T z = std::exp(-std::abs(a));
  return (a >= 0 ? 1 : z) / (1 + z);
}
)"},
      {Helper::BF16, R"(
// bfloat16 as it is stored: the upper half of a float, rounded to nearest even.
inline float from_bf16(uint16_t bits) { return __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16); }
inline uint16_t to_bf16(float value) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  return static_cast<uint16_t>(value == value ? rounded : (bits >> 16) | 0x40);
}
)"},
  };
  return texts;
}

}  // namespace

std::string helper_definitions(const std::set<Helper>& used, const HelperTexts& own) {
  std::string out;
  for (const Helper helper : used) {
    const auto found = own.find(helper);
    out += found != own.end() ? found->second : common_texts().at(helper);
  }
  return out;
}

std::string generated_name(const std::string& name) {
  std::string out;
  for (const char c : name) {
    const bool kept = std::isalnum(static_cast<unsigned char>(c));
    if (kept) out += c;
    else if (!out.empty() && out.back() != '_') out += '_';
  }
  if (out.empty() || std::isdigit(static_cast<unsigned char>(out[0]))) out.insert(0, "n");
  if (out.back() != '_') out += '_';
  return out;
}

}  // namespace loopgrad::backend

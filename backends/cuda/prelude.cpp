#include "backends/cuda/prelude.h"

#include <utility>

namespace loopgrad::backend {
namespace {

constexpr const char* types_text = R"(// Compile with NVRTC or nvcc, and -std=c++17.
#ifdef __CUDACC_RTC__
using int32_t = int;
using int64_t = long long;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using uint32_t = unsigned int;
using uint64_t = unsigned long long;
#define INT32_MIN (-2147483647 - 1)
#define INT64_MIN (-9223372036854775807LL - 1)
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
namespace std {
using ::abs, ::acos, ::asin, ::atan, ::atan2, ::ceil, ::cos, ::cosh, ::erf, ::exp, ::expm1, ::floor, ::log, ::log1p;
using ::sin, ::sinh, ::sqrt, ::tan, ::tanh;
}  // namespace std
#else
#include <cmath>
#include <cstdint>
#endif
)";

constexpr const char* to_integer_text = R"(
// A number as an integer, rounded towards zero: the nearest integer where it does not fit, 0 where it is none.
template <class Integer>
inline Integer to_integer(float a) {
  return a != a ? 0 : sizeof(Integer) == 4 ? __float2int_rz(a) : __float2ll_rz(a);
}
template <class Integer>
inline Integer to_integer(double a) {
  return a != a ? 0 : sizeof(Integer) == 4 ? __double2int_rz(a) : __double2ll_rz(a);
}
)";

constexpr const char* wrapping_text = R"(
// Integers of data wrap around; without this the compiler takes for granted that they do not overflow.
inline int32_t wrapping_add(int32_t a, int32_t b) { return int32_t(uint32_t(a) + uint32_t(b)); }
inline int64_t wrapping_add(int64_t a, int64_t b) { return int64_t(uint64_t(a) + uint64_t(b)); }
inline int32_t wrapping_sub(int32_t a, int32_t b) { return int32_t(uint32_t(a) - uint32_t(b)); }
inline int64_t wrapping_sub(int64_t a, int64_t b) { return int64_t(uint64_t(a) - uint64_t(b)); }
inline int32_t wrapping_mul(int32_t a, int32_t b) { return int32_t(uint32_t(a) * uint32_t(b)); }
inline int64_t wrapping_mul(int64_t a, int64_t b) { return int64_t(uint64_t(a) * uint64_t(b)); }
)";

// Two thirds of the instructions of CUDA's powf, and x^y, x^(y - 1) and further powers of one x share the logarithm.
// The error is below 3 units in the last place (CUDA's: 2.1), see tests/unit/cuda/power_test.cpp.
constexpr const char* power_text = R"(
// Powers of f32: 2^(y log2 |x|), where the logarithm and the product have 48 bits, as a sum of two floats. What has no
// logarithm, or no normal result with room to spare, is left to CUDA.
struct TwoFloats { float high, low; };
inline TwoFloats log2_of(int bits) {
  const int exponent = (bits - 0x3f3504f3) & 0xff800000;  // of x = m * 2^e with m from sqrt(1/2) to sqrt(2)
  const float m = __int_as_float(bits - exponent), e = float(exponent) * 0x1p-23f;
  const float f = m - 1.0f;
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(m + 1.0f));
  const float s = f * r, s_low = __fmaf_rn(-s, f, __fmaf_rn(-2.0f, s, f)) * r;  // f/(f + 2)
  // log2(m) = 2/ln(2) * (s + s^3/3 + s^5/5 + ...)
  const float scale = 2.885390043258667f, scale_low = 3.851926067e-8f, z = s * s;
  float p = __fmaf_rn(0.11665291f, z, 0.142754083f);
  p = __fmaf_rn(p, z, 0.200000609f);
  p = __fmaf_rn(p, z, 0.333333333f);
  const float h = s * scale;
  float low = __fmaf_rn(s, scale_low, __fmaf_rn(s, scale, -h));
  low = __fmaf_rn(s_low, __fmaf_rn(z, scale, scale), low);
  low = __fmaf_rn(h, p * z, low);
  const float sum = e + h;
  low += h - (sum - e);
  const float high = sum + low;
  return {high, low - (high - sum)};
}
inline float exp2_of(TwoFloats x) {
  const float rounded = x.high + 12582912.0f;  // the integer is in the lowest bits
  const float f = (x.high - (rounded - 12582912.0f)) + x.low;
  float p = __fmaf_rn(0.000154541621f, f, 0.00133920174f);
  p = __fmaf_rn(p, f, 0.00961808067f);
  p = __fmaf_rn(p, f, 0.0555035493f);
  p = __fmaf_rn(p, f, 0.240226508f);
  p = __fmaf_rn(p, f, 0.693147188f);
  p = __fmaf_rn(p, f, 1.0f);
  return __int_as_float(__float_as_int(p) + (__float_as_int(rounded) << 23));
}
__device__ __noinline__ float rare_power(float x, float y) { return ::powf(x, y); }
inline double power(double x, double y) { return ::pow(x, y); }
inline float power(float x, float y) {
  const int bits = __float_as_int(x) & 0x7fffffff;
  const TwoFloats logarithm = log2_of(bits);
  const float high = y * logarithm.high;
  const float low = __fmaf_rn(y, logarithm.low, __fmaf_rn(y, logarithm.high, -high));
  const float result = exp2_of({high, low});
  const bool is_normal = uint32_t(bits) - 0x00800000u < 0x7f000000u;
  if (!(is_normal && ::fabsf(high) < 125.0f)) return rare_power(x, y);
  if (x > 0.0f) return result;
  if (::truncf(y) != y) return NAN;
  return ::truncf(0.5f * y) != 0.5f * y ? -result : result;
}
)";

constexpr const char* fused_text = R"(
// a * b + c with one rounding.
inline float fused(float a, float b, float c) { return __fmaf_rn(a, b, c); }
inline double fused(double a, double b, double c) { return __fma_rn(a, b, c); }
)";

constexpr const char* f16_text = R"(
// IEEE half precision as it is stored: 16 bits, rounded to nearest even.
inline float from_f16(uint16_t bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}
inline uint16_t to_f16(float value) {
  uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}
)";

constexpr const char* atomic_text = R"(
// target = update(target), as one step for all threads. What changes nothing is not stored.
template <int bytes> struct Word;
template <> struct Word<2> { using Type = unsigned short; };
template <> struct Word<4> { using Type = unsigned int; };
template <> struct Word<8> { using Type = unsigned long long; };
template <class T, class Update>
inline void atomic_update(T& target, Update update) {
  using Bits = typename Word<sizeof(T)>::Type;
  Bits* const place = reinterpret_cast<Bits*>(&target);
  Bits before = *reinterpret_cast<volatile Bits*>(place), seen;
  do {
    seen = before;
    const Bits after = __builtin_bit_cast(Bits, static_cast<T>(update(__builtin_bit_cast(T, seen))));
    if (after == seen) return;
    before = atomicCAS(place, seen, after);
  } while (before != seen);
}
)";

constexpr const char* order_free_text = R"(
// Atomic operations whose order does not matter.
inline void add_whole(int64_t& target, int64_t value) {
  if (value != 0) atomicAdd(reinterpret_cast<unsigned long long*>(&target), static_cast<unsigned long long>(value));
}
// Where several threads of a warp raise one element, the first of them acts for all: each would wait for the others.
// together: for whom, 0 where each acts for itself.
template <class T>
inline bool acts(const T& target, unsigned& together) {
  together = __match_any_sync(__activemask(), reinterpret_cast<unsigned long long>(&target));
  if (__popc(together) < 4) together = 0;
  unsigned lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  return together == 0 || static_cast<int>(lane) == __ffs(together) - 1;
}
// Bits of floats ascend as integers do, of negative ones the other way round. Elements only grow, so that one which was
// as large a while ago needs no operation.
inline int ascending(int bits) { return bits < 0 ? bits ^ 0x7fffffff : bits; }
inline long long ascending(long long bits) { return bits < 0 ? bits ^ 0x7fffffffffffffffll : bits; }
inline void raise_to(float& target, float value) {
  if (!(value == value)) value = -INFINITY;
  int bits = __float_as_int(value);
  if (ascending(bits) <= ascending(*reinterpret_cast<volatile int*>(&target))) return;
#if __CUDA_ARCH__ >= 800
  unsigned together;
  const bool is_first = acts(target, together);
  if (together != 0) {
    bits = ascending(__reduce_max_sync(together, ascending(bits)));
  }
  if (!is_first) return;
#endif
  if (bits >= 0) atomicMax(reinterpret_cast<int*>(&target), bits);
  else atomicMin(reinterpret_cast<unsigned*>(&target), static_cast<unsigned>(bits));
}
inline void raise_to(double& target, double value) {
  if (!(value == value)) value = -INFINITY;
  const long long bits = __double_as_longlong(value);
  if (ascending(bits) <= ascending(*reinterpret_cast<volatile long long*>(&target))) return;
  if (bits >= 0) atomicMax(reinterpret_cast<long long*>(&target), bits);
  else atomicMin(reinterpret_cast<unsigned long long*>(&target), static_cast<unsigned long long>(bits));
}
)";

constexpr const char* reduce_text = R"(
// Combines the values of all threads of the block, in an order that depends on the size of the block only. All threads
// must take part; all get the result. One buffer serves all of a kernel's sums.
inline void* values_of_warps() {
  __shared__ unsigned long long values[32];
  return values;
}
template <class T, class Combine>
inline T block_reduce(T value, Combine combine) {
  for (int distance = 16; distance > 0; distance /= 2)
    value = combine(value, __shfl_down_sync(0xffffffffu, value, distance));
  if (blockDim.x <= 32) {
    __syncwarp();
    return __shfl_sync(0xffffffffu, value, 0);
  }
  T* of_warp = static_cast<T*>(values_of_warps());
  __syncthreads();
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
  value = of_warp[0];
  for (unsigned int warp = 1; warp < blockDim.x / 32; ++warp) value = combine(value, of_warp[warp]);
  return value;
}
)";

constexpr const char* wide_text = R"(
// Four neighbouring elements, moved at once.
template <class T> struct alignas(sizeof(T) < 4 ? 4 * sizeof(T) : 16) Four { T values[4]; };
template <class T>
inline bool is_aligned(const T* p) {
  return reinterpret_cast<unsigned long long>(p) % alignof(Four<T>) == 0;
}
template <class T>
inline void copy_four(T* to, const T* from) {
  *reinterpret_cast<Four<T>*>(to) = *reinterpret_cast<const Four<T>*>(from);
}
)";

constexpr const char* stack_text = R"(
// The run-time stack that a forward program leaves to its backward program. What does not fit is counted, not stored.
class Stack {
 public:
  __device__ Stack(unsigned char* bytes, int64_t capacity, int64_t* state)
      : bytes_(bytes), capacity_(capacity), state_(state), size_(state[0]), peak_(state[1]) {}
  __device__ void finish() {
    state_[0] = size_;
    state_[1] = peak_;
  }
  template <class T>
  __device__ void push(T value) {
    const unsigned char* const from = reinterpret_cast<const unsigned char*>(&value);
    if (size_ + static_cast<int64_t>(sizeof(T)) <= capacity_)
      for (int i = 0; i < static_cast<int>(sizeof(T)); ++i) bytes_[size_ + i] = from[i];
    size_ += sizeof(T);
    if (peak_ < size_) peak_ = size_;
  }
  template <class T>
  __device__ void pop(T& value) {
    unsigned char* const to = reinterpret_cast<unsigned char*>(&value);
    size_ -= sizeof(T);
    if (size_ < 0) return;
    for (int i = 0; i < static_cast<int>(sizeof(T)); ++i) to[i] = bytes_[size_ + i];
  }

 private:
  unsigned char* bytes_;
  int64_t capacity_;
  int64_t* state_;
  int64_t size_, peak_;
};
)";

/// Functions for the device: NVRTC is told to take all for such, nvcc cannot be.
std::string for_device(std::string text) {
  for (std::size_t at = 0; (at = text.find("\ninline ", at)) != std::string::npos; at += 2)
    text.replace(at, 1, "\n__device__ ");
  return text;
}

}  // namespace

std::string cuda_prelude(const std::set<Helper>& used, bool block_reduce, bool wide, bool stack) {
  const std::pair<Helper, const char*> own[] = {
      {Helper::Fused, fused_text},          {Helper::F16, f16_text},
      {Helper::AtomicUpdate, atomic_text},  {Helper::OrderFree, order_free_text},
      {Helper::ToInteger, to_integer_text}, {Helper::Wrapping, wrapping_text},
      {Helper::Power, power_text}};
  std::set<Helper> common = used;
  for (const auto& [helper, text] : own) common.erase(helper);
  std::string out = types_text + helper_definitions(common, {});
  for (const auto& [helper, text] : own)
    if (used.count(helper)) out += text;
  if (block_reduce) out += reduce_text;
  if (wide) out += wide_text;
  if (stack) out += stack_text;
  return for_device(out);
}

}  // namespace loopgrad::backend

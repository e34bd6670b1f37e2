#include "backends/cuda/prelude.h"

namespace loopgrad::backend {
namespace {

constexpr const char* types_text = R"(// Compile with --std=c++17 --device-as-default-execution-space.
using int32_t = int;
using int64_t = long long;
using uint16_t = unsigned short;
using uint32_t = unsigned int;
#define INT32_MIN (-2147483647 - 1)
#define INT64_MIN (-9223372036854775807LL - 1)
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
namespace std {
using ::abs, ::acos, ::asin, ::atan, ::atan2, ::ceil, ::cos, ::cosh, ::erf, ::exp, ::expm1, ::floor, ::log, ::log1p;
using ::pow, ::sin, ::sinh, ::sqrt, ::tan, ::tanh;
}  // namespace std
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
// target = update(target), as one step for all threads.
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
    before = atomicCAS(place, seen, __builtin_bit_cast(Bits, static_cast<T>(update(__builtin_bit_cast(T, seen)))));
  } while (before != seen);
}
)";

constexpr const char* reduce_text = R"(
// Combines the values of all threads of the block, in an order that depends on the size of the block only. All threads
// must take part; all get the result.
template <class T, class Combine>
inline T block_reduce(T value, Combine combine) {
  for (int distance = 16; distance > 0; distance /= 2)
    value = combine(value, __shfl_down_sync(0xffffffffu, value, distance));
  if (blockDim.x <= 32) {
    __syncwarp();
    return __shfl_sync(0xffffffffu, value, 0);
  }
  __shared__ T of_warp[32];
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
  Stack(unsigned char* bytes, int64_t capacity, int64_t* state)
      : bytes_(bytes), capacity_(capacity), state_(state), size_(state[0]), peak_(state[1]) {}
  void finish() {
    state_[0] = size_;
    state_[1] = peak_;
  }
  template <class T>
  void push(T value) {
    const unsigned char* const from = reinterpret_cast<const unsigned char*>(&value);
    if (size_ + static_cast<int64_t>(sizeof(T)) <= capacity_)
      for (int i = 0; i < static_cast<int>(sizeof(T)); ++i) bytes_[size_ + i] = from[i];
    size_ += sizeof(T);
    if (peak_ < size_) peak_ = size_;
  }
  template <class T>
  void pop(T& value) {
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

}  // namespace

std::string cuda_prelude(const std::set<Helper>& used, bool block_reduce, bool wide, bool stack) {
  std::set<Helper> common = used;
  common.erase(Helper::F16);
  common.erase(Helper::AtomicUpdate);
  std::string out = types_text + helper_definitions(common);
  if (used.count(Helper::F16)) out += f16_text;
  if (used.count(Helper::AtomicUpdate)) out += atomic_text;
  if (block_reduce) out += reduce_text;
  if (wide) out += wide_text;
  if (stack) out += stack_text;
  return out;
}

}  // namespace loopgrad::backend

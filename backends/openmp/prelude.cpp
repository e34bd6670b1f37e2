#include "backends/openmp/prelude.h"

#include "backends/openmp/lane_sums.h"
#include "backends/openmp/multiply_text.h"
#include "backends/openmp/streams.h"
#include "backends/openmp/vector_math.h"

namespace loopgrad::backend {
namespace {

const HelperTexts& own_texts() {
  static const HelperTexts texts = {
      {Helper::MinReduction, R"(
#pragma omp declare reduction(min_of : float : omp_out = min_of(omp_out, omp_in)) initializer(omp_priv = INFINITY)
#pragma omp declare reduction(min_of : double : omp_out = min_of(omp_out, omp_in)) initializer(omp_priv = INFINITY)
#pragma omp declare reduction(min_of : int32_t : omp_out = min_of(omp_out, omp_in)) initializer(omp_priv = INT32_MAX)
#pragma omp declare reduction(min_of : int64_t : omp_out = min_of(omp_out, omp_in)) initializer(omp_priv = INT64_MAX)
)"},
      {Helper::MaxReduction, R"(
#pragma omp declare reduction(max_of : float : omp_out = max_of(omp_out, omp_in)) initializer(omp_priv = -INFINITY)
#pragma omp declare reduction(max_of : double : omp_out = max_of(omp_out, omp_in)) initializer(omp_priv = -INFINITY)
#pragma omp declare reduction(max_of : int32_t : omp_out = max_of(omp_out, omp_in)) initializer(omp_priv = INT32_MIN)
#pragma omp declare reduction(max_of : int64_t : omp_out = max_of(omp_out, omp_in)) initializer(omp_priv = INT64_MIN)
)"},
      {Helper::ToInteger, R"(
// A number as an integer, rounded towards zero: the nearest integer where it does not fit, 0 where it is none.
template <class Integer, class Float>
inline Integer to_integer(Float a) {
  constexpr Float end = sizeof(Integer) == 4 ? 0x1p31f : 0x1p63f;
  constexpr Integer least = sizeof(Integer) == 4 ? INT32_MIN : INT64_MIN;
  const Integer inside = static_cast<Integer>(((a >= -end) & (a < end)) ? a : Float(0));
  const Integer below = a < -end ? least : inside;
  return a >= end ? ~least : below;
}
)"},
      {Helper::Fused, R"(
// a * b + c with one rounding.
inline float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double fused(double a, double b, double c) { return __builtin_fma(a, b, c); }
)"},
      {Helper::Library, R"(
// Functions of the system's library. Compilers must not compute them, not even of constants: one program may know an
// operand that another one does not, and the last bits would differ.
namespace library {
template <class T> [[gnu::noipa, gnu::const]] T exp(T x) { return std::exp(x); }
template <class T> [[gnu::noipa, gnu::const]] T log(T x) { return std::log(x); }
template <class T> [[gnu::noipa, gnu::const]] T sin(T x) { return std::sin(x); }
template <class T> [[gnu::noipa, gnu::const]] T cos(T x) { return std::cos(x); }
template <class T> [[gnu::noipa, gnu::const]] T tan(T x) { return std::tan(x); }
template <class T> [[gnu::noipa, gnu::const]] T asin(T x) { return std::asin(x); }
template <class T> [[gnu::noipa, gnu::const]] T acos(T x) { return std::acos(x); }
template <class T> [[gnu::noipa, gnu::const]] T atan(T x) { return std::atan(x); }
template <class T> [[gnu::noipa, gnu::const]] T sinh(T x) { return std::sinh(x); }
template <class T> [[gnu::noipa, gnu::const]] T cosh(T x) { return std::cosh(x); }
template <class T> [[gnu::noipa, gnu::const]] T tanh(T x) { return std::tanh(x); }
template <class T> [[gnu::noipa, gnu::const]] T erf(T x) { return std::erf(x); }
template <class T> [[gnu::noipa, gnu::const]] T log1p(T x) { return std::log1p(x); }
template <class T> [[gnu::noipa, gnu::const]] T expm1(T x) { return std::expm1(x); }
template <class T> [[gnu::noipa, gnu::const]] T pow(T x, T y) { return std::pow(x, y); }
template <class T> [[gnu::noipa, gnu::const]] T atan2(T y, T x) { return std::atan2(y, x); }
template <class T> [[gnu::noipa, gnu::const]] T sigmoid(T x) {
  const T z = std::exp(-std::abs(x));  // which does not overflow
  return (x >= 0 ? 1 : z) / (1 + z);
}
}  // namespace library
)"},
      {Helper::F16, R"(
// IEEE half precision as it is stored: 16 bits, rounded to nearest even.
inline float from_f16(uint16_t bits) { return static_cast<float>(__builtin_bit_cast(_Float16, bits)); }
inline uint16_t to_f16(float value) { return __builtin_bit_cast(uint16_t, static_cast<_Float16>(value)); }
)"},
      {Helper::ExpF32, exp_f32_text},
      {Helper::LogF32, log_f32_text},
      {Helper::TanhF32, tanh_f32_text},
      {Helper::SigmoidF32, sigmoid_f32_text},
      {Helper::AtomicUpdate, R"(
// target = update(target), as one step for all threads.
template <class T, class Update>
inline void atomic_update(T& target, Update update) {
  T before, after;
  __atomic_load(&target, &before, __ATOMIC_RELAXED);
  do after = update(before);
  while (!__atomic_compare_exchange(&target, &before, &after, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}
)"},
      {Helper::Multiply, multiply_text},
      {Helper::Streams, stream_text},
      {Helper::LaneSums, lane_sums_text},
      {Helper::Scratch, R"(
// An extent, or that it does not fit in 64 bits.
struct Extent {
  int64_t value;
  bool fits = true;
  Extent(int64_t number) : value(number) {}
  friend Extent operator+(Extent a, Extent b) { return {a, b, __builtin_add_overflow(a.value, b.value, &a.value)}; }
  friend Extent operator-(Extent a, Extent b) { return {a, b, __builtin_sub_overflow(a.value, b.value, &a.value)}; }
  friend Extent operator*(Extent a, Extent b) { return {a, b, __builtin_mul_overflow(a.value, b.value, &a.value)}; }

 private:
  Extent(Extent& a, Extent b, bool wraps) : value(a.value), fits(a.fits && b.fits && !wraps) {}
};
// Memory of a local array: kept in the caller's workspace if there is one, else freed at the end of the scope.
template <class T>
class Scratch {
 public:
  Scratch() : block_(&own_) {}
  Scratch(loopgrad_block* workspace, int slot) : block_(workspace ? workspace + slot : &own_) {}
  Scratch(const Scratch&) = delete;
  ~Scratch() {
    if (block_ == &own_) std::free(own_.data);
  }
  // Room for `parts` arrays of these extents, each on cache lines of its own; false when there is no memory.
  bool reserve(int64_t parts, std::initializer_list<Extent> extents) {
    Extent all = int64_t(sizeof(T));
    for (const Extent& extent : extents) all = all * (extent.value < 0 && extent.fits ? Extent(0) : extent);
    if (!all.fits) return false;
    int64_t bytes = all.value;
    if (__builtin_add_overflow(bytes, 127, &bytes)) return false;
    stride_ = bytes / 64 * 64;
    if (__builtin_mul_overflow(stride_, parts, &bytes)) return false;
    if (bytes <= block_->bytes) return true;
    std::free(block_->data);
    block_->data = std::aligned_alloc(64, bytes);
    block_->bytes = block_->data ? bytes : 0;
    return block_->data != nullptr;
  }
  T* part(int64_t index) const { return reinterpret_cast<T*>(static_cast<char*>(block_->data) + index * stride_); }

 private:
  loopgrad_block own_ = {nullptr, 0};
  loopgrad_block* block_;
  int64_t stride_ = 0;
};
)"},
      {Helper::Stack, R"(
// The run-time stack that a forward program leaves to its backward program, in registers while a program runs.
class Stack {
 public:
  explicit Stack(loopgrad_stack* home)
      : home_(home), data_(home->data), top_(data_ + home->size), end_(data_ + home->capacity), peak_(home->peak) {}
  Stack(const Stack&) = delete;
  ~Stack() { *home_ = {data_, top_ - data_, end_ - data_, peak()}; }
  template <class T>
  bool push(T value) {
    if (end_ - top_ < static_cast<int64_t>(sizeof(T))) {
      const int64_t size = top_ - data_, capacity = 2 * (end_ - data_) + 65536;
      unsigned char* const larger = enlarge(data_, capacity);
      if (!larger) return false;
      data_ = larger;
      top_ = larger + size;
      end_ = larger + capacity;
    }
    std::memcpy(top_, &value, sizeof(T));
    top_ += sizeof(T);
    return true;
  }
  template <class T>
  bool pop(T& value) {
    peak_ = peak();
    if (top_ - data_ < static_cast<int64_t>(sizeof(T))) return false;
    top_ -= sizeof(T);
    std::memcpy(&value, top_, sizeof(T));
    return true;
  }

 private:
  int64_t peak() const { return peak_ < top_ - data_ ? top_ - data_ : peak_; }
  // Takes and gives plain values: a Stack whose address is passed on would have to live in memory.
  [[gnu::noinline, gnu::cold]] static unsigned char* enlarge(unsigned char* data, int64_t capacity) {
    return static_cast<unsigned char*>(std::realloc(data, capacity));
  }
  loopgrad_stack* home_;
  unsigned char *data_, *top_, *end_;
  int64_t peak_;
};
)"},
  };
  return texts;
}

}  // namespace

std::string openmp_helpers(const std::set<Helper>& used, WorkspaceOf owner) {
  std::set<Helper> all = used;
  if (all.count(Helper::TanhF32) || all.count(Helper::SigmoidF32)) all.insert(Helper::ExpF32);
  if (all.count(Helper::MinReduction)) all.insert(Helper::MinOf);
  if (all.count(Helper::MaxReduction)) all.insert(Helper::MaxOf);
  const bool vector_math = all.count(Helper::ExpF32) || all.count(Helper::LogF32);
  if (vector_math) all.insert(Helper::Fused);
  std::string text = (vector_math ? vector_math_basics : "") + helper_definitions(all, own_texts());
  if (owner == WorkspaceOf::Caller && all.count(Helper::Scratch)) {
    const std::string kept = "    std::free(block_->data);\n";
    text.replace(
        text.find(kept), kept.size(),
        "    if (block_ != &own_) block_ = &own_;  // no room in the caller's memory: iterators decide the extents\n" +
            kept);
  }
  return text;
}

}  // namespace loopgrad::backend

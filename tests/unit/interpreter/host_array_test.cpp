#include "backends/runtime/conversions.h"
#include "tests/unit/interpreter/programs.h"

#include <cmath>
#include <limits>

#ifdef __SANITIZE_ADDRESS__
// Asking for more memory than there is must reach our own error under the address sanitizer too.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }
#endif

namespace loopgrad::test {
namespace {

using backend::BF16Format;
using backend::F16Format;

TEST(HostArray, IsZeroFilledAlignedAndShared) {
  const HostArray a(ScalarType::F32, {3, 5});
  EXPECT_EQ(a.size(), 15);
  EXPECT_EQ(a.bytes(), 60);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.data()) % 64, 0u);
  for (std::int64_t i = 0; i < a.size(); ++i) EXPECT_EQ(a.get(i), 0.0);
  const View v = a.view();
  EXPECT_EQ(v.data, a.data());
  EXPECT_EQ(v.shape, (std::vector<std::int64_t>{3, 5}));
  EXPECT_TRUE(v.strides.empty());
}

TEST(HostArray, HasScalarsAndEmptyArrays) {
  EXPECT_EQ(HostArray(ScalarType::F64, {}).size(), 1);
  EXPECT_EQ(HostArray(ScalarType::F64, {0, 7}).size(), 0);
  EXPECT_EQ(HostArray().size(), 0);
}

TEST(HostArray, ReadsAndWritesEveryType) {
  for (const ScalarType type :
       {ScalarType::I32, ScalarType::I64, ScalarType::F16, ScalarType::BF16, ScalarType::F32, ScalarType::F64}) {
    HostArray a(type, {4});
    a.set(2, -24);
    EXPECT_EQ(a.get(2), -24.0) << name_of(type);
    EXPECT_EQ(a.get(1), 0.0);
    EXPECT_EQ(a.get(3), 0.0);
  }
  HostArray b(ScalarType::Bool, {2});
  b.set(1, 0.5);
  EXPECT_EQ(b.get(1), 1.0);
}

TEST(HostArray, RefusesWhatDoesNotFit) {
  HostArray a(ScalarType::I32, {4});
  EXPECT_EQ(error_of<UsageError>([&] { a.get(4); }).code, ErrorCode::BadIndex);
  EXPECT_EQ(error_of<UsageError>([&] { a.set(-1, 0); }).code, ErrorCode::BadIndex);
  EXPECT_EQ(error_of<UsageError>([&] { a.set(0, 3e9); }).code, ErrorCode::BadArgument);
  EXPECT_EQ(error_of<UsageError>([&] { a.set(0, std::nan("")); }).code, ErrorCode::BadArgument);
  EXPECT_EQ(error_of<UsageError>([&] { HostArray(ScalarType::F32, {-1}); }).code, ErrorCode::BadSize);
  const std::int64_t big = std::int64_t{1} << 32;
  EXPECT_EQ(error_of<UsageError>([&] { HostArray(ScalarType::F32, {big, big}); }).code, ErrorCode::BadSize);
  EXPECT_EQ(error_of<RuntimeError>([&] { HostArray(ScalarType::F32, {big, big / 16}); }).code, ErrorCode::OutOfMemory);
}

TEST(ElementCount, CountsAndRefusesOverflow) {
  const std::int64_t big = std::int64_t{1} << 40;
  EXPECT_EQ(element_count({}, ScalarType::F32, "a"), 1);
  EXPECT_EQ(element_count({2, 3}, ScalarType::F32, "a"), 6);
  EXPECT_EQ(element_count({big, big, 0}, ScalarType::F32, "a"), 0);
  EXPECT_THROW(element_count({big, big}, ScalarType::Bool, "a"), UsageError);
  EXPECT_THROW(element_count({std::int64_t{1} << 61}, ScalarType::F32, "a"), UsageError);
}

TEST(F16, RoundsToNearestEven) {
  EXPECT_EQ(F16Format::encode(1.0), 0x3c00);
  EXPECT_EQ(F16Format::encode(-2.0), 0xc000);
  EXPECT_EQ(F16Format::encode(65504.0), 0x7bff);
  EXPECT_EQ(F16Format::encode(65519.0), 0x7bff);
  EXPECT_EQ(F16Format::encode(65520.0), 0x7c00);                     // half way to the next: infinity is even
  EXPECT_EQ(F16Format::encode(1.0 + std::ldexp(1.0, -11)), 0x3c00);  // half way: stays even
  EXPECT_EQ(F16Format::encode(1.0 + 3 * std::ldexp(1.0, -11)), 0x3c02);
  EXPECT_EQ(F16Format::encode(1.0 + std::ldexp(1.0, -11) + 1e-9), 0x3c01);
  EXPECT_EQ(F16Format::encode(std::ldexp(1.0, -24)), 0x0001);  // the smallest subnormal
  EXPECT_EQ(F16Format::encode(std::ldexp(1.0, -25)), 0x0000);
  EXPECT_EQ(F16Format::encode(std::ldexp(1.0, -25) * 1.01), 0x0001);
  EXPECT_EQ(F16Format::encode(std::ldexp(1023.5, -24)), 0x0400);  // carries from subnormal to normal
  EXPECT_EQ(F16Format::encode(-0.0), 0x8000);
  EXPECT_EQ(F16Format::encode(-1e-40), 0x8000);
  EXPECT_EQ(F16Format::encode(-std::numeric_limits<double>::infinity()), 0xfc00);
  EXPECT_TRUE(std::isnan(F16Format::decode(F16Format::encode(std::nan("")))));
}

TEST(HostArray, HasNoElementsWhenMovedFromOrMadeOfNothing) {
  HostArray a(ScalarType::F32, {3});
  const HostArray taken = std::move(a);
  HostArray nothing;
  for (HostArray* empty : {&a, &nothing}) {
    EXPECT_THROW(empty->get(0), UsageError);
    EXPECT_THROW(empty->set(0, 1), UsageError);
    EXPECT_EQ(empty->view().data, nullptr);
  }
  EXPECT_THROW(HostArray(static_cast<ScalarType>(33), {3}), UsageError);
}

TEST(BF16, RoundsToNearestEven) {
  EXPECT_EQ(BF16Format::encode(1.0), 0x3f80);
  EXPECT_EQ(BF16Format::encode(1.0 + std::ldexp(1.0, -8)), 0x3f80);
  EXPECT_EQ(BF16Format::encode(1.0 + 3 * std::ldexp(1.0, -8)), 0x3f82);
  EXPECT_EQ(BF16Format::encode(3.4e38), 0x7f80);
  EXPECT_EQ(BF16Format::encode(std::ldexp(1.0, -133)), 0x0001);
  EXPECT_TRUE(std::isnan(BF16Format::decode(BF16Format::encode(std::nan("")))));
}

template <class Format>
void expect_round_trip() {
  for (int bits = 0; bits < 0x10000; ++bits) {
    const float value = Format::decode(static_cast<std::uint16_t>(bits));
    if (std::isnan(value)) continue;
    ASSERT_EQ(Format::encode(value), bits);
  }
}
TEST(F16, DecodesWhatItEncodes) { expect_round_trip<F16Format>(); }
TEST(BF16, DecodesWhatItEncodes) { expect_round_trip<BF16Format>(); }

TEST(BF16, DecodesAsTheUpperHalfOfF32) {
  for (std::uint32_t bits = 0; bits < 0x7f80; ++bits) {
    ASSERT_EQ(BF16Format::decode(static_cast<std::uint16_t>(bits)), std::bit_cast<float>(bits << 16));
  }
}

TEST(ToInteger, TestsTheRange) {
  EXPECT_EQ(backend::to_integer<std::int32_t>(2147483647.9), 2147483647);
  EXPECT_EQ(backend::to_integer<std::int32_t>(-2147483648.9), -2147483648);
  EXPECT_FALSE(backend::to_integer<std::int32_t>(2147483648.0));
  EXPECT_FALSE(backend::to_integer<std::int32_t>(-2147483649.0));
  EXPECT_EQ(backend::to_integer<std::int64_t>(-9223372036854775808.0), std::numeric_limits<std::int64_t>::min());
  EXPECT_FALSE(backend::to_integer<std::int64_t>(9223372036854775808.0));
  EXPECT_FALSE(backend::to_integer<std::int64_t>(std::nan("")));
}

}  // namespace
}  // namespace loopgrad::test

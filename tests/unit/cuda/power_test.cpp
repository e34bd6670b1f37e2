// Powers of f32 on a GPU, which have code of their own, against the host's in f64. Skips visibly where there is none.
#include <loopgrad/loopgrad.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <random>
#include <vector>

namespace loopgrad::test {
namespace {

class CudaPower : public testing::Test {
 protected:
  void SetUp() override {
    setenv("LOOPGRAD_CACHE_DIR", LOOPGRAD_TEST_CACHE, 1);
    std::string why;
    if (!has_cuda(&why)) GTEST_SKIP() << why;
    ProgramBuilder p("powers");
    auto n = p.size("n");
    auto x = p.input<float>("x", {n}), y = p.input<float>("y", {n});
    auto z = p.output<float>("z", {n});
    for (auto i : p.loop("i", 0, n)) z(i) = pow(x(i), y(i));
    CompileOptions options;
    options.target = Target::Cuda;
    program_.emplace(compile(p.build(), options));
  }

  std::vector<float> powers(const std::vector<float>& x, const std::vector<float>& y) {
    const auto n = static_cast<std::int64_t>(x.size());
    DeviceArray dx(ScalarType::F32, {n}), dy(ScalarType::F32, {n}), dz(ScalarType::F32, {n});
    dx.upload(x.data());
    dy.upload(y.data());
    program_->run({{"x", dx.view()}, {"y", dy.view()}, {"z", dz.view()}});
    std::vector<float> z(x.size());
    dz.download(z.data());
    return z;
  }

  std::optional<Executable> program_;
};

/// In units in the last place of `exact`; below the normal numbers, of the smallest of these.
double error_in_places(float value, double exact) {
  int exponent = 0;
  std::frexp(exact, &exponent);
  return std::abs(value - exact) / std::ldexp(1.0, std::max(exponent, -125) - 24);
}

bool is_overflow(double exact) { return std::isinf(static_cast<float>(exact)); }

TEST_F(CudaPower, IsWithinThreePlaces) {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> unit(0, 1);
  std::uniform_int_distribution<std::int32_t> normal(0x00800000, 0x7f7fffff);
  std::vector<float> x, y;
  for (int k = 0; k < 3000000; ++k) {
    float base = 0.5f + 1.5f * unit(random);  // the most common ones, any, and those with the smallest logarithms
    if (k % 3 == 1) base = std::bit_cast<float>(normal(random));
    if (k % 3 == 2) base = 1 + (unit(random) - 0.5f) * std::exp2(-20 * unit(random));
    const double most = 135 / std::max(std::abs(std::log2(static_cast<double>(base))), 1e-7);
    x.push_back(base);
    y.push_back(k % 3 == 0 ? 4 * unit(random) - 2 : static_cast<float>((2 * unit(random) - 1) * most));
  }
  const std::vector<float> z = powers(x, y);
  double worst = 0;
  for (std::size_t k = 0; k < x.size(); ++k) {
    const double exact = std::pow(static_cast<double>(x[k]), static_cast<double>(y[k]));
    if (is_overflow(exact) || std::isinf(z[k])) {
      ASSERT_GT(exact, 3.4028233e38) << x[k] << "^" << y[k];
      continue;
    }
    const double error = error_in_places(z[k], exact);
    worst = std::max(worst, error);
    ASSERT_LE(error, 3) << std::hexfloat << x[k] << "^" << y[k] << " = " << z[k];
  }
  RecordProperty("worst_error_in_places", std::to_string(worst));
}

TEST_F(CudaPower, HasAllSpecialCases) {
  const float inf = std::numeric_limits<float>::infinity(), least = std::numeric_limits<float>::denorm_min();
  std::vector<float> values = {std::nanf("")};
  for (const float v :
       {0.0f,   1.0f,   2.0f,    3.0f,        0.5f,        1.5f,        0.1f,        10.0f,      100.0f,
        101.0f, 126.0f, 127.0f,  128.0f,      149.0f,      150.0f,      least,       1e-40f,     1.17549435e-38f,
        1e-30f, 1e30f,  3.4e38f, 16777215.0f, 16777216.0f, 33554431.0f, 0.99999994f, 1.0000001f, inf})
    for (const float signed_value : {v, -v}) values.push_back(signed_value);
  std::vector<float> x, y;
  for (const float base : values)
    for (const float exponent : values) {
      x.push_back(base);
      y.push_back(exponent);
    }
  const std::vector<float> z = powers(x, y);
  for (std::size_t k = 0; k < x.size(); ++k) {
    const double exact = std::pow(static_cast<double>(x[k]), static_cast<double>(y[k]));
    const auto rounded = static_cast<float>(exact);
    SCOPED_TRACE(testing::Message() << std::hexfloat << x[k] << "^" << y[k] << " = " << z[k]);
    if (std::isnan(exact)) {
      EXPECT_TRUE(std::isnan(z[k]));
      continue;
    }
    EXPECT_EQ(std::signbit(z[k]), std::signbit(rounded));
    if (std::isinf(rounded) || rounded == 0) EXPECT_EQ(z[k], rounded);
    else EXPECT_LE(error_in_places(z[k], exact), 3);
  }
}

}  // namespace
}  // namespace loopgrad::test

// Compiled scans: the numbers of a plain loop, and the same bits for any number of threads.
#include <loopgrad/loopgrad.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

namespace lg = loopgrad;

namespace {

constexpr std::int64_t n = 200003;

/// v is a recurrence, q sums it up, the loss sums squares: forward and backward have two scans each.
lg::Program damped() {
  lg::ProgramBuilder p("damped");
  auto size = p.size("n");
  auto x = p.input<float>("x", {size}), decay = p.input<float>("decay", {});
  auto y = p.output<float>("y", {size}), loss = p.output<float>("loss", {});
  auto v = p.scalar<float>("v"), q = p.scalar<float>("q");
  v = 0.0f;
  q = 1.0f;
  loss() = 0.0f;
  for (auto i : p.loop("i", 0, size)) {
    v = decay() * v + x(i);
    q = 0.5f * q + v;
    y(i) = q;
    loss() += v * v;
  }
  return p.build();
}

struct Result {
  std::vector<float> y = std::vector<float>(n), d_x = std::vector<float>(n), rest = std::vector<float>(2);
};

std::vector<float> inputs() {
  std::vector<float> x(n);
  for (std::int64_t i = 0; i < n; ++i) x[i] = std::sin(0.37f * static_cast<float>(i % 10007));
  return x;
}

Result computed(int threads, lg::Variant variant) {
  lg::CompileOptions options;
  options.threads = threads;
  options.expected_sizes = {{"n", n}};
  auto gradient = lg::compile_gradient(damped(), {.variant = variant}, options);
  std::vector<float> x = inputs(), d_y(n, 1.0f);
  float decay = 0.9f, d_loss = 0.25f;
  Result r;
  lg::Arguments arrays = {{"x", lg::view(x.data(), {n})},
                          {"decay", lg::view(&decay, {})},
                          {"y", lg::view(r.y.data(), {n})},
                          {"loss", lg::view(&r.rest[0], {})}};
  gradient.forward(arrays);
  arrays["d_y"] = lg::view(d_y.data(), {n});
  arrays["d_loss"] = lg::view(&d_loss, {});
  arrays["d_x"] = lg::view(r.d_x.data(), {n});
  arrays["d_decay"] = lg::view(&r.rest[1], {});
  gradient.backward(arrays);
  return r;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST(CompiledScans, SameBitsForAnyNumberOfThreads) {
  const Result one = computed(1, lg::Variant::Restructured);
  for (const int threads : {2, 7}) {
    const Result more = computed(threads, lg::Variant::Restructured);
    EXPECT_TRUE(same_bits(one.y, more.y)) << threads;
    EXPECT_TRUE(same_bits(one.d_x, more.d_x)) << threads;
    EXPECT_TRUE(same_bits(one.rest, more.rest)) << threads;
  }
}

TEST(CompiledScans, TheNumbersOfAPlainLoop) {
  const Result r = computed(2, lg::Variant::Restructured);
  const std::vector<float> x = inputs();
  std::vector<double> v(n);
  double q = 1, previous = 0, error = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    v[i] = previous = 0.9f * previous + x[i];
    q = 0.5 * q + v[i];
    error = std::max(error, std::abs(r.y[i] - q));
  }
  EXPECT_LT(error, 2e-5);
  EXPECT_GT(error, 0);  // f32 it is
  double d_q = 0, d_v = 0, d_error = 0, d_decay = 0;
  for (std::int64_t i = n; i-- > 0;) {
    d_q += 1;
    d_v += d_q + 0.25 * 2 * v[i];
    d_q *= 0.5;
    d_error = std::max(d_error, std::abs(r.d_x[i] - d_v) / (1 + std::abs(d_v)));
    d_decay += d_v * (i > 0 ? v[i - 1] : 0);
    d_v *= 0.9f;
  }
  EXPECT_LT(d_error, 1e-5);
  EXPECT_NEAR(r.rest[1] / d_decay, 1, 1e-3);
}

TEST(CompiledScans, ThereAreSome) {
  lg::CompileOptions options;
  options.expected_sizes = {{"n", n}};
  const auto gradient = lg::compile_gradient(damped(), {}, options);
  const std::string& text = gradient.source();
  for (const char* part : {"_forward_run", "_backward_run"}) {
    const std::size_t at = text.find(part);
    ASSERT_NE(at, std::string::npos);
    EXPECT_NE(text.find("piece_factor", at), std::string::npos) << part;
  }
}

}  // namespace

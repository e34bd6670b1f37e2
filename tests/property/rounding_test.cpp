// Random programs whose control depends on rounded values: largest of products, floor of products as an index, branches
// at equality, ties. What counts is linear in an input of small integers, so that sums are exact in any order: outputs
// must then have the same bits in all variants, targets and in the interpreter, and the gradient along that input must
// give back the output exactly. A value that is computed again with other roundings takes another branch, and fails.
#include <gtest/gtest.h>
#include <loopgrad/loopgrad.h>

#include <cmath>
#include <numeric>
#include <random>

namespace loopgrad::test {
namespace {

namespace lg = loopgrad;

constexpr std::int64_t rows = 37, columns = 53;

/// A random expression of elements, with products in sums that a compiler would like to contract.
lg::Value term(std::mt19937& random, const std::vector<lg::Value>& leaves, int depth) {
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  if (depth == 0) return leaves[static_cast<std::size_t>(pick(static_cast<int>(leaves.size())))];
  const lg::Value a = term(random, leaves, depth - 1), b = term(random, leaves, depth - 1);
  switch (pick(6)) {
    case 0: return a * b + leaves[0];
    case 1: return leaves[1] - a * b;
    case 2: return a * b - b * leaves[2];
    case 3: return lg::fma(a, b, leaves[1]);
    case 4: return lg::select(a < b, a * leaves[0], b * leaves[1]);
    default: return a + b;
  }
}

struct Arrays {
  std::vector<float> x, w, q, v;
  explicit Arrays(unsigned seed) : x(rows * columns), w(rows * columns), q(rows * columns), v(columns) {
    std::mt19937 random(seed);
    const auto number = [&] { return static_cast<float>(random() >> 8) * 0x1p-23f - 1.0f; };
    for (float& e : x) e = number();
    for (float& e : w) e = number();
    for (std::size_t k = 0; k < q.size(); ++k) q[k] = x[k] * w[k];  // equal to the product as it is rounded
    for (float& e : v) e = static_cast<float>(random() % 15 + 1);
  }
};

/// y(i), linear in v, with all that steers it computed from x, w and q.
template <class Storage>
lg::Program steered(unsigned seed) {
  std::mt19937 random(seed);
  lg::ProgramBuilder p("steered");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<float>("x", {n, m}), w = p.input<float>("w", {n, m}), q = p.input<float>("q", {n, m});
  auto v = p.input<float>("v", {m});
  auto y = p.output<float>("y", {n});
  auto best = p.local<Storage>("best", {n});
  for (auto i : p.loop("i", 0, n)) {
    y(i) = 0.0f;
    best(i) = -100.0f;
    for (auto j : p.loop("j", 0, m)) {
      const std::vector<lg::Value> leaves = {x(i, j), w(i, j), q(i, j)};
      const auto any = [&] { return term(random, leaves, 2); };
      // (1) a branch, and one that rounding decides: x*w - q is zero unless it is contracted
      p.when(any() < any(), [&] { y(i) += v(j); });
      p.when(x(i, j) * w(i, j) - q(i, j) == 0.0f, [&] { y(i) += 2.0f * v(j); });
      // (2) an index
      auto k = p.scalar<std::int64_t>("k");
      k = lg::max(0, lg::min(m - 1, lg::cast<std::int64_t>(lg::floor(4.0f * any())) + 7));
      y(i) += 0.5f * v(k);
      // (3) a sum that steers: added up in a scalar
      auto s = p.scalar<float>("s");
      s = any();
      s += x(i, j) * w(i, j);
      s -= q(i, j);
      p.when(s > 0.25f, [&] { y(i) += v(j); });
      // (4) an extremum of rounded values
      best(i).max_with(any());
    }
    for (auto j : p.loop("j2", 0, m)) p.when(best(i) > x(i, j) * w(i, j) + q(i, j), [&] { y(i) += v(j); });
  }
  return p.build();
}

/// The largest of values with the input v in it, whose gradient goes to one element of each row.
template <class Storage>
lg::Program largest(unsigned seed) {
  std::mt19937 random(seed);
  lg::ProgramBuilder p("largest");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<float>("x", {n, m}), w = p.input<float>("w", {n, m}), q = p.input<float>("q", {n, m});
  auto v = p.input<float>("v", {m});
  auto y = p.output<float>("y", {n});
  auto best = p.local<Storage>("best", {n});
  auto also = p.output<float>("also", {n, m});
  for (auto i : p.loop("i", 0, n)) {
    best(i) = -100.0f;
    for (auto j : p.loop("j", 0, m)) {
      const lg::Value value = term(random, {x(i, j), w(i, j), q(i, j)}, 2);
      if (random() % 2) best(i).max_with(value * 0.125f + v(j));
      else best(i).max_with(lg::floor(4.0f * value) + v(j));  // with ties
      also(i, j) = value;  // a second use, which keeps compilers from contracting in the forward program only
    }
    y(i) = lg::cast<float>(best(i));
  }
  return p.build();
}

struct Results {
  std::vector<float> y, d_v;
};

Results run(const lg::Program& program, bool has_also, Arrays& a, lg::Variant variant,
            const lg::CompileOptions& options) {
  auto gradient = lg::compile_gradient(program, {.wrt = {"v"}, .of = {"y"}, .variant = variant}, options);
  Results result{std::vector<float>(rows, NAN), std::vector<float>(columns, NAN)};
  std::vector<float> ones(rows, 1.0f), also(rows * columns);
  lg::Arguments arrays;
  for (const auto& [name, data] : {std::pair{"x", &a.x}, {"w", &a.w}, {"q", &a.q}})
    arrays[name] = lg::view(data->data(), {rows, columns});
  if (has_also) arrays["also"] = lg::view(also.data(), {rows, columns});
  arrays["v"] = lg::view(a.v.data(), {columns});
  arrays["y"] = lg::view(result.y.data(), {rows});
  gradient.forward(arrays);
  arrays["d_y"] = lg::view(ones.data(), {rows});
  arrays["d_v"] = lg::view(result.d_v.data(), {columns});
  gradient.backward(arrays);
  return result;
}

double total(const std::vector<float>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

/// All ways to run one program, by name.
std::vector<std::tuple<std::string, lg::Variant, lg::CompileOptions>> ways() {
  std::vector<std::tuple<std::string, lg::Variant, lg::CompileOptions>> all;
  for (const lg::Variant variant : {lg::Variant::NaiveTape, lg::Variant::Atomic, lg::Variant::Restructured}) {
    const std::string name = lg::name_of(variant);
    all.emplace_back("openmp " + name, variant, lg::CompileOptions{.target = lg::Target::OpenMP, .threads = 2});
    all.emplace_back("interpreter " + name, variant, lg::CompileOptions{.target = lg::Target::Interpreter});
    if (variant == lg::Variant::NaiveTape) continue;
    all.emplace_back("mapped to a GPU " + name, variant,
                     lg::CompileOptions{.target = lg::Target::Interpreter, .gpu_mapped = true});
  }
  return all;
}

struct Rounding : testing::TestWithParam<unsigned> {};

TEST_P(Rounding, SteersAllVariantsAlike) {
  Arrays arrays(GetParam());
  for (const bool half : {false, true}) {
    const lg::Program program = half ? steered<lg::bfloat16>(GetParam()) : steered<float>(GetParam());
    std::vector<float> first;
    for (const auto& [name, variant, options] : ways()) {
      const Results result = run(program, false, arrays, variant, options);
      if (first.empty()) first = result.y;
      EXPECT_EQ(result.y, first) << name << (half ? " bf16" : "") << " took other branches";
      double along_v = 0;
      for (std::size_t k = 0; k < result.d_v.size(); ++k) along_v += double(result.d_v[k]) * arrays.v[k];
      EXPECT_EQ(along_v, total(result.y)) << name << (half ? " bf16" : "") << ": not the gradient of what was run";
    }
  }
}

TEST_P(Rounding, OfLargestValuesLosesNoGradient) {
  Arrays arrays(GetParam());
  for (const bool half : {false, true}) {
    const lg::Program program = half ? largest<lg::half>(GetParam()) : largest<float>(GetParam());
    std::vector<float> y, d_v;
    for (const auto& [name, variant, options] : ways()) {
      const Results result = run(program, true, arrays, variant, options);
      if (y.empty()) y = result.y, d_v = result.d_v;
      EXPECT_EQ(result.y, y) << name << (half ? " f16" : "");
      EXPECT_EQ(result.d_v, d_v) << name << (half ? " f16" : "") << ": other elements are taken for the largest";
      EXPECT_EQ(total(result.d_v), rows) << name << (half ? " f16" : "") << ": rows without a gradient";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Rounding, testing::Range(1u, 5u),
                         [](const auto& seed) { return "Seed" + std::to_string(seed.param); });

}  // namespace
}  // namespace loopgrad::test

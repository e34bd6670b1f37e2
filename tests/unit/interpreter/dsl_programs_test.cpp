// Programs as users write them, against plain C++, in every mode.
#include "tests/unit/interpreter/programs.h"

#include <loopgrad/program.h>

#include <cmath>
#include <random>

namespace loopgrad::test {
namespace {

namespace lg = loopgrad;

/// Named arrays with seeded contents, given to a program in the types that a mode wants.
class Data {
 public:
  HostArray& add(const std::string& name, ScalarType type, std::vector<std::int64_t> shape) {
    HostArray& array = arrays_[name] = HostArray(type, std::move(shape));
    for (std::int64_t k = 0; k < array.size(); ++k) array.set(k, is_float(type) ? uniform_(random_) : 0);
    return array;
  }
  double get(const std::string& name, std::int64_t index) const { return arrays_.at(name).get(index); }

  /// A run in one of four modes, on copies; the results.
  Data run_in(const lg::Program& program, bool f64, bool is_checked) const {
    Data copy;
    Arguments arguments;
    for (const auto& [name, array] : arrays_) {
      const ScalarType type = f64 && is_float(array.type()) ? ScalarType::F64 : array.type();
      HostArray& to = copy.arrays_[name] = HostArray(type, array.shape());
      for (std::int64_t k = 0; k < array.size(); ++k) to.set(k, array.get(k));
      arguments[name] = to.view();
    }
    backend::InterpreterOptions options = is_checked ? checked() : backend::InterpreterOptions{};
    options.f64 = f64;
    options.trap_nan = is_checked;
    run(program.ir(), arguments, options);
    return copy;
  }

  /// Runs in all modes and compares `name` with `expected(index)`, computed in double.
  template <class Expected>
  void expect(const lg::Program& program, const std::string& name, Expected&& expected) const {
    for (const bool f64 : {false, true}) {
      for (const bool is_checked : {false, true}) {
        const Data result = run_in(program, f64, is_checked);
        for (std::int64_t k = 0; k < arrays_.at(name).size(); ++k) {
          ASSERT_NEAR(result.get(name, k), expected(k), f64 ? 1e-12 : 1e-5) << name << " " << k << " f64 " << f64;
        }
      }
    }
  }

 private:
  std::map<std::string, HostArray> arrays_;
  std::mt19937 random_{7};
  std::uniform_real_distribution<double> uniform_{0.1, 1.0};
};

TEST(DslPrograms, Convolution) {
  lg::ProgramBuilder p("conv1d");
  auto n = p.size("n"), k = p.size("k");
  auto x = p.input<float>("x", {n + k - 1});
  auto w = p.input<float>("w", {k});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    y(i) = 0.0f;
    for (auto j : p.loop("j", 0, k)) y(i) += x(i + j) * w(j);
  }
  Data data;
  data.add("x", ScalarType::F32, {12});
  data.add("w", ScalarType::F32, {3});
  data.add("y", ScalarType::F32, {10});
  data.expect(p.build(), "y", [&](std::int64_t i) {
    double sum = 0;
    for (int j = 0; j < 3; ++j) sum += data.get("x", i + j) * data.get("w", j);
    return sum;
  });
}

TEST(DslPrograms, SoftmaxOverCsrRows) {
  lg::ProgramBuilder p("edge_softmax");
  auto rows = p.size("rows"), edges = p.size("edges"), nodes = p.size("nodes");
  auto ptr = p.input<std::int32_t>("ptr", {rows + 1});
  auto col = p.input<std::int32_t>("col", {edges});
  auto h = p.input<float>("h", {nodes});
  auto y = p.output<float>("y", {rows});
  p.csr(ptr, edges);
  p.in_range(col, 0, nodes);
  for (auto v : p.loop("v", 0, rows)) {
    auto top = p.scalar<float>("top"), sum = p.scalar<float>("sum");
    top = -1e30f;
    sum = 0.0f;
    y(v) = 0.0f;
    for (auto e : p.loop("e", ptr(v), ptr(v + 1))) top.max_with(h(col(e)));
    for (auto e : p.loop("e", ptr(v), ptr(v + 1))) {
      auto weight = p.scalar<float>("weight");
      weight = exp(h(col(e)) - top);
      sum += weight;
      y(v) += weight * h(col(e));
    }
    p.when(sum > 0, [&] { y(v) /= sum; });
  }
  const std::vector<std::int32_t> starts = {0, 2, 2, 5}, columns = {1, 3, 0, 2, 3};
  Data data;
  HostArray &ptr_data = data.add("ptr", ScalarType::I32, {4}), &col_data = data.add("col", ScalarType::I32, {5});
  for (int k = 0; k < 4; ++k) ptr_data.set(k, starts[static_cast<std::size_t>(k)]);
  for (int k = 0; k < 5; ++k) col_data.set(k, columns[static_cast<std::size_t>(k)]);
  data.add("h", ScalarType::F32, {4});
  data.add("y", ScalarType::F32, {3});
  data.expect(p.build(), "y", [&](std::int64_t v) {
    double sum = 0, weighted = 0;
    for (int e = starts[static_cast<std::size_t>(v)]; e < starts[static_cast<std::size_t>(v) + 1]; ++e) {
      const double value = data.get("h", columns[static_cast<std::size_t>(e)]);
      sum += std::exp(value);
      weighted += std::exp(value) * value;
    }
    return sum > 0 ? weighted / sum : 0;
  });
}

TEST(DslPrograms, CholeskyInPlace) {
  lg::ProgramBuilder p("cholesky");
  auto n = p.size("n");
  auto a = p.inout<float>("a", {n, n});
  for (auto j : p.loop("j", 0, n)) {
    for (auto k : p.loop("k", 0, j)) a(j, j) -= a(j, k) * a(j, k);
    a(j, j) = sqrt(a(j, j));
    for (auto i : p.loop("i", j + 1, n)) {
      for (auto k : p.loop("k", 0, j)) a(i, j) -= a(i, k) * a(j, k);
      a(i, j) /= a(j, j);
    }
  }
  constexpr int size = 5;
  Data data;
  HostArray& matrix = data.add("a", ScalarType::F32, {size, size});
  double expected[size][size];
  for (int i = 0; i < size; ++i) {
    matrix.set(i * size + i, 6);
    for (int j = 0; j < size; ++j) expected[i][j] = matrix.get(i * size + j);
  }
  for (int j = 0; j < size; ++j) {
    for (int k = 0; k < j; ++k) expected[j][j] -= expected[j][k] * expected[j][k];
    expected[j][j] = std::sqrt(expected[j][j]);
    for (int i = j + 1; i < size; ++i) {
      for (int k = 0; k < j; ++k) expected[i][j] -= expected[i][k] * expected[j][k];
      expected[i][j] /= expected[j][j];
    }
  }
  data.expect(p.build(), "a", [&](std::int64_t k) { return expected[k / size][k % size]; });
}

TEST(DslPrograms, NewtonWithABoundedWhile) {
  lg::ProgramBuilder p("newton");
  auto n = p.size("n");
  auto a = p.input<float>("a", {n});
  auto root = p.output<float>("root", {n});
  for (auto i : p.loop("i", 0, n)) {
    root(i) = 1.0f;
    for ([[maybe_unused]] auto t :
         p.loop_while("t", 50, [&](const lg::Value&) { return abs(root(i) * root(i) - a(i)) > 1e-6f; })) {
      root(i) = 0.5f * (root(i) + a(i) / root(i));
    }
  }
  Data data;
  data.add("a", ScalarType::F32, {6});
  data.add("root", ScalarType::F32, {6});
  const lg::Program program = p.build();
  for (const bool is_checked : {false, true}) {
    const Data result = data.run_in(program, false, is_checked);
    for (int i = 0; i < 6; ++i) EXPECT_NEAR(result.get("root", i), std::sqrt(data.get("a", i)), 1e-5);
  }
}

TEST(DslPrograms, ErrorsPointAtTheUsersLine) {
  lg::ProgramBuilder p("off_by_one");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n});
  auto y = p.output<float>("y", {n});
  std::uint32_t line_of_load = 0;
  for (auto i : p.loop("i", 0, n)) {
    line_of_load = __LINE__ + 1;
    y(i) = x(i + 1);
  }
  const lg::Program program = p.build();
  std::vector<float> from(4), to(4);
  const ErrorInfo error = error_of<RuntimeError>([&] {
    run(program.ir(), {{"x", view(from.data(), {4})}, {"y", view(to.data(), {4})}}, checked());
  });
  EXPECT_EQ(error.code, ErrorCode::BadIndex);
  EXPECT_EQ(error.location.str(), "dsl_programs_test.cpp:" + std::to_string(line_of_load));
  EXPECT_CONTAINS(error.message, "index 4 is outside of [0, 4), dimension 0 of x at i = 3");
  EXPECT_CONTAINS(std::string(RuntimeError(error).what()), "program 'off_by_one': loop 'i': array 'x': index 4");
}

}  // namespace
}  // namespace loopgrad::test

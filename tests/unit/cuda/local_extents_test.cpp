// Local arrays whose extents loops or data decide: rows of a triangle, and of a graph.
#include "backends/cuda/nvrtc.h"
#include "tests/support/test_cache.h"
#include "tests/unit/cuda/mapped.h"

#include <loopgrad/compile.h>
#include <loopgrad/error.h>

#include <cstdlib>

namespace loopgrad::transforms {
namespace {

/// y[i] = sum over j <= i of (x[j]*x[i])^2, where a row of i + 1 products is kept.
Program triangle(bool starts_late) {
  ProgramBuilder p("triangle");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    const Value first = starts_late ? i / 2 : Value(0);
    auto row = p.local<float>("row", {i - first + 1});
    for (auto j : p.loop("j", first, i + 1)) row(j - first) = x(j) * x(i);
    y(i) = 0.0f;
    for (auto j : p.loop("k", 0, i - first + 1)) y(i) += row(j) * row(j);
  }
  return p.build();
}

float triangle_sum(const std::vector<float>& x, std::size_t i, bool starts_late) {
  float sum = 0;
  for (std::size_t j = starts_late ? i / 2 : 0; j <= i; ++j) sum += x[j] * x[i] * x[j] * x[i];
  return sum;
}

/// The adjoints of all rows are kept, each with room for the longest, so that d_x is gathered.
void expect_gradient(const Program& program, bool starts_late) {
  const Gradient gradient = differentiate(program, {.wrt = {"x"}});
  const LoweredProgram backward = mapped_to_small_gpu(gradient.backward);
  EXPECT_NE(backward.text.find("local f32 d_row_all[n, n]"), std::string::npos) << backward.text;
  const std::string source = cuda_of(backward);
  if (backend::has_nvrtc()) {
    EXPECT_NO_THROW(backend::compile_cubin(source, "sm_80", "triangle_backward"));
  }
  for (const std::int64_t n : {0, 1, 2, 37}) expect_same_results(backward, {{"n", n}});
  const GradientExecutable run =
      compile(gradient, {.target = Target::Interpreter, .checked = true, .gpu_mapped = true});
  const std::int64_t n = 11;
  std::vector<float> x(n), y(n), d_y(n, 1), d_x(n);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 0.25f + 0.1f * static_cast<float>(i % 7);
  Arguments arguments = {{"x", view(x.data(), {n})}, {"y", view(y.data(), {n})}};
  run.forward(arguments);
  arguments["d_y"] = view(d_y.data(), {n});
  arguments["d_x"] = view(d_x.data(), {n});
  run.backward(arguments);
  const auto total = [&] {
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += static_cast<double>(triangle_sum(x, i, starts_late));
    return sum;
  };
  for (std::size_t k = 0; k < x.size(); ++k) {
    const float middle = x[k], step = 0.01f;
    x[k] = middle + step;
    const double above = total();
    x[k] = middle - step;
    const double below = total();
    x[k] = middle;
    EXPECT_NEAR(d_x[k], (above - below) / (2 * static_cast<double>(step)), 5e-3) << k;
  }
}

TEST(LocalExtents, OfATriangle) {
  for (const bool starts_late : {false, true}) {
    const Program program = triangle(starts_late);
    EXPECT_NE(cuda_of(mapped_to_small_gpu(program)).find("row"), std::string::npos);
    for (const Variant variant : {Variant::Restructured, Variant::Atomic}) {
      const Gradient gradient = differentiate(program, {.wrt = {"x"}, .of = {}, .variant = variant});
      EXPECT_NO_THROW(cuda_of(mapped_to_small_gpu(gradient.forward)));
    }
    expect_gradient(program, starts_late);
    for (const CompileOptions& options :
         {CompileOptions{}, CompileOptions{.target = Target::Interpreter, .checked = true, .gpu_mapped = true}}) {
      const Executable run = compile(program, options);
      const std::int64_t n = 37;
      std::vector<float> x(n), y(n);
      for (std::int64_t i = 0; i < n; ++i) x[static_cast<std::size_t>(i)] = 0.1f * static_cast<float>(i % 7);
      run.run({{"x", view(x.data(), {n})}, {"y", view(y.data(), {n})}});
      for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], triangle_sum(x, i, starts_late), 1e-5) << i;
    }
  }
}

/// What the hint about rows of ptr(v + 1) - ptr(v) elements says.
Program rows_of_a_graph() {
  ProgramBuilder p("rows");
  auto rows = p.size("rows"), count = p.size("count"), longest = p.size("longest");
  auto ptr = p.input<std::int32_t>("ptr", {rows + 1});
  p.csr(ptr, count);
  auto x = p.input<float>("x", {count});
  auto y = p.output<float>("y", {rows});
  for (auto v : p.loop("v", 0, rows)) {
    auto row = p.local<float>("row", {longest});
    for (auto e : p.loop("e", ptr(v), ptr(v + 1))) row(e - ptr(v)) = x(e) * x(e);
    y(v) = 0.0f;
    for (auto e : p.loop("f", ptr(v), ptr(v + 1))) y(v) += row(e - ptr(v)) * row(ptr(v + 1) - 1 - e);
  }
  return p.build();
}

TEST(LocalExtents, OfRowsOfAGraph) {
  const Program program = rows_of_a_graph();
  EXPECT_NO_THROW(cuda_of(mapped_to_small_gpu(program)));
  for (const CompileOptions& options :
       {CompileOptions{}, CompileOptions{.target = Target::Interpreter, .gpu_mapped = true}}) {
    const GradientExecutable g = compile_gradient(program, {.wrt = {"x"}}, options);
    std::vector<std::int32_t> ptr = {0, 2, 2, 5};
    std::vector<float> x = {1, 2, 3, 4, 5}, y(3), d_x(5), d_y(3, 1);
    Arguments arguments = {{"ptr", view(ptr.data(), {4})}, {"x", view(x.data(), {5})}, {"y", view(y.data(), {3})}};
    g.forward(arguments, {{"longest", 3}});
    EXPECT_EQ(y, (std::vector<float>{8, 0, 706}));
    const Arguments primal = arguments;
    arguments["d_x"] = view(d_x.data(), {5});
    arguments["d_y"] = view(d_y.data(), {3});
    g.backward(arguments, {{"longest", 3}});
    EXPECT_EQ(d_x, (std::vector<float>{16, 8, 300, 256, 180}));
    try {
      g.forward(primal, {{"longest", 2}});
      ADD_FAILURE() << "a row is longer";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("index 2 is outside of [0, 2)"), std::string::npos) << error.what();
    }
  }
}

TEST(LocalExtents, ThatDataDecideAreRefusedWithWhatToWriteInstead) {
  ProgramBuilder p("rows");
  auto rows = p.size("rows"), count = p.size("count");
  auto ptr = p.input<std::int32_t>("ptr", {rows + 1});
  p.csr(ptr, count);
  for (auto v : p.loop("v", 0, rows)) {
    try {
      p.local<float>("row", {ptr(v + 1) - ptr(v)});
      ADD_FAILURE() << "not refused";
    } catch (const UsageError& error) {
      EXPECT_EQ(error.info().array, "row");
      EXPECT_NE(error.hint().find("p.size"), std::string::npos) << error.what();
      EXPECT_NE(error.hint().find("largest"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace loopgrad::transforms

// Products of matrices done by a library, against the loops that they stand for.
#include "tests/unit/openmp/kernels.h"

#include "backends/interpreter/interpreter.h"
#include "backends/runtime/blas_library.h"
#include "dsl/ir/printer.h"
#include "tests/error/expect_error.h"
#include "tests/unit/transforms/passes.h"
#include "transforms/pipeline.h"

#include <dlfcn.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>

namespace loopgrad::test {
namespace {

using Buffers = std::map<std::string, HostArray>;

/// Sets an environment variable for a test.
class Setting {
 public:
  Setting(const char* name, const std::string& value) : name_(name) { ::setenv(name, value.c_str(), 1); }
  ~Setting() { ::unsetenv(name_); }

 private:
  const char* name_;
};

/// A BLAS that counts and checks its calls.
class CountingBlas {
 public:
  CountingBlas() : calls_before_(number("counting_blas_calls")), refused_before_(number("counting_blas_refused")) {}
  int calls() const { return number("counting_blas_calls") - calls_before_; }
  int refused() const { return number("counting_blas_refused") - refused_before_; }

 private:
  static int number(const char* name) {
    static void* const library = ::dlopen(LOOPGRAD_COUNTING_BLAS, RTLD_NOW);
    return reinterpret_cast<int (*)()>(::dlsym(library, name))();
  }
  Setting library_{"LOOPGRAD_BLAS", LOOPGRAD_COUNTING_BLAS};
  int calls_before_, refused_before_;
};

ir::Program lowered(const lg::Program& program) {
  Report report;
  return transforms::lower_for(program.ir(), {}, report).program;
}

Buffers inputs_for(const ir::Program& program, const Sizes& sizes, bool f64) {
  backend::SizeValues values;
  for (const ir::Symbol& size : program.sizes) values[size] = sizes.at(size.name);
  Buffers buffers;
  for (const ir::Array& array : program.arrays) {
    HostArray& buffer = buffers[array->name] =
        HostArray(f64 ? ScalarType::F64 : array->type, backend::shape_of(array, values));
    const auto content = numbers(buffer.size(), static_cast<std::uint32_t>(array->name[0]));
    for (std::int64_t k = 0; k < buffer.size(); ++k) buffer.set(k, content[static_cast<std::size_t>(k)]);
  }
  return buffers;
}

Arguments views_of(Buffers& buffers) {
  Arguments arguments;
  for (auto& [name, buffer] : buffers) arguments[name] = buffer.view();
  return arguments;
}

Buffers run_stage(const backend::Stage& stage, const Sizes& sizes) {
  Buffers buffers = inputs_for(stage.program(), sizes, false);
  stage.run(stage.bind(views_of(buffers), sizes), {}, nullptr);
  return buffers;
}

Buffers interpreted(const lg::Program& program, const Sizes& sizes) {
  Buffers buffers = inputs_for(program.ir(), sizes, true);
  const auto bound = backend::bind(program.ir(), views_of(buffers), sizes, {.all_f64 = true});
  backend::interpret(program.ir(), bound, {.f64 = true, .checked = true});
  return buffers;
}

void expect_near(Buffers& actual, Buffers& expected, const std::string& what) {
  for (auto& [name, buffer] : expected)
    for (std::int64_t k = 0; k < buffer.size(); ++k)
      ASSERT_NEAR(actual.at(name).get(k), buffer.get(k), 2e-5 * (1 + std::abs(buffer.get(k))))
          << name << "[" << k << "] of " << what;
}

bool same_bits(Buffers& a, Buffers& b) {
  for (auto& [name, buffer] : a)
    if (std::memcmp(buffer.view().data, b.at(name).view().data, static_cast<std::size_t>(buffer.bytes())) != 0)
      return false;
  return true;
}

template <class T>
lg::Program product(const char* name) {
  lg::ProgramBuilder p(name);
  auto m = p.size("m"), n = p.size("n"), k = p.size("k");
  auto x = p.input<T>("x", {m, k}), y = p.input<T>("y", {k, n});
  auto z = p.output<T>("z", {m, n});
  for (auto i : p.loop("i", 0, m))
    for (auto j : p.loop("j", 0, n)) {
      z(i, j) = 0.0f;
      for (auto l : p.loop("l", 0, k)) z(i, j) += x(i, l) * y(l, j);
    }
  return p.build();
}

/// A product of matrices in some loop order, with some layouts, offset and sign.
class RandomProduct {
 public:
  explicit RandomProduct(std::mt19937& random) : random_(random) {}

  lg::Program build(const std::string& name) {
    lg::ProgramBuilder p(name);
    const std::vector<lg::Value> extents = {p.size("m"), p.size("n"), p.size("k"), p.size("batch")};
    const bool batched = pick(2), negative = pick(2), batched_b = batched && pick(2);
    const int shift = pick(3);
    // Which loops index the arrays: c by m n, a by m k, b by k n, in either order; a batch in front.
    const auto axes_c = layout(0, 1, batched), axes_a = layout(0, 2, batched), axes_b = layout(2, 1, batched_b);
    auto shape = [&](const std::vector<std::size_t>& axes, int add) {
      std::vector<lg::Value> out;
      for (const std::size_t axis : axes) out.push_back(extents[axis] + add);
      return out;
    };
    auto c = p.inout<float>("c", shape(axes_c, shift));
    auto a = p.input<float>("a", shape(axes_a, 2 * shift)), b = p.input<float>("b", shape(axes_b, 0));
    std::vector<std::size_t> order = {0, 1, 2};
    if (batched) order.push_back(3);
    std::shuffle(order.begin(), order.end(), random_);
    std::vector<lg::Value> at(4, lg::Value(0));
    std::function<void(std::size_t)> nest = [&](std::size_t depth) {
      if (depth < order.size()) {
        const std::size_t axis = order[depth];
        for (auto i : p.loop("i" + std::to_string(axis), 0, extents[axis])) {
          at[axis] = i;
          nest(depth + 1);
        }
        return;
      }
      const lg::Value value = element(a, axes_a, at, 2 * shift) * element(b, axes_b, at, 0);
      element(c, axes_c, at, shift) += negative ? -value : value;
    };
    nest(0);
    return p.build();
  }

 private:
  int pick(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }
  std::vector<std::size_t> layout(std::size_t first, std::size_t second, bool batched) {
    std::vector<std::size_t> axes = {first, second};
    if (pick(2)) std::swap(axes[0], axes[1]);
    if (batched) axes.insert(axes.begin(), 3);
    return axes;
  }
  static lg::Element element(const lg::ArrayHandle& array, const std::vector<std::size_t>& axes,
                             const std::vector<lg::Value>& at, int add) {
    auto index = [&](std::size_t d) { return at[axes[d]] + add; };
    return axes.size() == 2 ? array(index(0), index(1)) : array(index(0), index(1), index(2));
  }
  std::mt19937& random_;
};

TEST(ContractionsOpenMP, LibraryAndLoopsAgreeOnRandomProducts) {
  std::mt19937 random(3);
  std::vector<lg::Program> programs;
  std::vector<ir::Program> lower;
  for (int k = 0; k < 24; ++k) {
    programs.push_back(RandomProduct(random).build("product_" + std::to_string(k)));
    lower.push_back(lowered(programs.back()));
  }
  const backend::Build build = backend::build_stages(lower, {});
  const Setting always("LOOPGRAD_LEAST_PRODUCT", "0");
  for (std::size_t k = 0; k < lower.size(); ++k) {
    for (const Sizes& sizes :
         {Sizes{{"m", 5}, {"n", 7}, {"k", 4}, {"batch", 3}}, Sizes{{"m", 1}, {"n", 6}, {"k", 1}, {"batch", 1}},
          Sizes{{"m", 3}, {"n", 1}, {"k", 2}, {"batch", 2}}, Sizes{{"m", 2}, {"n", 3}, {"k", 0}, {"batch", 2}},
          Sizes{{"m", 300}, {"n", 140}, {"k", 3}, {"batch", 2}}}) {
      const backend::Stage& stage = build.stages[k];
      Buffers expected = interpreted(programs[k], sizes);
      {
        const CountingBlas blas;
        Buffers by_library = run_stage(stage, sizes);
        EXPECT_EQ(blas.refused(), 0) << ir::print(lower[k]);
        EXPECT_EQ(blas.calls() > 0, sizes.at("k") > 0) << ir::print(lower[k]);
        expect_near(by_library, expected, ir::print(lower[k]));
      }
      const Setting none("LOOPGRAD_BLAS", "none");
      Buffers by_loops = run_stage(stage, sizes);
      expect_near(by_loops, expected, ir::print(lower[k]));
    }
  }
}

/// Rows of x that a product takes one after the other overlap: two loops must not run through them as one.
lg::Program channels() {
  lg::ProgramBuilder p("channels");
  auto n = p.size("n"), taps = p.size("taps"), in = p.size("in"), out = p.size("out");
  auto x = p.input<float>("x", {n + taps, in}), w = p.input<float>("w", {taps, in, out});
  auto y = p.inout<float>("y", {n, out});
  for (auto i : p.loop("i", 0, n))
    for (auto o : p.loop("o", 0, out))
      for (auto t : p.loop("t", 0, taps))
        for (auto c : p.loop("c", 0, in)) y(i, o) += x(i + t, c) * w(t, c, o);
  return p.build();
}

TEST(ContractionsOpenMP, OverlappingRows) {
  const ir::Program program = lowered(channels());
  const backend::Build build = backend::build_stages({program}, {});
  const Sizes sizes = {{"n", 9}, {"taps", 3}, {"in", 4}, {"out", 5}};
  const Setting always("LOOPGRAD_LEAST_PRODUCT", "0");
  const CountingBlas blas;
  Buffers expected = interpreted(channels(), sizes), actual = run_stage(build.stages.front(), sizes);
  expect_near(actual, expected, ir::print(program));
  EXPECT_EQ(blas.calls(), 3);
}

TEST(ContractionsOpenMP, ALeastProductThatIsNoNumberIsRefused) {
  const backend::Build build = backend::build_stages({lowered(product<double>("least"))}, {});
  const Sizes sizes = {{"m", 33}, {"n", 32}, {"k", 32}};
  for (const char* least : {"abc", "12x", "nan"}) {
    const Setting setting("LOOPGRAD_LEAST_PRODUCT", least);
    expect_error<UsageError>(ErrorCode::BadInput, {"LOOPGRAD_LEAST_PRODUCT", least},
                             [&] { run_stage(build.stages.front(), sizes); });
  }
  const Setting never("LOOPGRAD_LEAST_PRODUCT", "inf");
  const CountingBlas blas;
  run_stage(build.stages.front(), sizes);
  EXPECT_EQ(blas.calls(), 0);
}

TEST(ContractionsOpenMP, ResultIsOverwrittenAndSmallProductsAreLeftToTheLoops) {
  const ir::Program program = lowered(product<double>("overwritten"));
  const backend::Build build = backend::build_stages({program}, {});
  const Sizes sizes = {{"m", 33}, {"n", 32}, {"k", 32}};
  Buffers buffers = inputs_for(program, sizes, false), expected = interpreted(product<double>("overwritten"), sizes);
  for (std::int64_t k = 0; k < buffers.at("z").size(); ++k) buffers.at("z").set(k, NAN);
  const CountingBlas blas;
  const backend::Stage& stage = build.stages.front();
  stage.run(stage.bind(views_of(buffers), sizes), {}, nullptr);
  EXPECT_EQ(blas.calls(), 1);
  expect_near(buffers, expected, "overwritten");
  const Sizes small = {{"m", 31}, {"n", 32}, {"k", 32}};
  run_stage(stage, small);
  EXPECT_EQ(blas.calls(), 1);
}

TEST(ContractionsOpenMP, SameBitsForAnyNumberOfThreads) {
  const ir::Program program = lowered(product<float>("threads"));
  for (const std::string library : {"", LOOPGRAD_COUNTING_BLAS}) {
    const Setting chosen("LOOPGRAD_BLAS", library);
    if (!backend::BlasSession().kernel()) continue;  // there is no OpenBLAS here
    for (const Sizes& sizes : {Sizes{{"m", 700}, {"n", 300}, {"k", 40}}, Sizes{{"m", 40}, {"n", 33}, {"k", 2000}}}) {
      std::vector<Buffers> results;
      for (const int threads : {1, 2, 3, 7}) {
        CompileOptions options;
        options.threads = threads;
        results.push_back(run_stage(backend::build_stages({program}, options).stages.front(), sizes));
      }
      for (Buffers& result : results) EXPECT_TRUE(same_bits(result, results.front())) << library;
    }
  }
}

TEST(ContractionsOpenMP, TheLibraryKeepsItsNumberOfThreads) {
  ::unsetenv("LOOPGRAD_BLAS");
  void* const library = ::dlopen("libopenblas.so.0", RTLD_NOW);
  if (!library) GTEST_SKIP() << "there is no OpenBLAS here";
  const auto set = reinterpret_cast<void (*)(int)>(::dlsym(library, "openblas_set_num_threads"));
  const auto get = reinterpret_cast<int (*)()>(::dlsym(library, "openblas_get_num_threads"));
  const int before = get();
  set(2);
  const int due = get();
  {
    const backend::BlasSession outer;
    EXPECT_EQ(get(), 1);
    { const backend::BlasSession inner; }
    EXPECT_EQ(get(), 1);
  }
  EXPECT_EQ(get(), due);
  set(before);
}

/// A product of matrices takes a factor; whatever it is, it is printed as a literal of the element's type.
TEST(Contractions, TakeFactorsThatAreNoNumbers) {
  for (const double factor : {double(NAN), double(INFINITY), -double(INFINITY), 1e300, 0.1}) {
    lg::ProgramBuilder p("scaled");
    auto n = p.size("n");
    auto a = p.input<float>("a", {n, n}), b = p.input<float>("b", {n, n});
    auto c = p.output<float>("c", {n, n});
    for (auto i : p.loop("i", 0, n))
      for (auto j : p.loop("j", 0, n)) {
        c(i, j) = 0.0f;
        for (auto k : p.loop("k", 0, n)) c(i, j) += factor * a(i, k) * b(k, j);
      }
    const Executable program = compile(p.build());
    EXPECT_NE(program.source().find("multiply<float>"), std::string::npos) << program.source();
    std::vector<float> A(48 * 48, 1.0f), C(48 * 48);
    const View matrix = view(A.data(), {48, 48});
    program.run({{"a", matrix}, {"b", matrix}, {"c", view(C.data(), {48, 48})}});
    const float want = 48 * static_cast<float>(factor);
    if (std::isnan(want)) EXPECT_TRUE(std::isnan(C[100]));
    else if (std::isinf(want)) EXPECT_EQ(C[100], want);
    else EXPECT_NEAR(C[100], want, 1e-4);
  }
}

}  // namespace
}  // namespace loopgrad::test

// The names of programs, arrays, sizes, loops and locals are the user's: whatever they are, generated code compiles.
#include "tests/unit/openmp/kernels.h"

#include <loopgrad/loopgrad.h>

#include "backends/c_text/prelude.h"
#include "backends/cuda/emitter.h"
#include "tests/unit/transforms/passes.h"

#include <cctype>

namespace loopgrad::test {
namespace {

/// Keywords, macros (of headers that generated code includes and of compilers), functions of libraries, helpers and
/// parameters of generated code, names that C reserves, and some that would become those with an underscore less.
constexpr const char* unlucky[] = {"for",
                                   "double",
                                   "operator",
                                   "class",
                                   "new",
                                   "this",
                                   "T",
                                   "restrict",
                                   "M_PI",
                                   "EXIT_SUCCESS",
                                   "NULL",
                                   "linux",
                                   "unix",
                                   "I",
                                   "CHAR_BIT",
                                   "INFINITY",
                                   "NAN",
                                   "INT32_MIN",
                                   "INT64_C",
                                   "assert",
                                   "errno",
                                   "stdin",
                                   "exp",
                                   "log",
                                   "round",
                                   "select",
                                   "abs",
                                   "pow",
                                   "malloc",
                                   "free",
                                   "exit",
                                   "main",
                                   "memcpy",
                                   "y0",
                                   "gamma",
                                   "signgam",
                                   "std",
                                   "size_t",
                                   "int64_t",
                                   "uint64_t",
                                   "floor_div",
                                   "min_of",
                                   "to_integer",
                                   "abs_of",
                                   "exp_f32",
                                   "fused",
                                   "Scratch",
                                   "Stack",
                                   "stack",
                                   "args",
                                   "threads",
                                   "workspace",
                                   "home",
                                   "status",
                                   "num_threads",
                                   "stream",
                                   "multiply",
                                   "gemm",
                                   "blas",
                                   "loopgrad_ok",
                                   "loopgrad_stack",
                                   "omp_get_max_threads",
                                   "GOMP_parallel",
                                   "_Exit",
                                   "__FILE__",
                                   "__x86_64_",
                                   "__LINE_",
                                   "_",
                                   "__",
                                   "_1",
                                   "x_",
                                   "x__",
                                   "d_x",
                                   "_ZGVdN4v_exp",
                                   "threadIdx",
                                   "blockIdx",
                                   "warpSize",
                                   "atomicAdd",
                                   "__global__",
                                   "index_t",
                                   "one_turn",
                                   "block_number",
                                   "dynamic_shared",
                                   "wrapping_add",
                                   "power",
                                   "powf",
                                   "float4",
                                   "run_malloc",
                                   "lane_sums",
                                   "totals",
                                   "popped",
                                   "extent",
                                   "i_end",
                                   "dgemm",
                                   "true",
                                   "bool"};

/// A program in which everything has such a name: `name` and those after it.
Program named(std::size_t first) {
  auto name = [&](std::size_t k) { return std::string(unlucky[(first + k) % std::size(unlucky)]); };
  ProgramBuilder p(name(0));
  auto n = p.size(name(1));
  auto x = p.input<double>(name(2), {n});
  auto y = p.inout<double>(name(3), {n});
  auto e = p.input<std::int32_t>(name(4), {n});
  auto all = p.local<double>(name(5), {n});
  for (auto i : p.loop(name(6), 0, n)) all(i) = exp(x(i)) + abs(min(x(i), 0.5)) + floor(x(i));
  for (auto i : p.loop(name(7), 0, n)) {
    auto row = p.local<double>(name(8), {n});
    auto s = p.scalar<double>(name(9));
    s = 0.0;
    for (auto j : p.loop(name(10), 0, n)) row(j) = all(j) * x(i) + pow(y(i), 2.0);
    for (auto j : p.loop(name(10), 0, n)) s += row(j) * tanh(x(j));
    y(i) = s + cast<double>(e(i) / 2 + cast<std::int32_t>(x(i)));
  }
  return p.build();
}

TEST(Names, OfAnyKindCompile) {
  const std::int64_t n = 5;
  for (std::size_t k = 0; k < std::size(unlucky); k += 11) {
    const Program program = named(k);
    const auto& arrays = program.ir().arrays;
    std::vector<double> x = {0.25, -1.5, 2, 0.75, 1}, results[2] = {{1, 2, 3, 4, 5}, {1, 2, 3, 4, 5}};
    std::vector<std::int32_t> e = {3, -3, 8, 1, 0};
    for (const Target target : {Target::Interpreter, Target::OpenMP}) {
      CompileOptions options;
      options.target = target;
      compile(program, options)
          .run({{arrays[0]->name, view(x.data(), {n})},
                {arrays[1]->name, view(results[target == Target::OpenMP].data(), {n})},
                {arrays[2]->name, view(e.data(), {n})}});
    }
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(results[1][i], results[0][i], 1e-12) << unlucky[k];
  }
}

/// Every name, without a compiler: what comes out is no name that anything else may have.
TEST(Names, EndInOneUnderscore) {
  for (const char* name : unlucky) {
    const std::string out = backend::generated_name(name);
    EXPECT_TRUE(std::isalpha(static_cast<unsigned char>(out.front()))) << out;
    EXPECT_EQ(out.back(), '_') << out;
    EXPECT_EQ(out.find("__"), std::string::npos) << out;
  }
  EXPECT_EQ(backend::generated_name("2d-blur"), "n2d_blur_");
  EXPECT_EQ(backend::generated_name("x"), "x_");
}

TEST(Names, ThatAreSpelledAlikeAreToldApart) {
  ProgramBuilder p("x");
  auto n = p.size("x_1");
  auto a = p.input<float>("x", {n}), b = p.input<float>("x_", {n}), c = p.input<float>("_x", {n});
  auto y = p.output<float>("x__", {n});
  for (auto i : p.loop("x", 0, n)) y(i) = a(i) + 2.0f * b(i) + 4.0f * c(i);
  std::vector<float> A = {1, 1}, B = {1, 2}, C = {0, 1}, Y(2);
  compile(p.build()).run({{"x", view(A.data(), {2})},
                          {"x_", view(B.data(), {2})},
                          {"_x", view(C.data(), {2})},
                          {"x__", view(Y.data(), {2})}});
  EXPECT_EQ(Y, (std::vector<float>{3, 9}));
}

}  // namespace
}  // namespace loopgrad::test

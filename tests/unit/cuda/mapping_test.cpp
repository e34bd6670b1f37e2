// Programs mapped to a GPU: what the mapping looks like, that it computes the same, and that the checked interpreter
// finds a missing barrier.
#include "backends/cuda/emitter.h"
#include "backends/interpreter/interpreter.h"
#include "dsl/ir/printer.h"
#include "dsl/ir/verifier.h"
#include "dsl/ir/visit.h"
#include "tests/unit/transforms/passes.h"

#include <loopgrad/loopgrad.h>

#include <gtest/gtest.h>

#include <numeric>

namespace lg = loopgrad;
using lg::ir::LoopMode;

namespace {

lg::ir::Program mapped(const lg::Program& program) {
  const lg::ir::Program result = lg::transforms::lowered_to_gpu(program.ir());
  lg::ir::verify(result, "lower_for");
  return result;
}

int count(const lg::ir::Program& program, LoopMode mode) {
  int found = 0;
  lg::ir::walk_stmts(program.body, [&](const lg::ir::Stmt& s) {
    const auto* loop = s.as<lg::ir::For>();
    found += loop && loop->mode == mode;
  });
  return found;
}

lg::Program scaled_grid() {
  lg::ProgramBuilder p("scaled_grid");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.input<float>("a", {n, m});
  auto b = p.output<float>("b", {n, m});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m)) b(i, j) = 2.0f * a(i, j);
  return p.build();
}

lg::Program normalised_rows() {
  lg::ProgramBuilder p("normalised_rows");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.input<float>("a", {n, m});
  auto b = p.output<float>("b", {n, m});
  for (auto i : p.loop("i", 0, n)) {
    auto sum = p.local<float>("sum");
    sum() = 0.0f;
    for (auto j : p.loop("j", 0, m)) sum() += a(i, j);
    for (auto j : p.loop("k", 0, m)) b(i, j) = a(i, j) / sum();
  }
  return p.build();
}

lg::Program total() {
  lg::ProgramBuilder p("total");
  auto n = p.size("n");
  auto a = p.input<float>("a", {n});
  auto s = p.output<float>("s", {});
  s() = 0.0f;
  for (auto i : p.loop("i", 0, n)) s() += a(i);
  return p.build();
}

/// Results of the interpreter on the program as a GPU would run it, checked for races.
std::vector<float> run_mapped(const lg::Program& program, const std::vector<float>& a, std::vector<std::int64_t> shape,
                              std::vector<std::int64_t> result_shape, const char* result) {
  std::vector<float> out(static_cast<std::size_t>(
      std::accumulate(result_shape.begin(), result_shape.end(), std::int64_t{1}, std::multiplies<>())));
  lg::CompileOptions options{.target = lg::Target::Interpreter, .checked = true, .gpu_mapped = true};
  compile(program, options).run({{"a", lg::view(a.data(), shape)}, {result, lg::view(out.data(), result_shape)}});
  return out;
}

std::vector<float> ramp(std::size_t n) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<float>(i % 17) + 1;
  return values;
}

TEST(Mapping, ANestOfParallelLoopsBecomesAGridOfBlocks) {
  const lg::ir::Program program = mapped(scaled_grid());
  EXPECT_EQ(count(program, LoopMode::Grid), 2);
  EXPECT_EQ(count(program, LoopMode::Threads), 2);
  EXPECT_EQ(count(program, LoopMode::Parallel), 0);
}

TEST(Mapping, TailsAreRightAtEverySize) {
  for (const auto& [n, m] : {std::pair{1, 1}, {3, 5}, {7, 300}, {65, 33}, {1, 257}, {0, 4}}) {
    const std::vector<float> a = ramp(static_cast<std::size_t>(n * m));
    const std::vector<float> b = run_mapped(scaled_grid(), a, {n, m}, {n, m}, "b");
    for (std::size_t i = 0; i < a.size(); ++i) ASSERT_EQ(b[i], 2 * a[i]) << n << " x " << m << ", element " << i;
  }
}

TEST(Mapping, AnElementTakesThePlaceOfTheOneThatItIsComputedFrom) {
  lg::ProgramBuilder p("waves");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.input<float>("a", {n, m});
  auto b = p.output<float>("b", {n, m});
  auto v = p.local<float>("v", {7, n, m});
  for (auto l : p.loop("l", 0, 2))
    for (auto i : p.loop("i", 0, n))
      for (auto j : p.loop("j", 0, m)) v(l, i, j) = a(i, j);
  for (auto t : p.loop("t", 1, 6))
    for (auto i : p.loop("i", 0, n))
      for (auto j : p.loop("j", 0, m)) {
        v(t + 1, i, j) = -v(t - 1, i, j);
        v(t + 1, i, j) += v(t, n - 1 - i, j);
        p.when(j >= 1, [&] { v(t + 1, i, j) += 0.5f * v(t, i, j - 1); });
      }
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m)) b(i, j) = v(6, i, j);
  const lg::Program program = p.build();
  lg::transforms::Machine machine = lg::transforms::gpu_machine();
  machine.most_in_place = 0;  // any number, where a GPU wants three levels
  lg::Report report;
  const lg::ir::Program two_levels = lg::transforms::lower_for(program.ir(), {.machine = machine}, report).program;
  EXPECT_NE(lg::ir::print(two_levels).find("v[2, n, m]"), std::string::npos);
  const std::vector<float> in = ramp(5 * 70), on_gpu = run_mapped(program, in, {5, 70}, {5, 70}, "b");
  std::vector<float> plain(in.size());
  lg::compile(program, {.target = lg::Target::Interpreter})
      .run({{"a", lg::view(in.data(), {5, 70})}, {"b", lg::view(plain.data(), {5, 70})}});
  EXPECT_EQ(on_gpu, plain);
}

TEST(Mapping, RowsAreSharedByTheThreadsOfABlock) {
  const lg::ir::Program program = mapped(normalised_rows());
  const std::string text = lg::ir::print(program);
  EXPECT_NE(text.find("grid for i in 0..n"), std::string::npos) << text;
  EXPECT_NE(text.find("sum_all += (block) sum_part"), std::string::npos) << text;
  const std::vector<float> a = ramp(5 * 1031);
  const std::vector<float> b = run_mapped(normalised_rows(), a, {5, 1031}, {5, 1031}, "b");
  for (std::size_t i = 0; i < 5; ++i) {
    const double sum =
        std::accumulate(a.begin() + static_cast<long>(1031 * i), a.begin() + static_cast<long>(1031 * (i + 1)), 0.0);
    for (std::size_t j = 0; j < 1031; ++j) ASSERT_NEAR(b[1031 * i + j], a[1031 * i + j] / sum, 1e-6);
  }
}

TEST(Mapping, ALongSumIsSharedByManyBlocks) {
  for (const std::int64_t n : {0, 1, 255, 5000}) {
    const std::vector<float> a = ramp(static_cast<std::size_t>(n));
    EXPECT_EQ(run_mapped(total(), a, {n}, {}, "s")[0], std::accumulate(a.begin(), a.end(), 0.0f)) << n;
  }
}

TEST(Mapping, BlocksHaveAsManyThreadsAsTheUserSays) {
  for (const int block : {32, 64, 1024}) {
    lg::CompileOptions options{.target = lg::Target::Interpreter, .checked = true, .gpu_mapped = true};
    options.threads_per_block = block;
    const std::vector<float> a = ramp(3 * 300);
    std::vector<float> b(a.size()), s(1);
    const lg::View in = lg::view(a.data(), {3, 300}), all = lg::view(a.data(), {900});
    compile(scaled_grid(), options).run({{"a", in}, {"b", lg::view(b.data(), {3, 300})}});
    for (std::size_t i = 0; i < a.size(); ++i) ASSERT_EQ(b[i], 2 * a[i]) << block << ", element " << i;
    compile(normalised_rows(), options).run({{"a", in}, {"b", lg::view(b.data(), {3, 300})}});
    ASSERT_NEAR(b[0], a[0] / std::accumulate(a.begin(), a.begin() + 300, 0.0), 1e-6);
    compile(total(), options).run({{"a", all}, {"s", lg::view(s.data(), {})}});
    EXPECT_EQ(s[0], std::accumulate(a.begin(), a.end(), 0.0f));
  }
}

TEST(Mapping, ABlockSizeThatNoDeviceHasIsRefused) {
  for (const int block : {-32, 1, 48, 2048}) {
    lg::CompileOptions options{.target = lg::Target::Interpreter, .gpu_mapped = true};
    options.threads_per_block = block;
    EXPECT_THROW(compile(scaled_grid(), options), lg::UsageError) << block;
  }
  lg::CompileOptions openmp;
  openmp.threads_per_block = 128;
  EXPECT_THROW(compile(scaled_grid(), openmp), lg::UsageError);
}

TEST(Mapping, ThreadsThatNeedABarrierBetweenThemAreARace) {
  using namespace lg::ir;
  // Each thread writes its element and reads its neighbour's: right only with a barrier in between.
  const Array a = make_array("a", lg::ScalarType::F32, {int_const(8)}, ArrayRole::Output, {});
  const Array b = make_array("b", lg::ScalarType::F32, {int_const(8)}, ArrayRole::Output, {});
  const Symbol t = make_symbol("t"), u = make_symbol("u"), g = make_symbol("g");
  auto program = [&](bool barrier) {
    const Expr next = binary(BinaryOp::Mod, var(barrier ? u : t) + int_const(1), int_const(8));
    const Stmt write = assign(a, {var(t)}, float_const(1, lg::ScalarType::F32));
    const Stmt read = assign(b, {var(barrier ? u : t)}, load(a, {next}));
    auto threads = [](const Symbol& i, Stmt body) {
      return for_loop(i, int_const(0), int_const(8), std::move(body), LoopMode::Threads);
    };
    const Stmt body = barrier ? block({threads(t, write), threads(u, read)}) : threads(t, block({write, read}));
    return lg::ir::Program{"p", {}, {a, b}, {}, for_loop(g, int_const(0), int_const(1), body, LoopMode::Grid), {}};
  };
  std::vector<float> x(8), y(8);
  auto run = [&](bool barrier) {
    const lg::ir::Program p = program(barrier);
    const auto binding = lg::backend::bind(p, {{"a", lg::view(x.data(), {8})}, {"b", lg::view(y.data(), {8})}}, {});
    lg::backend::InterpreterOptions options;
    options.checked = true;
    lg::backend::interpret(p, binding, options);
  };
  EXPECT_NO_THROW(run(true));
  EXPECT_THROW(run(false), lg::RuntimeError);
}

TEST(Mapping, ConstantsOf64BitsKeepThem) {
  lg::ProgramBuilder p("large");
  auto n = p.size("n");
  auto x = p.input<std::int64_t>("x", {n});
  auto y = p.inout<std::int64_t>("y", {n});
  for (auto i : p.loop("i", 0, n)) y(i) = min(x(i), std::int64_t{5000000000});
  const std::string code = lg::backend::emit_cuda({mapped(p.build())}).source();
  EXPECT_NE(code.find("int64_t(5000000000)"), std::string::npos) << code;
  EXPECT_EQ(code.find("index_t(5000000000)"), std::string::npos) << code;
}

/// Ten thousand steps of a large field are launched; of a few elements they are one block's.
TEST(Mapping, ManyStepsAreOneBlocksWhereThereIsLittleToDoAtOnce) {
  lg::ProgramBuilder p("steps");
  auto n = p.size("n"), m = p.size("m"), steps = p.size("steps");
  auto a = p.inout<float>("a", {n, m});
  auto b = p.inout<float>("b", {n, m});
  for ([[maybe_unused]] auto t : p.loop("t", steps)) {
    for (auto [i, j] : p.loop({"i", 1, n - 1}, {"j", m})) b(i, j) = a(i - 1, j) + a(i + 1, j);
    for (auto [i, j] : p.loop({"i", 1, n - 1}, {"j", m})) a(i, j) = 0.5f * b(i, j);
  }
  const std::string text = lg::ir::print(mapped(p.build()).body);
  EXPECT_NE(text.find("if steps <= 4096 || "), std::string::npos) << text;
  EXPECT_NE(text.find(" > 4096:"), std::string::npos) << text;
}

}  // namespace

// Sums that share what they load: each test fails without its part of the mechanism, and what it makes computes the
// same in the checked interpreter, at sizes that are multiples of nothing too.
#include "tests/unit/cuda/mapped.h"
#include "transforms/map/gpu/lockstep.h"
#include "transforms/map/gpu/register_tile.h"

#include <loopgrad/loopgrad.h>

namespace loopgrad::transforms {
namespace {

bool has(const LoweredProgram& result, const char* text) { return result.text.find(text) != std::string::npos; }

Program convolution() {
  ProgramBuilder p("convolution");
  auto n = p.size("n"), k = p.size("k"), c = p.size("c"), m = p.size("m"), r = p.size("r");
  auto x = p.input<double>("x", {n, c, m + r});
  auto w = p.input<double>("w", {k, c, r});
  auto y = p.output<double>("y", {n, k, m});
  for (auto b : p.loop("b", 0, n))
    for (auto l : p.loop("l", 0, k))
      for (auto j : p.loop("j", 0, m)) {
        y(b, l, j) = 0.0;
        for (auto i : p.loop("i", 0, c))
          for (auto s : p.loop("s", 0, r)) y(b, l, j) += x(b, i, j + s) * w(l, i, s);
      }
  return p.build();
}

Program distances_of_rows() {
  ProgramBuilder p("products_of_rows");
  auto n = p.size("n"), k = p.size("k"), m = p.size("m");
  auto a = p.input<double>("a", {n, m});
  auto b = p.input<double>("b", {k, m});
  auto c = p.inout<double>("c", {n, k});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, k))
      for (auto l : p.loop("l", 0, m)) c(i, j) += abs(a(i, l) - b(j, l));
  return p.build();
}

Program weights() {
  ProgramBuilder p("weights");
  auto n = p.size("n"), k = p.size("k"), c = p.size("c"), m = p.size("m"), r = p.size("r");
  auto x = p.input<double>("x", {n, c, m + r});
  auto d = p.input<double>("d", {n, k, m});
  auto w = p.output<double>("w", {k, c, r});
  for (auto l : p.loop("l", 0, k))
    for (auto i : p.loop("i", 0, c))
      for (auto s : p.loop("s", 0, r)) {
        w(l, i, s) = 0.0;
        for (auto b : p.loop("b", 0, n))
          for (auto j : p.loop("j", 0, m)) w(l, i, s) += d(b, l, j) * x(b, i, j + s);
      }
  return p.build();
}

Program distances() {
  ProgramBuilder p("product");
  auto n = p.size("n"), k = p.size("k"), m = p.size("m");
  auto a = p.input<double>("a", {n, k});
  auto b = p.input<double>("b", {k, m});
  auto c = p.inout<double>("c", {n, m});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m))
      for (auto l : p.loop("l", 0, k)) c(i, j) += abs(a(i, l) - b(l, j));
  return p.build();
}

TEST(RegisterTiles, AThreadTakesSumsThatShareWhatTheyLoad) {
  const LoweredProgram result = mapped_to_small_gpu(convolution());
  // 4 of b, whose loads are at neighbouring places, and 8 of l, whose loads all threads do at one place.
  EXPECT_TRUE(has(result, "n*k*m >= 32 && n >= 4 && k >= 8")) << result.text;
  EXPECT_TRUE(has(result, "if b + 3 < n:\n")) << result.text;
  EXPECT_TRUE(has(result, "if l + 7 < k:\n")) << result.text;
  EXPECT_FALSE(has(result, "j + 1 < m")) << result.text;
  for (const auto& [n_value, k_value, m_value] :
       {std::tuple{4, 8, 3}, {5, 9, 2}, {7, 15, 1}, {9, 8, 4}, {3, 8, 5}, {4, 7, 5}, {4, 8, 0}})
    expect_same_results(result, {{"n", n_value}, {"k", k_value}, {"c", 2}, {"m", m_value}, {"r", 3}});
  expect_same_results(result, {{"n", 4}, {"k", 8}, {"c", 0}, {"m", 3}, {"r", 3}});
}

TEST(RegisterTiles, ABlockTakesSumsThatShareWhatTheyLoad) {
  const LoweredProgram result = mapped_to_small_gpu(distances_of_rows());
  EXPECT_TRUE(has(result, "n*k >= 16 && n >= 4 && k >= 4")) << result.text;
  EXPECT_TRUE(has(result, "c_now_all += (block) c_now_part")) << result.text;
  const std::string code = cuda_of(result);
  EXPECT_NE(code.find("c_now_all_15_ += block_reduce<double>(c_now_part_15_"), std::string::npos) << code;
  // Rows are far apart, and each of them is read with wide accesses.
  EXPECT_NE(code.find("copy_four(a_wide_3_ + 0, &a_[i_3_ * m_ + l_start_])"), std::string::npos) << code;
  for (const auto& [n_value, k_value, m_value] : {std::tuple{4, 4, 70}, {5, 7, 33}, {6, 9, 1}, {4, 4, 0}, {3, 4, 5}})
    expect_same_results(result, {{"n", n_value}, {"k", k_value}, {"m", m_value}});
}

TEST(RegisterTiles, BlocksAreTakenWhereThreadsOfTheNestAreFew) {
  const LoweredProgram result = mapped_to_small_gpu(weights());
  EXPECT_TRUE(has(result, "k >= 4 && c >= 4 && (m >= 1 && m > r)")) << result.text;
  EXPECT_TRUE(has(result, "w_now_all += (block) w_now_part")) << result.text;
  for (const auto& [k_value, c_value, m_value] : {std::tuple{4, 4, 9}, {5, 6, 34}, {4, 4, 2}, {4, 4, 0}})
    expect_same_results(result, {{"n", 2}, {"k", k_value}, {"c", c_value}, {"m", m_value}, {"r", 3}});
}

TEST(RegisterTiles, RowsShareWideAccesses) {
  const LoweredProgram result = mapped_to_small_gpu(distances());
  EXPECT_TRUE(has(result, "local f64 c_now[4]")) << result.text;
  EXPECT_TRUE(has(result, "if i + 3 < n:\n")) << result.text;
  // One decision for all trips.
  const std::string code = cuda_of(result);
  EXPECT_NE(code.find("is_aligned(&b_[j_start_]) && is_aligned(&b_[1 * m_ + j_start_])) {\n"), std::string::npos)
      << code;
  for (const auto& [n_value, m_value] : {std::pair{4, 16}, {5, 9}, {7, 6}, {6, 3}, {9, 70}})
    for (const int k_value : {0, 1, 5}) expect_same_results(result, {{"n", n_value}, {"k", k_value}, {"m", m_value}});
}

TEST(RegisterTiles, NotForElementsThatOneIterationUses) {
  ProgramBuilder p("matrix_times_vectors");
  auto n = p.size("n"), k = p.size("k"), m = p.size("m");
  auto a = p.input<double>("a", {k, n, m});
  auto x = p.input<double>("x", {k, m});
  auto y = p.output<double>("y", {k, n});
  for (auto l : p.loop("l", 0, k))
    for (auto i : p.loop("i", 0, n)) {
      y(l, i) = 0.0;
      for (auto j : p.loop("j", 0, m)) y(l, i) += a(l, i, j) * x(l, j);
    }
  const LoweredProgram result = mapped_to_small_gpu(p.build());
  EXPECT_FALSE(has(result, "i + 1 < n")) << result.text;
  expect_same_results(result, {{"n", 5}, {"k", 4}, {"m", 9}});
}

TEST(RegisterTiles, NotAlongLoopsThatOthersDependOn) {
  ProgramBuilder p("triangles");
  auto n = p.size("n"), k = p.size("k");
  auto a = p.input<double>("a", {n, k});
  auto b = p.input<double>("b", {n, k});
  auto c = p.output<double>("c", {k, k});
  for (auto i : p.loop("i", 0, k))
    for (auto j : p.loop("j", 0, k)) {
      c(i, j) = 0.0;
      for (auto l : p.loop("l", i, n)) c(i, j) += a(l, i) * b(l, j);
    }
  const LoweredProgram result = mapped_to_small_gpu(p.build());
  EXPECT_FALSE(has(result, "i + 1 < k")) << result.text;
  for (const int n_value : {0, 3, 9}) expect_same_results(result, {{"n", n_value}, {"k", 6}});
}

TEST(RegisterTiles, NotWhereWhatIsStoredChoosesWhatIsRead) {
  // An iteration that does not exist repeats the last one: it must find the same rows.
  for (const bool stores_rows : {false, true}) {
    ProgramBuilder p("chosen_rows");
    auto n = p.size("n"), k = p.size("k");
    auto rows = p.inout<std::int64_t>("rows", {k}), other = p.inout<std::int64_t>("other", {k});
    auto a = p.input<double>("a", {n});
    auto c = p.output<double>("c", {k});
    for (auto l : p.loop("l", 0, k)) {
      c(l) = a(rows(l));
      if (stores_rows) rows(l) = n - 1;
      else other(l) = n - 1;
    }
    const Program program = p.build();
    const auto* loop = program.ir().body.as<ir::For>();
    EXPECT_EQ(can_be_copied(loop->body, loop->iterator), !stores_rows);
  }
}

TEST(RegisterTiles, NotWhereWhatIsStoredDecidesWhatIsRead) {
  // The repeated iteration would take the other branch, and read what only that one has.
  for (const bool stores_flag : {false, true}) {
    ProgramBuilder p("chosen_branch");
    auto n = p.size("n"), k = p.size("k");
    auto flag = p.inout<double>("flag", {k}), other = p.inout<double>("other", {k});
    auto a = p.input<double>("a", {n});
    auto c = p.output<double>("c", {k});
    for (auto l : p.loop("l", 0, k)) {
      c(l) = select(flag(l) > 0, 1.0, a(l + 1));
      if (stores_flag) flag(l) = -1.0;
      else other(l) = -1.0;
    }
    const Program program = p.build();
    const auto* loop = program.ir().body.as<ir::For>();
    EXPECT_EQ(can_be_copied(loop->body, loop->iterator), !stores_flag);
  }
}

TEST(MostTrips, AreTheLeastDifferenceOfBounds) {
  const ir::Symbol n = ir::make_symbol("n"), r = ir::make_symbol("r"), i = ir::make_symbol("i");
  const ir::Expr zero = ir::int_const(0), from = ir::var(i) - ir::var(r), to = ir::var(i) + ir::int_const(1);
  const ir::Array s = ir::make_array("s", ScalarType::I64, {}, ir::ArrayRole::Local, {});
  const ir::Stmt body = ir::assign(s, {}, zero, {});
  const ir::Stmt loop = ir::for_loop(ir::make_symbol("j"), ir::binary(ir::BinaryOp::Max, zero, from),
                                     ir::binary(ir::BinaryOp::Min, ir::var(n), to), body);
  EXPECT_EQ(ir::print(most_trips(*loop.as<ir::For>(), {i})), "min(n, r + 1)");
  const ir::Stmt other = ir::for_loop(ir::make_symbol("j"), zero, to, body);
  EXPECT_FALSE(most_trips(*other.as<ir::For>(), {i}));
}

class CudaTiles : public testing::Test {
 protected:
  void SetUp() override {
    setenv("LOOPGRAD_CACHE_DIR", LOOPGRAD_TEST_CACHE, 1);
    std::string why;
    if (!has_cuda(&why)) GTEST_SKIP() << why;
  }

  using Shapes = std::vector<std::pair<std::string, std::vector<std::int64_t>>>;

  /// The last of the arrays, computed by the GPU and the interpreter. All sums are of small whole numbers, thus exact.
  static void expect_same(const Program& program, const Shapes& shapes) {
    std::vector<std::vector<double>> values;
    std::vector<DeviceArray> arrays;
    Arguments on_device, on_host;
    for (const auto& [name, shape] : shapes) {
      std::int64_t count = 1;
      for (const std::int64_t extent : shape) count *= extent;
      values.emplace_back(static_cast<std::size_t>(count));
      for (std::size_t i = 0; i < values.back().size(); ++i) values.back()[i] = static_cast<double>(i * i % 7) - 2;
      arrays.emplace_back(ScalarType::F64, shape);
      arrays.back().upload(values.back().data());
    }
    for (std::size_t a = 0; a < shapes.size(); ++a) {
      on_device[shapes[a].first] = arrays[a].view();
      on_host[shapes[a].first] = view(values[a].data(), shapes[a].second);
    }
    compile(program, {.target = Target::Cuda}).run(on_device);
    compile(program, {.target = Target::Interpreter}).run(on_host);
    std::vector<double> result(values.back().size());
    arrays.back().download(result.data());
    EXPECT_TRUE(result == values.back());
  }
};

TEST_F(CudaTiles, AreRightWhereTheyAreTaken) {
  expect_same(convolution(), {{"x", {5, 2, 23311}}, {"w", {9, 2, 3}}, {"y", {5, 9, 23308}}});
  expect_same(distances_of_rows(), {{"a", {183, 37}}, {"b", {181, 37}}, {"c", {183, 181}}});
  expect_same(weights(), {{"x", {1, 181, 36}}, {"d", {1, 61, 33}}, {"w", {61, 181, 3}}});
  for (const std::int64_t m : {728, 727}) expect_same(distances(), {{"a", {723, 3}}, {"b", {3, m}}, {"c", {723, m}}});
}

}  // namespace
}  // namespace loopgrad::transforms

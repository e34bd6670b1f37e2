// The passes before and inside the mapping to a GPU: each test fails without its pass, and what the pass makes computes
// the same in the checked interpreter at small and odd sizes.
#include "tests/support/ir_text.h"
#include "tests/unit/cuda/mapped.h"
#include "transforms/loops/search_loops.h"
#include "transforms/map/gpu/split_kernels.h"
#include "transforms/storage/forward_elements.h"

#include <loopgrad/loopgrad.h>

namespace loopgrad::transforms {
namespace {

ir::Program mapped(const ir::Program& program) { return mapped_to_gpu(program); }

Program largest_takes_all() {
  ProgramBuilder p("largest_takes_all");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<double>("x", {n, m});
  auto top = p.input<double>("top", {n});
  auto d = p.inout<double>("d", {n});
  auto dx = p.inout<double>("dx", {n, m});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 1, m))
      p.when(x(i, j) > top(i), [&] {
        dx(i, j) += d(i);
        d(i) = 0.0;
      });
  return p.build();
}

TEST(SearchLoops, TheFirstIterationThatFitsIsFoundByAll) {
  const LoweredProgram result = passed(largest_takes_all(), search_loops);
  EXPECT_NE(result.text.find("match min= select("), std::string::npos) << result.text;
  for (const std::int64_t m : {1, 2, 9}) expect_same_results(result, {{"n", 7}, {"m", m}});
}

TEST(SearchLoops, ALoopThatGoesOnAfterAFitIsLeftAlone) {
  ProgramBuilder p("goes_on");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto d = p.inout<double>("d", {});
  auto dx = p.inout<double>("dx", {n});
  for (auto j : p.loop("j", 0, n))
    p.when(x(j) > 0.0, [&] {
      dx(j) += d() + 1.0;  // not zero even when d is
      d() = 0.0;
    });
  EXPECT_EQ(passed(p.build(), search_loops).text.find("match"), std::string::npos);
}

// In time that does not double with each scalar.
TEST(ForwardElements, ScalarsInScopesOfOthers) {
  const ir::Symbol n = ir::make_symbol("n"), i = ir::make_symbol("i");
  const ir::Array y =
      ir::make_array("y", ScalarType::F32, {ir::var(n), ir::int_const(60)}, ir::ArrayRole::Output, SourceLocation{});
  ir::Stmt body = ir::block({});
  for (int k = 0; k < 60; ++k) {
    const ir::Array s = ir::make_array("s", ScalarType::F32, {}, ir::ArrayRole::Local, SourceLocation{});
    const ir::Stmt set = ir::assign(s, {}, ir::float_const(k, ScalarType::F32));
    const ir::Stmt used = ir::assign(y, {ir::var(i), ir::int_const(k)}, ir::load(s, {}));
    const ir::Stmt last = ir::assign(y, {ir::var(i), ir::int_const(0)}, ir::float_const(k, ScalarType::F32));
    body = ir::block({ir::allocate(s, ir::block({set, used, body})), last});
  }
  const ir::Stmt loop = ir::for_loop(i, ir::int_const(0), ir::var(n), body, ir::LoopMode::Parallel);
  const ir::Program program{"scalars", {n}, {y}, {}, loop, {}};
  EXPECT_EQ(ir::print(forward_elements(program).body), ir::print(loop));
}

/// The interior of a cube by one formula, its first face by another.
Program faces() {
  ProgramBuilder p("faces");
  auto n = p.size("n");
  auto a = p.input<double>("a", {n, n, n});
  auto b = p.inout<double>("b", {n, n, n});
  for (auto i : p.loop("i", 0, n)) {
    p.when(i > 0, [&] {
      for (auto j : p.loop("j", 0, n))
        for (auto k : p.loop("k", 0, n)) b(i, j, k) = 2.0 * a(i, j, k);
    });
    for (auto k : p.loop("l", 0, n)) b(i, 0, k) += 1.0;
  }
  return p.build();
}

TEST(SplitKernels, PartsOfAParallelLoopBecomeNestsOfTheirOwn) {
  const LoweredProgram result = passed(faces(), split_kernels);
  EXPECT_EQ(outer_parallel_loops(result.after.body).size(), 2u) << result.text;
  for (const std::int64_t n : {1, 2, 5}) expect_same_results(result, {{"n", n}});
}

TEST(SplitKernels, ConditionsOnIteratorsNarrowTheGrid) {
  const LoweredProgram result = passed(faces(), mapped);
  EXPECT_NE(result.text.find("grid for i in 1..n"), std::string::npos) << result.text;
  for (const std::int64_t n : {1, 2, 5}) expect_same_results(result, {{"n", n}});
}

TEST(SplitKernels, FillsThatOverlapAreParallelOneByOne) {
  ProgramBuilder p("border");
  auto n = p.size("n");
  auto a = p.inout<double>("a", {n, n});
  for (auto i : p.loop("i", 0, n)) {
    a(i, 0) = 0.0;
    a(1, i) = 0.0;
  }
  const Program program = p.build();
  EXPECT_TRUE(outer_parallel_loops(lowered(program).after.body).empty());
  const LoweredProgram result = passed(program, split_kernels);
  EXPECT_EQ(outer_parallel_loops(result.after.body).size(), 2u) << result.text;
  expect_same_results(result, {{"n", 6}});
}

TEST(SplitKernels, OppositeBordersAreFilledTogether) {
  ProgramBuilder p("border");
  auto n = p.size("n");
  auto a = p.inout<double>("a", {n, n});
  for (auto i : p.loop("i", 0, n)) {
    a(i, 0) = 0.0;
    a(0, i) = 0.0;
    a(i, n - 1) = 0.0;
    a(n - 1, i) = 0.0;
  }
  const LoweredProgram result = passed(p.build(), split_kernels);
  EXPECT_EQ(outer_parallel_loops(result.after.body).size(), 2u) << result.text;
  for (const std::int64_t n_value : {1, 2, 6}) expect_same_results(result, {{"n", n_value}});
}

TEST(OwnScatters, EachOwnerTakesItsShareOfTheTargets) {
  ProgramBuilder p("scatter");
  auto n = p.size("n"), rows = p.size("rows"), m = p.size("m");
  auto idx = p.input<std::int32_t>("idx", {n});
  p.in_range(idx, 0, rows);
  auto a = p.input<double>("a", {n, m});
  auto t = p.inout<double>("t", {rows, rows, m});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m)) t(idx(i), idx(n - 1 - i), j) += a(i, j);
  const LoweredProgram result = passed(p.build(), mapped);
  EXPECT_NE(result.text.find("grid for owner"), std::string::npos) << result.text;
  EXPECT_NE(result.text.find("if any[segment] != 0"), std::string::npos) << result.text;
  for (const std::int64_t rows_value : {1, 5, 60})
    expect_same_results(result, {{"n", 40}, {"rows", rows_value}, {"m", 3}});
  expect_same_results(result, {{"n", 16384 + 17}, {"rows", 3}, {"m", 1}});  // a second round
}

TEST(OwnScatters, RowsOfAGraphAreSegments) {
  ProgramBuilder p("graph");
  auto v = p.size("V"), e = p.size("E"), m = p.size("m");
  auto ptr = p.input<std::int32_t>("ptr", {v + 1});
  auto src = p.input<std::int32_t>("src", {e});
  p.csr(ptr, e);
  p.in_range(src, 0, v);
  auto a = p.input<double>("a", {v, m});
  auto t = p.inout<double>("t", {v, v, m});
  for (auto i : p.loop("i", 0, v))
    for (auto k : p.loop("k", ptr(i), ptr(i + 1)))
      for (auto j : p.loop("j", 0, m)) t(src(k), src(e - 1 - k), j) += a(i, j);
  const LoweredProgram result = passed(p.build(), mapped);
  EXPECT_NE(result.text.find("if any[segment] != 0"), std::string::npos) << result.text;
  for (const std::int64_t nodes : {1, 6, 40}) expect_same_results(result, {{"V", nodes}, {"E", 3 * nodes}, {"m", 2}});
}

TEST(ParallelNest, DependentBoundsLeaveAGuard) {
  ProgramBuilder p("triangle");
  auto n = p.size("n");
  auto a = p.output<double>("a", {n, n});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, n)) a(i, j) = 1.0;
  for (auto i : p.loop("k", 0, n))
    for (auto j : p.loop("l", 0, i)) a(i, j) = 2.0;
  const LoweredProgram result = passed(p.build(), mapped);
  EXPECT_NE(result.text.find("if l < k"), std::string::npos) << result.text;
  for (const std::int64_t n_value : {1, 2, 9}) expect_same_results(result, {{"n", n_value}});
}

Program scaled(std::int64_t from) {
  ProgramBuilder p("scaled");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.input<float>("a", {n, m});
  auto b = p.inout<float>("b", {n, m});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", from, m)) b(i, j) += 2.0f * a(i, j);
  return p.build();
}

Program transposed() {
  ProgramBuilder p("transposed");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.input<float>("a", {n, m});
  auto b = p.output<float>("b", {m, n});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m)) b(j, i) = a(i, j);
  return p.build();
}

TEST(Chunks, ThreadsTakeFourNeighboursWithWideAccesses) {
  const LoweredProgram result = passed(scaled(0), mapped);
  const std::string code = cuda_of(result);
  EXPECT_NE(code.find("copy_four(a_wide_ + 0, &a_[i_ * m_ + j_start_]);"), std::string::npos) << code;
  EXPECT_NE(code.find("copy_four(&b_[i_ * m_ + j_start_], b_wide_ + 0);"), std::string::npos) << code;
  for (const std::int64_t m : {1, 3, 4, 5, 8, 1030}) expect_same_results(result, {{"n", 3}, {"m", m}});
}

TEST(Chunks, BeginWhereTheAccessesAreAligned) {
  const LoweredProgram result = passed(scaled(1), mapped);
  EXPECT_NE(cuda_of(result).find("j_start_ >= 1 && "), std::string::npos) << result.text;
  for (const std::int64_t m : {1, 2, 4, 5, 9, 1030}) expect_same_results(result, {{"n", 3}, {"m", m}});
}

TEST(Chunks, AreNotTakenWhereNeighboursAreReadToo) {
  ProgramBuilder p("smoothed");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.input<float>("a", {n, m});
  auto b = p.inout<float>("b", {n, m});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 1, m - 1)) b(i, j) = a(i, j - 1) + a(i, j + 1);
  const LoweredProgram result = passed(p.build(), mapped);
  const std::string code = cuda_of(result);
  EXPECT_EQ(code.find("copy_four"), std::string::npos) << code;
  EXPECT_NE(code.find("a_[a_at_ + 2]"), std::string::npos) << code;  // addressed from its neighbour
  for (const std::int64_t columns : {2, 3, 9}) expect_same_results(result, {{"n", 3}, {"m", columns}});
}

Program normalised() {
  ProgramBuilder p("normalised");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.input<float>("a", {n, m});
  auto b = p.output<float>("b", {n, m});
  for (auto i : p.loop("i", 0, n)) {
    auto top = p.local<float>("top"), sum = p.local<float>("sum");
    auto e = p.local<float>("e", {m});
    top() = a(i, 0);
    for (auto j : p.loop("j", 1, m)) top().max_with(a(i, j));
    sum() = 0.0f;
    for (auto j : p.loop("j", 0, m)) {
      e(j) = exp(a(i, j) - top());
      sum() += e(j);
    }
    for (auto j : p.loop("j", 0, m)) b(i, j) = e(j) / sum();
  }
  return p.build();
}

TEST(KeptRows, ARowIsReadOnceAndLocalsOfItsLengthNeedNoMemory) {
  ProgramBuilder p("centred");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.input<float>("a", {n, m});
  auto b = p.output<float>("b", {n, m});
  for (auto i : p.loop("i", 0, n)) {
    auto mean = p.local<float>("mean");
    mean() = 0.0f;
    for (auto j : p.loop("j", 0, m)) mean() += a(i, j);
    for (auto j : p.loop("j", 0, m)) b(i, j) = a(i, j) - mean();
  }
  const LoweredProgram result = passed(p.build(), mapped);
  EXPECT_NE(result.text.find("local f32 a_row[threads, 8]"), std::string::npos) << result.text;
  EXPECT_NE(cuda_of(result).find("float a_row_[8];"), std::string::npos);
  for (const std::int64_t m_value : {1, 5, 31, 33, 255, 257, 4096, 4097})
    expect_same_results(result, {{"n", 2}, {"m", m_value}});

  const LoweredProgram softmax = passed(normalised(), mapped);
  const std::string code = cuda_of(softmax);
  EXPECT_NE(code.find("float e_[8];"), std::string::npos) << code;
  EXPECT_NE(code.find("float a_row_[8];"), std::string::npos) << code;
  for (const std::int64_t m_value : {1, 2, 40, 300}) expect_same_results(softmax, {{"n", 3}, {"m", m_value}});
}

TEST(KeptRows, SumsOverTheRowsOfABlockAreWrittenOnce) {
  ProgramBuilder p("blocks");
  auto n = p.size("n"), rows = p.size("rows"), m = p.size("m");
  auto a = p.input<double>("a", {n, rows, m});
  auto s = p.output<double>("s", {n, m});
  auto b = p.output<double>("b", {n, rows, m});
  for (auto i : p.loop("i", 0, n)) {
    for (auto j : p.loop("j", 0, m)) s(i, j) = 0.0;
    for (auto r : p.loop("r", 0, rows)) {
      auto sum = p.local<double>("sum");
      sum() = 0.0;
      for (auto j : p.loop("j", 0, m)) sum() += a(i, r, j);
      for (auto j : p.loop("j", 0, m)) {
        b(i, r, j) = a(i, r, j) * sum();
        s(i, j) += sum() * b(i, r, j);
      }
    }
  }
  LoweredProgram result = lowered(p.build(), SumMode::Atomic);  // loops as they are
  result.after = mapped_to_gpu(result.after);
  result.text = ir::print(result.after.body);
  const std::size_t rows_at = result.text.find("else if");  // before it are threads for short rows
  const std::string kept = result.text.substr(rows_at, result.text.find("else:") - rows_at);
  EXPECT_NE(kept.find("local f64 s_row[threads, 8]"), std::string::npos) << result.text;
  EXPECT_EQ(kept.find("s[i, j] +="), std::string::npos) << result.text;
  for (const std::int64_t m_value : {1, 7, 300}) expect_same_results(result, {{"n", 2}, {"rows", 3}, {"m", m_value}});
  expect_same_results(result, {{"n", 2}, {"rows", 0}, {"m", 4}});
}

// Nobody may share out the second loop: the sum is not the block's own, and need not be added to.
TEST(KeptRows, LoopsWithASumThatIsNotTheirOwnHaveNoRows) {
  ProgramBuilder p("positive");
  auto m = p.size("m");
  auto a = p.input<double>("a", {m});
  auto total = p.inout<double>("total", {});
  for ([[maybe_unused]] auto i : p.loop("i", 0, 1)) {
    auto e = p.local<double>("e", {m});
    for (auto j : p.loop("j", 0, m)) e(j) = 2 * a(j);
    for (auto j : p.loop("j", 0, m)) p.when(e(j) > 0.0, [&] { total() += e(j); });
  }
  const LoweredProgram result = passed(p.build(), mapped);
  for (const std::int64_t m_value : {1, 5, 300}) expect_same_results(result, {{"m", m_value}});
}

// Where the row is summed into, the loop around has one iteration: it shares nothing but the other sum.
TEST(KeptRows, AreFoundInALoopThatThreadsShareForAnotherSum) {
  LoweredProgram result;
  result.before = ir::parse_program(R"(
    program p(m, n)
      input  f64 y[m, n, n]
      output f64 part[m, n]
      output f64 sums[m]
    parallel for b in 0..m:
      local f64 own
      own = 0
      parallel for z in 0..n:
        part[b, z] = 0
      for j in 0..n:
        for k in 0..n:
          if 1 < n:
            own += y[b, j, k]
          if !(1 < n):
            part[b, k] += y[b, j, k]
      sums[b] = own
  )");
  result.after = mapped_to(small_gpu(1), result.before, 32);
  ir::verify(result.after, "map_to_gpu");
  result.text = ir::print(result.after.body);
  EXPECT_NE(result.text.find("part_row[t, k] += "), std::string::npos) << result.text;
  for (const std::int64_t n : {0, 1, 2, 5, 300}) expect_same_results(result, {{"m", 2}, {"n", n}});
}

TEST(ParallelNest, ALoopOfOneIterationStartsNoIdleBlocks) {
  ProgramBuilder p("corner");
  auto n = p.size("n");
  auto a = p.inout<double>("a", {n, n, n});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, n))
      p.when(!(i >= 1 && j >= 1) && !(j == 0), [&] {  // only i = 0 is left
        for (auto k : p.loop("k", 0, n)) a(i, j, k) = 2.0;
      });
  const LoweredProgram result = passed(p.build(), mapped);
  EXPECT_NE(result.text.find("min(n, 1)"), std::string::npos) << result.text;
  for (const std::int64_t n_value : {1, 2, 9}) expect_same_results(result, {{"n", n_value}});
}

TEST(Tiles, ATransposeIsWideOnBothSides) {
  const LoweredProgram result = passed(transposed(), mapped);
  const std::string code = cuda_of(result);
  EXPECT_NE(code.find("alignas(16) float a_wide_[16];"), std::string::npos) << code;
  EXPECT_NE(code.find("alignas(16) float b_wide_[16];"), std::string::npos) << code;
  // Rows are equally far apart, so the second tells whether all are aligned.
  EXPECT_NE(code.find("is_aligned(&a_[(i_start_ + 1) * m_ + j_start_])"), std::string::npos) << code;
  for (const auto& [n, m] : {std::pair{1, 1}, {4, 4}, {5, 7}, {37, 70}}) {
    expect_same_results(result, {{"n", n}, {"m", m}});
  }
}

TEST(Tiles, RowsThatAreNotEquallyFarApartAreAllAskedForTheirAlignment) {
  const auto columns_of = [](const auto& row) {
    ProgramBuilder p("columns");
    auto n = p.size("n"), m = p.size("m");
    auto order = p.input<std::int64_t>("order", {m});
    p.in_range(order, 0, m);
    auto a = p.input<double>("a", {m, n});
    auto b = p.output<double>("b", {n, m});
    for (auto i : p.loop("i", 0, n))
      for (auto j : p.loop("j", 0, m)) b(i, j) = a(row(j, order), i);
    return cuda_of(passed(p.build(), mapped));
  };
  const std::string clamped = columns_of([](const auto& j, const auto&) { return max(j - 1, 0); });
  for (const char* row : {"j_start_ - 1", "j_start_", "j_start_ + 1", "j_start_ + 2"})
    EXPECT_NE(clamped.find("is_aligned(&a_[max_of(" + std::string(row) + ", "), std::string::npos) << clamped;
  const std::string ordered = columns_of([](const auto& j, const auto& order) { return order(j); });
  EXPECT_NE(ordered.find("is_aligned(&a_[order_[j_start_ + 3]"), std::string::npos) << ordered;
}

}  // namespace
}  // namespace loopgrad::transforms

// Products of matrices as cuBLAS is asked for them.
#include "backends/cuda/matrix_library.h"

#include <loopgrad/compile.h>
#include <loopgrad/device_array.h>
#include <loopgrad/program.h>

#include <gtest/gtest.h>

#include <cstdlib>

namespace loopgrad::backend::cuda {
namespace {

Product product(DeviceMatrix a, DeviceMatrix b, DeviceMatrix c) {
  return {.batch = 1, .m = 4, .n = 5, .k = 3, .alpha = 1, .beta = 0, .a = a, .b = b, .c = c};
}
constexpr DeviceMatrix rows(std::int64_t length) { return {nullptr, 0, length, 1}; }
constexpr DeviceMatrix columns(std::int64_t length) { return {nullptr, 0, 1, length}; }

TEST(CudaProducts, ResultsInColumnsAreTheTransposedProduct) {
  const auto p = normalized(product(rows(3), columns(3), columns(4)));
  ASSERT_TRUE(p);
  EXPECT_EQ(p->m, 5);
  EXPECT_EQ(p->n, 4);
  EXPECT_EQ(p->c.row, 4);
  EXPECT_EQ(p->c.column, 1);
  EXPECT_EQ(p->a.column, 1);  // what was b, transposed
  EXPECT_EQ(p->a.row, 3);
  EXPECT_EQ(p->b.row, 1);
}

TEST(CudaProducts, OverlappingRowsAndLargeNumbersAreRefused) {
  EXPECT_TRUE(normalized(product(rows(3), rows(5), rows(5))));
  EXPECT_FALSE(normalized(product(rows(2), rows(5), rows(5))));
  EXPECT_FALSE(normalized(product(rows(3), columns(2), rows(5))));
  EXPECT_FALSE(normalized(product(rows(std::int64_t{1} << 31), rows(5), rows(5))));
  Product one_row = product(rows(1), rows(5), rows(5));
  one_row.m = 1;  // then the stride says nothing
  EXPECT_TRUE(normalized(one_row));
}

/// scores[h, i, j] += -q[h, i, e]*k[h, e, j + 1]: a batch, a sign, an offset.
Program scores() {
  ProgramBuilder p("scores");
  auto heads = p.size("heads"), n = p.size("n"), d = p.size("d");
  auto q = p.input<float>("q", {heads, n, d}), k = p.input<float>("k", {heads, d, n + 1});
  auto s = p.inout<float>("s", {heads, n, n});
  for (auto h : p.loop("h", 0, heads))
    for (auto i : p.loop("i", 0, n))
      for (auto j : p.loop("j", 0, n))
        for (auto e : p.loop("e", 0, d)) s(h, i, j) += -(q(h, i, e) * k(h, e, j + 1));
  return p.build();
}

TEST(CudaProducts, LibraryAndLoopsAgree) {
  std::string why;
  if (!has_cuda(&why)) GTEST_SKIP() << why;
  if (!MatrixLibrary::found()) GTEST_SKIP() << "cuBLAS is not found";
  const std::int64_t heads = 3, n = 70, d = 33;
  auto filled = [](std::vector<std::int64_t> shape) {
    DeviceArray array(ScalarType::F32, std::move(shape));
    std::vector<float> values(static_cast<std::size_t>(array.bytes()) / sizeof(float));
    for (std::size_t k = 0; k < values.size(); ++k) values[k] = static_cast<float>(k * 7919 % 1000) / 500 - 1;
    array.upload(values.data());
    return array;
  };
  std::vector<std::vector<float>> results;
  for (const char* least : {"0", "inf", "0"}) {
    ::setenv("LOOPGRAD_LEAST_PRODUCT", least, 1);
    const DeviceArray q = filled({heads, n, d}), k = filled({heads, d, n + 1}), s = filled({heads, n, n});
    compile(scores(), {.target = Target::Cuda}).run({{"q", q.view()}, {"k", k.view()}, {"s", s.view()}});
    results.emplace_back(static_cast<std::size_t>(heads * n * n));
    s.download(results.back().data());
  }
  ::unsetenv("LOOPGRAD_LEAST_PRODUCT");
  for (std::size_t at = 0; at < results[0].size(); ++at) ASSERT_NEAR(results[0][at], results[1][at], 1e-4) << at;
  EXPECT_EQ(results[0], results[2]);
}

}  // namespace
}  // namespace loopgrad::backend::cuda

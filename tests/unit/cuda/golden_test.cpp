// The generated CUDA of one kernel of each kind, as a whole: a change of the emitter shows here as what it is.
#include "backends/cuda/emitter.h"
#include "tests/support/ir_text.h"
#include "tests/unit/transforms/passes.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace loopgrad::test {
namespace {

/// The kernels of a program for a device that a few threads fill, so that the shapes of large programs are taken.
std::string kernels_of(const std::string& text, const transforms::Machine& machine = transforms::gpu_machine()) {
  Report report;
  const transforms::Lowered lowered = transforms::lower_for(ir::parse_program(text), {.machine = machine}, report);
  return backend::emit_cuda({lowered.program}, {lowered.kernels}).definitions;
}

void expect_golden(const std::string& name, const std::string& text) {
  const std::string path = std::string(LOOPGRAD_GOLDEN_DIR) + "/cuda/" + name;
  if (std::getenv("LOOPGRAD_UPDATE_GOLDEN")) {
    std::ofstream(path) << text;
    return;
  }
  std::ifstream file(path);
  ASSERT_TRUE(file) << "missing " << path << "; run with LOOPGRAD_UPDATE_GOLDEN=1 to write it";
  std::ostringstream expected;
  expected << file.rdbuf();
  EXPECT_EQ(text, expected.str()) << "differs from " << path << "; LOOPGRAD_UPDATE_GOLDEN=1 accepts the change";
}

TEST(CudaGolden, Flat) {
  expect_golden("flat.cu", kernels_of(R"(
    program scale(n)
      input  f32 x[n]
      output f32 y[n]
    for i in 0..n:
      y[i] = exp(x[i])*2
  )"));
}

TEST(CudaGolden, Row) {
  expect_golden("row.cu", kernels_of(R"(
    program normalize(n, m)
      input  f32 x[n, m]
      output f32 y[n, m]
    for r in 0..n:
      local f32 sum
      sum = 0
      for c in 0..m:
        sum += x[r, c]
      for c in 0..m:
        y[r, c] = x[r, c]/sum
  )"));
}

TEST(CudaGolden, RaggedRow) {
  expect_golden("ragged_row.cu", kernels_of(R"(
    program csr_sum(n, m)
      input  i32 ptr[n + 1]
      input  f32 x[m]
      output f32 y[n]
      fact   ptr csr pointer of m
    for v in 0..n:
      y[v] = 0
      for e in ptr[v]..ptr[v + 1]:
        y[v] += x[e]
  )"));
}

TEST(CudaGolden, Tiled) {
  expect_golden("tiled.cu", kernels_of(R"(
    program products(n, m, k)
      input  f64 a[n, k]
      input  f32 b[k, m]
      output f64 c[n, m]
    for i in 0..n:
      for j in 0..m:
        c[i, j] = 0
        for l in 0..k:
          c[i, j] += a[i, l]*f64(b[l, j])
  )"));
}

TEST(CudaGolden, BlockTile) {
  transforms::Machine machine = transforms::gpu_machine();
  machine.tile_threads = 128;
  const std::string all = kernels_of(R"(
    program distances(n, m, k)
      input  f32 a[n, k]
      input  f32 b[k, m]
      output f32 c[n, m]
    for i in 0..n:
      for j in 0..m:
        c[i, j] = 0
        for l in 0..k:
          c[i, j] += abs(a[i, l] - b[l, j])
  )",
                                     machine);
  expect_golden("block_tile.cu", all.substr(0, all.find("\n// ", all.find("extern"))));  // the first of its kernels
}

TEST(CudaGolden, Stencil) {
  expect_golden("stencil.cu", kernels_of(R"(
    program blur(n, m)
      input  f32 u[n, m]
      output f32 v[n, m]
    for i in 1..n - 1:
      for j in 1..m - 1:
        v[i, j] = (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])*0.25
  )"));
}

TEST(CudaGolden, EveryKernelSaysWhyItLooksSo) {
  const std::string text = kernels_of(R"(
    program two(n)
      input  f32 x[n]
      output f32 y[n]
      inout  f32 s
    for i in 0..n:
      y[i] = x[i]
    for i in 0..n:
      s += x[i]
  )");
  EXPECT_NE(text.find("// i (text:6), threads: a thread for each iteration"), std::string::npos) << text;
  EXPECT_NE(text.find("i (text:8), long sum: partial results of many blocks"), std::string::npos) << text;
  EXPECT_NE(text.find("i (text:8), one block: sums of at most 4096 terms"), std::string::npos) << text;
}

}  // namespace
}  // namespace loopgrad::test

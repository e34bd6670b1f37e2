// Emitted sources that share a BLAS with each other.
#include "tests/emit/emitted_library.h"

#include <loopgrad/program.h>

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <thread>

namespace loopgrad::test {
namespace {

Gradient product() {
  ProgramBuilder p("product");
  auto n = p.size("n");
  auto a = p.input<float>("a", {n, n}), b = p.input<float>("b", {n, n});
  auto c = p.output<float>("c", {n, n});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, n)) {
      c(i, j) = 0.0f;
      for (auto k : p.loop("k", 0, n)) c(i, j) += a(i, k) * b(k, j);
    }
  return differentiate(p.build());
}

void multiply(EmittedLibrary& library, std::int64_t n, int times) {
  std::vector<float> a(n * n, 1.0f), b = a, c = a;
  for (int k = 0; k < times; ++k)
    library.forward({{"n", n}},
                    {{"a", view(a.data(), {n, n})}, {"b", view(b.data(), {n, n})}, {"c", view(c.data(), {n, n})}}, 1);
}

/// Each sets the library to one thread while it runs, and back afterwards: to what it was before the first of them.
TEST(EmittedProducts, LeaveTheThreadsOfTheLibraryAsTheyWere) {
  void* blas = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (!blas) GTEST_SKIP() << "no OpenBLAS";
  const auto threads = reinterpret_cast<int (*)()>(dlsym(blas, "openblas_get_num_threads"));
  const auto set_threads = reinterpret_cast<void (*)(int)>(dlsym(blas, "openblas_set_num_threads"));
  EmittedLibrary first(product(), "first", {}, true), second(product(), "second", {}, true);
  first.memory({{"n", 300}}, 1);
  second.memory({{"n", 200}}, 1);
  for (int round = 0; round < 10; ++round) {
    set_threads(2);
    std::thread one([&] { multiply(first, 300, 9); }), other([&] { multiply(second, 200, 20); });
    one.join();
    other.join();
    ASSERT_EQ(threads(), 2) << "round " << round;
  }
}

}  // namespace
}  // namespace loopgrad::test

// Scheduling by hand: a matrix product in tiles, and its gradient too; and what a refused step says.
#include <loopgrad/loopgrad.h>

#include <cstdio>
#include <vector>

namespace lg = loopgrad;

lg::Program matmul() {
  lg::ProgramBuilder p("matmul");
  auto n = p.size("n");
  auto a = p.input<float>("a", {n, n}), b = p.input<float>("b", {n, n});
  auto c = p.output<float>("c", {n, n});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, n)) c(i, j) = 0.0f;
  for (auto r : p.loop("r", 0, n))
    for (auto s : p.loop("s", 0, n))
      for (auto k : p.loop("k", 0, n)) c(r, s) += a(r, k) * b(k, s);
  return p.build();
}

// Each element of x needs its neighbours above and to the right.
lg::Program skewed() {
  lg::ProgramBuilder p("skewed");
  auto n = p.size("n");
  auto x = p.inout<float>("x", {n, n});
  for (auto i : p.loop("i", 1, n))
    for (auto j : p.loop("j", 0, n - 1)) x(i, j) = 0.5f * x(i - 1, j + 1);
  return p.build();
}

int main() {
  // Steps are checked one by one against the program that the schedule is made for.
  const lg::Program program = matmul();
  lg::Schedule tiled(program);
  tiled.tile({"r", "s", "k"}, {32, 64, 32}).interchange("s", "k").parallelize("r_tile");
  std::printf("%s\n", tiled.program().str().c_str());

  // A gradient has two programs with a schedule each. What `d_b` sums is found by its loops' names.
  lg::Gradient gradient = lg::differentiate(program, {.wrt = {"b"}});
  lg::CompileOptions options;
  options.schedule = tiled;
  options.backward_schedule = lg::Schedule::parse("unroll_and_jam(k, 4)");
  auto scheduled = lg::compile(gradient, options);
  auto automatic = lg::compile(gradient);

  const std::int64_t n = 70;
  std::vector<float> a(n * n), b(n * n), d_c(n * n), c(n * n), d_b[2] = {std::vector<float>(n * n), {}};
  d_b[1] = d_b[0];
  for (std::int64_t i = 0; i < n * n; ++i) {  // small whole numbers: sums are exact in any order
    a[i] = static_cast<float>(i % 5), b[i] = static_cast<float>(i % 3), d_c[i] = static_cast<float>(i % 7);
  }
  for (int k = 0; k < 2; ++k) {
    lg::Arguments arrays = {{"a", lg::view(a.data(), {n, n})},
                            {"b", lg::view(b.data(), {n, n})},
                            {"c", lg::view(c.data(), {n, n})},
                            {"d_c", lg::view(d_c.data(), {n, n})},
                            {"d_b", lg::view(d_b[k].data(), {n, n})}};
    const auto& executable = k == 0 ? scheduled : automatic;
    lg::Arguments forward = arrays;
    forward.erase("d_c"), forward.erase("d_b");
    executable.forward(forward);
    executable.backward(arrays);
  }
  const bool same = d_b[0] == d_b[1];
  std::printf("the scheduled gradient is %s\n\n", same ? "the same" : "different");

  // What would change the result is refused, with a pair of iterations that shows why.
  bool refused = false;
  try {
    lg::Schedule(skewed()).interchange("i", "j");
  } catch (const lg::TransformError& error) {
    refused = true;
    std::printf("%s\n", error.what());
  }
  return same && refused ? 0 : 1;
}

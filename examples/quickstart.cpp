#include <loopgrad/loopgrad.h>

#include <cstdio>
#include <vector>

namespace lg = loopgrad;

// y[i] = sum_j x[i+j] w[j]: the loops as one would write them. Nothing here is about gradients.
lg::Program conv1d() {
  lg::ProgramBuilder p("conv1d");
  auto n = p.size("n"), k = p.size("k");  // symbolic: one compilation serves all sizes
  auto x = p.input<float>("x", {n + k - 1});
  auto w = p.input<float>("w", {k});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) {  // the body runs once and is recorded
    y(i) = 0.0f;
    for (auto j : p.loop("j", 0, k)) y(i) += x(i + j) * w(j);
  }
  return p.build();
}

int main() {
  auto gradient = lg::compile_gradient(conv1d(), {.wrt = {"x", "w"}});

  const std::int64_t n = 1000, k = 3;
  std::vector<float> x(n + k - 1, 1.0f), w = {1, 2, 3}, y(n);
  lg::Arguments arrays = {
      {"x", lg::view(x.data(), {n + k - 1})}, {"w", lg::view(w.data(), {k})}, {"y", lg::view(y.data(), {n})}};
  gradient.forward(arrays);

  std::vector<float> d_y(n, 1.0f), d_x(n + k - 1), d_w(k);  // d_y comes in, d_x and d_w go out
  arrays["d_y"] = lg::view(d_y.data(), {n});
  arrays["d_x"] = lg::view(d_x.data(), {n + k - 1});
  arrays["d_w"] = lg::view(d_w.data(), {k});
  gradient.backward(arrays);

  std::printf("y[0] = %g, d_x = %g %g %g ..., d_w[0] = %g\n", y[0], d_x[0], d_x[1], d_x[2], d_w[0]);
  return y[0] == 6 && d_x[0] == 1 && d_x[1] == 3 && d_x[2] == 6 && d_w[0] == 1000 ? 0 : 1;
}

// Attention that frameworks do not have: each position sees `window` positions before it, and distance costs `slope`.
#include <loopgrad/gradcheck.h>
#include <loopgrad/loopgrad.h>

#include <cmath>
#include <cstdio>
#include <vector>

namespace lg = loopgrad;

lg::Program attention() {
  lg::ProgramBuilder p("attention");
  auto length = p.size("length"), width = p.size("width"), window = p.size("window");
  auto q = p.input<float>("q", {length, width}), k = p.input<float>("k", {length, width});
  auto v = p.input<float>("v", {length, width});
  auto slope = p.input<float>("slope", {});
  auto y = p.output<float>("y", {length, width});
  for (auto i : p.loop("i", length)) {
    auto first = lg::max(i - window, 0);
    auto score = p.local<float>("score", {length});  // of this i: no other iteration sees it
    auto largest = p.scalar<float>("largest", -1e30f), total = p.scalar<float>("total", 0);
    for (auto j : p.loop("j", first, i + 1)) {
      score(j) = slope() * (j - i);
      for (auto d : p.loop("d", width)) score(j) += q(i, d) * k(j, d);
      largest.max_with(score(j));
    }
    for (auto j : p.loop("j", first, i + 1)) {
      score(j) = lg::exp(score(j) - largest);
      total += score(j);
    }
    for (auto d : p.loop("d", width)) y(i, d) = 0;
    for (auto j : p.loop("j", first, i + 1))
      for (auto d : p.loop("d", width)) y(i, d) += score(j) / total * v(j, d);
  }
  return p.build();
}

int main() {
  const std::int64_t length = 6, width = 2;
  std::vector<float> q(length * width), k(q), v(q), y(q), d_y(q.size(), 1.0f);
  for (std::size_t i = 0; i < q.size(); ++i) {
    q[i] = std::sin(1.0f * i), k[i] = std::cos(1.0f * i), v[i] = std::sin(2.0f * i);
  }
  float slope = 0.5f, d_slope = 0;
  lg::Arguments arrays = {{"q", lg::view(q.data(), {length, width})},
                          {"k", lg::view(k.data(), {length, width})},
                          {"v", lg::view(v.data(), {length, width})},
                          {"slope", lg::view(&slope, {})},
                          {"y", lg::view(y.data(), {length, width})}};
  const lg::Program program = attention();
  auto gradient = lg::compile_gradient(program, {.wrt = {"slope"}});
  gradient.forward(arrays, {{"window", 3}});
  arrays["d_y"] = lg::view(d_y.data(), {length, width});
  arrays["d_slope"] = lg::view(&d_slope, {});
  gradient.backward(arrays, {{"window", 3}});
  std::printf("y[5] = %.4f %.4f, d_slope = %.4f\n", y[10], y[11], d_slope);

  // Is it right? Against differences and forward mode, along each element of q, k, v and slope.
  arrays.erase("d_y"), arrays.erase("d_slope");
  std::printf("%s\n", lg::gradcheck(program, arrays, {{"window", 3}}).ok() ? "the gradient is right" : "it is wrong");
  return 0;
}

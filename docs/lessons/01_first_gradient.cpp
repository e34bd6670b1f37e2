// Fits a line to points: a loss in two loops' worth of C++, and its gradient for nothing.
#include <loopgrad/loopgrad.h>

#include <cstdio>
#include <vector>

namespace lg = loopgrad;

lg::Program line_loss() {
  lg::ProgramBuilder p("line_loss");
  auto n = p.size("n");  // known when the program runs
  auto x = p.input<double>("x", {n}), y = p.input<double>("y", {n});
  auto a = p.input<double>("a", {}), b = p.input<double>("b", {});  // rank 0: one number each
  auto loss = p.output<double>("loss", {});
  loss() = 0;
  for (auto i : p.loop("i", n)) {  // runs once, and is recorded
    auto error = p.let("error", a() * x(i) + b() - y(i));
    loss() += error * error / n;
  }
  return p.build();
}

int main() {
  const lg::Program program = line_loss();
  std::printf("%s\n", program.str().c_str());
  auto gradient = lg::compile_gradient(program, {.wrt = {"a", "b"}});

  std::vector<double> x = {0, 1, 2, 3}, y = {1, 3, 5, 7};  // y = 2 x + 1
  double a = 0, b = 0, loss = 0, d_a = 0, d_b = 0, d_loss = 1;
  const lg::Arguments arrays = {{"x", lg::view(x.data(), {4})}, {"y", lg::view(y.data(), {4})},
                                {"a", lg::view(&a, {})},        {"b", lg::view(&b, {})},
                                {"loss", lg::view(&loss, {})},  {"d_loss", lg::view(&d_loss, {})},
                                {"d_a", lg::view(&d_a, {})},    {"d_b", lg::view(&d_b, {})}};
  for (int step = 0; step <= 200; ++step) {
    gradient.forward(arrays);   // loss
    gradient.backward(arrays);  // d_a and d_b
    if (step % 100 == 0) std::printf("step %3d: loss %.4f, a = %.3f, b = %.3f\n", step, loss, a, b);
    a -= 0.1 * d_a;
    b -= 0.1 * d_b;
  }
  return 0;
}

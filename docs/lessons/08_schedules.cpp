// Loop transformations by hand: what they make of a program, and what is refused.
#include <loopgrad/loopgrad.h>

#include <cstdio>
#include <vector>

namespace lg = loopgrad;

lg::Program transpose() {
  lg::ProgramBuilder p("transpose");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<float>("x", {n, m});
  auto y = p.output<float>("y", {m, n});
  for (auto [i, j] : p.loop({"i", n}, {"j", m})) y(j, i) = 2 * x(i, j);
  return p.build();
}

// Each element needs the one above and to the right of it.
lg::Program diagonal() {
  lg::ProgramBuilder p("diagonal");
  auto n = p.size("n");
  auto x = p.inout<float>("x", {n, n});
  for (auto [i, j] : p.loop({"i", 1, n}, {"j", n - 1})) x(i, j) += 0.5f * x(i - 1, j + 1);
  return p.build();
}

int main() {
  // Steps are checked one by one against the program that the schedule is made for.
  const lg::Program program = transpose();
  lg::Schedule tiles(program);
  tiles.tile({"i", "j"}, {32, 32});
  std::printf("%s\n", tiles.program().str().c_str());

  // A gradient has two programs, and a schedule for each.
  const lg::Gradient gradient = lg::differentiate(program);
  lg::Schedule backward(gradient.backward);
  backward.tile({"i", "j"}, {32, 32});
  auto run = lg::compile(gradient, {.schedule = tiles, .backward_schedule = backward});
  const std::int64_t n = 50, m = 70;
  std::vector<float> x(n * m, 1.0f), y(n * m), d_y(n * m, 3.0f), d_x(n * m);
  const lg::Arguments arrays = {{"x", lg::view(x.data(), {n, m})},
                                {"y", lg::view(y.data(), {m, n})},
                                {"d_y", lg::view(d_y.data(), {m, n})},
                                {"d_x", lg::view(d_x.data(), {n, m})}};
  run.forward(arrays);
  run.backward(arrays);
  std::printf("y[49] = %g, d_x[49] = %g\n\n", y[49], d_x[49]);

  // What would change a result is refused, with two iterations that show why.
  try {
    lg::Schedule(diagonal()).interchange("i", "j");
  } catch (const lg::TransformError& error) {
    std::printf("%s\n", error.what());
  }
  return 0;
}

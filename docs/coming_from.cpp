// The programs of coming_from.md: what users of other tools wrote there, here.
#include <loopgrad/loopgrad.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace lg = loopgrad;

// Enzyme: a function of C. e = |a x|^2
lg::Program energy_of_rows() {
  lg::ProgramBuilder p("energy");
  auto n = p.size("n");
  auto a = p.input<double>("a", {n * n}), x = p.input<double>("x", {n});
  auto e = p.output<double>("e", {});
  e() = 0;
  for (auto i : p.loop("i", n)) {
    auto s = p.scalar<double>("s", 0);
    for (auto j : p.loop("j", n)) s += a(i * n + j) * x(j);
    e() += s * s;
  }
  return p.build();
}

// Halide: a stencil whose borders are repeated, and its loss.
lg::Program blur_loss() {
  lg::ProgramBuilder p("blur_loss");
  auto n = p.size("n");
  auto in = p.input<float>("in", {n}), w = p.input<float>("w", {3}), wanted = p.input<float>("wanted", {n});
  auto loss = p.output<float>("loss", {});
  auto blurred = p.local<float>("blurred", {n});
  for (auto x : p.loop("x", n)) {
    blurred(x) = 0;
    for (auto r : p.loop("r", 3)) blurred(x) += w(r) * in(lg::max(lg::min(x + r - 1, n - 1), 0));
  }
  loss() = 0;
  for (auto x : p.loop("x", n)) loss() += (blurred(x) - wanted(x)) * (blurred(x) - wanted(x));
  return p.build();
}

// JAX: a scan over time, and a sum by segments in each step.
lg::Program diffuse() {
  lg::ProgramBuilder p("diffuse");
  auto steps = p.size("steps"), nodes = p.size("nodes"), edges = p.size("edges");
  auto u = p.inout<float>("u", {nodes});
  auto rate = p.input<float>("rate", {steps});
  auto from = p.input<int>("from", {edges}), to = p.input<int>("to", {edges});
  p.in_range(from, 0, nodes);
  p.in_range(to, 0, nodes);
  for (auto t : p.loop("t", steps)) {
    auto flow = p.local<float>("flow", {nodes});
    for (auto v : p.loop("v", nodes)) flow(v) = 0;
    for (auto e : p.loop("e", edges)) flow(to(e)) += lg::tanh(u(from(e)) - u(to(e)));
    for (auto v : p.loop("v", nodes)) u(v) += rate(t) * flow(v);
  }
  return p.build();
}

// JAX: only the chosen side of a select is evaluated, also in the gradient.
lg::Program safe_root() {
  lg::ProgramBuilder p("safe_root");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", n)) y(i) = lg::select(x(i) > 0, lg::sqrt(x(i)), 0);
  return p.build();
}

// Warp: springs between points in space.
lg::Program stretch() {
  lg::ProgramBuilder p("stretch");
  auto points = p.size("points"), springs = p.size("springs");
  auto x = p.input<float>("x", {points, 3});
  auto a = p.input<int>("a", {springs}), b = p.input<int>("b", {springs});
  auto rest = p.input<float>("rest", {springs});
  auto energy = p.output<float>("energy", {});
  p.in_range(a, 0, points);
  p.in_range(b, 0, points);
  energy() = 0;
  for (auto i : p.loop("i", springs)) {
    const lg::Vec<3> d = lg::load<3>(x.row(b(i))) - lg::load<3>(x.row(a(i)));
    const lg::Value s = p.let("s", lg::length(d) - rest(i));
    energy() += 0.5f * s * s;
  }
  return p.build();
}

void from_enzyme() {
  std::vector<double> a = {1, 2, 3, 4}, x = {1, 1}, d_x = {1000, 1000};
  double e = 0, d_e = 1;
  auto gradient = lg::compile_gradient(energy_of_rows(), {.wrt = {"x"}, .accumulate = {"x"}});
  const lg::Arguments arrays = {{"a", lg::view(a.data(), {4})},
                                {"x", lg::view(x.data(), {2})},
                                {"e", lg::view(&e, {})},
                                {"d_e", lg::view(&d_e, {})},
                                {"d_x", lg::view(d_x.data(), {2})}};
  gradient.forward(arrays);
  gradient.backward(arrays);  // adds to what d_x holds
  std::printf("energy %g, d_x = %g %g\n", e, d_x[0], d_x[1]);
}

void from_halide() {
  const lg::Program program = blur_loss();
  lg::Schedule schedule(program);
  schedule.split(lg::LoopName("x").number(1), 64).parallelize("x_tile").unroll("r");
  auto gradient = lg::compile_gradient(program, {.wrt = {"w"}}, {.schedule = schedule});
  std::vector<float> in = {1, 2, 3, 4}, w = {0, 1, 0}, wanted = {1, 1, 1, 1}, d_w(3);
  float loss = 0, d_loss = 1;
  const lg::Arguments arrays = {{"in", lg::view(in.data(), {4})},         {"w", lg::view(w.data(), {3})},
                                {"wanted", lg::view(wanted.data(), {4})}, {"loss", lg::view(&loss, {})},
                                {"d_loss", lg::view(&d_loss, {})},        {"d_w", lg::view(d_w.data(), {3})}};
  gradient.forward(arrays);
  gradient.backward(arrays);
  std::printf("loss %g, d_w = %g %g %g\n", loss, d_w[0], d_w[1], d_w[2]);
}

void from_jax() {
  auto gradient = lg::compile_gradient(diffuse(), {.wrt = {"u", "rate"}, .max_tape_bytes = 1 << 20});
  std::vector<float> u = {1, 0, 0}, rate = {0.5f, 0.5f}, d_u = {0, 0, 1}, d_rate(2);
  std::vector<int> from = {0, 1}, to = {1, 2};
  const lg::Arguments arrays = {{"u", lg::view(u.data(), {3})},       {"rate", lg::view(rate.data(), {2})},
                                {"from", lg::view(from.data(), {2})}, {"to", lg::view(to.data(), {2})},
                                {"d_u", lg::view(d_u.data(), {3})},   {"d_rate", lg::view(d_rate.data(), {2})}};
  gradient.forward(arrays);
  gradient.backward(arrays);
  std::printf("d_u = %.4f %.4f %.4f, d_rate = %.4f %.4f\n", d_u[0], d_u[1], d_u[2], d_rate[0], d_rate[1]);

  std::vector<float> x = {4, 0}, y(2), d_y = {1, 1}, d_x(2);
  const lg::Arguments roots = {{"x", lg::view(x.data(), {2})},
                               {"y", lg::view(y.data(), {2})},
                               {"d_y", lg::view(d_y.data(), {2})},
                               {"d_x", lg::view(d_x.data(), {2})}};
  auto root = lg::compile_gradient(safe_root());
  root.forward(roots);
  root.backward(roots);
  std::printf("d_x of the root = %g %g\n", d_x[0], d_x[1]);
}

void from_warp() {
  auto gradient = lg::compile_gradient(stretch(), {.wrt = {"x"}});
  std::vector<float> x = {0, 0, 0, 3, 4, 0}, rest = {4}, d_x(6);
  std::vector<int> a = {0}, b = {1};
  float energy = 0, d_energy = 1;
  const lg::Arguments arrays = {{"x", lg::view(x.data(), {2, 3})},    {"a", lg::view(a.data(), {1})},
                                {"b", lg::view(b.data(), {1})},       {"rest", lg::view(rest.data(), {1})},
                                {"energy", lg::view(&energy, {})},    {"d_energy", lg::view(&d_energy, {})},
                                {"d_x", lg::view(d_x.data(), {2, 3})}};
  gradient.forward(arrays);
  gradient.backward(arrays);
  std::printf("energy %g, d_x = (%g, %g, %g), (%g, %g, %g)\n", energy, d_x[0], d_x[1], d_x[2], d_x[3], d_x[4], d_x[5]);
}

int main() {
  from_enzyme();
  from_halide();
  from_jax();
  from_warp();
  return 0;
}

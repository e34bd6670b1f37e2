// Gradients of one's own: for a region whose gradient is known better, and for iterations whose fixed point is all that
// matters.
//
//   custom_gradients check fixed_point
//   custom_gradients explain fixed_point
#include <loopgrad/loopgrad.h>
#include <loopgrad/main.h>

namespace lg = loopgrad;

// lse[i] = log sum_j exp(x[i, j]): the gradient is the softmax, and the maximum that keeps it in range is none of its
// business.
lg::Program log_sum_exp() {
  lg::ProgramBuilder p("log_sum_exp");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<double>("x", {n, m});
  auto lse = p.output<double>("lse", {n});
  for (auto i : p.loop("i", n)) {
    p.custom_gradient({lse}, {x},
                      {.forward =
                           [&] {
                             auto most = p.scalar<double>("most", -1e300);
                             auto sum = p.scalar<double>("sum", 0.0);
                             for (auto j : p.loop("j", m)) most.max_with(x(i, j));
                             for (auto j : p.loop("j", m)) sum += exp(x(i, j) - most);
                             lse(i) = most + log(sum);
                           },
                       .adjoint =
                           [&](const lg::Derivatives& d) {
                             for (auto j : p.loop("j", m)) d(x)(i, j) += d(lse)(i) * exp(x(i, j) - lse(i));
                           }});
  }
  return p.build();
}

// A rounding to steps, whose gradient passes straight through: so does its tangent, or forward mode would say zero.
lg::Program quantised() {
  lg::ProgramBuilder p("quantised");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto loss = p.output<double>("loss", {});
  auto q = p.local<double>("q", {n});
  p.custom_gradient({q}, {x},
                    {.forward =
                         [&] {
                           for (auto i : p.loop("i", n)) q(i) = floor(x(i) * 8.0 + 0.5) / 8.0;
                         },
                     .adjoint =
                         [&](const lg::Derivatives& d) {
                           for (auto i : p.loop("i", n)) d(x)(i) += d(q)(i);
                         },
                     .tangent =
                         [&](const lg::Derivatives& d) {
                           for (auto i : p.loop("i", n)) d(q)(i) = d(x)(i);
                         }});
  loss() = 0.0;
  for (auto i : p.loop("i", n)) loss() += q(i) * q(i);
  return p.build();
}

// z = tanh(scale a z + b), iterated from zero, in each of some steps of time. By the implicit function theorem the
// adjoint solves l = d_z + scale a^T s l with s = 1 - z^2: an iteration of its own that looks at the last z only. No
// iteration of the forward run is on the tape.
lg::Program fixed_point() {
  lg::ProgramBuilder p("fixed_point");
  auto steps = p.size("steps"), n = p.size("n");
  auto a = p.input<double>("a", {n, n}), b = p.input<double>("b", {n});
  auto y = p.output<double>("y", {n});
  const double tolerance = 1e-28;
  const lg::Value scale = 0.9 / lg::cast<double>(n);
  auto drive = p.local<double>("drive", {n}), z = p.local<double>("z", {n});
  for (auto i : p.loop("i", n)) y(i) = 0.0;
  for ([[maybe_unused]] auto t : p.loop("t", steps)) {
    for (auto i : p.loop("i", n)) drive(i) = b(i) + 0.5 * y(i);
    p.custom_gradient(
        {z}, {a, drive},
        {.forward =
             [&] {
               auto next = p.local<double>("next", {n});
               auto change = p.local<double>("change");
               for (auto i : p.loop("i", n)) z(i) = 0.0;
               change() = 1.0;
               for ([[maybe_unused]] auto k : p.loop_while("k", 500, [&](auto) { return change() > tolerance; })) {
                 for (auto i : p.loop("i", n)) {
                   auto sum = p.scalar<double>("sum", 0.0);
                   for (auto j : p.loop("j", n)) sum += a(i, j) * z(j);
                   next(i) = tanh(scale * sum + drive(i));
                 }
                 change() = 0.0;
                 for (auto i : p.loop("i", n)) change() += (next(i) - z(i)) * (next(i) - z(i));
                 for (auto i : p.loop("i", n)) z(i) = next(i);
               }
             },
         .adjoint =
             [&](const lg::Derivatives& d) {
               auto slope = p.local<double>("slope", {n}), l = p.local<double>("l", {n}),
                    next = p.local<double>("next", {n});
               auto change = p.local<double>("change");
               for (auto i : p.loop("i", n)) {
                 slope(i) = 1.0 - z(i) * z(i);
                 l(i) = 0.0;
               }
               change() = 1.0;
               for ([[maybe_unused]] auto k : p.loop_while("k", 500, [&](auto) { return change() > tolerance; })) {
                 for (auto j : p.loop("j", n)) {
                   auto sum = p.scalar<double>("sum", 0.0);
                   for (auto i : p.loop("i", n)) sum += a(i, j) * slope(i) * l(i);
                   next(j) = d(z)(j) + scale * sum;
                 }
                 change() = 0.0;
                 for (auto i : p.loop("i", n)) change() += (next(i) - l(i)) * (next(i) - l(i));
                 for (auto i : p.loop("i", n)) l(i) = next(i);
               }
               for (auto i : p.loop("i", n)) d(drive)(i) += slope(i) * l(i);
               for (auto j : p.loop("j", n))  // j outside, so that z(j) is read once for all i
                 for (auto i : p.loop("i", n)) d(a)(i, j) += scale * slope(i) * l(i) * z(j);
             }});
    for (auto i : p.loop("i", n)) y(i) = z(i) * z(i);
  }
  return p.build();
}

int main(int argc, char** argv) {
  return lg::main_with(
      argc, argv,
      {{"log_sum_exp", "the gradient is the softmax", log_sum_exp, {{"n", 1000}, {"m", 1000}}, {{"n", 3}, {"m", 5}}},
       {"quantised", "a rounding with a straight-through gradient", quantised, {{"n", 100000}}, {{"n", 7}}},
       {"fixed_point",
        "an equilibrium in each step, by the implicit function theorem",
        fixed_point,
        {{"steps", 10}, {"n", 100}},
        {{"steps", 3}, {"n", 5}}}});
}

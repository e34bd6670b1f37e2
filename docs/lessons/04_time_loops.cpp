// Heat that flows along a rod: many steps in place, and a gradient whose memory has a limit.
#include <loopgrad/loopgrad.h>

#include <cstdio>
#include <vector>

namespace lg = loopgrad;

lg::Program rod() {
  lg::ProgramBuilder p("rod");
  auto steps = p.size("steps"), n = p.size("n");
  auto u = p.inout<float>("u", {n});  // the temperature, updated in place
  for (auto t : p.loop("t", steps)) {
    auto next = p.local<float>("next", {n});
    for (auto i : p.loop("i", 1, n - 1))
      next(i) = u(i) + 0.2f * (u(i - 1) - 2 * u(i) + u(i + 1)) - 0.01f * u(i) * u(i) * u(i);
    for (auto i : p.loop("i", 1, n - 1)) u(i) = next(i);
  }
  return p.build();
}

std::vector<float> gradient_of_last_state(std::int64_t limit) {
  const std::int64_t n = 1000, steps = 500;
  auto gradient = lg::compile_gradient(rod(), {.wrt = {"u"}, .max_tape_bytes = limit});
  std::vector<float> u(n, 0.0f), d_u(n, 0.0f);
  u[n / 2] = 1;
  d_u[n / 2] = 1;  // how does the middle at the end depend on the start?
  lg::Arguments arrays = {{"u", lg::view(u.data(), {n})}, {"d_u", lg::view(d_u.data(), {n})}};
  gradient.forward(arrays, {{"steps", steps}});
  gradient.backward(arrays, {{"steps", steps}});
  std::printf("limit %7lld: tape of %lld bytes\n", static_cast<long long>(limit),
              static_cast<long long>(gradient.tape_bytes()));
  return d_u;
}

int main() {
  const std::vector<float> whole = gradient_of_last_state(0), within = gradient_of_last_state(200000);
  std::printf("d_u = .. %.4f %.4f %.4f .., the same bits: %s\n", whole[499], whole[500], whole[501],
              whole == within ? "yes" : "no");
  try {
    gradient_of_last_state(5000);
  } catch (const lg::Error& error) {
    std::printf("%s\n", error.what());
  }
  return 0;
}

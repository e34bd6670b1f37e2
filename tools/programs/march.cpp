#include "tools/programs/programs.h"
#include "tools/support/random.h"

namespace loopgrad::programs {
namespace {

/// Rays gather the density of a volume, read between eight grid points, until they leave it or are dark enough.
Program build() {
  ProgramBuilder p("march");
  auto rays = p.size("n"), g = p.size("g"), steps = p.size("steps");
  auto grid = p.input<float>("grid", {g, g, g});
  auto origin = p.input<float>("origin", {rays, 3}), direction = p.input<float>("direction", {rays, 3});
  auto y = p.output<float>("y", {rays});
  for (auto i : p.loop("i", 0, rays)) {
    auto t = p.scalar<float>("t"), density = p.scalar<float>("density");
    t = 0.0f;
    density = 0.0f;
    for (auto step : p.loop_while("step", steps, [&](const Value&) { return t < 1.0f && density < 4.0f; })) {
      static_cast<void>(step);
      auto cell = p.local<std::int64_t>("cell", {3});
      auto offset = p.local<float>("offset", {3});
      for (auto k : p.loop("k", 0, 3)) {
        auto at = (origin(i, k) + t * direction(i, k)) * cast<float>(g - 1);
        cell(k) = max(min(cast<std::int64_t>(floor(at)), g - 2), 0);
        offset(k) = at - cast<float>(cell(k));
      }
      for (auto a : p.loop("a", 0, 2))
        for (auto b : p.loop("b", 0, 2))
          for (auto c : p.loop("c", 0, 2))
            density += select(a == 0, 1.0f - offset(0), offset(0)) * select(b == 0, 1.0f - offset(1), offset(1)) *
                       select(c == 0, 1.0f - offset(2), offset(2)) * grid(cell(0) + a, cell(1) + b, cell(2) + c);
      t += 0.03f;
    }
    y(i) = density;
  }
  return p.build();
}

/// Rays between two points of the unit cube, through a thin medium.
void fill(const Sizes&, std::uint64_t seed, InputArrays& arrays) {
  tools::Random random(seed);
  HostArray &origin = arrays.at("origin"), &direction = arrays.at("direction"), &grid = arrays.at("grid");
  for (std::int64_t i = 0; i < origin.size(); ++i) {
    const double from = random.uniform(), to = random.uniform();
    origin.set(i, from);
    direction.set(i, to - from);
  }
  for (std::int64_t i = 0; i < grid.size(); ++i) grid.set(i, 0.25 * random.uniform());
}

}  // namespace

ProgramEntry march() {
  return {.name = "march",
          .summary = "rays through a volume, read between grid points until a ray is dark",
          .build = build,
          .sizes = {{"n", 100000}, {"g", 64}, {"steps", 40}},
          .check_sizes = {{"n", 7}, {"g", 5}, {"steps", 9}},
          .wrt = {"grid"},
          .fill = fill};
}

}  // namespace loopgrad::programs

#include "tools/programs/programs.h"
#include "tools/support/random.h"

namespace loopgrad::programs {
namespace {

/// What the two loops over particles share: where they are, and the corners of the cell that each is in.
struct Particles {
  ArrayHandle position;
  Value points;  // of the grid, along each side
};

/// Runs `body(weight, x, y, z)` for the eight grid points around particle i.
template <typename Body>
void around(ProgramBuilder& p, const Particles& particles, const Value& i, const Body& body) {
  auto cell = p.local<std::int64_t>("cell", {3});
  auto offset = p.local<float>("offset", {3});
  for (auto k : p.loop("k", 0, 3)) {
    cell(k) = max(min(cast<std::int64_t>(floor(particles.position(i, k))), particles.points - 2), 0);
    offset(k) = particles.position(i, k) - cast<float>(cell(k));
  }
  for (auto a : p.loop("a", 0, 2))
    for (auto b : p.loop("b", 0, 2))
      for (auto c : p.loop("c", 0, 2))
        body(select(a == 0, 1.0f - offset(0), offset(0)) * select(b == 0, 1.0f - offset(1), offset(1)) *
                 select(c == 0, 1.0f - offset(2), offset(2)),
             cell(0) + a, cell(1) + b, cell(2) + c);
}

/// Particles spread their masses over a grid, which is blurred, and read it again where they are (particle in cell).
Program build() {
  ProgramBuilder p("splat");
  auto n = p.size("n"), g = p.size("g");
  auto position = p.input<float>("position", {n, 3});
  auto mass = p.input<float>("mass", {n});
  auto y = p.output<float>("y", {n});
  const Particles particles{position, g};
  auto grid = p.local<float>("grid", {g, g, g}), blurred = p.local<float>("blurred", {g, g, g});
  for (auto a : p.loop("a", 0, g))
    for (auto b : p.loop("b", 0, g))
      for (auto c : p.loop("c", 0, g)) grid(a, b, c) = 0.0f;
  for (auto i : p.loop("i", 0, n))
    around(p, particles, i, [&](const Value& weight, const Value& a, const Value& b, const Value& c) {
      grid(a, b, c) += weight * mass(i);
    });
  for (auto a : p.loop("a", 0, g))
    for (auto b : p.loop("b", 0, g))
      for (auto c : p.loop("c", 0, g)) {
        blurred(a, b, c) = grid(a, b, c);
        p.when(c > 0, [&] { blurred(a, b, c) += 0.5f * grid(a, b, c - 1); });
        p.when(c < g - 1, [&] { blurred(a, b, c) += 0.5f * grid(a, b, c + 1); });
      }
  for (auto i : p.loop("i", 0, n)) {
    y(i) = 0.0f;
    around(p, particles, i, [&](const Value& weight, const Value& a, const Value& b, const Value& c) {
      y(i) += weight * blurred(a, b, c);
    });
  }
  return p.build();
}

/// Particles anywhere in the grid.
void fill(const Sizes& sizes, std::uint64_t seed, InputArrays& arrays) {
  tools::Random random(seed);
  HostArray& position = arrays.at("position");
  for (std::int64_t i = 0; i < position.size(); ++i)
    position.set(i, random.uniform() * static_cast<double>(sizes.at("g") - 1));
}

}  // namespace

ProgramEntry splat() {
  return {.name = "splat",
          .summary = "particles into a grid, a blur, and back by trilinear reads",
          .build = build,
          .sizes = {{"n", 200000}, {"g", 64}},
          .check_sizes = {{"n", 7}, {"g", 4}},
          .wrt = {"position", "mass"},
          .fill = fill};
}

}  // namespace loopgrad::programs

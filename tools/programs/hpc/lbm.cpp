#include "tools/programs/programs.h"
#include "tools/support/random.h"

#include <array>

namespace loopgrad::programs {
namespace {

struct Direction {
  const char* name;
  int x, y, z;
};
constexpr int kDirections = 19;
constexpr std::array<Direction, kDirections> kDirection = {{{"C", 0, 0, 0},
                                                            {"N", 0, 1, 0},
                                                            {"S", 0, -1, 0},
                                                            {"E", 1, 0, 0},
                                                            {"W", -1, 0, 0},
                                                            {"T", 0, 0, 1},
                                                            {"B", 0, 0, -1},
                                                            {"NE", 1, 1, 0},
                                                            {"NW", -1, 1, 0},
                                                            {"SE", 1, -1, 0},
                                                            {"SW", -1, -1, 0},
                                                            {"NT", 0, 1, 1},
                                                            {"NB", 0, 1, -1},
                                                            {"ST", 0, -1, 1},
                                                            {"SB", 0, -1, -1},
                                                            {"ET", 1, 0, 1},
                                                            {"EB", 1, 0, -1},
                                                            {"WT", -1, 0, 1},
                                                            {"WB", -1, 0, -1}}};
constexpr int kObstacle = 1, kAccelerate = 2;  // flags of cells

constexpr float weight(const Direction& d) {
  const int length = d.x * d.x + d.y * d.y + d.z * d.z;
  return length == 0 ? 1.0f / 3 : length == 1 ? 1.0f / 18 : 1.0f / 36;
}

std::size_t opposite(const Direction& d) {
  std::size_t e = 0;
  while (kDirection[e].x != -d.x || kDirection[e].y != -d.y || kDirection[e].z != -d.z) ++e;
  return e;
}

/// What of a cell goes where, per direction: relaxed towards the equilibrium of its density and velocity.
void collide(ProgramBuilder& p, const Value& flag, const std::vector<Element>& f) {
  const float omega = 1.95f;
  auto rho = p.scalar<float>("rho");
  auto ux = p.scalar<float>("ux"), uy = p.scalar<float>("uy"), uz = p.scalar<float>("uz");
  Value density = f[0], x = 0.0f, y = 0.0f, z = 0.0f;
  for (std::size_t e = 1; e < kDirections; ++e) {
    density = density + f[e];
    if (kDirection[e].x != 0) x = x + kDirection[e].x * f[e];
    if (kDirection[e].y != 0) y = y + kDirection[e].y * f[e];
    if (kDirection[e].z != 0) z = z + kDirection[e].z * f[e];
  }
  rho = density;
  ux = x;
  uy = y;
  uz = z;
  for (auto& u : {ux, uy, uz}) u /= rho;
  p.when(flag == kAccelerate, [&] {
    ux = 0.005f;
    uy = 0.002f;
    uz = 0.0f;
  });
  auto u2 = 1.5f * (ux * ux + uy * uy + uz * uz) - 1.0f;
  for (std::size_t e = 0; e < kDirections; ++e) {
    auto along = kDirection[e].x * ux + kDirection[e].y * uy + kDirection[e].z * uz;
    auto equilibrium = weight(kDirection[e]) * rho * (along * (4.5f * along + 3.0f) - u2);
    f[e] = (1.0f - omega) * f[e] + omega * equilibrium;
  }
}

/// Lattice Boltzmann, T steps of streaming and collision: each cell sends what moves in a direction to its neighbour
/// there; obstacles send it back. Grids are structures of arrays, periodic on all sides.
Program build() {
  ProgramBuilder p("lbm");
  auto nx = p.size("nx"), ny = p.size("ny"), nz = p.size("nz"), steps = p.size("T");
  auto initial = p.input<float>("initial", {kDirections * nz * ny * nx});
  auto flags = p.input<int>("flags", {nz * ny * nx});
  auto last = p.output<float>("last", {kDirections * nz * ny * nx});
  auto grid = p.local<float>("grid", {steps + 1, kDirections * nz * ny * nx});
  const auto index = [&](const Value& x, const Value& y, const Value& z, std::size_t e) {
    return static_cast<int>(e) * nz * ny * nx + (z * ny + y) * nx + x;
  };
  const auto at_each_cell = [&](const auto& body) {
    for (auto z : p.loop("z", 0, nz))
      for (auto y : p.loop("y", 0, ny))
        for (auto x : p.loop("x", 0, nx)) body(x, y, z);
  };

  at_each_cell([&](auto x, auto y, auto z) {
    for (std::size_t e = 0; e < kDirections; ++e) grid(0, index(x, y, z, e)) = initial(index(x, y, z, e));
  });
  for (auto t : p.loop("t", 0, steps)) {
    at_each_cell([&](auto x, auto y, auto z) {
      std::vector<Element> f;
      for (std::size_t e = 0; e < kDirections; ++e) {
        f.push_back(p.scalar<float>(kDirection[e].name));
        f[e] = grid(t, index(x, y, z, e));
      }
      auto flag = flags((z * ny + y) * nx + x);
      p.when(flag == kObstacle, [&] {
         for (std::size_t e = 0; e < kDirections; ++e) {
           const std::size_t back = opposite(kDirection[e]);
           if (back < e) continue;
           auto swapped = p.scalar<float>("swapped");
           swapped = f[e];
           f[e] = f[back];
           f[back] = swapped;
         }
       }).otherwise([&] { collide(p, flag, f); });
      for (std::size_t e = 0; e < kDirections; ++e) {
        const Direction& d = kDirection[e];
        grid(t + 1, index((x + d.x + nx) % nx, (y + d.y + ny) % ny, (z + d.z + nz) % nz, e)) = f[e];
      }
    });
  }
  at_each_cell([&](auto x, auto y, auto z) {
    for (std::size_t e = 0; e < kDirections; ++e) last(index(x, y, z, e)) = grid(steps, index(x, y, z, e));
  });
  return p.build();
}

/// A cavity: walls, a ball in the middle, and a lid and a floor that move. Nearly at rest.
void fill(const Sizes& sizes, std::uint64_t seed, InputArrays& arrays) {
  tools::Random random(seed);
  const std::int64_t nx = sizes.at("nx"), ny = sizes.at("ny"), nz = sizes.at("nz"), cells = nx * ny * nz;
  for (std::int64_t i = 0; i < kDirections * cells; ++i) {
    const double at_rest = weight(kDirection[static_cast<std::size_t>(i / cells)]);
    arrays.at("initial").set(i, at_rest * random.uniform(0.95, 1.05));
  }
  for (std::int64_t i = 0; i < cells; ++i) {
    const std::int64_t x = i % nx, y = i / nx % ny, z = i / nx / ny;
    const bool wall = x == 0 || x == nx - 1 || y == 0 || y == ny - 1 || z == 0 || z == nz - 1;
    const std::int64_t dx = 2 * x - nx, dy = 2 * y - ny, dz = 2 * z - nz;
    const bool ball = 16 * (dx * dx + dy * dy + dz * dz) < nx * nx;
    const bool moves = (z == 1 || z == nz - 2) && x > 1 && x < nx - 2 && y > 1 && y < ny - 2;
    arrays.at("flags").set(i, wall || ball ? kObstacle : moves ? kAccelerate : 0);
  }
}

}  // namespace

ProgramEntry lbm() {
  return {.name = "lbm",
          .summary = "T steps of lattice Boltzmann in a lid-driven cavity, D3Q19",
          .build = build,
          .sizes = {{"nx", 60}, {"ny", 60}, {"nz", 40}, {"T", 5}},
          .check_sizes = {{"nx", 6}, {"ny", 5}, {"nz", 3}, {"T", 2}},
          .wrt = {"initial"},
          .fill = fill};
}

}  // namespace loopgrad::programs

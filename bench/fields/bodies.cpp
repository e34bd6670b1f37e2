// Matter in motion: fluids of particles, contacts, constraints by colours, atoms with lists that are made anew.
#include "bench/fields/fields.h"

#include "tools/support/random.h"

#include <algorithm>
#include <cmath>

namespace loopgrad::fields {
namespace {

/// Smoothed particles in a tank, sorted into cells in every step: counts, starts, places; densities, pressure, walls.
Program cell_fluid() {
  ProgramBuilder p("cell_fluid");
  auto n = p.size("n"), side = p.size("side"), steps = p.size("steps");
  auto x = p.inout<float>("x", {n, 2}), v = p.inout<float>("v", {n, 2});
  auto mass = p.input<float>("mass", {n}), stiff = p.input<float>("stiff", {});
  auto cell = p.local<int>("cell", {n}), place = p.local<int>("place", {n});
  auto start = p.local<int>("start", {side * side + 1}), next = p.local<int>("next", {side * side});
  auto rho = p.local<float>("rho", {n}), force = p.local<float>("force", {n, 2});
  auto width = p.let("width", 1.0f / cast<float>(side));
  auto neighbours = [&](const Value& i, auto&& visit) {
    auto cy = p.let("cy", cell(i) / side), cx = p.let("cx", cell(i) % side);
    for (auto ny : p.loop("ny", max(cy - 1, 0), min(cy + 2, side), {.at_most = {3}}))
      for (auto nx : p.loop("nx", max(cx - 1, 0), min(cx + 2, side), {.at_most = {3}}))
        for (auto k : p.loop("k", start(ny * side + nx), start(ny * side + nx + 1), {.at_most = {n}})) {
          auto j = p.let("j", place(k));
          auto dx = p.let("dx", x(i, 0) - x(j, 0)), dy = p.let("dy", x(i, 1) - x(j, 1));
          auto r2 = p.let("r2", dx * dx + dy * dy);
          p.when(r2 < width * width, [&] { visit(j, dx, dy, r2); });
        }
  };
  for (auto s : p.loop("s", steps)) {
    (void)s;
    for (auto c : p.loop("c", side * side + 1)) start(c) = 0;
    for (auto i : p.loop("i", n)) {
      auto cx = p.let("cx", min(max(cast<std::int64_t>(floor(x(i, 0) / width)), 0), side - 1)),
           cy = p.let("cy", min(max(cast<std::int64_t>(floor(x(i, 1) / width)), 0), side - 1));
      cell(i) = cast<int>(cy * side + cx);
      start(cell(i) + 1) += 1;
    }
    for (auto c : p.loop("c", side * side)) start(c + 1) = start(c) + start(c + 1);
    for (auto c : p.loop("c", side * side)) next(c) = start(c);
    for (auto i : p.loop("i", n)) {
      place(next(cell(i))) = cast<int>(i);
      next(cell(i)) += 1;
    }
    for (auto i : p.loop("i", n)) {
      rho(i) = 0.1f;
      neighbours(i, [&](auto& j, auto&, auto&, auto& r2) {
        auto q = p.let("q", 1.0f - r2 / (width * width));
        rho(i) += (1.5f + mass(j)) * q * q * q;
      });
    }
    for (auto i : p.loop("i", n)) {
      force(i, 0) = 0.0f;
      force(i, 1) = -0.5f;
      auto own = p.let("own", exp(stiff()) * (rho(i) - 1.0f));
      neighbours(i, [&](auto& j, auto& dx, auto& dy, auto& r2) {
        p.when(j != i, [&] {
          auto r = p.let("r", sqrt(r2 + 1e-6f));
          auto other = exp(stiff()) * (rho(j) - 1.0f);
          auto q = p.let("q", 1.0f - r / (width * 1.001f));
          auto push = p.let("push", 0.02f * (1.5f + mass(j)) * (own + other) / (2.0f * rho(j)) * q * q / r);
          force(i, 0) += push * dx - 0.05f * q * (v(i, 0) - v(j, 0)) / rho(j);
          force(i, 1) += push * dy - 0.05f * q * (v(i, 1) - v(j, 1)) / rho(j);
        });
      });
    }
    for (auto i : p.loop("i", n))
      for (auto a : p.loop("a", 2)) {
        v(i, a) += 0.01f * force(i, a) / rho(i);
        x(i, a) += 0.01f * v(i, a);
        p.when(x(i, a) < 0.0f, [&] {
           x(i, a) = -x(i, a);
           v(i, a) *= -0.5f;
         }).otherwise(x(i, a) > 1.0f, [&] {
          x(i, a) = 2.0f - x(i, a);
          v(i, a) *= -0.5f;
        });
      }
  }
  return p.build();
}

/// Rigid bodies: impulses at contacts, one after the other, kept between bounds, friction within its cone.
Program contact_impulses() {
  ProgramBuilder p("contact_impulses");
  auto bodies = p.size("bodies"), contacts = p.size("contacts"), rounds = p.size("rounds");
  auto a = p.input<int>("a", {contacts}), b = p.input<int>("b", {contacts});
  auto turn = p.input<float>("turn", {contacts}), arm = p.input<float>("arm", {contacts, 2, 2}),
       gap = p.input<float>("gap", {contacts});
  auto weight = p.input<float>("weight", {bodies, 2}), rub = p.input<float>("rub", {}),
       bounce = p.input<float>("bounce", {});
  auto v = p.inout<float>("v", {bodies, 3});
  auto impulse = p.output<float>("impulse", {contacts, 2});
  p.in_range(a, 0, bodies);
  p.in_range(b, 0, bodies);
  auto target = p.local<float>("target", {contacts});
  auto relative = [&](const Value& c, const Value& nx, const Value& ny) {
    auto i = a(c), j = b(c);
    auto dx = v(j, 0) - v(j, 2) * arm(c, 1, 1) - v(i, 0) + v(i, 2) * arm(c, 0, 1);
    auto dy = v(j, 1) + v(j, 2) * arm(c, 1, 0) - v(i, 1) - v(i, 2) * arm(c, 0, 0);
    return dx * nx + dy * ny;
  };
  for (auto c : p.loop("c", contacts)) {
    for (auto k : p.loop("k", 2)) impulse(c, k) = 0.0f;
    auto nx = p.let("nx", cos(3.0f * turn(c))), ny = p.let("ny", sin(3.0f * turn(c)));
    target(c) = max(-bounce() * relative(c, nx, ny), 0.0f) + 0.2f * max(-gap(c), 0.0f);
  }
  for (auto r : p.loop("r", rounds)) {
    (void)r;
    for (auto c : p.loop("c", contacts)) {
      auto nx = p.let("nx", cos(3.0f * turn(c))), ny = p.let("ny", sin(3.0f * turn(c)));
      for (int k = 0; k < 2; ++k) {
        const Value ax = k == 0 ? nx : -ny, ay = k == 0 ? ny : nx;
        auto i = p.let("i", a(c)), j = p.let("j", b(c));
        auto mi = p.let("mi", 0.2f + weight(i, 0) * weight(i, 0)), mj = p.let("mj", 0.2f + weight(j, 0) * weight(j, 0));
        auto ii = p.let("ii", 0.1f + weight(i, 1) * weight(i, 1)), ij = p.let("ij", 0.1f + weight(j, 1) * weight(j, 1));
        auto ri = p.let("ri", arm(c, 0, 0) * ay - arm(c, 0, 1) * ax),
             rj = p.let("rj", arm(c, 1, 0) * ay - arm(c, 1, 1) * ax);
        auto inverse = p.let("inverse", mi + mj + ii * ri * ri + ij * rj * rj);
        auto speed = p.let("speed", relative(c, ax, ay));
        auto old = p.let("old", impulse(c, k));
        auto more = p.scalar<float>("more");
        if (k == 0) more = max(old + (target(c) - speed) / inverse, 0.0f);
        else {
          auto bound = p.let("bound", (0.3f + abs(rub())) * impulse(c, 0));
          more = min(max(old - speed / inverse, -bound), bound);
        }
        impulse(c, k) = more;
        auto change = p.let("change", more - old);
        p.when(i != j, [&] {
          v(i, 0) -= mi * change * ax;
          v(i, 1) -= mi * change * ay;
          v(i, 2) -= ii * change * ri;
          v(j, 0) += mj * change * ax;
          v(j, 1) += mj * change * ay;
          v(j, 2) += ij * change * rj;
        });
      }
    }
  }
  return p.build();
}

/// Soft bodies by positions: compliant distances, colour after colour, substeps, a floor, speeds from places.
Program colour_constraints() {
  ProgramBuilder p("colour_constraints");
  auto n = p.size("n"), m = p.size("m"), colours = p.size("colours"), steps = p.size("steps"),
       rounds = p.size("rounds");
  auto first = p.input<int>("first", {colours + 1}), ends = p.input<int>("ends", {m, 2});
  auto x = p.inout<float>("x", {n, 3}), v = p.inout<float>("v", {n, 3});
  auto rest = p.input<float>("rest", {m}), soft = p.input<float>("soft", {m}), heavy = p.input<float>("heavy", {n});
  p.csr(first, m);
  p.in_range(ends, 0, n);
  auto old = p.local<float>("old", {n, 3}), lambda = p.local<float>("lambda", {m});
  constexpr float dt = 0.02f;
  for (auto s : p.loop("s", steps)) {
    (void)s;
    for (auto i : p.loop("i", n)) {
      v(i, 1) -= dt * 0.5f;
      for (auto k : p.loop("k", 3)) {
        old(i, k) = x(i, k);
        x(i, k) += dt * v(i, k);
      }
    }
    for (auto c : p.loop("c", m)) lambda(c) = 0.0f;
    for (auto r : p.loop("r", rounds)) {
      (void)r;
      for (auto colour : p.loop("colour", colours))
        for (auto c : p.loop("c", first(colour), first(colour + 1))) {
          auto i = p.let("i", ends(c, 0)), j = p.let("j", ends(c, 1));
          p.when(i != j, [&] {
            const Vec<3> way = p.let("way", load<3>(x.row(i)) - load<3>(x.row(j)));
            auto far = p.let("far", sqrt(dot(way, way) + 1e-4f));
            auto wi = p.let("wi", exp(heavy(i))), wj = p.let("wj", exp(heavy(j)));
            auto give = p.let("give", 1e-4f * exp(soft(c)) / (dt * dt));
            auto change = p.let("change", (-(far - (0.6f + 0.2f * rest(c))) - give * lambda(c)) / (wi + wj + give));
            lambda(c) += change;
            const Vec<3> push = p.let("push", (change / far) * way);
            for (int k = 0; k < 3; ++k) {
              x(i, k) += wi * push[static_cast<std::size_t>(k)];
              x(j, k) -= wj * push[static_cast<std::size_t>(k)];
            }
          });
        }
    }
    for (auto i : p.loop("i", n)) {
      x(i, 1).max_with(-1.0f);
      for (auto k : p.loop("k", 3)) v(i, k) = (x(i, k) - old(i, k)) / dt * 0.99f;
    }
  }
  return p.build();
}

/// Atoms in a periodic box: lists of neighbours with a skin, made anew when one has moved too far; velocity Verlet.
Program verlet_lists() {
  ProgramBuilder p("verlet_lists");
  auto n = p.size("n"), most = p.size("most"), steps = p.size("steps");
  auto x = p.inout<double>("x", {n, 3}), v = p.inout<double>("v", {n, 3});
  auto depth = p.input<double>("depth", {}), size = p.input<double>("size", {n});
  auto energy = p.output<double>("energy", {steps});
  auto list = p.local<int>("list", {n, most}), count = p.local<int>("count", {n});
  auto at = p.local<double>("at", {n, 3}), f = p.local<double>("f", {n, 3});
  auto box = p.let("box", exp(log(cast<double>(n)) / 3.0) * 1.2);
  auto moved = p.scalar<double>("moved", 1);
  for (auto [i, k] : p.loop({"i", n}, {"k", 3})) f(i, k) = 0.0;
  auto wrapped = [&](const Value& d) { return d - box * floor(d / box + 0.5); };
  for (auto s : p.loop("s", steps)) {
    for (auto [i, k] : p.loop({"i", n}, {"k", 3})) {
      v(i, k) += 0.0025 * f(i, k);
      x(i, k) += 0.005 * v(i, k);
    }
    p.when(s > 0, [&] {
      moved = 0.0;
      for (auto i : p.loop("i", n)) {
        const Vec<3> d = load<3>(x.row(i)) - load<3>(at.row(i));
        moved.max_with(dot(d, d));
      }
    });
    p.when(moved > 0.02, [&] {
      for (auto i : p.loop("i", n)) {
        count(i) = 0;
        for (auto k : p.loop("k", 3)) at(i, k) = x(i, k);
        for (auto j : p.loop("j", n)) {
          const Vec<3> d = load<3>(x.row(i)) - load<3>(x.row(j));
          const Vec<3> w = p.let("w", Vec<3>(wrapped(d[0]), wrapped(d[1]), wrapped(d[2])));
          p.when(i != j && dot(w, w) < 3.2 && count(i) < most, [&] {
            list(i, count(i)) = cast<int>(j);
            count(i) += 1;
          });
        }
      }
    });
    energy(s) = 0.0;
    for (auto i : p.loop("i", n)) {
      for (auto k : p.loop("k", 3)) f(i, k) = 0.0;
      for (auto e : p.loop("e", most))
        p.when(e < count(i), [&] {
          auto j = p.let("j", list(i, e));
          const Vec<3> d = load<3>(x.row(i)) - load<3>(x.row(j));
          const Vec<3> w = p.let("w", Vec<3>(wrapped(d[0]), wrapped(d[1]), wrapped(d[2])));
          auto r2 = p.let("r2", dot(w, w) + 0.3);
          p.when(r2 < 2.5, [&] {
            auto sigma = p.let("sigma", 0.8 + 0.05 * (size(i) + size(j)));
            auto s6 = p.let("s6", pow(sigma * sigma / r2, 3));
            auto pull = p.let("pull", 0.1 * exp(depth()) * (2.0 * s6 * s6 - s6) / r2);
            energy(s) += 0.05 * exp(depth()) * (s6 * s6 - s6);
            for (int k = 0; k < 3; ++k) f(i, k) += pull * w[static_cast<std::size_t>(k)];
          });
        });
    }
    for (auto [i, k] : p.loop({"i", n}, {"k", 3})) v(i, k) += 0.0025 * f(i, k);
  }
  return p.build();
}

/// A fluid of particles and a staggered grid: momentum to faces, divergence out by relaxation, changes back, walls.
Program flip_tank() {
  ProgramBuilder p("flip_tank");
  auto n = p.size("n"), w = p.size("w"), h = p.size("h"), steps = p.size("steps"), rounds = p.size("rounds");
  auto x = p.inout<float>("x", {n, 2}), v = p.inout<float>("v", {n, 2});
  auto pull = p.input<float>("pull", {2}), blend = p.input<float>("blend", {});
  auto u = p.local<float>("u", {2, h + 1, w + 1}), mass = p.local<float>("mass", {2, h + 1, w + 1}),
       old = p.local<float>("old", {2, h + 1, w + 1}), pressure = p.local<float>("pressure", {h, w});
  auto wet = p.local<bool>("wet", {h, w});
  auto corners = [&](const Value& i, int axis, auto&& visit) {
    auto gx = p.let("gx", x(i, 0) * cast<float>(w) - (axis == 0 ? 0.0f : 0.5f)),
         gy = p.let("gy", x(i, 1) * cast<float>(h) - (axis == 0 ? 0.5f : 0.0f));
    auto cx = p.let("cx", min(max(cast<std::int64_t>(floor(gx)), 0), w - 1)),
         cy = p.let("cy", min(max(cast<std::int64_t>(floor(gy)), 0), h - 1));
    auto fx = p.let("fx", gx - cast<float>(cx)), fy = p.let("fy", gy - cast<float>(cy));
    visit(cy, cx, (1.0f - fy) * (1.0f - fx));
    visit(cy, cx + 1, (1.0f - fy) * fx);
    visit(cy + 1, cx, fy * (1.0f - fx));
    visit(cy + 1, cx + 1, fy * fx);
  };
  for (auto s : p.loop("s", steps)) {
    (void)s;
    for (auto [a, y, c] : p.loop({"a", 2}, {"y", h + 1}, {"c", w + 1})) {
      u(a, y, c) = 0.0f;
      mass(a, y, c) = 1e-3f;
    }
    for (auto [y, c] : p.loop({"y", h}, {"c", w})) wet(y, c) = false;
    for (auto i : p.loop("i", n)) {
      wet(min(cast<std::int64_t>(x(i, 1) * cast<float>(h)), h - 1),
          min(cast<std::int64_t>(x(i, 0) * cast<float>(w)), w - 1)) = true;
      for (int axis = 0; axis < 2; ++axis)
        corners(i, axis, [&](const Value& y, const Value& c, const Value& share) {
          u(axis, y, c) += share * v(i, axis);
          mass(axis, y, c) += share;
        });
    }
    for (auto [a, y, c] : p.loop({"a", 2}, {"y", h + 1}, {"c", w + 1})) {
      u(a, y, c) /= mass(a, y, c);
      old(a, y, c) = u(a, y, c);
      u(a, y, c) += 0.01f * pull(a);
    }
    for (auto y : p.loop("y", h + 1)) u(0, y, 0) = 0.0f, u(0, y, w) = 0.0f;
    for (auto c : p.loop("c", w + 1)) u(1, 0, c) = 0.0f, u(1, h, c) = 0.0f;
    for (auto [y, c] : p.loop({"y", h}, {"c", w})) pressure(y, c) = 0.0f;
    for (auto r : p.loop("r", rounds)) {
      (void)r;
      for (auto colour : p.loop("colour", 2))
        for (auto [y, c] : p.loop({"y", h}, {"c", w}))
          p.when(wet(y, c) && (y + c) % 2 == colour, [&] {
            auto sum = p.scalar<float>("sum", 0), open = p.scalar<float>("open", 0);
            p.when(c > 0, [&] { sum += pressure(y, c - 1), open += 1.0f; });
            p.when(c < w - 1, [&] { sum += pressure(y, c + 1), open += 1.0f; });
            p.when(y > 0, [&] { sum += pressure(y - 1, c), open += 1.0f; });
            p.when(y < h - 1, [&] { sum += pressure(y + 1, c), open += 1.0f; });
            auto div = u(0, y, c + 1) - u(0, y, c) + u(1, y + 1, c) - u(1, y, c);
            pressure(y, c) = 1.4f * (sum - div) / max(open, 1.0f) - 0.4f * pressure(y, c);
          });
    }
    for (auto [y, c] : p.loop({"y", h}, {"c", 1, w})) u(0, y, c) -= pressure(y, c) - pressure(y, c - 1);
    for (auto [y, c] : p.loop({"y", 1, h}, {"c", w})) u(1, y, c) -= pressure(y, c) - pressure(y - 1, c);
    for (auto i : p.loop("i", n)) {
      for (int axis = 0; axis < 2; ++axis) {
        auto now = p.scalar<float>("now", 0), change = p.scalar<float>("change", 0);
        corners(i, axis, [&](const Value& y, const Value& c, const Value& share) {
          now += share * u(axis, y, c);
          change += share * (u(axis, y, c) - old(axis, y, c));
        });
        auto keep = p.let("keep", sigmoid(blend()));
        v(i, axis) = keep * (v(i, axis) + change) + (1.0f - keep) * now;
      }
      for (auto a : p.loop("a", 2)) x(i, a) = min(max(x(i, a) + 0.01f * v(i, a), 0.001f), 0.999f);
    }
  }
  return p.build();
}

void within_unit(const Sizes&, std::uint64_t seed, InputArrays& arrays) {
  tools::Random random(seed);
  HostArray& x = arrays.at("x");
  for (std::int64_t i = 0; i < x.size(); ++i) x.set(i, random.uniform(0.02, 0.98));
}

void within_box(const Sizes& sizes, std::uint64_t seed, InputArrays& arrays) {
  tools::Random random(seed);
  HostArray& x = arrays.at("x");
  const double edge = std::cbrt(static_cast<double>(sizes.at("n"))) * 1.2;
  for (std::int64_t i = 0; i < x.size(); ++i) x.set(i, random.uniform(0, edge));
}

/// Constraint k of a colour joins nodes that no other one of the colour has.
void coloured_ends(const Sizes& sizes, std::uint64_t, InputArrays& arrays) {
  const std::int64_t n = sizes.at("n"), m = sizes.at("m"), colours = sizes.at("colours");
  for (std::int64_t c = 0; c <= colours; ++c) arrays.at("first").set(c, static_cast<double>(m * c / colours));
  for (std::int64_t c = 0; c < colours; ++c)
    for (std::int64_t k = m * c / colours; k < m * (c + 1) / colours; ++k) {
      const std::int64_t at = 2 * (k - m * c / colours);
      arrays.at("ends").set(2 * k, static_cast<double>((at + c) % n));
      arrays.at("ends").set(2 * k + 1, static_cast<double>((at + c + 1 + 2 * (c / 2)) % n));
    }
}

}  // namespace

std::vector<Field> bodies() {
  return {
      {{"cell_fluid", "", cell_fluid, {{"n", 1503}, {"side", 21}, {"steps", 9}}, {}, {}, within_unit},
       {{{"n", 9}, {"side", 3}, {"steps", 3}},
        {{"n", 1}, {"side", 1}, {"steps", 1}},
        {{"n", 14}, {"side", 4}, {"steps", 2}}}},
      {{"contact_impulses", "", contact_impulses, {{"bodies", 611}, {"contacts", 1507}, {"rounds", 15}}},
       {{{"bodies", 4}, {"contacts", 7}, {"rounds", 3}},
        {{"bodies", 1}, {"contacts", 1}, {"rounds", 1}},
        {{"bodies", 3}, {"contacts", 5}, {"rounds", 2}}}},
      {{"colour_constraints",
        "",
        colour_constraints,
        {{"n", 2411}, {"m", 7003}, {"colours", 6}, {"steps", 3}, {"rounds", 5}},
        {},
        {},
        coloured_ends},
       {{{"n", 9}, {"m", 7}, {"colours", 2}, {"steps", 2}, {"rounds", 2}},
        {{"n", 2}, {"m", 1}, {"colours", 1}, {"steps", 1}, {"rounds", 1}},
        {{"n", 14}, {"m", 11}, {"colours", 4}, {"steps", 1}, {"rounds", 3}}}},
      {{"verlet_lists", "", verlet_lists, {{"n", 407}, {"most", 40}, {"steps", 12}}, {}, {}, within_box},
       {{{"n", 7}, {"most", 5}, {"steps", 3}},
        {{"n", 1}, {"most", 1}, {"steps", 1}},
        {{"n", 12}, {"most", 11}, {"steps", 4}}}},
      {{"flip_tank",
        "",
        flip_tank,
        {{"n", 5003}, {"w", 43}, {"h", 37}, {"steps", 4}, {"rounds", 11}},
        {},
        {},
        within_unit},
       {{{"n", 9}, {"w", 4}, {"h", 3}, {"steps", 2}, {"rounds", 3}},
        {{"n", 1}, {"w", 1}, {"h", 1}, {"steps", 1}, {"rounds", 1}},
        {{"n", 14}, {"w", 3}, {"h", 5}, {"steps", 1}, {"rounds", 2}}}},
  };
}

}  // namespace loopgrad::fields

// Grids: levels that C++ writes out, implicit steps until they converge, spectra, cells of many sizes, staggered
// fluxes.
#include "bench/fields/fields.h"

#include "tools/support/random.h"

#include <algorithm>
#include <cmath>

namespace loopgrad::fields {
namespace {

/// V-cycles of multigrid for a variable coefficient and a mask: levels written out by C++, damped smoothing, a loss.
Program masked_vcycle() {
  ProgramBuilder p("masked_vcycle");
  auto n = p.size("n"), cycles = p.size("cycles");  // the coarsest grid has n by n cells, three levels
  constexpr std::size_t levels = 3;
  auto k = p.input<double>("k", {4 * n, 4 * n}), f = p.input<double>("f", {4 * n, 4 * n}),
       damp = p.input<double>("damp", {});
  auto inside = p.input<int>("inside", {4 * n, 4 * n});
  p.in_range(inside, 0, 5);
  auto u = p.output<double>("u", {4 * n, 4 * n}), left = p.output<double>("left", {cycles});
  std::vector<ArrayHandle> x, b, c;
  std::vector<ArrayHandle> open;
  std::vector<Value> size;
  for (std::size_t l = 0; l < levels; ++l) {
    const Value m = n * (4 >> l);
    const std::string end = std::to_string(l);
    size.push_back(m);
    x.push_back(p.local<double>("x" + end, {m, m}));
    b.push_back(p.local<double>("b" + end, {m, m}));
    c.push_back(p.local<double>("c" + end, {m, m}));
    open.push_back(p.local<bool>("open" + end, {m, m}));
  }
  for (auto [i, j] : p.loop({"i", size[0]}, {"j", size[0]})) {
    c[0](i, j) = exp(0.5 * k(i, j));
    open[0](i, j) = inside(i, j) != 0;
    x[0](i, j) = 0.0;
    b[0](i, j) = f(i, j);
  }
  for (std::size_t l = 1; l < levels; ++l)
    for (auto [i, j] : p.loop({"i", size[l]}, {"j", size[l]})) {
      c[l](i, j) = 0.25 * (c[l - 1](2 * i, 2 * j) + c[l - 1](2 * i + 1, 2 * j) + c[l - 1](2 * i, 2 * j + 1) +
                           c[l - 1](2 * i + 1, 2 * j + 1));
      open[l](i, j) = open[l - 1](2 * i, 2 * j) && open[l - 1](2 * i + 1, 2 * j + 1);
    }
  auto around = [&](std::size_t l, const Value& i, const Value& j, auto&& visit) {
    const int di[] = {-1, 1, 0, 0}, dj[] = {0, 0, -1, 1};
    for (int d = 0; d < 4; ++d) {
      const Value ni = i + di[d], nj = j + dj[d];
      p.when(ni >= 0 && ni < size[l] && nj >= 0 && nj < size[l], [&] {
        auto flow = p.let("flow", 2.0 * c[l](i, j) * c[l](ni, nj) / (c[l](i, j) + c[l](ni, nj)));
        visit(flow, select(open[l](ni, nj), x[l](ni, nj), 0.0));
      });
    }
  };
  auto smooth = [&](std::size_t l, int times) {
    for (int t = 0; t < times; ++t) {
      auto next = p.local<double>("next", {size[l], size[l]});
      for (auto [i, j] : p.loop({"i", size[l]}, {"j", size[l]})) {
        next(i, j) = 0.0;
        p.when(open[l](i, j), [&] {
          auto diag = p.scalar<double>("diag", 0.1), sum = p.scalar<double>("sum", b[l](i, j));
          around(l, i, j, [&](const Value& flow, const Value& value) {
            diag += flow;
            sum += flow * value;
          });
          auto w = sigmoid(damp() + 1.0);
          next(i, j) = (1.0 - w) * x[l](i, j) + w * sum / diag;
        });
      }
      for (auto [i, j] : p.loop({"i", size[l]}, {"j", size[l]})) x[l](i, j) = next(i, j);
    }
  };
  for (auto cycle : p.loop("cycle", cycles)) {
    for (std::size_t l = 0; l + 1 < levels; ++l) {
      smooth(l, 2);
      auto r = p.local<double>("r", {size[l], size[l]});
      for (auto [i, j] : p.loop({"i", size[l]}, {"j", size[l]})) {
        auto sum = p.scalar<double>("sum", b[l](i, j) - 0.1 * x[l](i, j));
        around(l, i, j, [&](const Value& flow, const Value& value) { sum += flow * (value - x[l](i, j)); });
        r(i, j) = select(open[l](i, j), sum, 0.0);
      }
      for (auto [i, j] : p.loop({"i", size[l + 1]}, {"j", size[l + 1]})) {
        x[l + 1](i, j) = 0.0;
        b[l + 1](i, j) = r(2 * i, 2 * j) + r(2 * i + 1, 2 * j) + r(2 * i, 2 * j + 1) + r(2 * i + 1, 2 * j + 1);
      }
    }
    smooth(levels - 1, 6);
    for (std::size_t l = levels - 1; l-- > 0;) {
      for (auto [i, j] : p.loop({"i", size[l]}, {"j", size[l]}))
        p.when(open[l](i, j), [&] { x[l](i, j) += x[l + 1](i / 2, j / 2); });
      smooth(l, 2);
    }
    left(cycle) = 0.0;
    for (auto [i, j] : p.loop({"i", size[0]}, {"j", size[0]})) {
      auto sum = p.scalar<double>("sum", b[0](i, j) - 0.1 * x[0](i, j));
      around(0, i, j, [&](const Value& flow, const Value& value) { sum += flow * (value - x[0](i, j)); });
      p.when(open[0](i, j), [&] { left(cycle) += sum * sum; });
    }
  }
  for (auto [i, j] : p.loop({"i", size[0]}, {"j", size[0]})) u(i, j) = x[0](i, j);
  return p.build();
}

/// Implicit steps of a nonlinear diffusion: conjugate gradients with a diagonal preconditioner until the rest is small.
Program implicit_heat() {
  ProgramBuilder p("implicit_heat");
  auto h = p.size("h"), w = p.size("w"), steps = p.size("steps"), most = p.size("most");
  auto start = p.input<double>("start", {h, w}), source = p.input<double>("source", {h, w}),
       power = p.input<double>("power", {});
  auto u = p.output<double>("u", {h, w});
  auto east = p.local<double>("east", {h, w + 1}), south = p.local<double>("south", {h + 1, w});
  auto r = p.local<double>("r", {h, w}), d = p.local<double>("d", {h, w}), ad = p.local<double>("ad", {h, w}),
       diag = p.local<double>("diag", {h, w});
  for (auto [i, j] : p.loop({"i", h}, {"j", w})) u(i, j) = start(i, j);
  for (auto [i, j] : p.loop({"i", h}, {"j", w + 1})) east(i, j) = 0.0;
  for (auto [i, j] : p.loop({"i", h + 1}, {"j", w})) south(i, j) = 0.0;
  auto times = [&](auto& from, const Value& i, const Value& j) {
    return from(i, j) + east(i, j) * (from(i, j) - from(i, max(j - 1, 0))) +
           east(i, j + 1) * (from(i, j) - from(i, min(j + 1, w - 1))) +
           south(i, j) * (from(i, j) - from(max(i - 1, 0), j)) +
           south(i + 1, j) * (from(i, j) - from(min(i + 1, h - 1), j));
  };
  for (auto s : p.loop("s", steps)) {
    (void)s;
    auto conduct = [&](const Value& a, const Value& b) {
      return 2.0 * exp(power() * log(0.2 + 0.25 * (a + b) * (a + b)));
    };
    for (auto [i, j] : p.loop({"i", h}, {"j", 1, w})) east(i, j) = conduct(u(i, j), u(i, j - 1));
    for (auto [i, j] : p.loop({"i", 1, h}, {"j", w})) south(i, j) = conduct(u(i, j), u(i - 1, j));
    auto rz = p.scalar<double>("rz", 0);
    for (auto [i, j] : p.loop({"i", h}, {"j", w})) {
      diag(i, j) = 1.0 + east(i, j) + east(i, j + 1) + south(i, j) + south(i + 1, j);
      r(i, j) = u(i, j) + 0.3 * source(i, j) - times(u, i, j);
      d(i, j) = r(i, j) / diag(i, j);
      rz += r(i, j) * d(i, j);
    }
    for (auto k : p.loop_while("k", most, [&](auto) { return rz > 1e-7; })) {
      (void)k;
      auto dad = p.scalar<double>("dad", 0), more = p.scalar<double>("more", 0);
      for (auto [i, j] : p.loop({"i", h}, {"j", w})) {
        ad(i, j) = times(d, i, j);
        dad += d(i, j) * ad(i, j);
      }
      auto alpha = p.let("alpha", rz / dad);
      for (auto [i, j] : p.loop({"i", h}, {"j", w})) {
        u(i, j) += alpha * d(i, j);
        r(i, j) -= alpha * ad(i, j);
        more += r(i, j) * r(i, j) / diag(i, j);
      }
      auto beta = p.let("beta", more / rz);
      for (auto [i, j] : p.loop({"i", h}, {"j", w})) d(i, j) = r(i, j) / diag(i, j) + beta * d(i, j);
      rz = more;
    }
  }
  return p.build();
}

/// Waves by their spectrum: transforms of radix three that swap two buffers, a split step of Schroedinger's equation.
Program split_step() {
  ProgramBuilder p("split_step");
  auto digits = p.size("digits"), n = p.size("n"), b = p.size("b"), steps = p.size("steps");  // n is 3 to the digits
  auto re = p.inout<double>("re", {b, n}), im = p.inout<double>("im", {b, n});
  auto potential = p.input<double>("potential", {n}), strength = p.input<double>("strength", {b});
  auto norm = p.output<double>("norm", {b});
  for (auto m : p.loop("m", b)) {
    auto x = p.ring<double>("x", 2, {n}), y = p.ring<double>("y", 2, {n});
    auto transform = [&](double sign) {
      auto s = p.scalar<std::int64_t>("s", 1);
      for (auto j : p.loop("j", n)) x(0, j) = re(m, j), y(0, j) = im(m, j);
      for (auto l : p.loop("l", digits)) {
        auto third = p.let("third", n / 3), stride = p.let("stride", s);
        for (auto q : p.loop("q", third)) {
          auto angle = p.let("angle", sign * 2.0943951023931953 * cast<double>(q - q % stride) / cast<double>(third));
          Complex v[3];
          for (int t = 0; t < 3; ++t) v[t] = p.let("v", Complex(x(l, q + third * t), y(l, q + third * t)));
          for (int t = 0; t < 3; ++t) {
            Complex sum = v[0];
            for (int k = 1; k < 3; ++k)
              sum = sum +
                    v[k] * Complex(std::cos(2.0943951023931953 * k * t), sign * std::sin(2.0943951023931953 * k * t));
            const Complex turned = p.let("turned", sum * polar(1.0, angle / 3.0 * static_cast<double>(t)));
            auto to = p.let("to", (q - q % stride) * 3 + q % stride + stride * t);
            x(l + 1, min(to, n - 1)) = turned.re;
            y(l + 1, min(to, n - 1)) = turned.im;
          }
        }
        s = s * 3;
      }
      for (auto j : p.loop("j", n)) re(m, j) = x(digits, j), im(m, j) = y(digits, j);
    };
    for (auto t : p.loop("t", steps)) {
      (void)t;
      for (auto j : p.loop("j", n)) {
        auto density = p.let("density", re(m, j) * re(m, j) + im(m, j) * im(m, j));
        const Complex next =
            p.let("next", Complex(re(m, j), im(m, j)) * polar(1.0, -0.05 * (potential(j) + strength(m) * density)));
        re(m, j) = next.re;
        im(m, j) = next.im;
      }
      transform(-1.0);
      for (auto j : p.loop("j", n)) {
        auto wave = p.let("wave", cast<double>(select(2 * j < n, j, j - n)) / cast<double>(n) * 6.0);
        const Complex next =
            p.let("next", Complex(re(m, j), im(m, j)) * polar(1.0 / cast<double>(n), -0.025 * wave * wave));
        re(m, j) = next.re;
        im(m, j) = next.im;
      }
      transform(1.0);
    }
    norm(m) = 0.0;
    for (auto j : p.loop("j", n)) norm(m) += (re(m, j) * re(m, j) + im(m, j) * im(m, j)) * potential(j);
  }
  return p.build();
}

/// Cells of many sizes: each has up to two neighbours on each side, upwind fluxes with slopes, finer ones lag in time.
Program quadtree_flow() {
  ProgramBuilder p("quadtree_flow");
  auto n = p.size("n"), steps = p.size("steps");
  auto level = p.input<int>("level", {n}), side = p.input<int>("side", {n, 4, 2});  // -1: none
  auto u = p.inout<double>("u", {n});
  auto wind = p.input<double>("wind", {n, 2}), spread = p.input<double>("spread", {});
  auto refine = p.output<double>("refine", {n});
  p.in_range(level, 0, 4);
  p.in_range(side, -1, n);
  auto next = p.local<double>("next", {n}), slope = p.local<double>("slope", {n, 2});
  for (auto s : p.loop("s", steps)) {
    auto beside = [&](const Value& c, const Value& d) {
      auto a = side(c, d, 0), b = side(c, d, 1);
      auto mean = p.scalar<double>("mean", u(c));
      p.when(a >= 0, [&] {
        mean = u(max(a, 0));
        p.when(b >= 0 && level(max(b, 0)) > level(c), [&] { mean = 0.5 * (u(max(a, 0)) + u(max(b, 0))); });
      });
      return mean;
    };
    for (auto c : p.loop("c", n))
      for (auto axis : p.loop("axis", 2)) {
        auto low = beside(c, 2 * axis), high = beside(c, 2 * axis + 1);
        auto l = p.let("l", u(c) - low), h = p.let("h", high - u(c));
        slope(c, axis) = select(l * h > 0.0, 2.0 * l * h / (l + h), 0.0);
      }
    for (auto c : p.loop("c", n)) {
      next(c) = u(c);
      p.when(s % 2 == 0 || level(c) > 1, [&] {
        auto dt = p.let("dt", select(level(c) > 1, 0.02, 0.04));
        for (auto d : p.loop("d", 4))
          for (auto k : p.loop("k", 2))
            p.when(side(c, d, k) >= 0, [&] {
              auto o = p.let("o", side(c, d, k));
              auto part = p.let("part", select(level(o) > level(c), 0.5, select(k == 0, 1.0, 0.0)));
              auto speed = p.let("speed", 0.5 * (wind(c, d / 2) + wind(o, d / 2)) * select(d % 2 == 0, -1.0, 1.0));
              auto sign = select(d % 2 == 0, -0.5, 0.5);
              auto carried = p.scalar<double>("carried");
              p.when(speed > 0.0, [&] { carried = u(c) + sign * slope(c, d / 2); }).otherwise([&] {
                carried = u(o) - sign * slope(o, d / 2);
              });
              next(c) -= dt * part * (speed * carried + exp(spread()) * 0.5 * (u(c) - u(o)));
            });
      });
    }
    for (auto c : p.loop("c", n)) u(c) = next(c);
  }
  for (auto c : p.loop("c", n)) refine(c) = sqrt(slope(c, 0) * slope(c, 0) + slope(c, 1) * slope(c, 1) + 1e-4);
  return p.build();
}

/// Over-relaxation in place, row by row, with coefficients, a mask and a table of what borders do; omega grows.
Program masked_sor() {
  ProgramBuilder p("masked_sor");
  auto h = p.size("h"), w = p.size("w"), sweeps = p.size("sweeps");
  auto a = p.input<double>("a", {h, w, 4}), f = p.input<double>("f", {h, w}), rule = p.input<double>("rule", {4, 2}),
       omega = p.input<double>("omega", {});
  auto kind = p.input<int>("kind", {h, w});  // 0: interior, 1 to 3: borders by rule
  p.in_range(kind, 0, 4);
  auto u = p.inout<double>("u", {h, w});
  auto change = p.output<double>("change", {sweeps});
  auto relax = p.scalar<double>("relax", 1.0);
  auto radius = p.let("radius", sigmoid(omega()));
  for (auto s : p.loop("s", sweeps)) {
    change(s) = 0.0;
    for (auto [i, j] : p.loop({"i", 1, h - 1}, {"j", 1, w - 1}))
      p.when(kind(i, j) == 0, [&] {
         auto n = p.let("n", exp(a(i, j, 0))), e = p.let("e", exp(a(i, j, 1))), so = p.let("so", exp(a(i, j, 2))),
              we = p.let("we", exp(a(i, j, 3)));
         auto sum = n * u(i - 1, j) + so * u(i + 1, j) + we * u(i, j - 1) + e * u(i, j + 1) + f(i, j);
         auto step = p.let("step", relax * (sum / (n + e + so + we + 0.1) - u(i, j)));
         u(i, j) += step;
         change(s) += step * step;
       }).otherwise([&] { u(i, j) = rule(kind(i, j), 0) + 0.3 * rule(kind(i, j), 1) * u(i, j - 1); });
    relax = 1.0 / (1.0 - 0.25 * radius * radius * relax);
  }
  return p.build();
}

void mirrored_sides(const Sizes& sizes, std::uint64_t seed, InputArrays& arrays) {
  tools::Random random(seed);
  const std::int64_t n = sizes.at("n");
  const auto row = std::max<std::int64_t>(1, std::llround(std::sqrt(static_cast<double>(n))));
  const std::int64_t step[4] = {-1, 1, -row, row};
  for (std::int64_t c = 0; c < n; ++c)
    for (std::int64_t d = 0; d < 4; ++d)
      for (std::int64_t k = 0; k < 2; ++k) {
        const std::int64_t o = c + step[d] + (k == 1 ? random.below(3) : 0);
        arrays.at("side").set((c * 4 + d) * 2 + k, static_cast<double>(o < 0 || o >= n || (k == 1 && o == c) ? -1 : o));
      }
}

}  // namespace

std::vector<Field> multigrids() {
  return {
      {{"masked_vcycle", "", masked_vcycle, {{"n", 31}, {"cycles", 2}}},
       {{{"n", 2}, {"cycles", 2}}, {{"n", 1}, {"cycles", 1}}, {{"n", 3}, {"cycles", 1}}}},
      {{"implicit_heat", "", implicit_heat, {{"h", 73}, {"w", 91}, {"steps", 3}, {"most", 60}}},
       {{{"h", 4}, {"w", 5}, {"steps", 2}, {"most", 25}},
        {{"h", 1}, {"w", 1}, {"steps", 1}, {"most", 2}},
        {{"h", 3}, {"w", 7}, {"steps", 1}, {"most", 30}}}},
      {{"split_step", "", split_step, {{"digits", 5}, {"n", 243}, {"b", 21}, {"steps", 5}}},
       {{{"digits", 2}, {"n", 9}, {"b", 2}, {"steps", 2}},
        {{"digits", 1}, {"n", 3}, {"b", 1}, {"steps", 1}},
        {{"digits", 3}, {"n", 27}, {"b", 1}, {"steps", 1}}}},
      {{"quadtree_flow", "", quadtree_flow, {{"n", 9001}, {"steps", 12}}, {}, {}, mirrored_sides},
       {{{"n", 9}, {"steps", 3}}, {{"n", 1}, {"steps", 1}}, {{"n", 16}, {"steps", 2}}}},
      {{"masked_sor", "", masked_sor, {{"h", 93}, {"w", 107}, {"sweeps", 15}}},
       {{{"h", 5}, {"w", 6}, {"sweeps", 3}}, {{"h", 3}, {"w", 3}, {"sweeps", 1}}, {{"h", 4}, {"w", 9}, {"sweeps", 2}}}},
  };
}

}  // namespace loopgrad::fields

// Strings, hidden states, and shapes: meshes, voxels, lines, surfaces.
#include "bench/fields/fields.h"

#include <cmath>

namespace loopgrad::fields {
namespace {

/// A soft edit distance of pairs of strings of different lengths, with two rows that take turns and a band.
Program soft_edit() {
  ProgramBuilder p("soft_edit");
  auto pairs = p.size("pairs"), most = p.size("most"), letters = p.size("letters"), band = p.size("band");
  auto a = p.input<int>("a", {pairs, most}), b = p.input<int>("b", {pairs, most}), na = p.input<int>("na", {pairs}),
       nb = p.input<int>("nb", {pairs});
  p.in_range(a, 0, letters);
  p.in_range(b, 0, letters);
  p.in_range(na, 0, most + 1);
  p.in_range(nb, 0, most + 1);
  auto change = p.input<float>("change", {letters, letters}), gap = p.input<float>("gap", {letters}),
       heat = p.input<float>("heat", {});
  auto distance = p.output<float>("distance", {pairs}), total = p.output<double>("total", {});
  total() = 0;
  for (auto e : p.loop("e", pairs)) {
    auto row = p.local<float>("row", {2 * (most + 1)});
    auto t = p.let("t", 0.2f + 0.1f * heat() * heat());
    row(0) = 0;
    for (auto j : p.loop("j0", nb(e))) row(j + 1) = row(j) + 1 + 0.2f * gap(b(e, j));
    for (auto i : p.loop("i", na(e))) {
      auto now = (i + 1) % 2 * (most + 1), before = i % 2 * (most + 1);
      row(now) = row(before) + 1 + 0.2f * gap(a(e, i));
      for (auto j : p.loop("j", nb(e))) {
        p.when(i - j <= band && j - i <= band, [&] {
           auto x = p.let("x", row(before + j) + select(a(e, i) == b(e, j), 0.0f, 1 + 0.3f * change(a(e, i), b(e, j))));
           auto y = p.let("y", row(before + j + 1) + 1 + 0.2f * gap(a(e, i)));
           auto z = p.let("z", row(now + j) + 1 + 0.2f * gap(b(e, j)));
           auto low = p.let("low", min(x, min(y, z)));
           row(now + j + 1) = low - t * log(exp((low - x) / t) + exp((low - y) / t) + exp((low - z) / t));
         }).otherwise([&] { row(now + j + 1) = cast<float>(i + j + 2); });
      }
    }
    distance(e) = row(na(e) % 2 * (most + 1) + nb(e));
    total() += cast<double>(distance(e)) / cast<double>(1 + max(na(e), nb(e)));
  }
  return p.build();
}

/// Forward and backward sums of a hidden Markov model whose moves are a list, and how often each move is expected.
Program expected_moves() {
  ProgramBuilder p("expected_moves");
  auto t = p.size("t"), states = p.size("states"), moves = p.size("moves"), symbols = p.size("symbols");
  auto from = p.input<int>("from", {moves}), to = p.input<int>("to", {moves}), seen = p.input<int>("seen", {t});
  p.in_range(from, 0, states);
  p.in_range(to, 0, states);
  p.in_range(seen, 0, symbols);
  auto weight = p.input<double>("weight", {moves}), emit = p.input<double>("emit", {states, symbols}),
       start = p.input<double>("start", {states});
  auto count = p.output<double>("count", {moves}), like = p.output<double>("like", {}),
       posterior = p.output<double>("posterior", {t, states});
  auto alpha = p.local<double>("alpha", {t + 1, states}), beta = p.local<double>("beta", {states}),
       next = p.local<double>("next", {states});
  auto out = p.local<double>("out", {states}), scale = p.local<double>("scale", {t});
  for (auto s : p.loop("s0", states)) out(s) = 1e-2;
  for (auto m : p.loop("m0", moves)) {
    out(from(m)) += exp(weight(m));
    count(m) = 0;
  }
  for (auto s : p.loop("s1", states)) alpha(0, s) = exp(start(s));
  like() = 0;
  for (auto k : p.loop("k", t)) {
    scale(k) = 1e-6;
    for (auto s : p.loop("s2", states)) alpha(k + 1, s) = 1e-4;
    for (auto m : p.loop("m", moves)) alpha(k + 1, to(m)) += alpha(k, from(m)) * exp(weight(m)) / out(from(m));
    for (auto s : p.loop("s3", states)) {
      alpha(k + 1, s) *= exp(emit(s, seen(k)));
      scale(k) += alpha(k + 1, s);
    }
    for (auto s : p.loop("s4", states)) alpha(k + 1, s) /= scale(k);
    like() += log(scale(k));
  }
  for (auto s : p.loop("s5", states)) beta(s) = 1;
  for (auto k : p.loop("k1", t, {.descending = true})) {
    for (auto s : p.loop("s6", states)) {
      posterior(k, s) = alpha(k + 1, s) * beta(s);
      next(s) = beta(s) * exp(emit(s, seen(k))) / scale(k);
      beta(s) = 0;
    }
    for (auto m : p.loop("m1", moves)) {
      auto step = p.let("step", exp(weight(m)) / out(from(m)) * next(to(m)));
      count(m) += alpha(k, from(m)) * step;
      beta(from(m)) += step;
    }
  }
  return p.build();
}

/// Curvatures of a mesh: cotangents, areas that blunt corners cut, missing angles, and a normal of each corner.
Program curvatures() {
  ProgramBuilder p("curvatures");
  auto points = p.size("points"), faces = p.size("faces");
  auto corner = p.input<int>("corner", {faces, 3});
  p.in_range(corner, 0, points);
  auto x = p.input<double>("x", {points, 3});
  auto mean = p.output<double>("mean", {points}), gauss = p.output<double>("gauss", {points}),
       bending = p.output<double>("bending", {});
  auto area = p.local<double>("area", {points}), flow = p.local<double>("flow", {points, 3});
  for (auto i : p.loop("i0", points)) {
    area(i) = 0.05;
    gauss(i) = 6.2831853;
    for (auto d : p.loop("d0", 3)) flow(i, d) = 0;
  }
  for (auto f : p.loop("f", faces)) {
    auto cot = p.local<double>("cot", {3}), length2 = p.local<double>("length2", {3});
    auto blunt = p.scalar<int>("blunt", -1);
    auto twice = p.scalar<double>("twice", 0);
    for (auto k : p.loop("k", 3)) {
      const Vec<3> a = load<3>(x.row(corner(f, k))), b = load<3>(x.row(corner(f, (k + 1) % 3))),
                   c = load<3>(x.row(corner(f, (k + 2) % 3)));
      const Vec<3> u = b - a, v = c - a, w = c - b, n = cross(u, v);
      twice = sqrt(dot(n, n) + 0.01);
      auto cosine = p.let("cosine", dot(u, v));
      cot(k) = cosine / twice;
      length2(k) = dot(w, w);
      p.when(cosine < 0, [&] { blunt = cast<int>(k); });
      gauss(corner(f, k)) -= atan2(twice, cosine);
    }
    for (auto k : p.loop("k1", 3)) {
      auto i = corner(f, (k + 1) % 3), j = corner(f, (k + 2) % 3);
      for (auto d : p.loop("d1", 3)) {
        auto g = p.let("g", 0.5 * cot(k) * (x(i, d) - x(j, d)));
        flow(i, d) += g;
        flow(j, d) -= g;
      }
      p.when(blunt == -1, [&] {
         area(i) += 0.125 * cot(k) * length2(k);
         area(j) += 0.125 * cot(k) * length2(k);
       }).otherwise([&] { area(corner(f, k)) += select(blunt == k, 0.25, 0.125) * twice; });
    }
  }
  bending() = 0;
  for (auto i : p.loop("i", points)) {
    auto h = p.let("h", sqrt(flow(i, 0) * flow(i, 0) + flow(i, 1) * flow(i, 1) + flow(i, 2) * flow(i, 2) + 1e-6));
    mean(i) = 0.5 * h / area(i);
    gauss(i) /= area(i);
    bending() += mean(i) * mean(i) * area(i) + 0.01 * abs(gauss(i));
  }
  return p.build();
}

/// Marching squares: cells look up their edges in a table, and points are appended to a list behind a counter.
Program contour_lines() {
  ProgramBuilder p("contour_lines");
  auto h = p.size("h"), w = p.size("w");
  auto f = p.input<float>("f", {h, w}), level = p.input<float>("level", {});
  auto point = p.output<float>("point", {2 * h * w, 2}), length = p.output<float>("length", {}),
       inside = p.output<float>("inside", {h});
  auto first = p.table<int>("first", {-1, 3, 0, 3, 1, 3, 0, 3, 2, 2, 0, 2, 1, 1, 0, -1});
  auto second = p.table<int>("second", {-1, 0, 1, 1, 2, 0, 2, 2, 3, 0, 1, 1, 3, 0, 3, -1});
  auto used = p.scalar<int>("used", 0);
  for (auto k : p.loop("k0", 2 * h * w)) {
    point(k, 0) = 0;
    point(k, 1) = 0;
  }
  length() = 0;
  for (auto i : p.loop("i", h - 1)) {
    inside(i) = 0;
    for (auto j : p.loop("j", w - 1)) {
      auto c = 0.2f * level();
      auto in = [&](int dy, int dx, int bit) { return select(f(i + dy, j + dx) > c, bit, 0); };
      auto cell = p.let("cell", in(0, 0, 1) + in(0, 1, 2) + in(1, 1, 4) + in(1, 0, 8));
      p.when(cell > 0 && cell < 15, [&] {
        auto y = p.local<float>("y", {2}), x = p.local<float>("x", {2});
        for (auto side : p.loop("side", 2)) {
          auto edge = p.let("edge", select(side == 0, first(cell), second(cell)));
          auto ay = p.let("ay", i + select(edge == 2, 1, 0)), ax = p.let("ax", j + select(edge == 1, 1, 0));
          auto by = p.let("by", i + select(edge == 0, 0, 1)), bx = p.let("bx", j + select(edge == 3, 0, 1));
          auto part =
              p.let("part", (c - f(ay, ax)) / (f(by, bx) - f(ay, ax) + select(f(by, bx) > f(ay, ax), 0.05f, -0.05f)));
          y(side) = cast<float>(ay) + part * cast<float>(by - ay);
          x(side) = cast<float>(ax) + part * cast<float>(bx - ax);
          point(used, 0) = y(side);
          point(used, 1) = x(side);
          used += 1;
        }
        length() += sqrt((y(1) - y(0)) * (y(1) - y(0)) + (x(1) - x(0)) * (x(1) - x(0)) + 1e-4f);
      });
      inside(i) += sigmoid(8 * (f(i, j) - c));
    }
  }
  inside(h - 1) = cast<float>(used);
  return p.build();
}

/// Signed distances of points of a grid to rings of few corners, and their union, smoothed.
Program ring_distance() {
  ProgramBuilder p("ring_distance");
  auto ny = p.size("ny"), nx = p.size("nx"), rings = p.size("rings"), corners = p.size("corners");
  auto ptr = p.input<int>("ptr", {rings + 1});
  p.csr(ptr, corners);
  auto at = p.input<float>("at", {corners, 2}), inflate = p.input<float>("inflate", {rings}),
       goal = p.input<float>("goal", {ny, nx});
  auto field = p.output<float>("field", {ny, nx}), loss = p.output<float>("loss", {});
  loss() = 0;
  for (auto [i, j] : p.loop({"i", ny}, {"j", nx})) {
    auto y = p.let("y", 2 * (cast<float>(i) + 0.5f) / cast<float>(ny) - 1),
         x = p.let("x", 2 * (cast<float>(j) + 0.5f) / cast<float>(nx) - 1);
    auto soft = p.scalar<float>("soft", 1e-6f);
    for (auto r : p.loop("r", rings)) {
      auto d2 = p.scalar<float>("d2", 9.0f), sign = p.scalar<float>("sign", 1.0f);
      auto count = p.let("count", ptr(r + 1) - ptr(r));
      for (auto k : p.loop("k", count)) {
        auto a = p.let("a", ptr(r) + k), b = p.let("b", ptr(r) + (k + 1) % count);
        auto ey = p.let("ey", at(b, 0) - at(a, 0)), ex = p.let("ex", at(b, 1) - at(a, 1));
        auto wy = p.let("wy", y - at(a, 0)), wx = p.let("wx", x - at(a, 1));
        auto t = p.let("t", min(max((wy * ey + wx * ex) / (ey * ey + ex * ex + 1e-4f), 0.0f), 1.0f));
        d2.min_with((wy - t * ey) * (wy - t * ey) + (wx - t * ex) * (wx - t * ex));
        auto above = p.let("above", y >= at(a, 0)), below = p.let("below", y < at(b, 0)),
             left = p.let("left", ex * wy > ey * wx);
        p.when((above && below && left) || (!above && !below && !left), [&] { sign = -sign; });
      }
      soft += exp(-8 * (sign * sqrt(d2 + 1e-4f) - 0.1f * inflate(r)));
    }
    field(i, j) = -log(soft) / 8;
    auto gap = p.let("gap", sigmoid(10 * field(i, j)) - 0.5f - 0.5f * goal(i, j));
    loss() += gap * gap;
  }
  return p.build();
}

/// Surfaces of rational splines: knots by bisection, bases by the triangle of Cox and de Boor, normals by differences.
Program nurbs() {
  ProgramBuilder p("nurbs");
  auto n = p.size("n"), nu = p.size("nu"), nv = p.size("nv");
  const int degree = 3;
  auto gap_u = p.input<double>("gap_u", {nu + degree + 1}), gap_v = p.input<double>("gap_v", {nv + degree + 1});
  auto control = p.input<double>("control", {nu, nv, 4}), where = p.input<double>("where", {n, 2}),
       goal = p.input<double>("goal", {n, 3});
  auto point = p.output<double>("point", {n, 3}), loss = p.output<double>("loss", {});
  auto knot_u = p.local<double>("knot_u", {nu + degree + 1}), knot_v = p.local<double>("knot_v", {nv + degree + 1});
  auto rise = [&](const ArrayView& knot, const ArrayView& gap, const Value& m) {
    knot(0) = 0;
    for (auto k : p.loop("k0", 1, m + degree + 1)) knot(k) = knot(k - 1) + 0.2 + abs(gap(k));
  };
  rise(knot_u, gap_u, nu);
  rise(knot_v, gap_v, nv);
  auto bases = [&](const ArrayView& knot, const Value& m, const Value& at, const Element& span,
                   const ArrayView& basis) {
    auto lo = p.scalar<std::int64_t>("lo", degree), hi = p.scalar<std::int64_t>("hi");
    hi = m;
    for (auto s : p.loop_while("s", 20, [&](auto) { return hi - lo > 1; })) {
      (void)s;
      auto mid = p.let("mid", (lo + hi) / 2);
      p.when(at < knot(mid), [&] { hi = mid; }).otherwise([&] { lo = mid; });
    }
    Element out = span;
    out = lo;
    auto left = p.local<double>("left", {degree + 1}), right = p.local<double>("right", {degree + 1});
    basis(0) = 1;
    for (auto d : p.loop("d", 1, degree + 1)) {
      left(d) = at - knot(lo + 1 - d);
      right(d) = knot(lo + d) - at;
      auto saved = p.scalar<double>("saved", 0);
      for (auto r : p.loop("r", d)) {
        auto part = p.let("part", basis(r) / (right(r + 1) + left(d - r)));
        basis(r) = saved + right(r + 1) * part;
        saved = left(d - r) * part;
      }
      basis(d) = saved;
    }
  };
  loss() = 0;
  for (auto i : p.loop("i", n)) {
    auto su = p.scalar<std::int64_t>("su"), sv = p.scalar<std::int64_t>("sv");
    auto bu = p.local<double>("bu", {degree + 1}), bv = p.local<double>("bv", {degree + 1}),
         sum = p.local<double>("sum", {4});
    auto u = p.let("u", knot_u(degree) + (0.5 + 0.499 * where(i, 0)) * (knot_u(nu) - knot_u(degree)));
    auto v = p.let("v", knot_v(degree) + (0.5 + 0.499 * where(i, 1)) * (knot_v(nv) - knot_v(degree)));
    bases(knot_u, nu, u, su, bu);
    bases(knot_v, nv, v, sv, bv);
    for (auto c : p.loop("c0", 4)) sum(c) = 0;
    for (auto [a, b] : p.loop({"a", degree + 1}, {"b", degree + 1})) {
      auto w = p.let("w", bu(a) * bv(b) * (1.5 + control(su - degree + a, sv - degree + b, 3)));
      for (auto c : p.loop("c", 3)) sum(c) += w * control(su - degree + a, sv - degree + b, c);
      sum(3) += w;
    }
    for (auto c : p.loop("c1", 3)) {
      point(i, c) = sum(c) / sum(3);
      loss() += (point(i, c) - goal(i, c)) * (point(i, c) - goal(i, c));
    }
  }
  return p.build();
}

}  // namespace

std::vector<Field> shapes() {
  return {
      {{"soft_edit", "", soft_edit, {{"pairs", 307}, {"most", 61}, {"letters", 27}, {"band", 13}}},
       {{{"pairs", 3}, {"most", 4}, {"letters", 3}, {"band", 1}},
        {{"pairs", 1}, {"most", 1}, {"letters", 1}, {"band", 1}},
        {{"pairs", 2}, {"most", 5}, {"letters", 2}, {"band", 2}}}},
      {{"expected_moves", "", expected_moves, {{"t", 203}, {"states", 101}, {"moves", 403}, {"symbols", 13}}},
       {{{"t", 4}, {"states", 3}, {"moves", 7}, {"symbols", 2}},
        {{"t", 1}, {"states", 1}, {"moves", 1}, {"symbols", 1}},
        {{"t", 3}, {"states", 5}, {"moves", 4}, {"symbols", 3}}}},
      {{"curvatures", "", curvatures, {{"points", 30011}, {"faces", 60017}}},
       {{{"points", 5}, {"faces", 7}}, {{"points", 1}, {"faces", 1}}, {{"points", 7}, {"faces", 3}}}},
      {{"contour_lines", "", contour_lines, {{"h", 401}, {"w", 603}}},
       {{{"h", 4}, {"w", 5}}, {{"h", 2}, {"w", 2}}, {{"h", 3}, {"w", 7}}}},
      {{"ring_distance", "", ring_distance, {{"ny", 101}, {"nx", 103}, {"rings", 17}, {"corners", 71}}},
       {{{"ny", 3}, {"nx", 4}, {"rings", 3}, {"corners", 8}},
        {{"ny", 1}, {"nx", 1}, {"rings", 1}, {"corners", 1}},
        {{"ny", 2}, {"nx", 3}, {"rings", 4}, {"corners", 5}}}},
      {{"nurbs", "", nurbs, {{"n", 20011}, {"nu", 23}, {"nv", 19}}},
       {{{"n", 3}, {"nu", 5}, {"nv", 6}}, {{"n", 1}, {"nu", 4}, {"nv", 4}}, {{"n", 5}, {"nu", 9}, {"nv", 5}}}},
  };
}

}  // namespace loopgrad::fields

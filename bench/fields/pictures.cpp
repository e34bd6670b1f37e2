// Pictures and light: mosaics, exposures, filters by running sums, lenses, layers, diffraction.
#include "bench/fields/fields.h"

namespace loopgrad::fields {
namespace {

/// Colours from a Bayer mosaic: green along the smaller gradient, the others by differences to it, then a colour
/// matrix.
Program demosaic() {
  ProgramBuilder p("demosaic");
  auto h = p.size("h"), w = p.size("w");
  auto raw = p.input<float>("raw", {h * w}), gain = p.input<float>("gain", {3}),
       matrix = p.input<float>("matrix", {3, 3});
  auto rgb = p.output<float>("rgb", {h, w, 3});
  auto balanced = p.local<float>("balanced", {h * w}), green = p.local<float>("green", {h * w});
  auto mirror = [](const Value& i, const Value& n) { return select(i < 0, -i, select(i >= n, 2 * n - 2 - i, i)); };
  for (auto [i, j] : p.loop({"i0", h}, {"j0", w})) {
    auto colour = p.let("colour", i % 2 + j % 2);  // RGGB
    balanced(i * w + j) = (0.5f + 0.4f * raw(i * w + j)) * (1 + 0.2f * gain(colour));
  }
  for (auto [i, j] : p.loop({"i1", h}, {"j1", w})) {
    auto at = [&](int dy, int dx) { return balanced(mirror(i + dy, h) * w + mirror(j + dx, w)); };
    p.when((i + j) % 2 == 1, [&] { green(i * w + j) = at(0, 0); }).otherwise([&] {
      auto dx = p.let("dx", abs(at(0, -1) - at(0, 1)) + abs(2 * at(0, 0) - at(0, -2) - at(0, 2)));
      auto dy = p.let("dy", abs(at(-1, 0) - at(1, 0)) + abs(2 * at(0, 0) - at(-2, 0) - at(2, 0)));
      auto across = p.let("across", 0.5f * (at(0, -1) + at(0, 1)) + 0.25f * (2 * at(0, 0) - at(0, -2) - at(0, 2)));
      auto down = p.let("down", 0.5f * (at(-1, 0) + at(1, 0)) + 0.25f * (2 * at(0, 0) - at(-2, 0) - at(2, 0)));
      p.when(dx < dy, [&] { green(i * w + j) = across; }).otherwise([&] {
        p.when(dy < dx, [&] { green(i * w + j) = down; }).otherwise([&] { green(i * w + j) = 0.5f * (across + down); });
      });
    });
  }
  for (auto [i, j] : p.loop({"i", h}, {"j", w})) {
    auto pixel = p.local<float>("pixel", {3});
    auto difference = [&](int dy, int dx) {
      auto k = mirror(i + dy, h) * w + mirror(j + dx, w);
      return balanced(k) - green(k);
    };
    pixel(1) = green(i * w + j);
    for (int c = 0; c < 3; c += 2) {
      auto row = p.let("row", i % 2 == (c == 0 ? 0 : 1)), column = p.let("column", j % 2 == (c == 0 ? 0 : 1));
      p.when(row && column, [&] { pixel(c) = balanced(i * w + j); }).otherwise([&] {
        p.when(row, [&] { pixel(c) = pixel(1) + 0.5f * (difference(0, -1) + difference(0, 1)); }).otherwise([&] {
          p.when(column, [&] { pixel(c) = pixel(1) + 0.5f * (difference(-1, 0) + difference(1, 0)); }).otherwise([&] {
            pixel(c) =
                pixel(1) + 0.25f * (difference(-1, -1) + difference(-1, 1) + difference(1, -1) + difference(1, 1));
          });
        });
      });
    }
    for (auto c : p.loop("c", 3)) {
      auto v = p.scalar<float>("v", 0);
      for (auto d : p.loop("d", 3)) v += (select(c == d, 1.0f, 0.0f) + 0.2f * matrix(c, d)) * pixel(d);
      rgb(i, j, c) = pow(max(v, 1e-2f), 1 / 2.2f);
    }
  }
  return p.build();
}

/// Exposures with shifts are merged by a response curve, and toned down by the mean of logarithms.
Program hdr_merge() {
  ProgramBuilder p("hdr_merge");
  auto shots = p.size("shots"), h = p.size("h"), w = p.size("w"), levels = p.size("levels");
  auto z = p.input<float>("z", {shots, h, w}), curve = p.input<float>("curve", {levels}),
       stop = p.input<float>("stop", {shots});
  auto shift = p.input<int>("shift", {shots, 2});
  p.in_range(shift, -2, 3);
  auto toned = p.output<float>("toned", {h, w}), key = p.output<float>("key", {}),
       range = p.output<float>("range", {2});
  auto light = p.local<float>("light", {h, w});
  auto logs = p.scalar<double>("logs", 0);
  range(0) = 1e30f;
  range(1) = -1e30f;
  for (auto i : p.loop("i", h))
    for (auto j : p.loop("j", w)) {
      auto sum = p.scalar<float>("sum", 0), weight = p.scalar<float>("weight", 0);
      for (auto s : p.loop("s", shots)) {
        auto y = p.let("y", i + shift(s, 0)), x = p.let("x", j + shift(s, 1));
        p.when(y >= 0 && y < h && x >= 0 && x < w, [&] {
          auto v = p.let("v", 0.5f + 0.5f * z(s, y, x));
          p.when(v < 0.97f && v > 0.02f, [&] {
            auto at = p.let("at", v * cast<float>(levels - 1));
            auto bin = p.let("bin", min(cast<int>(at), levels - 2));
            auto part = p.let("part", at - cast<float>(bin));
            auto hat = p.let("hat", min(v, 1 - v));
            sum += hat * ((1 - part) * curve(bin) + part * curve(bin + 1) - stop(s));
            weight += hat;
          });
        });
      }
      p.when(weight > 0, [&] { light(i, j) = sum / weight; }).otherwise([&] { light(i, j) = curve(levels - 1); });
      logs += cast<double>(light(i, j));
      range(0).min_with(light(i, j));
      range(1).max_with(light(i, j));
    }
  auto middle = p.scalar<float>("middle");
  middle = cast<float>(logs / cast<double>(h * w));
  key() = exp(middle);
  auto white = p.let("white", exp(range(1) - middle) + 0.1f);
  for (auto i : p.loop("i2", h))
    for (auto j : p.loop("j2", w)) {
      auto l = p.let("l", 0.18f * exp(light(i, j) - middle));
      toned(i, j) = l * (1 + l / (white * white)) / (1 + l);
    }
  return p.build();
}

/// Guided filter: means in boxes by running sums along rows and then down columns, clipped at borders.
Program guided_filter() {
  ProgramBuilder p("guided_filter");
  auto h = p.size("h"), w = p.size("w"), r = p.size("r");
  auto guide = p.input<float>("guide", {h, w}), src = p.input<float>("src", {h, w}), eps = p.input<float>("eps", {});
  auto out = p.output<float>("out", {h, w});
  auto tmp = p.local<float>("tmp", {h, w}), column = p.local<float>("column", {w});
  auto box = [&](const ArrayView& from, const ArrayView& to) {
    for (auto i : p.loop("bi", h)) {
      auto s = p.scalar<float>("s", 0);
      for (auto j : p.loop("b0", min(r, w))) s += from(i, j);
      for (auto j : p.loop("bj", w)) {
        p.when(j + r < w, [&] { s += from(i, j + r); });
        p.when(j - r - 1 >= 0, [&] { s -= from(i, j - r - 1); });
        tmp(i, j) = s / cast<float>(min(j + r, w - 1) - max(j - r, 0) + 1);
      }
    }
    for (auto j : p.loop("cj", w)) column(j) = 0;
    for (auto i : p.loop("c0", min(r, h)))
      for (auto j : p.loop("cj0", w)) column(j) += tmp(i, j);
    for (auto i : p.loop("ci", h)) {
      p.when(i + r < h, [&] {
        for (auto j : p.loop("cj1", w)) column(j) += tmp(i + r, j);
      });
      p.when(i - r > 0, [&] {
        for (auto j : p.loop("cj2", w)) column(j) -= tmp(i - r - 1, j);
      });
      for (auto j : p.loop("cj3", w)) to(i, j) = column(j) / cast<float>(min(i + r, h - 1) - max(i - r, 0) + 1);
    }
  };
  auto product = p.local<float>("product", {h, w}), mi = p.local<float>("mi", {h, w}),
       ms = p.local<float>("ms", {h, w});
  auto a = p.local<float>("a", {h, w}), b = p.local<float>("b", {h, w});
  box(guide, mi);
  box(src, ms);
  for (auto [i, j] : p.loop({"i0", h}, {"j0", w})) product(i, j) = guide(i, j) * guide(i, j);
  box(product, b);
  for (auto [i, j] : p.loop({"i1", h}, {"j1", w})) product(i, j) = guide(i, j) * src(i, j);
  box(product, a);
  for (auto [i, j] : p.loop({"i2", h}, {"j2", w})) {
    a(i, j) = (a(i, j) - mi(i, j) * ms(i, j)) / (b(i, j) - mi(i, j) * mi(i, j) + 0.01f + eps() * eps());
    b(i, j) = ms(i, j) - a(i, j) * mi(i, j);
  }
  box(a, a);
  box(b, b);
  for (auto [i, j] : p.loop({"i3", h}, {"j3", w})) out(i, j) = a(i, j) * guide(i, j) + b(i, j);
  return p.build();
}

/// Distance transform of a sampled function: lower envelopes of parabolas with a stack, along rows and then columns.
Program parabolas() {
  ProgramBuilder p("parabolas");
  auto h = p.size("h"), w = p.size("w");
  auto f = p.input<double>("f", {h, w}), scale = p.input<double>("scale", {2});
  auto d = p.output<double>("d", {h, w});
  auto envelope = [&](const Value& n, const Value& s, auto&& read, auto&& write) {
    auto v = p.local<int>("v", {n});
    auto z = p.local<double>("z", {n + 1});
    auto k = p.scalar<int>("k", 0);
    v(0) = 0;
    z(0) = -1e20;
    z(1) = 1e20;
    for (auto q : p.loop("q", 1, n)) {
      auto meet = p.scalar<double>("meet");
      auto of = [&](const Value& u) {
        return (read(q) / s + cast<double>(q * q) - read(u) / s - cast<double>(u * u)) / cast<double>(2 * q - 2 * u);
      };
      meet = of(v(k));
      for (auto t : p.loop_while("t", n, [&](auto) { return meet <= z(k); })) {
        (void)t;
        k -= 1;
        meet = of(v(k));
      }
      k += 1;
      v(k) = cast<int>(q);
      z(k) = meet;
      z(k + 1) = 1e20;
    }
    k = 0;
    for (auto q : p.loop("q1", n)) {
      for (auto t : p.loop_while("t1", n, [&](auto) { return z(k + 1) < cast<double>(q); })) {
        (void)t;
        k += 1;
      }
      auto gap = p.let("gap", cast<double>(q - v(k)));
      write(q, s * gap * gap + read(v(k)));
    }
  };
  auto half = p.local<double>("half", {h, w});
  for (auto i : p.loop("i", h)) {
    auto s = p.let("sx", 0.1 + 0.05 * scale(0) * scale(0));
    envelope(
        w, s, [&](const Value& q) { return 5 * f(i, q); }, [&](const Value& q, const Value& v) { half(i, q) = v; });
  }
  for (auto j : p.loop("j", w)) {
    auto s = p.let("sy", 0.1 + 0.05 * scale(1) * scale(1));
    envelope(
        h, s, [&](const Value& q) { return half(q, j); },
        [&](const Value& q, const Value& v) { d(q, j) = sqrt(abs(v) + 0.01); });
  }
  return p.build();
}

/// A lens is undone: the distorted place of each pixel and colour by fixed-point steps, cubic samples, vignetting.
Program undistort() {
  ProgramBuilder p("undistort");
  auto h = p.size("h"), w = p.size("w");
  auto image = p.input<float>("image", {h, w, 3}), k = p.input<float>("k", {3}),
       tangential = p.input<float>("tangential", {2});
  auto lateral = p.input<float>("lateral", {3}), centre = p.input<float>("centre", {2}),
       fall = p.input<float>("fall", {});
  auto out = p.output<float>("out", {h, w, 3}), covered = p.output<float>("covered", {});
  covered() = 0;
  auto size = cast<float>(max(h, w));
  for (auto [i, j] : p.loop({"i", h}, {"j", w})) {
    auto y0 = p.let("y0", (cast<float>(i) + 0.5f) / size - 0.5f - 0.05f * centre(0));
    auto x0 = p.let("x0", (cast<float>(j) + 0.5f) / size - 0.5f - 0.05f * centre(1));
    auto y = p.scalar<float>("y"), x = p.scalar<float>("x");
    y = y0;
    x = x0;
    for (auto it : p.loop("it", 5)) {
      (void)it;
      auto r2 = p.let("r2", x * x + y * y);
      auto radial = p.let("radial", 1 + 0.2f * r2 * (k(0) + r2 * (k(1) + r2 * k(2))));
      auto ty = p.let("ty", 0.05f * (tangential(0) * (r2 + 2 * y * y) + 2 * tangential(1) * x * y));
      auto tx = p.let("tx", 0.05f * (tangential(1) * (r2 + 2 * x * x) + 2 * tangential(0) * x * y));
      y = (y0 - ty) / radial;
      x = (x0 - tx) / radial;
    }
    auto light = p.let("light", 1 + 0.3f * fall() * (x * x + y * y));
    for (auto c : p.loop("c", 3)) {
      auto v = p.let("v", (y * (1 + 0.02f * lateral(c)) + 0.5f + 0.05f * centre(0)) * size - 0.5f);
      auto u = p.let("u", (x * (1 + 0.02f * lateral(c)) + 0.5f + 0.05f * centre(1)) * size - 0.5f);
      auto iv = p.let("iv", cast<int>(floor(v))), iu = p.let("iu", cast<int>(floor(u)));
      auto fv = p.let("fv", v - floor(v)), fu = p.let("fu", u - floor(u));
      auto wv = p.local<float>("wv", {4}), wu = p.local<float>("wu", {4});
      auto weights = [&](const ArrayView& to, const Value& t) {
        to(0) = t * (-0.5f + t * (1 - 0.5f * t));
        to(1) = 1 + t * t * (-2.5f + 1.5f * t);
        to(2) = t * (0.5f + t * (2 - 1.5f * t));
        to(3) = t * t * (-0.5f + 0.5f * t);
      };
      weights(wv, fv);
      weights(wu, fu);
      auto sum = p.scalar<float>("sum", 0);
      for (auto a : p.loop("a", 4))
        for (auto b : p.loop("b", 4))
          sum += wv(a) * wu(b) * image(max(0, min(h - 1, iv + a - 1)), max(0, min(w - 1, iu + b - 1)), c);
      out(i, j, c) = sum * light;
    }
    p.when(abs(x) < 0.5f && abs(y) < 0.5f, [&] { covered() += light; });
  }
  return p.build();
}

/// Rays through the aspheric surfaces of a lens, some of which are lost; spots of fields and their sizes.
Program lens_design() {
  ProgramBuilder p("lens_design");
  auto rays = p.size("rays"), surfaces = p.size("surfaces"), glasses = p.size("glasses"), fields = p.size("fields");
  auto curvature = p.input<double>("curvature", {surfaces}), conic = p.input<double>("conic", {surfaces}),
       a4 = p.input<double>("a4", {surfaces});
  auto thickness = p.input<double>("thickness", {surfaces}), aperture = p.input<double>("aperture", {surfaces});
  auto cauchy = p.input<double>("cauchy", {glasses, 2});
  auto glass = p.input<int>("glass", {surfaces}), field = p.input<int>("field", {rays});
  auto pupil = p.input<double>("pupil", {rays, 2}), wave = p.input<double>("wave", {rays}),
       angle = p.input<double>("angle", {fields});
  p.in_range(glass, 0, glasses);
  p.in_range(field, 0, fields);
  auto centre = p.output<double>("centre", {fields, 2}), size = p.output<double>("size", {fields}),
       passed = p.output<double>("passed", {fields});
  auto hit = p.local<double>("hit", {rays, 2}), alive = p.local<int>("alive", {rays});
  for (auto f : p.loop("f0", fields)) {
    centre(f, 0) = 0;
    centre(f, 1) = 0;
    size(f) = 0;
    passed(f) = 1e-2;
  }
  for (auto r : p.loop("r", rays)) {
    auto x = p.scalar<double>("x"), y = p.scalar<double>("y"), z = p.scalar<double>("z", -1);
    auto u = p.scalar<double>("u", 0), v = p.scalar<double>("v"), w = p.scalar<double>("w"),
         index = p.scalar<double>("index", 1);
    x = pupil(r, 0);
    y = pupil(r, 1);
    v = 0.2 * sin(angle(field(r)));
    w = sqrt(1 - v * v);
    alive(r) = 1;
    for (auto s : p.loop("s", surfaces))
      p.when(alive(r) == 1, [&] {
        auto c = p.let("c", 0.3 * curvature(s));
        auto way = p.scalar<double>("way"), miss = p.scalar<double>("miss", 1), slope = p.scalar<double>("slope", 0);
        way = -z / w;
        for (auto k : p.loop_while("k", 8, [&](auto) { return abs(miss) > 1e-10; })) {
          (void)k;
          auto px = p.let("px", x + way * u), py = p.let("py", y + way * v);
          auto r2 = p.let("r2", px * px + py * py);
          auto root = p.let("root", sqrt(max(1 - (1 + 0.2 * conic(s)) * c * c * r2, 0.05)));
          miss = c * r2 / (1 + root) + 0.005 * a4(s) * r2 * r2 - (z + way * w);
          slope = c / root + 0.02 * a4(s) * r2;
          way += miss / (w - slope * (px * u + py * v));
        }
        x += way * u;
        y += way * v;
        z += way * w;
        p.when(x * x + y * y > 2.5 + aperture(s), [&] { alive(r) = 0; }).otherwise([&] {
          auto lambda = p.let("lambda", 0.55 + 0.15 * wave(r));
          auto next = p.let(
              "next", select(s % 2 == 0,
                             1.6 + 0.1 * cauchy(glass(s), 0) + 0.01 * cauchy(glass(s), 1) / (lambda * lambda), 1.0));
          auto ratio = p.let("ratio", index / next);
          const Vec<3> normal = normalize(Vec<3>(-slope * x, -slope * y, Value(1.0)));
          auto cosine = p.let("cosine", u * normal[0] + v * normal[1] + w * normal[2]);
          auto inside = p.let("inside", 1 - ratio * ratio * (1 - cosine * cosine));
          p.when(inside < 0.01, [&] { alive(r) = 0; }).otherwise([&] {
            auto bend = p.let("bend", sqrt(inside) - ratio * cosine);
            auto nx = p.let("nx", normal[0]), ny = p.let("ny", normal[1]), nz = p.let("nz", normal[2]);
            u = ratio * u + bend * nx;
            v = ratio * v + bend * ny;
            w = ratio * w + bend * nz;
            index = next;
            z -= 0.5 + 0.2 * thickness(s);
          });
        });
      });
    p.when(alive(r) == 1, [&] {
      hit(r, 0) = x - u / w * (z - 3);
      hit(r, 1) = y - v / w * (z - 3);
      passed(field(r)) += 1;
      for (auto c : p.loop("c", 2)) centre(field(r), c) += hit(r, c);
    });
  }
  for (auto [f, c] : p.loop({"f1", fields}, {"c1", 2})) centre(f, c) /= passed(f);
  for (auto r : p.loop("r2", rays))
    p.when(alive(r) != 0, [&] {
      for (auto c : p.loop("c2", 2))
        size(field(r)) += (hit(r, c) - centre(field(r), c)) * (hit(r, c) - centre(field(r), c));
    });
  for (auto f : p.loop("f3", fields)) size(f) = sqrt(size(f) / passed(f) + 1e-6);
  return p.build();
}

/// Reflection of stacks of few layers each, by characteristic matrices of complex numbers, both polarisations.
Program thin_film() {
  ProgramBuilder p("thin_film");
  auto stacks = p.size("stacks"), layers = p.size("layers"), materials = p.size("materials"), waves = p.size("waves");
  auto ptr = p.input<int>("ptr", {stacks + 1}), material = p.input<int>("material", {layers});
  p.csr(ptr, layers);
  p.in_range(material, 0, materials);
  auto depth = p.input<float>("depth", {layers}), index = p.input<float>("index", {materials, 2});
  auto tilt = p.input<float>("tilt", {stacks}), target = p.input<float>("target", {stacks, waves});
  auto reflect = p.output<float>("reflect", {stacks, waves}), pass = p.output<float>("pass", {stacks, waves}),
       merit = p.output<double>("merit", {});
  merit() = 0;
  for (auto s : p.loop("s", stacks))
    for (auto k : p.loop("k", waves)) {
      auto lambda = p.let("lambda", 0.4f + 0.4f * cast<float>(k) / cast<float>(waves));
      auto sine = p.let("sine", 0.4f * tilt(s));
      reflect(s, k) = 0;
      pass(s, k) = 0;
      for (auto pol : p.loop("pol", 2)) {
        auto b = p.local<float>("b", {2}), c = p.local<float>("c", {2});
        auto out = p.let("out", select(pol == 0, 1.46f, 1 / 1.46f));
        b(0) = 1;
        b(1) = 0;
        c(0) = out;
        c(1) = 0;
        for (auto l : p.loop("l", ptr(s), ptr(s + 1), {.descending = true})) {
          auto m = material(l);
          const Complex n(2 + 0.5f * index(m, 0) + 0.02f / (lambda * lambda), -0.05f * abs(index(m, 1)) - 0.001f);
          const Complex q = n * n - sine * sine;
          auto size = p.let("size", sqrt(abs(q)));
          auto half = p.let("half", 0.5f * atan2(q.im, q.re));
          const Complex root(p.let("re", size * cos(half)), p.let("im", size * sin(half)));
          const Complex way = root * (2 * 3.14159265f * (0.1f + 0.05f * depth(l)) / lambda);
          const Complex co(p.let("cr", cos(way.re) * cosh(way.im)), p.let("ci", -sin(way.re) * sinh(way.im)));
          const Complex si(p.let("sr", sin(way.re) * cosh(way.im)), p.let("si", cos(way.re) * sinh(way.im)));
          auto er = p.scalar<float>("er"), ei = p.scalar<float>("ei");
          p.when(pol == 0, [&] {
             er = root.re;
             ei = root.im;
           }).otherwise([&] {
            const Complex e = n * n / root;
            er = e.re;
            ei = e.im;
          });
          const Complex eta(er, ei), bb(b(0), b(1)), cc(c(0), c(1)), i(Value(0.0f), Value(1.0f));
          const Complex nb = co * bb + i * si / eta * cc, nc = i * eta * si * bb + co * cc;
          auto t0 = p.let("t0", nb.re), t1 = p.let("t1", nb.im), t2 = p.let("t2", nc.re), t3 = p.let("t3", nc.im);
          b(0) = t0;
          b(1) = t1;
          c(0) = t2;
          c(1) = t3;
        }
        const Complex bb(b(0), b(1)), cc(c(0), c(1));
        const Complex r = (bb - cc) / (bb + cc);
        reflect(s, k) += 0.5f * (r.re * r.re + r.im * r.im);
        pass(s, k) += 0.5f * 4 * out / ((bb.re + cc.re) * (bb.re + cc.re) + (bb.im + cc.im) * (bb.im + cc.im));
      }
      auto gap = p.let("gap", cast<double>(reflect(s, k) - 0.5f - 0.5f * target(s, k)));
      merit() += gap * gap;
    }
  return p.build();
}

/// Ptychography: at each place of a scan the object under the probe is transformed by sums, compared and updated.
Program ptychography() {
  ProgramBuilder p("ptychography");
  auto n = p.size("n"), q = p.size("q"), places = p.size("places");
  auto object = p.inout<float>("object", {n, n, 2});
  auto probe = p.input<float>("probe", {q, q, 2}), measured = p.input<float>("measured", {places, q, q}),
       rate = p.input<float>("rate", {});
  auto place = p.input<int>("place", {places, 2});
  p.in_range(place, 0, n - q + 1);
  auto loss = p.output<float>("loss", {places});
  auto turn = p.local<float>("turn", {q, 2});
  for (auto k : p.loop("k0", q)) {
    auto a = p.let("a", 6.2831853f * cast<float>(k) / cast<float>(q));
    turn(k, 0) = cos(a);
    turn(k, 1) = -sin(a);
  }
  auto brightest = p.scalar<float>("brightest", 0.1f);
  for (auto [y, x] : p.loop({"y0", q}, {"x0", q}))
    brightest.max_with(probe(y, x, 0) * probe(y, x, 0) + probe(y, x, 1) * probe(y, x, 1));
  for (auto s : p.loop("s", places)) {
    auto wave = p.local<float>("wave", {q, q, 2}), half = p.local<float>("half", {q, q, 2});
    auto transform = [&](float sign) {
      for (auto [y, u] : p.loop({"ya", q}, {"ua", q})) {
        half(y, u, 0) = 0;
        half(y, u, 1) = 0;
        for (auto x : p.loop("xa", q)) {
          const Value c = turn(u * x % q, 0), i = sign * turn(u * x % q, 1);
          half(y, u, 0) += wave(y, x, 0) * c - wave(y, x, 1) * i;
          half(y, u, 1) += wave(y, x, 0) * i + wave(y, x, 1) * c;
        }
      }
      for (auto [v, u] : p.loop({"vb", q}, {"ub", q})) {
        wave(v, u, 0) = 0;
        wave(v, u, 1) = 0;
        for (auto y : p.loop("yb", q)) {
          const Value c = turn(v * y % q, 0), i = sign * turn(v * y % q, 1);
          wave(v, u, 0) += half(y, u, 0) * c - half(y, u, 1) * i;
          wave(v, u, 1) += half(y, u, 0) * i + half(y, u, 1) * c;
        }
      }
    };
    for (auto [y, x] : p.loop({"y1", q}, {"x1", q})) {
      const Complex o =
          Complex(object(place(s, 0) + y, place(s, 1) + x, 0), object(place(s, 0) + y, place(s, 1) + x, 1));
      const Complex w = o * Complex(probe(y, x, 0), probe(y, x, 1));
      wave(y, x, 0) = w.re;
      wave(y, x, 1) = w.im;
    }
    transform(1);
    loss(s) = 0;
    for (auto [v, u] : p.loop({"v2", q}, {"u2", q})) {
      auto size = p.let("size", sqrt(wave(v, u, 0) * wave(v, u, 0) + wave(v, u, 1) * wave(v, u, 1) + 1e-3f));
      auto gap = p.let("gap", size - abs(measured(s, v, u)) * sqrt(cast<float>(q)));
      loss(s) += gap * gap;
      wave(v, u, 0) *= gap / size;
      wave(v, u, 1) *= gap / size;
    }
    transform(-1);
    auto step = 0.2f * (1 + rate()) / (brightest * cast<float>(q * q));
    for (auto [y, x] : p.loop({"y3", q}, {"x3", q})) {
      object(place(s, 0) + y, place(s, 1) + x, 0) -=
          step * (probe(y, x, 0) * wave(y, x, 0) + probe(y, x, 1) * wave(y, x, 1));
      object(place(s, 0) + y, place(s, 1) + x, 1) -=
          step * (probe(y, x, 0) * wave(y, x, 1) - probe(y, x, 1) * wave(y, x, 0));
    }
  }
  return p.build();
}

}  // namespace

std::vector<Field> pictures() {
  return {
      {{"demosaic", "", demosaic, {{"h", 401}, {"w", 603}}},
       {{{"h", 5}, {"w", 7}}, {{"h", 3}, {"w", 3}}, {{"h", 4}, {"w", 9}}}},
      {{"hdr_merge", "", hdr_merge, {{"shots", 5}, {"h", 401}, {"w", 603}, {"levels", 67}}},
       {{{"shots", 3}, {"h", 4}, {"w", 5}, {"levels", 5}},
        {{"shots", 1}, {"h", 1}, {"w", 1}, {"levels", 2}},
        {{"shots", 2}, {"h", 7}, {"w", 3}, {"levels", 3}}}},
      {{"guided_filter", "", guided_filter, {{"h", 401}, {"w", 603}, {"r", 7}}},
       {{{"h", 5}, {"w", 7}, {"r", 2}},
        {{"h", 1}, {"w", 1}, {"r", 1}},
        {{"h", 3}, {"w", 4}, {"r", 5}},
        {{"h", 4}, {"w", 3}, {"r", 0}}}},
      {{"parabolas", "", parabolas, {{"h", 401}, {"w", 603}}},
       {{{"h", 4}, {"w", 7}}, {{"h", 1}, {"w", 1}}, {{"h", 6}, {"w", 3}}}},
      {{"undistort", "", undistort, {{"h", 201}, {"w", 303}}},
       {{{"h", 4}, {"w", 5}}, {{"h", 1}, {"w", 1}}, {{"h", 6}, {"w", 3}}}},
      {{"lens_design", "", lens_design, {{"rays", 20011}, {"surfaces", 7}, {"glasses", 3}, {"fields", 5}}},
       {{{"rays", 5}, {"surfaces", 4}, {"glasses", 2}, {"fields", 2}},
        {{"rays", 1}, {"surfaces", 1}, {"glasses", 1}, {"fields", 1}},
        {{"rays", 9}, {"surfaces", 3}, {"glasses", 3}, {"fields", 4}}}},
      {{"thin_film", "", thin_film, {{"stacks", 503}, {"layers", 1603}, {"materials", 5}, {"waves", 31}}},
       {{{"stacks", 3}, {"layers", 7}, {"materials", 2}, {"waves", 3}},
        {{"stacks", 1}, {"layers", 1}, {"materials", 1}, {"waves", 1}},
        {{"stacks", 5}, {"layers", 4}, {"materials", 3}, {"waves", 2}}}},
      {{"ptychography", "", ptychography, {{"n", 67}, {"q", 23}, {"places", 31}}},
       {{{"n", 5}, {"q", 3}, {"places", 3}}, {{"n", 1}, {"q", 1}, {"places", 2}}, {{"n", 6}, {"q", 4}, {"places", 2}}}},
  };
}

}  // namespace loopgrad::fields

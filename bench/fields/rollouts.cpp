// Paths, trees and pyramids: what one step leaves the next one takes up.
#include "bench/fields/fields.h"

namespace loopgrad::fields {
namespace {

/// The number below x, in 0..n.
Value index_of(const Value& x, const Value& n) { return max(min(cast<std::int64_t>(floor(x)), n - 1), 0); }

/// Cox's partial likelihood by Efron over groups of tied times, from the last to the first.
Program efron() {
  ProgramBuilder p("efron");
  auto subjects = p.size("subjects"), groups = p.size("groups"), features = p.size("features");
  auto first = p.input<std::int64_t>("first", {groups + 1});
  auto died = p.input<int>("died", {subjects});
  auto x = p.input<double>("x", {subjects, features}), beta = p.input<double>("beta", {features});
  auto likelihood = p.output<double>("likelihood", {}), hazard = p.output<double>("hazard", {groups});
  p.csr(first, subjects);
  p.in_range(died, 0, 2);
  auto risk = p.scalar<double>("risk", 0);
  likelihood() = 0;
  for (auto g : p.loop("g", groups, {.descending = true})) {
    auto tied = p.scalar<double>("tied", 0);
    auto deaths = p.scalar<std::int64_t>("deaths", 0);
    for (auto i : p.loop("i", first(g), first(g + 1))) {
      auto eta = p.scalar<double>("eta", 0);
      for (auto k : p.loop("k", features)) eta += x(i, k) * beta(k);
      auto e = p.let("e", exp(eta));
      risk += e;
      p.when(died(i) == 1, [&] {
        tied += e;
        deaths += 1;
        likelihood() += eta;
      });
    }
    hazard(g) = 0;
    for (auto d : p.loop("d", deaths)) {
      auto at = p.let("at", risk - tied * d / deaths);
      likelihood() -= log(at);
      hazard(g) += 1 / at;
    }
  }
  return p.build();
}

/// Lifting over strides 1, 2, 4, ..: soft thresholds of each level, the rate in bits, and back.
Program lifting() {
  ProgramBuilder p("lifting");
  auto rows = p.size("rows"), n = p.size("n"), levels = p.size("levels");
  auto x = p.input<float>("x", {rows, n}), step = p.input<float>("step", {levels});
  auto predict = p.input<float>("predict", {}), update = p.input<float>("update", {});
  auto y = p.output<float>("y", {rows, n}), rate = p.output<float>("rate", {rows});
  for (auto r : p.loop("r", rows)) {
    auto c = p.local<float>("c", {n});
    for (auto i : p.loop("i", n)) c(i) = x(r, i);
    auto bits = p.scalar<float>("bits", 0);
    auto s = p.scalar<std::int64_t>("s", 1);
    for (auto l : p.loop("l", levels)) {
      for (auto k : p.loop("k", n / (2 * s)))
        c((2 * k + 1) * s) -= (0.5f + 0.1f * predict()) * (c(2 * k * s) + c((2 * k + 2) * s % n));
      for (auto k : p.loop("k", n / (2 * s)))
        c(2 * k * s) += (0.25f + 0.1f * update()) * (c((2 * k + 1) * s) + c((2 * k - 1) * s % n));
      for (auto k : p.loop("k", n / (2 * s))) {
        auto q = p.let("q", exp(step(l) - 1));
        auto v = p.scalar<float>("v", c((2 * k + 1) * s));
        bits += log1p(abs(v) / q);
        p.when(abs(v) > q, [&] { c((2 * k + 1) * s) = select(v > 0, v - q, v + q); }).otherwise([&] {
          c((2 * k + 1) * s) = 0.1f * v;
        });
      }
      s = 2 * s;
    }
    for ([[maybe_unused]] auto l : p.loop("l", levels, {.descending = true})) {
      s = s / 2;
      for (auto k : p.loop("k", n / (2 * s)))
        c(2 * k * s) -= (0.25f + 0.1f * update()) * (c((2 * k + 1) * s) + c((2 * k - 1) * s % n));
      for (auto k : p.loop("k", n / (2 * s)))
        c((2 * k + 1) * s) += (0.5f + 0.1f * predict()) * (c(2 * k * s) + c((2 * k + 2) * s % n));
    }
    for (auto i : p.loop("i", n)) y(r, i) = c(i);
    rate(r) = bits;
  }
  return p.build();
}

/// A profile HMM's forward algorithm in the log domain; rows are overwritten residue by residue.
Program profile_hmm() {
  ProgramBuilder p("profile_hmm");
  auto sequences = p.size("sequences"), longest = p.size("longest"), columns = p.size("columns");
  auto residue = p.input<int>("residue", {sequences, longest});
  auto lengths = p.input<int>("lengths", {sequences});
  auto emit = p.input<float>("emit", {columns + 1, 20}), insert = p.input<float>("insert", {20});
  auto move = p.input<float>("move", {columns + 1, 7});
  auto score = p.output<float>("score", {sequences});
  p.in_range(residue, 0, 20);
  p.in_range(lengths, 1, longest + 1);
  auto join = [&](const Value& a, const Value& b) {
    auto x = p.let("x", a), y = p.let("y", b);
    return p.let("join", max(x, y) + log1p(exp(-abs(x - y))));
  };
  for (auto s : p.loop("s", sequences)) {
    auto m = p.local<float>("m", {columns + 1}), in = p.local<float>("in", {columns + 1});
    auto del = p.local<float>("del", {columns + 1});
    m(0) = 0;
    in(0) = -100;
    del(0) = -100;
    for (auto j : p.loop("j", 1, columns + 1)) {
      m(j) = -100;
      in(j) = -100;
      del(j) = join(m(j - 1) + move(j - 1, 2), del(j - 1) + move(j - 1, 6));
    }
    for (auto i : p.loop("i", lengths(s))) {
      auto c = p.let("c", residue(s, i));
      auto dm = p.scalar<float>("dm", m(0)), di = p.scalar<float>("di", in(0)), dd = p.scalar<float>("dd", del(0));
      in(0) = insert(c) + join(m(0) + move(0, 1), in(0) + move(0, 4));
      m(0) = -100;
      for (auto j : p.loop("j", 1, columns + 1)) {
        auto from = p.let("from", join(join(dm + move(j - 1, 0), di + move(j - 1, 3)), dd + move(j - 1, 5)));
        dm = m(j);
        di = in(j);
        dd = del(j);
        in(j) = insert(c) + join(m(j) + move(j, 1), in(j) + move(j, 4));
        m(j) = emit(j, c) + from;
        del(j) = join(m(j - 1) + move(j - 1, 2), del(j - 1) + move(j - 1, 6));
      }
    }
    score(s) = join(join(m(columns), in(columns)), del(columns));
  }
  return p.build();
}

/// American puts by binomial trees, in place, with delta; exercise where it pays.
Program american() {
  ProgramBuilder p("american");
  auto options = p.size("options"), steps = p.size("steps");
  auto spot = p.input<double>("spot", {options}), strike = p.input<double>("strike", {options});
  auto vol = p.input<double>("vol", {options}), rate = p.input<double>("rate", {});
  auto price = p.output<double>("price", {options}), delta = p.output<double>("delta", {options});
  for (auto o : p.loop("o", options)) {
    auto dt = p.let("dt", cast<double>(1) / steps);
    auto up = p.let("up", exp((0.3 + 0.1 * vol(o)) * sqrt(dt)));
    auto grow = p.let("grow", exp((0.05 + 0.02 * rate()) * dt));
    auto q = p.let("q", (grow - 1 / up) / (up - 1 / up));
    auto s0 = p.let("s0", 1 + 0.1 * spot(o)), k = p.let("k", 1 + 0.1 * strike(o));
    auto v = p.local<double>("v", {steps + 1});
    auto s = p.scalar<double>("s", s0 * pow(up, -cast<double>(steps)));
    for (auto j : p.loop("j", steps + 1)) {
      v(j) = max(k - s, 0);
      s *= up * up;
    }
    auto low = p.scalar<double>("low", 0), high = p.scalar<double>("high", 0);
    for (auto t : p.loop("t", steps, {.descending = true})) {
      auto x = p.scalar<double>("x", s0 * exp(-log(up) * t));
      p.when(t == 0, [&] {
        low = v(0);
        high = v(1);
      });
      for (auto j : p.loop("j", t + 1)) {
        v(j) = max(k - x, (q * v(j + 1) + (1 - q) * v(j)) / grow);
        x *= up * up;
      }
    }
    price(o) = v(0);
    delta(o) = (high - low) / (s0 * (up - 1 / up));
  }
  return p.build();
}

/// Optical flow: warp the second image by the flow so far, then red-black SOR in place; some times over.
Program flow_sor() {
  ProgramBuilder p("flow_sor");
  auto h = p.size("h"), w = p.size("w"), warps = p.size("warps"), sweeps = p.size("sweeps");
  auto one = p.input<float>("one", {h, w}), two = p.input<float>("two", {h, w});
  auto smooth = p.input<float>("smooth", {});
  auto u = p.output<float>("u", {h, w}), v = p.output<float>("v", {h, w});
  for (auto [i, j] : p.loop({"i", h}, {"j", w})) {
    u(i, j) = 0;
    v(i, j) = 0;
  }
  for ([[maybe_unused]] auto k : p.loop("k", warps)) {
    auto ix = p.local<float>("ix", {h, w}), iy = p.local<float>("iy", {h, w}), it = p.local<float>("it", {h, w});
    auto warped = p.local<float>("warped", {h, w});
    for (auto [i, j] : p.loop({"i", h}, {"j", w})) {
      auto y = p.let("y", i + v(i, j)), x = p.let("x", j + u(i, j));
      auto fy = p.let("fy", y - floor(y)), fx = p.let("fx", x - floor(x));
      auto y0 = p.let("y0", index_of(y, h)), y1 = p.let("y1", index_of(y + 1, h));
      auto x0 = p.let("x0", index_of(x, w)), x1 = p.let("x1", index_of(x + 1, w));
      warped(i, j) =
          (1 - fy) * ((1 - fx) * two(y0, x0) + fx * two(y0, x1)) + fy * ((1 - fx) * two(y1, x0) + fx * two(y1, x1));
    }
    for (auto [i, j] : p.loop({"i", h}, {"j", w})) {
      ix(i, j) = 0.5f * (warped(i, min(j + 1, w - 1)) - warped(i, max(j - 1, 0)));
      iy(i, j) = 0.5f * (warped(min(i + 1, h - 1), j) - warped(max(i - 1, 0), j));
      it(i, j) = warped(i, j) - one(i, j) - ix(i, j) * u(i, j) - iy(i, j) * v(i, j);
    }
    for ([[maybe_unused]] auto s : p.loop("s", sweeps))
      for (auto colour : p.loop("colour", 2))
        for (auto [i, j] : p.loop({"i", h}, {"j", w}))
          p.when((i + j) % 2 == colour, [&] {
            auto a = p.let("a", exp(smooth()));
            auto mu = p.let("mu", 0.25f * (u(max(i - 1, 0), j) + u(min(i + 1, h - 1), j) + u(i, max(j - 1, 0)) +
                                           u(i, min(j + 1, w - 1))));
            auto mv = p.let("mv", 0.25f * (v(max(i - 1, 0), j) + v(min(i + 1, h - 1), j) + v(i, max(j - 1, 0)) +
                                           v(i, min(j + 1, w - 1))));
            auto t = p.let(
                "t", (ix(i, j) * mu + iy(i, j) * mv + it(i, j)) / (a + ix(i, j) * ix(i, j) + iy(i, j) * iy(i, j)));
            u(i, j) = -0.5f * u(i, j) + 1.5f * (mu - t * ix(i, j));
            v(i, j) = -0.5f * v(i, j) + 1.5f * (mv - t * iy(i, j));
          });
  }
  return p.build();
}

/// Paths under a local volatility surface, read between its nodes; barrier calls at several strikes.
Program local_vol() {
  ProgramBuilder p("local_vol");
  auto paths = p.size("paths"), steps = p.size("steps"), times = p.size("times"), nodes = p.size("nodes");
  auto strikes = p.size("strikes");
  auto z = p.input<float>("z", {paths, steps}), surface = p.input<float>("surface", {times, nodes});
  auto strike = p.input<float>("strike", {strikes}), rate = p.input<float>("rate", {});
  auto price = p.output<float>("price", {strikes});
  for (auto k : p.loop("k", strikes)) price(k) = 0;
  for (auto i : p.loop("i", paths)) {
    auto x = p.scalar<float>("x", 0), alive = p.scalar<float>("alive", 1), mean = p.scalar<float>("mean", 0);
    for (auto t : p.loop("t", steps)) {
      auto row = p.let("row", t * times / steps);
      auto at = p.let("at", (x + 1) * 0.5f * (nodes - 1));
      auto lo = p.let("lo", index_of(at, nodes)), hi = p.let("hi", index_of(at + 1, nodes));
      auto f = p.let("f", at - floor(at));
      auto sigma = p.let("sigma", 0.2f * exp((1 - f) * surface(row, lo) + f * surface(row, hi)));
      auto dt = p.let("dt", 1.0f / steps);
      x += (0.02f * rate() - 0.5f * sigma * sigma) * dt + sigma * sqrt(dt) * 1.7f * z(i, t);
      mean += exp(x) / steps;
      p.when(x > 0.8f, [&] { alive = alive * exp(-4 * (x - 0.8f)); });
    }
    for (auto k : p.loop("k", strikes)) price(k) += alive * max(mean - exp(0.1f * strike(k)), 0) / paths;
  }
  return p.build();
}

/// A bilateral grid: pixels into cells by place and brightness, three blurs in place, and back between cells.
Program bilateral_grid() {
  ProgramBuilder p("bilateral_grid");
  auto h = p.size("h"), w = p.size("w"), gh = p.size("gh"), gw = p.size("gw"), gd = p.size("gd");
  auto guide = p.input<float>("guide", {h, w}), value = p.input<float>("value", {h, w});
  auto y = p.output<float>("y", {h, w});
  auto grid = p.local<float>("grid", {gh, gw, gd, 2});
  for (auto [a, b, c, k] : p.loop({"a", gh}, {"b", gw}, {"c", gd}, {"k", 2})) grid(a, b, c, k) = 0;
  auto cell = [&](const Value& i, const Value& j) { return (0.5f + 0.5f * guide(i, j)) * (gd - 1); };
  for (auto [i, j] : p.loop({"i", h}, {"j", w})) {
    auto z = p.let("z", cell(i, j)), f = p.let("f", z - floor(z));
    auto z0 = p.let("z0", index_of(z, gd)), z1 = p.let("z1", index_of(z + 1, gd));
    auto a = p.let("a", i * gh / h), b = p.let("b", j * gw / w);
    grid(a, b, z0, 0) += (1 - f) * value(i, j);
    grid(a, b, z0, 1) += 1 - f;
    grid(a, b, z1, 0) += f * value(i, j);
    grid(a, b, z1, 1) += f;
  }
  for (auto [a, b, k] : p.loop({"a", gh}, {"b", gw}, {"k", 2})) {
    auto old = p.scalar<float>("old", 0);
    for (auto c : p.loop("c", gd)) {
      auto here = p.scalar<float>("here", grid(a, b, c, k));
      auto next = p.scalar<float>("next", 0);
      p.when(c + 1 < gd, [&] { next = grid(a, b, c + 1, k); });
      grid(a, b, c, k) = 0.25f * old + 0.5f * here + 0.25f * next;
      old = here;
    }
  }
  for (auto [b, c, k] : p.loop({"b", gw}, {"c", gd}, {"k", 2})) {
    auto old = p.scalar<float>("old", 0);
    for (auto a : p.loop("a", gh)) {
      auto here = p.scalar<float>("here", grid(a, b, c, k));
      auto next = p.scalar<float>("next", 0);
      p.when(a + 1 < gh, [&] { next = grid(a + 1, b, c, k); });
      grid(a, b, c, k) = 0.25f * old + 0.5f * here + 0.25f * next;
      old = here;
    }
  }
  for (auto [i, j] : p.loop({"i", h}, {"j", w})) {
    auto z = p.let("z", cell(i, j)), f = p.let("f", z - floor(z));
    auto z0 = p.let("z0", index_of(z, gd)), z1 = p.let("z1", index_of(z + 1, gd));
    auto a = p.let("a", i * gh / h), b = p.let("b", j * gw / w);
    auto sum = (1 - f) * grid(a, b, z0, 0) + f * grid(a, b, z1, 0);
    auto weight = (1 - f) * grid(a, b, z0, 1) + f * grid(a, b, z1, 1);
    y(i, j) = sum / (weight + 0.01f);
  }
  return p.build();
}

/// A texture of 2^levels squared, its pyramid packed in one array, and trilinear lookups.
Program mip_texture() {
  ProgramBuilder p("mip_texture");
  auto n = p.size("n"), levels = p.size("levels"), samples = p.size("samples");
  auto texture = p.input<float>("texture", {n, n});
  auto uv = p.input<float>("uv", {samples, 3});
  auto y = p.output<float>("y", {samples});
  auto pyramid = p.local<float>("pyramid", {2 * n * n});
  auto offset = p.local<std::int64_t>("offset", {levels + 1}), width = p.local<std::int64_t>("width", {levels + 1});
  for (auto [i, j] : p.loop({"i", n}, {"j", n})) pyramid(i * n + j) = texture(i, j);
  offset(0) = 0;
  width(0) = n;
  for (auto l : p.loop("l", 1, levels + 1)) {
    auto w = p.let("w", width(l - 1)), half = p.let("half", w / 2), from = p.let("from", offset(l - 1));
    width(l) = half;
    offset(l) = from + w * w;
    for (auto [i, j] : p.loop({"i", half}, {"j", half})) {
      auto at = p.let("at", from + 2 * i * w + 2 * j);
      pyramid(from + w * w + i * half + j) =
          0.25f * (pyramid(at) + pyramid(at + 1) + pyramid(at + w) + pyramid(at + w + 1));
    }
  }
  auto look = [&](const Value& level, const Value& u, const Value& v) {
    auto w = p.let("w", width(level)), o = p.let("o", offset(level));
    auto x = p.let("x", u * w - 0.5f), yy = p.let("yy", v * w - 0.5f);
    auto x0 = index_of(x, w), x1 = index_of(x + 1, w), y0 = index_of(yy, w), y1 = index_of(yy + 1, w);
    auto fx = x - floor(x), fy = yy - floor(yy);
    return p.let("look", (1 - fy) * ((1 - fx) * pyramid(o + y0 * w + x0) + fx * pyramid(o + y0 * w + x1)) +
                             fy * ((1 - fx) * pyramid(o + y1 * w + x0) + fx * pyramid(o + y1 * w + x1)));
  };
  for (auto s : p.loop("s", samples)) {
    auto lod = p.let("lod", abs(uv(s, 2)) * levels);
    auto l0 = p.let("l0", index_of(lod, levels + 1)), l1 = p.let("l1", min(l0 + 1, levels));
    auto u = p.let("u", 0.5f + 0.5f * uv(s, 0)), v = p.let("v", 0.5f + 0.5f * uv(s, 1));
    auto f = p.let("f", lod - floor(lod));
    auto a = look(l0, u, v), b = look(l1, u, v);
    y(s) = a + f * (b - a);
  }
  return p.build();
}

/// An integral image in place, then boxes whose radius each pixel has.
Program integral_boxes() {
  ProgramBuilder p("integral_boxes");
  auto h = p.size("h"), w = p.size("w");
  auto image = p.input<float>("image", {h, w}), radius = p.input<float>("radius", {h, w});
  auto y = p.output<float>("y", {h, w});
  auto sum = p.local<double>("sum", {h + 1, w + 1});
  for (auto i : p.loop("i", h + 1)) sum(i, 0) = 0;
  for (auto j : p.loop("j", w + 1)) sum(0, j) = 0;
  for (auto [i, j] : p.loop({"i", h}, {"j", w}))
    sum(i + 1, j + 1) = image(i, j) + sum(i, j + 1) + sum(i + 1, j) - sum(i, j);
  auto box = [&](const Value& i, const Value& j, const Value& r) {
    auto t = p.let("t", max(i - r, 0)), b = p.let("b", min(i + r + 1, h));
    auto l = p.let("l", max(j - r, 0)), e = p.let("e", min(j + r + 1, w));
    return p.let("box", (sum(b, e) - sum(t, e) - sum(b, l) + sum(t, l)) / ((b - t) * (e - l)));
  };
  for (auto [i, j] : p.loop({"i", h}, {"j", w})) {
    auto r = p.let("r", 6 * abs(radius(i, j)));
    auto r0 = p.let("r0", cast<std::int64_t>(floor(r)));
    auto f = p.let("f", r - floor(r));
    y(i, j) = (1 - f) * box(i, j, r0) + f * box(i, j, r0 + 1);
  }
  return p.build();
}

}  // namespace

std::vector<Field> rollouts() {
  return {
      {{"efron", "", efron, {{"subjects", 200001}, {"groups", 30001}, {"features", 17}}},
       {{{"subjects", 7}, {"groups", 3}, {"features", 2}}, {{"subjects", 1}, {"groups", 1}, {"features", 1}}}},
      {{"lifting", "", lifting, {{"rows", 1001}, {"n", 2048}, {"levels", 7}}},
       {{{"rows", 3}, {"n", 8}, {"levels", 2}},
        {{"rows", 1}, {"n", 2}, {"levels", 1}},
        {{"rows", 1}, {"n", 1}, {"levels", 1}}}},
      {{"profile_hmm", "", profile_hmm, {{"sequences", 51}, {"longest", 151}, {"columns", 101}}},
       {{{"sequences", 3}, {"longest", 4}, {"columns", 3}}, {{"sequences", 1}, {"longest", 1}, {"columns", 1}}}},
      {{"american", "", american, {{"options", 101}, {"steps", 301}}},
       {{{"options", 3}, {"steps", 4}}, {{"options", 1}, {"steps", 1}}}},
      {{"flow_sor", "", flow_sor, {{"h", 181}, {"w", 203}, {"warps", 3}, {"sweeps", 15}}},
       {{{"h", 4}, {"w", 5}, {"warps", 2}, {"sweeps", 2}}, {{"h", 1}, {"w", 1}, {"warps", 1}, {"sweeps", 1}}}},
      {{"local_vol", "", local_vol, {{"paths", 20001}, {"steps", 51}, {"times", 7}, {"nodes", 21}, {"strikes", 11}}},
       {{{"paths", 5}, {"steps", 4}, {"times", 3}, {"nodes", 4}, {"strikes", 3}},
        {{"paths", 1}, {"steps", 1}, {"times", 1}, {"nodes", 1}, {"strikes", 1}}}},
      {{"bilateral_grid", "", bilateral_grid, {{"h", 701}, {"w", 903}, {"gh", 45}, {"gw", 57}, {"gd", 17}}},
       {{{"h", 5}, {"w", 4}, {"gh", 3}, {"gw", 2}, {"gd", 3}}, {{"h", 1}, {"w", 1}, {"gh", 1}, {"gw", 1}, {"gd", 1}}}},
      {{"mip_texture", "", mip_texture, {{"n", 512}, {"levels", 9}, {"samples", 300001}}},
       {{{"n", 4}, {"levels", 2}, {"samples", 5}},
        {{"n", 1}, {"levels", 0}, {"samples", 1}},
        {{"n", 2}, {"levels", 1}, {"samples", 3}}}},
      {{"integral_boxes", "", integral_boxes, {{"h", 1001}, {"w", 1203}}},
       {{{"h", 5}, {"w", 4}}, {{"h", 1}, {"w", 1}}}},
  };
}

}  // namespace loopgrad::fields

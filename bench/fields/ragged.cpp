// Lists whose length data decide, images and tables that are read where data say, chains of states.
#include "bench/fields/fields.h"

namespace loopgrad::fields {
namespace {

/// Warps image features by a flow: channels outside.
Program flow_warp() {
  ProgramBuilder p("flow_warp");
  auto c = p.size("c"), h = p.size("h"), w = p.size("w");
  auto img = p.input<float>("img", {c, h, w}), fx = p.input<float>("fx", {h, w}), fy = p.input<float>("fy", {h, w});
  auto out = p.output<float>("out", {c, h, w});
  for (auto k : p.loop("k", c))
    for (auto [y, x] : p.loop({"y", h}, {"x", w})) {
      auto px = p.scalar<float>("px"), py = p.scalar<float>("py");
      px = max(min(cast<float>(x) + 3.0 * fx(y, x), cast<float>(w) - 1.001), 0.0);
      py = max(min(cast<float>(y) + 3.0 * fy(y, x), cast<float>(h) - 1.001), 0.0);
      auto ix = p.scalar<int>("ix"), iy = p.scalar<int>("iy");
      ix = cast<int>(px);
      iy = cast<int>(py);
      auto ax = p.let("ax", px - cast<float>(ix)), ay = p.let("ay", py - cast<float>(iy));
      out(k, y, x) = (1 - ay) * ((1 - ax) * img(k, iy, ix) + ax * img(k, iy, ix + 1)) +
                     ay * ((1 - ax) * img(k, iy + 1, ix) + ax * img(k, iy + 1, ix + 1));
    }
  return p.build();
}

/// Deformable convolution, channels outside.
Program deformable_conv() {
  ProgramBuilder p("deformable_conv");
  auto ci = p.size("ci"), co = p.size("co"), h = p.size("h"), w = p.size("w");
  auto x = p.input<float>("x", {ci, h, w}), wt = p.input<float>("wt", {co, ci, 9}),
       off = p.input<float>("off", {9, 2, h, w});
  auto y = p.output<float>("y", {co, h, w});
  auto col = p.local<float>("col", {ci, 9, h, w});
  for (auto c : p.loop("c", ci))
    for (auto [k, i, j] : p.loop({"k", 9}, {"i", h}, {"j", w})) {
      auto py = p.scalar<float>("py"), px = p.scalar<float>("px");
      py = max(min(cast<float>(i + k / 3 - 1) + off(k, 0, i, j), cast<float>(h) - 1.001), 0.0);
      px = max(min(cast<float>(j + k % 3 - 1) + off(k, 1, i, j), cast<float>(w) - 1.001), 0.0);
      auto iy = p.scalar<int>("iy"), ix = p.scalar<int>("ix");
      iy = cast<int>(py);
      ix = cast<int>(px);
      auto fy = p.let("fy", py - cast<float>(iy)), fx = p.let("fx", px - cast<float>(ix));
      col(c, k, i, j) = (1 - fy) * ((1 - fx) * x(c, iy, ix) + fx * x(c, iy, ix + 1)) +
                        fy * ((1 - fx) * x(c, iy + 1, ix) + fx * x(c, iy + 1, ix + 1));
    }
  for (auto [o, i, j] : p.loop({"o", co}, {"i1", h}, {"j1", w})) {
    y(o, i, j) = 0;
    for (auto [c, k] : p.loop({"c1", ci}, {"k1", 9})) y(o, i, j) += wt(o, c, k) * col(c, k, i, j);
  }
  return p.build();
}

/// RoI align.
Program roi_align() {
  ProgramBuilder p("roi_align");
  auto r = p.size("r"), c = p.size("c"), h = p.size("h"), w = p.size("w");
  auto feat = p.input<float>("feat", {c, h, w}), box = p.input<float>("box", {r, 4});
  auto out = p.output<float>("out", {r, c, 7, 7});
  for (auto i : p.loop("i", r))
    for (auto k : p.loop("k", c))
      for (auto [py, px] : p.loop({"py", 7}, {"px", 7})) {
        out(i, k, py, px) = 0;
        for (auto [sy, sx] : p.loop({"sy", 2}, {"sx", 2})) {
          auto y = p.scalar<float>("y"), x = p.scalar<float>("x");
          y = min(abs(box(i, 0)) * 0.4 + (cast<float>(py) + 0.25 + 0.5 * cast<float>(sy)) * 0.05 * abs(box(i, 2)),
                  0.99) *
              cast<float>(h - 1);
          x = min(abs(box(i, 1)) * 0.4 + (cast<float>(px) + 0.25 + 0.5 * cast<float>(sx)) * 0.05 * abs(box(i, 3)),
                  0.99) *
              cast<float>(w - 1);
          auto iy = p.scalar<int>("iy"), ix = p.scalar<int>("ix");
          iy = cast<int>(y);
          ix = cast<int>(x);
          auto fy = p.let("fy", y - cast<float>(iy)), fx = p.let("fx", x - cast<float>(ix));
          out(i, k, py, px) += 0.25 * ((1 - fy) * ((1 - fx) * feat(k, iy, ix) + fx * feat(k, iy, ix + 1)) +
                                       fy * ((1 - fx) * feat(k, iy + 1, ix) + fx * feat(k, iy + 1, ix + 1)));
        }
      }
  return p.build();
}

/// Multi-resolution hash encoding: levels, 8 corners, 2 features.
Program hash_levels() {
  ProgramBuilder p("hash_levels");
  auto n = p.size("n"), levels = p.size("levels"), t = p.size("t");
  auto x = p.input<float>("x", {n, 3}), table = p.input<float>("table", {levels, t, 2}),
       res = p.input<int>("res", {levels});
  auto out = p.output<float>("out", {n, levels, 2});
  for (auto i : p.loop("i", n))
    for (auto l : p.loop("l", levels)) {
      auto f0 = p.scalar<float>("f0", 0), f1 = p.scalar<float>("f1", 0);
      auto px = p.scalar<float>("px"), py = p.scalar<float>("py"), pz = p.scalar<float>("pz");
      auto scale = p.let("scale", cast<float>(abs(res(l)) + 16));
      px = abs(x(i, 0)) * scale;
      py = abs(x(i, 1)) * scale;
      pz = abs(x(i, 2)) * scale;
      auto cx = p.scalar<int>("cx"), cy = p.scalar<int>("cy"), cz = p.scalar<int>("cz");
      cx = cast<int>(px);
      cy = cast<int>(py);
      cz = cast<int>(pz);
      for (auto [a, b, c] : p.loop({"a", 2}, {"b", 2}, {"c", 2})) {
        auto key = p.scalar<int>("key");
        key = cast<int>(((cx + a) * 7919 + (cy + b) * 104729 + (cz + c) * 1299709) % t);
        auto wx = select(a == 1, px - cast<float>(cx), 1 - px + cast<float>(cx));
        auto wy = select(b == 1, py - cast<float>(cy), 1 - py + cast<float>(cy));
        auto wz = select(c == 1, pz - cast<float>(cz), 1 - pz + cast<float>(cz));
        auto weight = p.let("weight", wx * wy * wz);
        f0 += weight * table(l, key, 0);
        f1 += weight * table(l, key, 1);
      }
      out(i, l, 0) = f0;
      out(i, l, 1) = f1;
    }
  return p.build();
}

/// Mixture of experts: each token goes to two experts.
Program token_experts() {
  ProgramBuilder p("token_experts");
  auto n = p.size("n"), e = p.size("e"), d = p.size("d"), h = p.size("h");
  auto x = p.input<float>("x", {n, d}), w = p.input<float>("w", {e, h, d}), gate = p.input<float>("gate", {n, 2});
  auto pick = p.input<int>("pick", {n, 2});
  p.in_range(pick, 0, e);
  auto y = p.output<float>("y", {n, h});
  for (auto i : p.loop("i", n))
    for (auto o : p.loop("o", h)) {
      y(i, o) = 0;
      for (auto k : p.loop("k", 2)) {
        auto s = p.scalar<float>("s", 0);
        for (auto j : p.loop("j", d)) s += w(pick(i, k), o, j) * x(i, j);
        y(i, o) += gate(i, k) * max(s, 0.0);
      }
    }
  return p.build();
}

/// Relational graph convolution: the matrix of an edge by its type.
Program relational_conv() {
  ProgramBuilder p("relational_conv");
  auto v = p.size("v"), m = p.size("m"), r = p.size("r"), d = p.size("d");
  auto x = p.input<float>("x", {v, d}), w = p.input<float>("w", {r, d, d}), norm = p.input<float>("norm", {m});
  auto src = p.input<int>("src", {m}), dst = p.input<int>("dst", {m}), type = p.input<int>("type", {m});
  p.in_range(src, 0, v);
  p.in_range(dst, 0, v);
  p.in_range(type, 0, r);
  auto y = p.output<float>("y", {v, d});
  for (auto [i, j] : p.loop({"i", v}, {"j", d})) y(i, j) = 0;
  for (auto e : p.loop("e", m))
    for (auto [o, j] : p.loop({"o", d}, {"j", d})) y(dst(e), o) += norm(e) * w(type(e), o, j) * x(src(e), j);
  for (auto [i, j] : p.loop({"i", v}, {"j", d})) y(i, j) = max(y(i, j), 0.0);
  return p.build();
}

/// Sparse 3-D convolution by a rule book: pairs of voxels for each kernel offset.
Program sparse_conv() {
  ProgramBuilder p("sparse_conv");
  auto v = p.size("v"), k = p.size("k"), m = p.size("m"), ci = p.size("ci"), co = p.size("co");
  auto x = p.input<float>("x", {v, ci}), w = p.input<float>("w", {k, ci, co});
  auto from = p.input<int>("from", {k, m}), to = p.input<int>("to", {k, m}), count = p.input<int>("count", {k});
  p.in_range(from, 0, v);
  p.in_range(to, 0, v);
  p.in_range(count, 0, m + 1);
  auto y = p.output<float>("y", {v, co});
  for (auto [i, j] : p.loop({"i", v}, {"j", co})) y(i, j) = 0;
  for (auto q : p.loop("q", k))
    for (auto e : p.loop("e", 0, count(q), {.at_most = {m}}))
      for (auto [a, b] : p.loop({"a", ci}, {"b", co})) y(to(q, e), b) += x(from(q, e), a) * w(q, a, b);
  return p.build();
}

/// A padded batch of sequences: affine and tanh on what is there.
Program padded_batch() {
  ProgramBuilder p("padded_batch");
  auto b = p.size("b"), t = p.size("t"), d = p.size("d");
  auto x = p.input<float>("x", {b, t, d}), w = p.input<float>("w", {d}), c = p.input<float>("c", {d});
  auto len = p.input<int>("len", {b});
  p.in_range(len, 0, t + 1);
  auto y = p.output<float>("y", {b, t, d});
  for (auto [i, s, k] : p.loop({"i0", b}, {"s0", t}, {"k0", d})) y(i, s, k) = 0;
  for (auto i : p.loop("i", b))
    for (auto s : p.loop("s", 0, len(i), {.at_most = {t}}))
      for (auto k : p.loop("k", d)) y(i, s, k) = tanh(x(i, s, k) * w(k) + c(k));
  return p.build();
}

/// Loopy belief propagation on a graph: messages of edges, `back(e)` is the edge the other way.
Program belief() {
  ProgramBuilder p("belief");
  auto v = p.size("v"), m = p.size("m"), s = p.size("s"), t = p.size("t");
  auto theta = p.input<float>("theta", {v, s}), pair = p.input<float>("pair", {s, s});
  auto ptr = p.input<int>("ptr", {v + 1}), back = p.input<int>("back", {m});
  p.csr(ptr, m);
  p.in_range(back, 0, m);
  auto out = p.output<float>("out", {v, s});
  auto msg = p.local<float>("msg", {m, s}), next = p.local<float>("next", {m, s});
  for (auto [e, k] : p.loop({"e0", m}, {"k0", s})) msg(e, k) = 0;
  for (auto step : p.loop("step", t)) {
    for (auto i : p.loop("i", v)) {
      auto b = p.local<float>("b", {s});
      for (auto k : p.loop("k", s)) b(k) = theta(i, k);
      for (auto e : p.loop("e", ptr(i), ptr(i + 1)))
        for (auto k : p.loop("k1", s)) b(k) += msg(back(e), k);
      for (auto e : p.loop("e1", ptr(i), ptr(i + 1)))
        for (auto l : p.loop("l", s)) {
          auto sum = p.scalar<float>("sum", 0);
          for (auto k : p.loop("k2", s)) sum += exp(0.2 * (b(k) - msg(back(e), k)) + pair(k, l));
          next(e, l) = log(sum);
        }
    }
    for (auto [e, k] : p.loop({"e3", m}, {"k3", s})) msg(e, k) = 0.5 * msg(e, k) + 0.5 * next(e, k);
  }
  for (auto i : p.loop("i4", v))
    for (auto k : p.loop("k4", s)) {
      out(i, k) = theta(i, k);
      for (auto e : p.loop("e4", ptr(i), ptr(i + 1))) out(i, k) += msg(back(e), k);
    }
  return p.build();
}

/// Volume rendering: rays march through a grid until they are opaque.
Program opaque_rays() {
  ProgramBuilder p("opaque_rays");
  auto rays = p.size("rays"), g = p.size("g"), steps = p.size("steps");
  auto density = p.input<float>("density", {g, g, g}), colour = p.input<float>("colour", {g, g, g, 3});
  auto origin = p.input<float>("origin", {rays, 3}), dir = p.input<float>("dir", {rays, 3});
  auto image = p.output<float>("image", {rays, 3});
  for (auto r : p.loop("r", rays)) {
    auto light = p.scalar<float>("light", 1);
    for (auto c : p.loop("c", 3)) image(r, c) = 0;
    for (auto s : p.loop_while("s", steps, [&](auto) { return light > 0.01; })) {
      auto cell = p.local<int>("cell", {3});
      auto frac = p.local<float>("frac", {3});
      for (auto a : p.loop("a", 3)) {
        auto pos = p.scalar<float>("pos");
        pos = max(min(abs(origin(r, a)) + cast<float>(s) * dir(r, a) * 0.01, 0.999), 0.0) * cast<float>(g - 1);
        cell(a) = cast<int>(pos);
        frac(a) = pos - cast<float>(cell(a));
      }
      auto dens = p.scalar<float>("dens", 0);
      auto rgb = p.local<float>("rgb", {3});
      for (auto c : p.loop("c1", 3)) rgb(c) = 0;
      for (auto [a, b, c] : p.loop({"x", 2}, {"y", 2}, {"z", 2})) {
        auto w = p.let("w", select(a == 1, frac(0), 1 - frac(0)) * select(b == 1, frac(1), 1 - frac(1)) *
                                select(c == 1, frac(2), 1 - frac(2)));
        dens += w * abs(density(cell(0) + a, cell(1) + b, cell(2) + c));
        for (auto k : p.loop("k", 3)) rgb(k) += w * colour(cell(0) + a, cell(1) + b, cell(2) + c, k);
      }
      auto alpha = p.let("alpha", 1 - exp(-0.3 * dens));
      for (auto k : p.loop("k2", 3)) image(r, k) += light * alpha * rgb(k);
      light = light * (1 - alpha);
    }
  }
  return p.build();
}

/// Linear-chain CRF: log partition of sequences of data's length, minus the score of the labels.
Program crf() {
  ProgramBuilder p("crf");
  auto n = p.size("n"), t = p.size("t"), k = p.size("k");
  auto emit = p.input<float>("emit", {n, t, k}), trans = p.input<float>("trans", {k, k});
  auto tag = p.input<int>("tag", {n, t}), len = p.input<int>("len", {n});
  p.in_range(tag, 0, k);
  p.in_range(len, 1, t + 1);
  auto loss = p.output<float>("loss", {n});
  for (auto i : p.loop("i", n)) {
    auto a = p.local<float>("a", {k}), next = p.local<float>("next", {k});
    for (auto j : p.loop("j", k)) a(j) = emit(i, 0, j);
    auto score = p.scalar<float>("score");
    score = emit(i, 0, tag(i, 0));
    for (auto s : p.loop("s", 1, len(i), {.at_most = {t}})) {
      for (auto j : p.loop("j1", k)) {
        auto top = p.scalar<float>("top", -1e30), sum = p.scalar<float>("sum", 0);
        for (auto l : p.loop("l", k)) top.max_with(a(l) + trans(l, j));
        for (auto l : p.loop("l1", k)) sum += exp(a(l) + trans(l, j) - top);
        next(j) = emit(i, s, j) + top + log(sum);
      }
      for (auto j : p.loop("j2", k)) a(j) = next(j);
      score += trans(tag(i, s - 1), tag(i, s)) + emit(i, s, tag(i, s));
    }
    auto top = p.scalar<float>("top2", -1e30), sum = p.scalar<float>("sum2", 0);
    for (auto l : p.loop("l2", k)) top.max_with(a(l));
    for (auto l : p.loop("l3", k)) sum += exp(a(l) - top);
    loss(i) = top + log(sum) - score;
  }
  return p.build();
}

}  // namespace

std::vector<Field> ragged() {
  return {
      {{"flow_warp", "", flow_warp, {{"c", 32}, {"h", 501}, {"w", 701}}},
       {{{"c", 3}, {"h", 6}, {"w", 7}}, {{"c", 1}, {"h", 2}, {"w", 33}}}},
      {{"deformable_conv", "", deformable_conv, {{"ci", 33}, {"co", 65}, {"h", 129}, {"w", 131}}},
       {{{"ci", 3}, {"co", 2}, {"h", 5}, {"w", 6}}, {{"ci", 1}, {"co", 1}, {"h", 2}, {"w", 3}}}},
      {{"roi_align", "", roi_align, {{"r", 301}, {"c", 65}, {"h", 129}, {"w", 131}}},
       {{{"r", 2}, {"c", 2}, {"h", 6}, {"w", 7}}, {{"r", 1}, {"c", 3}, {"h", 2}, {"w", 2}}}},
      {{"hash_levels", "", hash_levels, {{"n", 200003}, {"levels", 12}, {"t", 65537}}},
       {{{"n", 5}, {"levels", 3}, {"t", 31}}, {{"n", 2}, {"levels", 1}, {"t", 2}}}},
      {{"token_experts", "", token_experts, {{"n", 8191}, {"e", 16}, {"d", 129}, {"h", 251}}},
       {{{"n", 7}, {"e", 3}, {"d", 5}, {"h", 4}}, {{"n", 1}, {"e", 1}, {"d", 1}, {"h", 2}}}},
      {{"relational_conv", "", relational_conv, {{"v", 20011}, {"m", 200003}, {"r", 23}, {"d", 33}}},
       {{{"v", 7}, {"m", 19}, {"r", 3}, {"d", 4}}, {{"v", 1}, {"m", 2}, {"r", 1}, {"d", 1}}}},
      {{"sparse_conv", "", sparse_conv, {{"v", 50021}, {"k", 27}, {"m", 40009}, {"ci", 17}, {"co", 33}}},
       {{{"v", 9}, {"k", 3}, {"m", 8}, {"ci", 3}, {"co", 4}}, {{"v", 2}, {"k", 1}, {"m", 1}, {"ci", 1}, {"co", 2}}}},
      {{"padded_batch", "", padded_batch, {{"b", 31}, {"t", 4099}, {"d", 65}}},
       {{{"b", 3}, {"t", 5}, {"d", 4}}, {{"b", 1}, {"t", 1}, {"d", 1}}}},
      {{"belief", "", belief, {{"v", 20011}, {"m", 160003}, {"s", 9}, {"t", 10}}},
       {{{"v", 5}, {"m", 11}, {"s", 3}, {"t", 3}}, {{"v", 1}, {"m", 2}, {"s", 1}, {"t", 2}}}},
      {{"opaque_rays", "", opaque_rays, {{"rays", 50021}, {"g", 129}, {"steps", 100}}},
       {{{"rays", 4}, {"g", 5}, {"steps", 7}}, {{"rays", 1}, {"g", 2}, {"steps", 1}}}},
      {{"crf", "", crf, {{"n", 5003}, {"t", 101}, {"k", 23}}},
       {{{"n", 4}, {"t", 6}, {"k", 3}}, {{"n", 1}, {"t", 1}, {"k", 2}}}},
  };
}

}  // namespace loopgrad::fields

// Models of physics, language and graphs as their papers write them.
#include "bench/fields/fields.h"

namespace loopgrad::fields {
namespace {

/// Inside algorithm of a stochastic grammar with one nonterminal: spans from shorter ones, by a logarithm of sums.
Program inside() {
  ProgramBuilder p("inside");
  auto b = p.size("b"), n = p.size("n");
  auto leaf = p.input<float>("leaf", {b, n}), rule = p.input<float>("rule", {b, n});
  auto chart = p.local<float>("chart", {b, n, n + 1});
  auto total = p.output<float>("total", {b});
  for (auto s : p.loop("s", b)) {
    for (auto i : p.loop("i0", n)) chart(s, i, i + 1) = leaf(s, i);
    for (auto width : p.loop("width", 2, n + 1))
      for (auto i : p.loop("i", 0, n - width + 1)) {
        auto largest = p.scalar<float>("largest", -1e30f);
        for (auto m : p.loop("m", i + 1, i + width)) largest.max_with(chart(s, i, m) + chart(s, m, i + width));
        auto sum = p.scalar<float>("sum", 0);
        for (auto m : p.loop("m2", i + 1, i + width)) sum += exp(chart(s, i, m) + chart(s, m, i + width) - largest);
        chart(s, i, i + width) = log(sum) + largest + rule(s, width - 1);
      }
    total(s) = chart(s, 0, n);
  }
  return p.build();
}

/// Conjugate gradients on a regularised dense system, a fixed number of steps.
Program conjugate_gradients() {
  ProgramBuilder p("conjugate_gradients");
  auto n = p.size("n"), steps = p.size("steps");
  auto a = p.input<float>("a", {n, n}), rhs = p.input<float>("rhs", {n});
  auto x = p.output<float>("x", {n});
  auto r = p.local<float>("r", {n}), d = p.local<float>("d", {n}), q = p.local<float>("q", {n});
  auto rr = p.local<float>("rr", {}), old = p.local<float>("old", {}), dq = p.local<float>("dq", {});
  for (auto i : p.loop("i0", n)) {
    x(i) = 0;
    r(i) = rhs(i);
    d(i) = rhs(i);
  }
  rr() = 0;
  for (auto i : p.loop("i1", n)) rr() += r(i) * r(i);
  for (auto t : p.loop("t", steps)) {
    for (auto i : p.loop("i2", n)) {
      q(i) = d(i) * cast<float>(n);
      for (auto j : p.loop("j", n)) q(i) += 0.5f * (a(i, j) + a(j, i)) * d(j);
    }
    dq() = 1e-12f;
    for (auto i : p.loop("i3", n)) dq() += d(i) * q(i);
    for (auto i : p.loop("i4", n)) {
      x(i) += rr() / dq() * d(i);
      r(i) -= rr() / dq() * q(i);
    }
    old() = rr() + 1e-12f;
    rr() = 0;
    for (auto i : p.loop("i5", n)) rr() += r(i) * r(i);
    for (auto i : p.loop("i6", n)) d(i) = r(i) + rr() / old() * d(i);
  }
  return p.build();
}

/// Convolution over the nearest neighbours of points: the largest of an edge's features in each channel.
Program edge_conv() {
  ProgramBuilder p("edge_conv");
  auto n = p.size("n"), k = p.size("k"), c = p.size("c"), o = p.size("o");
  auto near = p.input<std::int32_t>("near", {n, k});
  p.in_range(near, 0, n);
  auto x = p.input<float>("x", {n, c}), w = p.input<float>("w", {2 * c, o});
  auto y = p.output<float>("y", {n, o});
  for (auto [i, f] : p.loop({"i", n}, {"f", o})) {
    y(i, f) = -1e30f;
    for (auto e : p.loop("e", k)) {
      auto s = p.scalar<float>("s", 0);
      for (auto d : p.loop("d", c)) {
        s += x(i, d) * w(d, f);
        s += (x(near(i, e), d) - x(i, d)) * w(c + d, f);
      }
      y(i, f).max_with(max(s, 0.1f * s));
    }
  }
  return p.build();
}

/// Material points in two dimensions: particles to a grid, forces there, and back, in steps.
Program material_points() {
  ProgramBuilder p("material_points");
  auto n = p.size("n"), g = p.size("g"), steps = p.size("steps");
  auto x = p.inout<float>("x", {n, 2}), v = p.inout<float>("v", {n, 2});
  auto mass = p.local<float>("mass", {g + 3, g + 3}), mom = p.local<float>("mom", {g + 3, g + 3, 2});
  for (auto t : p.loop("t", steps)) {
    for (auto [i, j] : p.loop({"i0", g + 3}, {"j0", g + 3})) {
      mass(i, j) = 0.001f;
      mom(i, j, 0) = 0;
      mom(i, j, 1) = 0;
    }
    for (auto q : p.loop("q", n)) {
      auto px = p.let("px", (sin(x(q, 0)) * 0.499f + 0.5f) * cast<float>(g)),
           py = p.let("py", (sin(x(q, 1)) * 0.499f + 0.5f) * cast<float>(g));
      auto cx = p.scalar<int>("cx"), cy = p.scalar<int>("cy");
      cx = cast<int>(px);
      cy = cast<int>(py);
      for (auto [a, b] : p.loop({"a", 3}, {"b", 3})) {
        auto dx = p.let("dx", px - cast<float>(cx + a) + 0.5f), dy = p.let("dy", py - cast<float>(cy + b) + 0.5f);
        auto weight = p.let("weight", exp(-dx * dx - dy * dy));
        mass(cx + a, cy + b) += weight;
        mom(cx + a, cy + b, 0) += weight * v(q, 0);
        mom(cx + a, cy + b, 1) += weight * v(q, 1);
      }
    }
    for (auto q : p.loop("q2", n)) {
      auto px = p.let("px", (sin(x(q, 0)) * 0.499f + 0.5f) * cast<float>(g)),
           py = p.let("py", (sin(x(q, 1)) * 0.499f + 0.5f) * cast<float>(g));
      auto cx = p.scalar<int>("cx"), cy = p.scalar<int>("cy");
      cx = cast<int>(px);
      cy = cast<int>(py);
      auto vx = p.scalar<float>("vx", 0), vy = p.scalar<float>("vy", -0.01f);
      for (auto [a, b] : p.loop({"a", 3}, {"b", 3})) {
        auto dx = p.let("dx", px - cast<float>(cx + a) + 0.5f), dy = p.let("dy", py - cast<float>(cy + b) + 0.5f);
        auto weight = p.let("weight", exp(-dx * dx - dy * dy));
        vx += 0.5f * weight * mom(cx + a, cy + b, 0) / mass(cx + a, cy + b);
        vy += 0.5f * weight * mom(cx + a, cy + b, 1) / mass(cx + a, cy + b);
      }
      v(q, 0) = vx;
      v(q, 1) = vy;
    }
    for (auto q : p.loop("q3", n)) {
      x(q, 0) += 0.05f * v(q, 0);
      x(q, 1) += 0.05f * v(q, 1);
    }
  }
  return p.build();
}

/// Reaction and diffusion of two substances on a torus, in place by turns.
Program gray_scott() {
  ProgramBuilder p("gray_scott");
  auto n = p.size("n"), m = p.size("m"), steps = p.size("steps");
  auto u = p.inout<float>("u", {n, m}), v = p.inout<float>("v", {n, m});
  auto feed = p.input<float>("feed", {n, m});
  auto lu = p.local<float>("lu", {n, m}), lv = p.local<float>("lv", {n, m});
  for (auto t : p.loop("t", steps)) {
    for (auto [i, j] : p.loop({"i", n}, {"j", m})) {
      lu(i, j) = u((i + 1) % n, j) + u((i + n - 1) % n, j) + u(i, (j + 1) % m) + u(i, (j + m - 1) % m) - 4 * u(i, j);
      lv(i, j) = v((i + 1) % n, j) + v((i + n - 1) % n, j) + v(i, (j + 1) % m) + v(i, (j + m - 1) % m) - 4 * v(i, j);
    }
    for (auto [i, j] : p.loop({"i2", n}, {"j2", m})) {
      auto uvv = p.let("uvv", u(i, j) * v(i, j) * v(i, j));
      u(i, j) += 0.16f * lu(i, j) - 0.1f * uvv + 0.05f * feed(i, j) * (1 - u(i, j));
      v(i, j) += 0.08f * lv(i, j) + 0.1f * uvv - 0.05f * v(i, j);
    }
  }
  return p.build();
}

/// Attention with the delta rule: a matrix per head that each token corrects.
Program delta_rule() {
  ProgramBuilder p("delta_rule");
  auto h = p.size("h"), n = p.size("n"), d = p.size("d");
  auto q = p.input<float>("q", {h, n, d}), k = p.input<float>("k", {h, n, d}), v = p.input<float>("v", {h, n, d});
  auto beta = p.input<float>("beta", {h, n});
  auto y = p.output<float>("y", {h, n, d});
  auto state = p.local<float>("state", {h, d, d}), read = p.local<float>("read", {h, d});
  for (auto a : p.loop("a", h)) {
    for (auto [i, j] : p.loop({"i0", d}, {"j0", d})) state(a, i, j) = 0;
    for (auto t : p.loop("t", n)) {
      for (auto j : p.loop("j", d)) {
        read(a, j) = 0;
        for (auto i : p.loop("i", d)) read(a, j) += state(a, i, j) * k(a, t, i) * 0.1f;
      }
      for (auto [i, j] : p.loop({"i2", d}, {"j2", d}))
        state(a, i, j) += beta(a, t) * k(a, t, i) * 0.1f * (v(a, t, j) - read(a, j));
      for (auto j : p.loop("j3", d)) {
        y(a, t, j) = 0;
        for (auto i : p.loop("i3", d)) y(a, t, j) += state(a, i, j) * q(a, t, i);
      }
    }
  }
  return p.build();
}

/// A recurrent network over sentences of different lengths, packed one after the other.
Program packed_sentences() {
  ProgramBuilder p("packed_sentences");
  auto s = p.size("s"), tokens = p.size("tokens"), d = p.size("d"), words = p.size("words");
  auto ptr = p.input<std::int32_t>("ptr", {s + 1}), word = p.input<std::int32_t>("word", {tokens});
  p.csr(ptr, tokens);
  p.in_range(word, 0, words);
  auto table = p.input<float>("table", {words, d}), w = p.input<float>("w", {d, d});
  auto y = p.output<float>("y", {s, d});
  auto hidden = p.local<float>("hidden", {s, d}), next = p.local<float>("next", {s, d});
  for (auto i : p.loop("i", s)) {
    for (auto j : p.loop("j0", d)) hidden(i, j) = 0;
    for (auto e : p.loop("e", ptr(i), ptr(i + 1))) {
      for (auto j : p.loop("j", d)) {
        next(i, j) = table(word(e), j);
        for (auto k : p.loop("k", d)) next(i, j) += 0.2f * w(j, k) * hidden(i, k);
      }
      for (auto j : p.loop("j2", d)) hidden(i, j) = tanh(next(i, j));
    }
    for (auto j : p.loop("j3", d)) y(i, j) = hidden(i, j);
  }
  return p.build();
}

/// Factorisation machine with a vector for each field that a feature meets.
Program field_factors() {
  ProgramBuilder p("field_factors");
  auto n = p.size("n"), f = p.size("f"), features = p.size("features"), d = p.size("d");
  auto idx = p.input<std::int32_t>("idx", {n, f});
  p.in_range(idx, 0, features);
  auto w = p.input<float>("w", {features}), v = p.input<float>("v", {features, f, d});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", n)) {
    y(i) = 0;
    for (auto a : p.loop("a", f)) y(i) += w(idx(i, a));
    for (auto a : p.loop("a2", f))
      for (auto b : p.loop("b", a + 1, f))
        for (auto k : p.loop("k", d)) y(i) += v(idx(i, a), b, k) * v(idx(i, b), a, k);
  }
  return p.build();
}

/// QR factorisation of a batch of small matrices by reflections.
Program householder() {
  ProgramBuilder p("householder");
  auto batch = p.size("batch"), n = p.size("n"), m = p.size("m");
  auto a = p.inout<float>("a", {batch, n, m});
  auto v = p.local<float>("v", {batch, n});
  for (auto s : p.loop("s", batch))
    for (auto k : p.loop("k", m)) {
      auto norm = p.scalar<float>("norm", 0.01f);
      for (auto i : p.loop("i", k, n)) norm += a(s, i, k) * a(s, i, k);
      for (auto i : p.loop("i2", k, n)) v(s, i) = a(s, i, k);
      v(s, k) += sqrt(norm);
      auto vv = p.scalar<float>("vv", 0.01f);
      for (auto i : p.loop("i3", k, n)) vv += v(s, i) * v(s, i);
      for (auto j : p.loop("j", k, m)) {
        auto dot = p.scalar<float>("dot", 0);
        for (auto i : p.loop("i4", k, n)) dot += v(s, i) * a(s, i, j);
        for (auto i : p.loop("i5", k, n)) a(s, i, j) -= 2 * dot / vv * v(s, i);
      }
    }
  return p.build();
}

/// A skeleton: joints after their parents, each turned in its parent's frame, and vertices that follow four of them.
Program skeleton() {
  ProgramBuilder p("skeleton");
  auto poses = p.size("poses"), joints = p.size("joints"), vertices = p.size("vertices");
  auto parent = p.input<std::int32_t>("parent", {joints}), bone = p.input<std::int32_t>("bone", {vertices, 4});
  p.in_range(parent, 0, joints);
  p.in_range(bone, 0, joints);
  auto angle = p.input<float>("angle", {poses, joints}), length = p.input<float>("length", {joints});
  auto weight = p.input<float>("weight", {vertices, 4}), rest = p.input<float>("rest", {vertices, 2});
  auto y = p.output<float>("y", {poses, vertices, 2});
  auto turn = p.local<float>("turn", {poses, joints}), at = p.local<float>("at", {poses, joints, 2});
  for (auto s : p.loop("s", poses)) {
    for (auto j : p.loop("j0", joints)) {
      turn(s, j) = angle(s, j);
      at(s, j, 0) = 0;
      at(s, j, 1) = 0;
    }
    for (auto j : p.loop("j", 1, joints)) {
      turn(s, j) += 0.5f * turn(s, parent(j));
      at(s, j, 0) = 0.5f * at(s, parent(j), 0) + length(j) * cos(turn(s, j));
      at(s, j, 1) = 0.5f * at(s, parent(j), 1) + length(j) * sin(turn(s, j));
    }
    for (auto q : p.loop("q", vertices)) {
      y(s, q, 0) = 0;
      y(s, q, 1) = 0;
      for (auto b : p.loop("b", 4)) {
        auto c = p.let("c", cos(turn(s, bone(q, b)))), d = p.let("d", sin(turn(s, bone(q, b))));
        y(s, q, 0) += weight(q, b) * (at(s, bone(q, b), 0) + c * rest(q, 0) - d * rest(q, 1));
        y(s, q, 1) += weight(q, b) * (at(s, bone(q, b), 1) + d * rest(q, 0) + c * rest(q, 1));
      }
    }
  }
  return p.build();
}

/// Sparse codes by iterated shrinkage.
Program shrinkage() {
  ProgramBuilder p("shrinkage");
  auto b = p.size("b"), n = p.size("n"), m = p.size("m"), steps = p.size("steps");
  auto a = p.input<float>("a", {n, m}), y = p.input<float>("y", {b, n}), level = p.input<float>("level", {m});
  auto x = p.output<float>("x", {b, m});
  auto r = p.local<float>("r", {b, n}), z = p.local<float>("z", {b, m});
  for (auto [s, j] : p.loop({"s0", b}, {"j0", m})) x(s, j) = 0;
  for (auto t : p.loop("t", steps)) {
    for (auto [s, i] : p.loop({"s", b}, {"i", n})) {
      r(s, i) = -y(s, i);
      for (auto j : p.loop("j", m)) r(s, i) += a(i, j) * x(s, j);
    }
    for (auto [s, j] : p.loop({"s2", b}, {"j2", m})) {
      z(s, j) = x(s, j);
      for (auto i : p.loop("i2", n)) z(s, j) -= 0.01f * a(i, j) * r(s, i);
      x(s, j) =
          select(z(s, j) > 0, max(z(s, j) - 0.01f * abs(level(j)), 0.0f), min(z(s, j) + 0.01f * abs(level(j)), 0.0f));
    }
  }
  return p.build();
}

/// Burgers' equation by weighted essentially non-oscillatory fluxes, periodic.
Program weno() {
  ProgramBuilder p("weno");
  auto n = p.size("n"), steps = p.size("steps");
  auto u = p.inout<float>("u", {n});
  auto flux = p.local<float>("flux", {n});
  for (auto i : p.loop("i0", n)) u(i) = 1.5f + 0.5f * sin(u(i));  // the flux goes to the right
  for (auto t : p.loop("t", steps)) {
    for (auto i : p.loop("i", n)) {
      auto a = p.let("a", u((i + n - 1) % n)), b = p.let("b", u(i)), c = p.let("c", u((i + 1) % n));
      auto s0 = p.let("s0", (b - a) * (b - a) + 0.01f), s1 = p.let("s1", (c - b) * (c - b) + 0.01f);
      auto w0 = p.let("w0", 1 / (3 * s0 * s0)), w1 = p.let("w1", 2 / (3 * s1 * s1));
      auto left = p.let("left", (w0 * (1.5f * b - 0.5f * a) + w1 * (0.5f * b + 0.5f * c)) / (w0 + w1));
      flux(i) = 0.5f * left * left;
    }
    for (auto i : p.loop("i2", n)) u(i) -= 0.1f * (flux(i) - flux((i + n - 1) % n));
  }
  return p.build();
}

/// Grains that press on the neighbours in their lists, in steps.
Program grains() {
  ProgramBuilder p("grains");
  auto n = p.size("n"), k = p.size("k"), steps = p.size("steps");
  auto near = p.input<std::int32_t>("near", {n, k});
  p.in_range(near, 0, n);
  auto x = p.inout<float>("x", {n, 2}), v = p.inout<float>("v", {n, 2});
  auto radius = p.input<float>("radius", {n});
  for (auto t : p.loop("t", steps)) {
    for (auto i : p.loop("i", n))
      for (auto e : p.loop("e", k)) {
        auto j = p.let("j", near(i, e));
        auto dx = p.let("dx", x(i, 0) - x(j, 0)), dy = p.let("dy", x(i, 1) - x(j, 1));
        auto r = p.let("r", sqrt(dx * dx + dy * dy + 0.01f));
        auto overlap = p.let("overlap", abs(radius(i)) + abs(radius(j)) - r);
        p.when(overlap > 0, [&] {
          v(i, 0) += 0.01f * overlap * dx / r;
          v(i, 1) += 0.01f * overlap * dy / r;
          v(j, 0) -= 0.01f * overlap * dx / r;
          v(j, 1) -= 0.01f * overlap * dy / r;
        });
      }
    for (auto i : p.loop("i2", n)) {
      x(i, 0) += 0.1f * v(i, 0);
      x(i, 1) += 0.1f * v(i, 1);
    }
  }
  return p.build();
}

/// Trajectories with a step size that each adapts to its error.
Program adaptive_steps() {
  ProgramBuilder p("adaptive_steps");
  auto n = p.size("n"), most = p.size("most");
  auto y0 = p.input<float>("y0", {n}), rate = p.input<float>("rate", {n});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", n)) {
    auto t = p.scalar<float>("t", 0), h = p.scalar<float>("h", 0.1f), s = p.scalar<float>("s", y0(i));
    for (auto k : p.loop_while("k", most, [&](const Value&) { return t < 1; })) {
      auto k1 = p.let("k1", -rate(i) * s + sin(3 * t));
      auto k2 = p.let("k2", -rate(i) * (s + h * k1) + sin(3 * (t + h)));
      auto error = p.let("error", abs(k2 - k1) * h * 0.5f);
      p.when(error < 0.01f, [&] {
        s += 0.5f * h * (k1 + k2);
        t += h;
      });
      h = h * min(max(0.05f / (error + 0.01f), 0.3f), 2.0f);
    }
    y(i) = s;
  }
  return p.build();
}

/// Graph network with positions: a small network on each edge, sums of messages and of directions at its target.
Program equivariant() {
  ProgramBuilder p("equivariant");
  auto v = p.size("v"), e = p.size("e"), d = p.size("d"), hidden = p.size("hidden");
  auto src = p.input<std::int32_t>("src", {e}), dst = p.input<std::int32_t>("dst", {e});
  p.in_range(src, 0, v);
  p.in_range(dst, 0, v);
  auto h = p.input<float>("h", {v, d}), pos = p.input<float>("pos", {v, 3});
  auto w1 = p.input<float>("w1", {2 * d + 1, hidden}), w2 = p.input<float>("w2", {hidden});
  auto out = p.output<float>("out", {v, hidden}), moved = p.output<float>("moved", {v, 3});
  auto message = p.local<float>("message", {e, hidden});
  for (auto [i, k] : p.loop({"i0", v}, {"k0", hidden})) out(i, k) = 0;
  for (auto [i, c] : p.loop({"i1", v}, {"c0", 3})) moved(i, c) = pos(i, c);
  for (auto a : p.loop("a", e)) {
    auto distance = p.scalar<float>("distance", 0);
    for (auto c : p.loop("c", 3)) {
      auto x = p.let("x", pos(src(a), c) - pos(dst(a), c));
      distance += x * x;
    }
    auto gate = p.scalar<float>("gate", 0);
    for (auto k : p.loop("k", hidden)) {
      auto s = p.scalar<float>("s", distance * w1(2 * d, k));
      for (auto j : p.loop("j", d)) {
        s += h(src(a), j) * w1(j, k);
        s += h(dst(a), j) * w1(d + j, k);
      }
      message(a, k) = s / (1 + exp(-s));
      gate += message(a, k) * w2(k);
    }
    for (auto k : p.loop("k2", hidden)) out(dst(a), k) += message(a, k);
    for (auto c : p.loop("c2", 3)) moved(dst(a), c) += 0.1f * tanh(gate) * (pos(src(a), c) - pos(dst(a), c));
  }
  return p.build();
}

/// Scores where a mask of rows and columns has entries, a softmax over each row of them, and the values they select.
Program sampled_attention() {
  ProgramBuilder p("sampled_attention");
  auto n = p.size("n"), nnz = p.size("nnz"), h = p.size("h"), d = p.size("d");
  auto ptr = p.input<std::int32_t>("ptr", {n + 1}), col = p.input<std::int32_t>("col", {nnz});
  p.csr(ptr, nnz);
  p.in_range(col, 0, n);
  auto q = p.input<float>("q", {n, h, d}), k = p.input<float>("k", {n, h, d}), v = p.input<float>("v", {n, h, d});
  auto y = p.output<float>("y", {n, h, d});
  auto score = p.local<float>("score", {nnz, h});
  for (auto i : p.loop("i", n))
    for (auto a : p.loop("a", h)) {
      auto largest = p.scalar<float>("largest", -1e30f), total = p.scalar<float>("total", 1e-6f);
      for (auto e : p.loop("e", ptr(i), ptr(i + 1))) {
        auto s = p.scalar<float>("s", 0);
        for (auto c : p.loop("c", d)) s += q(i, a, c) * k(col(e), a, c);
        score(e, a) = s;
        largest.max_with(s);
      }
      for (auto e : p.loop("e2", ptr(i), ptr(i + 1))) {
        score(e, a) = exp(score(e, a) - largest);
        total += score(e, a);
      }
      for (auto c : p.loop("c2", d)) {
        y(i, a, c) = 0;
        for (auto e : p.loop("e3", ptr(i), ptr(i + 1))) y(i, a, c) += score(e, a) / total * v(col(e), a, c);
      }
    }
  return p.build();
}

}  // namespace

std::vector<Field> models() {
  return {
      {{"inside", "", inside, {{"b", 33}, {"n", 41}}}, {{{"b", 2}, {"n", 4}}, {{"b", 1}, {"n", 1}}}},
      {{"conjugate_gradients", "", conjugate_gradients, {{"n", 1001}, {"steps", 20}}},
       {{{"n", 5}, {"steps", 2}}, {{"n", 1}, {"steps", 1}}}},
      {{"edge_conv", "", edge_conv, {{"n", 4099}, {"k", 20}, {"c", 17}, {"o", 33}}},
       {{{"n", 5}, {"k", 3}, {"c", 2}, {"o", 3}}, {{"n", 2}, {"k", 1}, {"c", 1}, {"o", 1}}}},
      {{"material_points", "", material_points, {{"n", 50021}, {"g", 129}, {"steps", 9}}},
       {{{"n", 7}, {"g", 4}, {"steps", 2}}, {{"n", 1}, {"g", 2}, {"steps", 1}}}},
      {{"gray_scott", "", gray_scott, {{"n", 515}, {"m", 389}, {"steps", 30}}},
       {{{"n", 4}, {"m", 5}, {"steps", 3}}, {{"n", 1}, {"m", 2}, {"steps", 2}}}},
      {{"delta_rule", "", delta_rule, {{"h", 31}, {"n", 257}, {"d", 33}}},
       {{{"h", 2}, {"n", 3}, {"d", 3}}, {{"h", 1}, {"n", 1}, {"d", 1}}}},
      {{"packed_sentences", "", packed_sentences, {{"s", 2003}, {"tokens", 40009}, {"d", 31}, {"words", 5003}}},
       {{{"s", 3}, {"tokens", 7}, {"d", 3}, {"words", 4}}, {{"s", 1}, {"tokens", 1}, {"d", 1}, {"words", 2}}}},
      {{"field_factors", "", field_factors, {{"n", 20011}, {"f", 13}, {"features", 50021}, {"d", 7}}},
       {{{"n", 5}, {"f", 3}, {"features", 4}, {"d", 2}}, {{"n", 1}, {"f", 1}, {"features", 2}, {"d", 1}}}},
      {{"householder", "", householder, {{"batch", 3001}, {"n", 15}, {"m", 9}}},
       {{{"batch", 2}, {"n", 4}, {"m", 3}}, {{"batch", 1}, {"n", 1}, {"m", 1}}}},
      {{"skeleton", "", skeleton, {{"poses", 65}, {"joints", 53}, {"vertices", 6007}}},
       {{{"poses", 2}, {"joints", 4}, {"vertices", 3}}, {{"poses", 1}, {"joints", 1}, {"vertices", 1}}}},
      {{"shrinkage", "", shrinkage, {{"b", 67}, {"n", 129}, {"m", 257}, {"steps", 20}}},
       {{{"b", 2}, {"n", 3}, {"m", 4}, {"steps", 2}}, {{"b", 1}, {"n", 1}, {"m", 1}, {"steps", 3}}}},
      {{"weno", "", weno, {{"n", 200003}, {"steps", 30}}}, {{{"n", 6}, {"steps", 3}}, {{"n", 1}, {"steps", 2}}}},
      {{"grains", "", grains, {{"n", 30011}, {"k", 11}, {"steps", 10}}},
       {{{"n", 5}, {"k", 2}, {"steps", 2}}, {{"n", 1}, {"k", 1}, {"steps", 1}}}},
      {{"adaptive_steps", "", adaptive_steps, {{"n", 50021}, {"most", 60}}},
       {{{"n", 4}, {"most", 12}}, {{"n", 1}, {"most", 3}}}},
      {{"equivariant", "", equivariant, {{"v", 5003}, {"e", 40009}, {"d", 15}, {"hidden", 17}}},
       {{{"v", 3}, {"e", 5}, {"d", 2}, {"hidden", 3}}, {{"v", 1}, {"e", 1}, {"d", 1}, {"hidden", 1}}}},
      {{"sampled_attention", "", sampled_attention, {{"n", 4099}, {"nnz", 70001}, {"h", 3}, {"d", 17}}},
       {{{"n", 3}, {"nnz", 6}, {"h", 2}, {"d", 3}}, {{"n", 1}, {"nnz", 1}, {"h", 1}, {"d", 1}}}},
  };
}

}  // namespace loopgrad::fields

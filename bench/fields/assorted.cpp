#include "bench/fields/fields.h"

namespace loopgrad::fields {
namespace {

/// An image smoothed where neighbours are alike.
Program bilateral() {
  ProgramBuilder p("bilateral");
  auto n = p.size("n"), m = p.size("m"), r = p.size("r");
  auto x = p.input<float>("x", {n, m});
  auto y = p.output<float>("y", {n, m});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m)) {
      auto s = p.scalar<float>("s"), w = p.scalar<float>("w");
      s = 0.0f;
      w = 0.0f;
      for (auto a : p.loop("a", max(i - r, 0), min(i + r + 1, n)))
        for (auto b : p.loop("b", max(j - r, 0), min(j + r + 1, m))) {
          auto e = p.scalar<float>("e");
          e = exp(-(x(a, b) - x(i, j)) * (x(a, b) - x(i, j)) -
                  0.1f * cast<float>((a - i) * (a - i) + (b - j) * (b - j)));
          w += e;
          s += e * x(a, b);
        }
      y(i, j) = s / w;
    }
  return p.build();
}

/// Forces of elements with four corners on their nodes.
Program element_forces() {
  ProgramBuilder p("element_forces");
  auto e = p.size("e"), n = p.size("n");
  auto node = p.input<int>("node", {e, 4});
  auto u = p.input<float>("u", {n, 2}), k = p.input<float>("k", {e});
  auto f = p.output<float>("f", {n, 2});
  p.in_range(node, 0, n);
  for (auto i : p.loop("i", 0, n))
    for (auto c : p.loop("c", 0, 2)) f(i, c) = 0.0f;
  for (auto t : p.loop("t", 0, e))
    for (auto a : p.loop("a", 0, 4))
      for (auto b : p.loop("b", 0, 4))
        for (auto c : p.loop("c", 0, 2))
          f(node(t, a), c) += k(t) * (u(node(t, b), c) - u(node(t, a), c)) * (1.0f + 0.1f * u(node(t, b), c));
  return p.build();
}

/// A transposed convolution with a stride of two.
Program transposed_conv() {
  ProgramBuilder p("transposed_conv");
  auto n = p.size("n"), ci = p.size("ci"), co = p.size("co"), h = p.size("h");
  auto x = p.input<float>("x", {n, ci, h, h}), w = p.input<float>("w", {ci, co, 4, 4});
  auto y = p.output<float>("y", {n, co, 2 * h + 2, 2 * h + 2});
  for (auto b : p.loop("b", 0, n))
    for (auto o : p.loop("o", 0, co))
      for (auto i : p.loop("i", 0, 2 * h + 2))
        for (auto j : p.loop("j", 0, 2 * h + 2)) y(b, o, i, j) = 0.0f;
  for (auto b : p.loop("b", 0, n))
    for (auto c : p.loop("c", 0, ci))
      for (auto i : p.loop("i", 0, h))
        for (auto j : p.loop("j", 0, h))
          for (auto o : p.loop("o", 0, co))
            for (auto r : p.loop("r", 0, 4))
              for (auto s : p.loop("s", 0, 4)) y(b, o, 2 * i + r, 2 * j + s) += x(b, c, i, j) * w(c, o, r, s);
  return p.build();
}

/// Scalings of rows and columns in turn.
Program sinkhorn() {
  ProgramBuilder p("sinkhorn");
  auto n = p.size("n"), m = p.size("m"), t = p.size("t");
  auto c = p.input<float>("c", {n, m});
  auto u = p.output<float>("u", {n}), v = p.output<float>("v", {m});
  for (auto i : p.loop("i", 0, n)) u(i) = 1.0f;
  for (auto j : p.loop("j", 0, m)) v(j) = 1.0f;
  auto k = p.local<float>("k", {n, m});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m)) k(i, j) = exp(-c(i, j) * c(i, j));
  for (auto s : p.loop("s", 0, t)) {
    (void)s;
    for (auto i : p.loop("i", 0, n)) {
      auto a = p.scalar<float>("a");
      a = 0.0f;
      for (auto j : p.loop("j", 0, m)) a += k(i, j) * v(j);
      u(i) = 1.0f / (a + 0.01f);
    }
    for (auto j : p.loop("j", 0, m)) {
      auto a = p.scalar<float>("a");
      a = 0.0f;
      for (auto i : p.loop("i", 0, n)) a += k(i, j) * u(i);
      v(j) = 1.0f / (a + 0.01f);
    }
  }
  return p.build();
}

/// Springs between points that data list, explicit steps.
Program cloth() {
  ProgramBuilder p("cloth");
  auto n = p.size("n"), e = p.size("e"), t = p.size("t");
  auto ends = p.input<int>("ends", {e, 2});
  p.in_range(ends, 0, n);
  auto x0 = p.input<float>("x0", {n, 3}), rest = p.input<float>("rest", {e});
  auto x = p.output<float>("x", {n, 3});
  auto v = p.local<float>("v", {n, 3}), f = p.local<float>("f", {n, 3});
  for (auto i : p.loop("i", 0, n))
    for (auto c : p.loop("c", 0, 3)) {
      x(i, c) = x0(i, c);
      v(i, c) = 0.0f;
    }
  for (auto s : p.loop("s", 0, t)) {
    (void)s;
    for (auto i : p.loop("i", 0, n))
      for (auto c : p.loop("c", 0, 3)) f(i, c) = -0.1f * x(i, c);
    for (auto k : p.loop("k", 0, e)) {
      auto l = p.scalar<float>("l");
      l = 0.01f;
      for (auto c : p.loop("c", 0, 3))
        l += (x(ends(k, 0), c) - x(ends(k, 1), c)) * (x(ends(k, 0), c) - x(ends(k, 1), c));
      l = 1.0f - rest(k) / sqrt(l);
      for (auto c : p.loop("c", 0, 3)) {
        f(ends(k, 0), c) += -l * (x(ends(k, 0), c) - x(ends(k, 1), c));
        f(ends(k, 1), c) += l * (x(ends(k, 0), c) - x(ends(k, 1), c));
      }
    }
    for (auto i : p.loop("i", 0, n))
      for (auto c : p.loop("c", 0, 3)) {
        v(i, c) = 0.99f * v(i, c) + 0.01f * f(i, c);
        x(i, c) += 0.01f * v(i, c);
      }
  }
  return p.build();
}

/// Each row by the weights of the expert that it was sent to.
Program expert_rows() {
  ProgramBuilder p("expert_rows");
  auto n = p.size("n"), d = p.size("d"), h = p.size("h"), k = p.size("k");
  auto to = p.input<int>("to", {n});
  p.in_range(to, 0, k);
  auto x = p.input<float>("x", {n, d}), w = p.input<float>("w", {k, d, h});
  auto y = p.output<float>("y", {n, h});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, h)) {
      auto a = p.scalar<float>("a");
      a = 0.0f;
      for (auto q : p.loop("q", 0, d)) a += x(i, q) * w(to(i), q, j);
      y(i, j) = max(a, 0.0f);
    }
  return p.build();
}

/// Samples at any place spread over sixteen cells each.
Program gridding() {
  ProgramBuilder p("gridding");
  auto n = p.size("n"), g = p.size("g");
  auto px = p.input<float>("px", {n}), py = p.input<float>("py", {n}), v = p.input<float>("v", {n});
  auto y = p.output<float>("y", {g, g});
  for (auto i : p.loop("i", 0, g))
    for (auto j : p.loop("j", 0, g)) y(i, j) = 0.0f;
  for (auto s : p.loop("s", 0, n))
    for (auto a : p.loop("a", 0, 4))
      for (auto b : p.loop("b", 0, 4)) {
        auto ci = min(max(cast<std::int64_t>(px(s) * cast<float>(g)) + a - 1, 0), g - 1),
             cj = min(max(cast<std::int64_t>(py(s) * cast<float>(g)) + b - 1, 0), g - 1);
        auto dx = px(s) * cast<float>(g) - cast<float>(ci), dy = py(s) * cast<float>(g) - cast<float>(cj);
        y(ci, cj) += v(s) * exp(-dx * dx - dy * dy);
      }
  return p.build();
}

/// The mean loss of labels, with the maximum taken out.
Program cross_entropy() {
  ProgramBuilder p("cross_entropy");
  auto n = p.size("n"), c = p.size("c");
  auto z = p.input<float>("z", {n, c});
  auto label = p.input<int>("label", {n});
  p.in_range(label, 0, c);
  auto loss = p.output<float>("loss", {});
  loss() = 0.0f;
  for (auto i : p.loop("i", 0, n)) {
    auto m = p.scalar<float>("m"), s = p.scalar<float>("s");
    m = -1e30f;
    s = 0.0f;
    for (auto j : p.loop("j", 0, c)) m = max(m, z(i, j));
    for (auto j : p.loop("j", 0, c)) s += exp(z(i, j) - m);
    loss() += log(s) + m - z(i, label(i));
  }
  return p.build();
}

/// Causal attention of several queries to one key, with a slope.
Program grouped_attention() {
  ProgramBuilder p("grouped_attention");
  auto g = p.size("g"), r = p.size("r"), s = p.size("s"), d = p.size("d");
  auto q = p.input<float>("q", {g, r, s, d}), k = p.input<float>("k", {g, s, d}), v = p.input<float>("v", {g, s, d});
  auto y = p.output<float>("y", {g, r, s, d});
  for (auto a : p.loop("a", 0, g))
    for (auto b : p.loop("b", 0, r))
      for (auto i : p.loop("i", 0, s)) {
        auto e = p.local<float>("e", {s});
        auto m = p.scalar<float>("m"), t = p.scalar<float>("t");
        m = -1e30f;
        t = 0.0f;
        for (auto j : p.loop("j", 0, i + 1)) {
          e(j) = 0.0f;
          for (auto c : p.loop("c", 0, d)) e(j) += q(a, b, i, c) * k(a, j, c);
          e(j) = e(j) * 0.2f - 0.05f * cast<float>(i - j);
          m = max(m, e(j));
        }
        for (auto j : p.loop("j", 0, i + 1)) {
          e(j) = exp(e(j) - m);
          t += e(j);
        }
        for (auto c : p.loop("c", 0, d)) {
          y(a, b, i, c) = 0.0f;
          for (auto j : p.loop("j", 0, i + 1)) y(a, b, i, c) += e(j) / t * v(a, j, c);
        }
      }
  return p.build();
}

/// Many tridiagonal systems by elimination.
Program tridiagonal() {
  ProgramBuilder p("tridiagonal");
  auto b = p.size("b"), n = p.size("n");
  auto lo = p.input<float>("lo", {n, b}), di = p.input<float>("di", {n, b}), up = p.input<float>("up", {n, b}),
       f = p.input<float>("f", {n, b});
  auto x = p.output<float>("x", {n, b});
  for (auto i : p.loop("i", 0, b)) {
    auto c = p.local<float>("c", {n}), d = p.local<float>("d", {n});
    c(0) = up(0, i) / (3.0f + di(0, i));
    d(0) = f(0, i) / (3.0f + di(0, i));
    for (auto k : p.loop("k", 1, n)) {
      auto w = p.scalar<float>("w");
      w = 1.0f / (3.0f + di(k, i) - lo(k, i) * c(k - 1));
      c(k) = up(k, i) * w;
      d(k) = (f(k, i) - lo(k, i) * d(k - 1)) * w;
    }
    x(n - 1, i) = d(n - 1);
    for (auto k : p.loop("k", 1, n)) x(n - 1 - k, i) = d(n - 1 - k) - c(n - 1 - k) * x(n - k, i);
  }
  return p.build();
}

/// Three populations that stream around a torus, and collide.
Program ring_lattice() {
  ProgramBuilder p("ring_lattice");
  auto n = p.size("n"), m = p.size("m"), t = p.size("t");
  auto f0 = p.input<float>("f0", {3, n, m});
  auto f = p.output<float>("f", {3, n, m});
  auto g = p.local<float>("g", {3, n, m});
  for (auto q : p.loop("q", 0, 3))
    for (auto i : p.loop("i", 0, n))
      for (auto j : p.loop("j", 0, m)) f(q, i, j) = f0(q, i, j);
  for (auto s : p.loop("s", 0, t)) {
    (void)s;
    for (auto i : p.loop("i", 0, n))
      for (auto j : p.loop("j", 0, m)) {
        auto r = p.scalar<float>("r");
        r = (f(0, i, j) + f(1, i, j) + f(2, i, j)) / 3.0f;
        g(0, i, j) = f(0, i, j) + 0.5f * (r * r - f(0, i, j));
        g(1, i, (j + 1) % m) = f(1, i, j) + 0.5f * (r - f(1, i, j));
        g(2, (i + n - 1) % n, j) = f(2, i, j) + 0.5f * (tanh(r) - f(2, i, j));
      }
    for (auto q : p.loop("q", 0, 3))
      for (auto i : p.loop("i", 0, n))
        for (auto j : p.loop("j", 0, m)) f(q, i, j) = g(q, i, j);
  }
  return p.build();
}

/// Energy and forces of charges by waves: few wave vectors, each with two loops over all charges.
Program ewald() {
  ProgramBuilder p("ewald");
  auto n = p.size("n"), K = p.size("K");
  auto x = p.input<double>("x", {n, 3}), q = p.input<double>("q", {n});
  auto energy = p.output<double>("energy", {}), force = p.output<double>("force", {n, 3});
  energy() = 0.0;
  for (auto [i, a] : p.loop({"i", n}, {"a", 3})) force(i, a) = 0.0;
  for (auto kx : p.loop("kx", 0, K + 1))
    for (auto ky : p.loop("ky", -K, K + 1))
      for (auto kz : p.loop("kz", -K, K + 1)) {
        auto k2 = p.let("k2", kx * kx + ky * ky + kz * kz);
        p.when(k2 > 0 && k2 <= K * K, [&] {
          auto re = p.scalar<double>("re", 0), im = p.scalar<double>("im", 0);
          auto factor = p.let("factor", select(kx == 0, 1.0, 2.0) * exp(-0.1 * cast<double>(k2)) / cast<double>(k2));
          auto phase = [&](const Value& i) {
            return cast<double>(kx) * x(i, 0) + cast<double>(ky) * x(i, 1) + cast<double>(kz) * x(i, 2);
          };
          for (auto i : p.loop("i", n)) {
            auto ph = p.let("ph", phase(i));
            re += q(i) * cos(ph);
            im += q(i) * sin(ph);
          }
          energy() += factor * (re * re + im * im);
          for (auto i : p.loop("i", n)) {
            auto ph = p.let("ph", phase(i));
            auto s = p.let("s", 2.0 * factor * q(i) * (re * sin(ph) - im * cos(ph)));
            force(i, 0) += s * cast<double>(kx);
            force(i, 1) += s * cast<double>(ky);
            force(i, 2) += s * cast<double>(kz);
          }
        });
      }
  return p.build();
}

}  // namespace

std::vector<Field> assorted() {
  return {
      {{"bilateral", "", bilateral, {{"n", 701}, {"m", 611}, {"r", 3}}},
       {{{"n", 7}, {"m", 6}, {"r", 2}}, {{"n", 1}, {"m", 3}, {"r", 1}}, {{"n", 4}, {"m", 5}, {"r", 7}}}},
      {{"element_forces", "", element_forces, {{"e", 300001}, {"n", 150000}}},
       {{{"e", 9}, {"n", 6}}, {{"e", 1}, {"n", 1}}, {{"e", 33}, {"n", 5}}}},
      {{"transposed_conv", "", transposed_conv, {{"n", 8}, {"ci", 32}, {"co", 16}, {"h", 30}}},
       {{{"n", 2}, {"ci", 2}, {"co", 2}, {"h", 3}}, {{"n", 1}, {"ci", 1}, {"co", 3}, {"h", 1}}}},
      {{"sinkhorn", "", sinkhorn, {{"n", 1001}, {"m", 803}, {"t", 20}}},
       {{{"n", 5}, {"m", 4}, {"t", 3}}, {{"n", 1}, {"m", 1}, {"t", 1}}}},
      {{"cloth", "", cloth, {{"n", 20000}, {"e", 59000}, {"t", 20}}},
       {{{"n", 6}, {"e", 9}, {"t", 3}}, {{"n", 1}, {"e", 2}, {"t", 2}}}},
      {{"expert_rows", "", expert_rows, {{"n", 4001}, {"d", 96}, {"h", 130}, {"k", 8}}},
       {{{"n", 7}, {"d", 3}, {"h", 4}, {"k", 3}}, {{"n", 1}, {"d", 1}, {"h", 1}, {"k", 1}}}},
      {{"gridding", "", gridding, {{"n", 300000}, {"g", 256}}}, {{{"n", 11}, {"g", 6}}, {{"n", 1}, {"g", 1}}}},
      {{"cross_entropy", "", cross_entropy, {{"n", 3001}, {"c", 5003}}},
       {{{"n", 5}, {"c", 7}}, {{"n", 1}, {"c", 1}}, {{"n", 33}, {"c", 2}}}},
      {{"grouped_attention", "", grouped_attention, {{"g", 2}, {"r", 4}, {"s", 500}, {"d", 40}}},
       {{{"g", 2}, {"r", 2}, {"s", 5}, {"d", 3}}, {{"g", 1}, {"r", 1}, {"s", 1}, {"d", 1}}}},
      {{"tridiagonal", "", tridiagonal, {{"b", 5000}, {"n", 200}}},
       {{{"b", 3}, {"n", 7}}, {{"b", 1}, {"n", 1}}, {{"b", 2}, {"n", 2}}}},
      {{"ring_lattice", "", ring_lattice, {{"n", 500}, {"m", 401}, {"t", 20}}},
       {{{"n", 5}, {"m", 4}, {"t", 3}}, {{"n", 1}, {"m", 1}, {"t", 2}}, {{"n", 2}, {"m", 3}, {"t", 1}}}},
      {{"ewald", "", ewald, {{"n", 5000}, {"K", 8}}}, {{{"n", 5}, {"K", 2}}, {{"n", 1}, {"K", 1}}}},
  };
}

}  // namespace loopgrad::fields

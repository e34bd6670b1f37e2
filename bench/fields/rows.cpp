// Rows of entries, however they are counted and looked up, and what is chosen among them.
#include "bench/fields/fields.h"

namespace loopgrad::fields {
namespace {

/// Scores of the entries of a row by several heads: a loop stands between the row and its entries.
Program row_between() {
  ProgramBuilder p("row_between");
  auto n = p.size("n"), m = p.size("m"), e = p.size("e"), k = p.size("k"), d = p.size("d");
  auto ptr = p.input<int>("ptr", {n + 1});
  auto col = p.input<int>("col", {e});
  auto q = p.input<float>("q", {n, m, d});
  auto x = p.input<float>("x", {k, d});
  auto y = p.output<float>("y", {n, m});
  p.csr(ptr, e);
  p.in_range(col, 0, k);
  for (auto r : p.loop("r", n))
    for (auto i : p.loop("i", m)) {
      y(r, i) = 0;
      for (auto a : p.loop("a", ptr(r), ptr(r + 1))) {
        auto s = p.scalar<float>("s", 0);
        for (auto c : p.loop("c", d)) s += q(r, i, c) * x(col(a), c);
        y(r, i) += tanh(s);
      }
    }
  return p.build();
}

/// A softmax of each row, in a local with room for all rows.
Program clear_local() {
  ProgramBuilder p("clear_local");
  auto n = p.size("n"), e = p.size("e");
  auto ptr = p.input<int>("ptr", {n + 1});
  auto x = p.input<float>("x", {e});
  auto y = p.output<float>("y", {n});
  p.csr(ptr, e);
  for (auto v : p.loop("v", n)) {
    auto s = p.local<float>("s", {e});
    auto z = p.scalar<float>("z", 1);
    for (auto a : p.loop("a", ptr(v), ptr(v + 1))) {
      s(a) = exp(x(a));
      z += s(a);
    }
    y(v) = 0;
    for (auto a : p.loop("a", ptr(v), ptr(v + 1))) y(v) += s(a) * s(a) / z;
  }
  return p.build();
}

/// A recurrence along each row, whose entries are counted from 0.
Program seq_rows() {
  ProgramBuilder p("seq_rows");
  auto n = p.size("n"), e = p.size("e");
  auto ptr = p.input<int>("ptr", {n + 1});
  auto x = p.input<float>("x", {e});
  auto y = p.output<float>("y", {n}), z = p.output<float>("z", {e});
  p.csr(ptr, e);
  for (auto r : p.loop("r", n)) {
    auto s = p.scalar<float>("s", 0);
    auto len = p.let("len", ptr(r + 1) - ptr(r));
    for (auto k : p.loop("k", len)) {
      s = sin(s + x(ptr(r) + k) * (k + 1));
      z(ptr(r) + k) = s * s;
    }
    y(r) = s;
  }
  return p.build();
}

/// Rows that are kept in a local by their places, and read and written by their numbers.
Program mixed_rows() {
  ProgramBuilder p("mixed_rows");
  auto n = p.size("n"), e = p.size("e"), most = p.size("most");
  auto ptr = p.input<int>("ptr", {n + 1});
  auto x = p.input<float>("x", {e});
  auto z = p.output<float>("z", {e});
  p.csr(ptr, e);
  for (auto r : p.loop("r", n)) {
    auto s = p.local<float>("s", {most});
    auto len = p.let("len", ptr(r + 1) - ptr(r));
    auto at = p.let("at", ptr(r));
    for (auto k : p.loop("k", len)) s(k) = sin(x(at + k) * (k + 1));
    for (auto k : p.loop("k", 1, len)) s(k) += s(k - 1);
    for (auto k : p.loop("k", len)) z(at + k) = s(k) * x(at + k);
  }
  return p.build();
}

/// All pairs of entries of a row, with an array of their own for each.
Program row_pairs() {
  ProgramBuilder p("row_pairs");
  auto n = p.size("n"), edges = p.size("edges"), m = p.size("m");
  auto into = p.input<int>("into", {n + 1});
  auto x = p.input<float>("x", {edges});
  auto y = p.output<float>("y", {edges});
  p.csr(into, edges);
  for (auto v : p.loop("v", n))
    for (auto e : p.loop("e", into(v), into(v + 1))) {
      y(e) = 0;
      for (auto f : p.loop("f", into(v), into(v + 1))) {
        auto pl = p.local<float>("pl", {m});
        for (auto l : p.loop("l", m)) pl(l) = exp(x(f));
        for (auto l : p.loop("l", m)) y(e) += pl(l) * pl(l);
      }
    }
  return p.build();
}

/// Densities of particles on a line that is cut into cells: each meets those of the cells beside its own.
Program sph_line() {
  ProgramBuilder p("sph_line");
  auto n = p.size("n"), g = p.size("g");
  auto start = p.input<std::int64_t>("start", {g + 1});
  auto x = p.input<float>("x", {n}), m = p.input<float>("m", {n});
  auto rho = p.output<float>("rho", {n});
  p.csr(start, n);
  for (auto a : p.loop("a", g))
    for (auto i : p.loop("i", start(a), start(a + 1))) {
      rho(i) = 0.1f;
      for (auto c : p.loop("c", max(a - 1, 0), min(a + 2, g)))
        for (auto j : p.loop("j", start(c), start(c + 1))) {
          auto r2 = p.let("r2", (x(i) - x(j)) * (x(i) - x(j)));
          p.when(r2 < 1, [&] { rho(i) += (1 + m(j)) * (1 - r2) * (1 - r2); });
        }
    }
  return p.build();
}

/// Bond orders, angles of all pairs of bonds of an atom, and what is over its valence.
Program bond_order() {
  ProgramBuilder p("bond_order");
  auto n = p.size("atoms"), bonds = p.size("bonds"), kinds = p.size("kinds");
  auto first = p.input<int>("first", {n + 1});
  auto to = p.input<int>("to", {bonds});
  auto kind = p.input<int>("kind", {n});
  auto x = p.input<float>("x", {n, 3});
  auto valence = p.input<float>("valence", {kinds});
  auto r0 = p.input<float>("r0", {kinds, kinds});
  auto ang = p.input<float>("ang", {kinds, kinds, kinds});
  auto e_bond = p.output<float>("e_bond", {n});
  auto e_angle = p.output<float>("e_angle", {n});
  auto e_over = p.output<float>("e_over", {});
  p.csr(first, bonds);
  p.in_range(to, 0, n);
  p.in_range(kind, 0, kinds);
  auto bo = p.local<float>("bo", {bonds});
  auto total = p.local<float>("total", {n});
  auto over = p.local<float>("over", {n});
  e_over() = 0;
  for (auto i : p.loop("i", n)) {
    total(i) = 0;
    for (auto b : p.loop("b", first(i), first(i + 1))) {
      auto r2 = p.scalar<float>("r2", 0.01f);
      for (auto c : p.loop("c", 3)) {
        auto d = p.let("d", x(to(b), c) - x(i, c));
        r2 += d * d;
      }
      auto ratio = p.let("ratio", sqrt(r2) / (1.0f + 0.2f * r0(kind(i), kind(to(b)))));
      bo(b) = exp(-0.1f * pow(ratio, 6)) + exp(-0.3f * pow(ratio, 4));
      total(i) += bo(b);
    }
  }
  for (auto i : p.loop("i", n)) over(i) = total(i) - 2 - valence(kind(i));
  for (auto i : p.loop("i", n)) {
    e_bond(i) = 0;
    for (auto b : p.loop("b", first(i), first(i + 1))) {
      auto di = over(i);
      auto dj = over(to(b));
      auto corr =
          p.let("corr", (1 / (1 + exp(di))) * (1 / (1 + exp(dj))) * (1 + exp(-50.0f * (di - dj) * (di - dj) * 0.01f)));
      bo(b) *= corr;
      e_bond(i) -= bo(b) * exp(0.5f * (1 - pow(bo(b), 2)));
    }
    e_over() += over(i) * sigmoid(-6 * over(i));
  }
  for (auto i : p.loop("i", n)) {
    auto acc = p.scalar<float>("acc", 0);
    for (auto a : p.loop("a", first(i), first(i + 1))) {
      for (auto b : p.loop("b", a + 1, first(i + 1))) {
        p.when(bo(a) * bo(b) > 0.02f, [&] {
          auto u = loopgrad::load<3>(x.row(to(a))) - loopgrad::load<3>(x.row(i));
          auto v = loopgrad::load<3>(x.row(to(b))) - loopgrad::load<3>(x.row(i));
          auto cs = p.let("cs", dot(u, v) / sqrt((dot(u, u) + 0.01f) * (dot(v, v) + 0.01f)));
          auto th = p.let("th", acos(min(max(cs, -0.99f), 0.99f)));
          auto dev = p.let("dev", th - 1.9f - 0.3f * ang(kind(to(a)), kind(i), kind(to(b))));
          acc += (1 - exp(-2 * bo(a))) * (1 - exp(-2 * bo(b))) * (1 - exp(-dev * dev));
        });
      }
    }
    e_angle(i) = acc;
  }
  return p.build();
}

/// Sums over six neighbours, some of which may be missing, with weights for each.
Program nbr_six() {
  ProgramBuilder p("nbr_six");
  auto n = p.size("n"), c = p.size("c"), o = p.size("o");
  auto nbr = p.input<int>("nbr", {n, 6});
  auto f = p.input<float>("f", {n, c});
  auto w = p.input<float>("w", {6, c, o});
  auto y = p.output<float>("y", {n, o});
  p.in_range(nbr, -1, n);
  for (auto v : p.loop("v", n)) {
    for (auto q : p.loop("q", o)) y(v, q) = 0;
    for (auto t : p.loop("t", 6))
      p.when(nbr(v, t) >= 0, [&] {
        for (auto k : p.loop("k", c))
          for (auto q : p.loop("q", o)) y(v, q) += f(nbr(v, t), k) * w(t, k, q);
      });
  }
  return p.build();
}

/// Neurons in a row that add to one number, which changes what the next row gets.
Program neuron_rows() {
  ProgramBuilder p("neuron_rows");
  auto n = p.size("n"), d = p.size("d"), o = p.size("o");
  auto x = p.input<float>("x", {n, d}), w = p.input<float>("w", {d, o}), c = p.input<float>("c", {o});
  auto y = p.output<float>("y", {n});
  auto h = p.local<float>("h", {d});
  for (auto k : p.loop("k", d)) h(k) = 0.1f;
  for (auto i : p.loop("i", n)) {
    auto best = p.scalar<float>("best", 0);
    for (auto k : p.loop("k", o)) {
      auto s = p.scalar<float>("s", 0);
      for (auto j : p.loop("j", d)) s += (x(i, j) + h(j)) * w(j, k);
      best += c(k) * tanh(s);
    }
    y(i) = best;
    for (auto j : p.loop("j", d)) h(j) = 0.5f * h(j) + 0.1f * best * x(i, j);
  }
  return p.build();
}

/// States that take up outer products of a chunk, which decay.
Program state_update() {
  ProgramBuilder p("state_update");
  auto q = p.size("q"), n = p.size("n"), d = p.size("d"), t = p.size("t");
  auto cum = p.input<float>("cum", {t, q}), b = p.input<float>("b", {t, q, n}), x = p.input<float>("x", {t, q, d});
  auto y = p.output<float>("y", {n, d});
  auto s = p.local<float>("s", {n, d});
  for (auto [i, j] : p.loop({"i", n}, {"j", d})) s(i, j) = 0;
  for (auto c : p.loop("c", t))
    for (auto i : p.loop("i", n))
      for (auto j : p.loop("j", d)) {
        auto sum = p.scalar<float>("sum", 0);
        for (auto k : p.loop("k", q)) sum += exp(cum(c, q - 1) - cum(c, k)) * b(c, k, i) * x(c, k, j);
        s(i, j) = 0.5f * s(i, j) + tanh(sum);
      }
  for (auto [i, j] : p.loop({"i", n}, {"j", d})) y(i, j) = s(i, j);
  return p.build();
}

/// Soft suppression: the best box is taken, and those that overlap lose some of their score.
Program soft_nms() {
  ProgramBuilder p("soft_nms");
  auto imgs = p.size("imgs"), n = p.size("n"), keep = p.size("keep");
  auto box = p.input<float>("box", {imgs, n, 4});  // centre and log size
  auto logit = p.input<float>("logit", {imgs, n});
  auto out = p.output<float>("out", {imgs, keep});
  auto total = p.output<float>("total", {imgs});
  for (auto i : p.loop("i", imgs)) {
    auto s = p.local<float>("s", {n});
    auto done = p.local<int>("done", {n});
    for (auto k : p.loop("k", n)) {
      s(k) = sigmoid(logit(i, k));
      done(k) = 0;
    }
    total(i) = 0;
    for (auto r : p.loop("r", keep)) {
      auto best = p.scalar<int>("best", 0);
      auto top = p.scalar<float>("top", -1);
      for (auto k : p.loop("k", n))
        p.when(done(k) == 0 && s(k) > top, [&] {
          top = s(k);
          best = cast<int>(k);
        });
      out(i, r) = max(top, 0.0f);
      done(best) = 1;
      auto bw = p.let("bw", exp(box(i, best, 2))), bh = p.let("bh", exp(box(i, best, 3)));
      auto kept = p.scalar<float>("kept", 0);
      for (auto k : p.loop("k", n)) {
        auto w = p.let("w", exp(box(i, k, 2))), h = p.let("h", exp(box(i, k, 3)));
        auto iw = min(box(i, k, 0) + 0.5f * w, box(i, best, 0) + 0.5f * bw) -
                  max(box(i, k, 0) - 0.5f * w, box(i, best, 0) - 0.5f * bw);
        auto ih = min(box(i, k, 1) + 0.5f * h, box(i, best, 1) + 0.5f * bh) -
                  max(box(i, k, 1) - 0.5f * h, box(i, best, 1) - 0.5f * bh);
        auto inter = p.let("inter", max(iw, 0.0f) * max(ih, 0.0f));
        auto iou = p.let("iou", inter / (w * h + bw * bh - inter + 1e-6f));
        p.when(done(k) == 0, [&] {
          s(k) *= exp(-2 * iou * iou);
          kept += s(k);
        });
      }
      total(i) += kept / n;
    }
  }
  return p.build();
}

}  // namespace

std::vector<Field> rows() {
  return {
      {{"row_between", "", row_between, {{"n", 3001}, {"m", 5}, {"e", 20011}, {"k", 3001}, {"d", 35}}},
       {{{"n", 3}, {"m", 2}, {"e", 7}, {"k", 4}, {"d", 2}}, {{"n", 1}, {"m", 1}, {"e", 1}, {"k", 1}, {"d", 1}}}},
      {{"clear_local", "", clear_local, {{"n", 8001}, {"e", 60013}}}, {{{"n", 3}, {"e", 7}}, {{"n", 4}, {"e", 2}}}},
      {{"seq_rows", "", seq_rows, {{"n", 5003}, {"e", 30011}}}, {{{"n", 3}, {"e", 7}}, {{"n", 4}, {"e", 2}}}},
      {{"mixed_rows", "", mixed_rows, {{"n", 5003}, {"e", 30011}, {"most", 101}}},
       {{{"n", 3}, {"e", 7}, {"most", 7}}, {{"n", 4}, {"e", 2}, {"most", 2}}}},
      {{"row_pairs", "", row_pairs, {{"n", 301}, {"edges", 2001}, {"m", 7}}},
       {{{"n", 2}, {"edges", 5}, {"m", 2}}, {{"n", 3}, {"edges", 4}, {"m", 1}}}},
      {{"sph_line", "", sph_line, {{"n", 20011}, {"g", 1001}}}, {{{"n", 7}, {"g", 3}}, {{"n", 1}, {"g", 1}}}},
      {{"bond_order", "", bond_order, {{"atoms", 10007}, {"bonds", 60013}, {"kinds", 3}}},
       {{{"atoms", 4}, {"bonds", 9}, {"kinds", 2}}, {{"atoms", 1}, {"bonds", 1}, {"kinds", 1}}}},
      {{"nbr_six", "", nbr_six, {{"n", 3001}, {"c", 34}, {"o", 37}}}, {{{"n", 3}, {"c", 2}, {"o", 3}}}},
      {{"neuron_rows", "", neuron_rows, {{"n", 301}, {"d", 101}, {"o", 103}}}, {{{"n", 3}, {"d", 2}, {"o", 3}}}},
      {{"state_update", "", state_update, {{"t", 11}, {"q", 61}, {"n", 33}, {"d", 65}}},
       {{{"t", 3}, {"q", 2}, {"n", 3}, {"d", 2}}}},
      {{"soft_nms", "", soft_nms, {{"imgs", 11}, {"n", 701}, {"keep", 37}}},
       {{{"imgs", 2}, {"n", 5}, {"keep", 3}}, {{"imgs", 1}, {"n", 1}, {"keep", 1}}}},
  };
}

}  // namespace loopgrad::fields

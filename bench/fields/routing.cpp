// Networks that route, rank and pool what data choose.
#include "bench/fields/fields.h"

namespace loopgrad::fields {
namespace {

/// Coreference: representations of overlapping spans by attention to their head words, and scores of pairs of spans.
Program span_pairs() {
  ProgramBuilder p("span_pairs");
  auto tokens = p.size("tokens"), spans = p.size("spans"), d = p.size("d"), ante = p.size("ante");
  auto start = p.input<int>("start", {spans}), width = p.input<int>("width", {spans});
  auto x = p.input<float>("x", {tokens + 10, d});
  auto head = p.input<float>("head", {d});
  auto loss = p.output<float>("loss", {spans});
  auto g = p.output<float>("g", {spans, d});
  p.in_range(start, 0, tokens);
  p.in_range(width, 1, 11);
  auto hs = p.local<float>("hs", {tokens + 10});
  for (auto t : p.loop("t", tokens + 10)) {
    hs(t) = 0;
    for (auto k : p.loop("k", d)) hs(t) += x(t, k) * head(k);
  }
  for (auto s : p.loop("s", spans)) {
    auto z = p.scalar<float>("z", 0);
    for (auto t : p.loop("t", start(s), start(s) + width(s))) z += exp(hs(t));
    for (auto k : p.loop("k", d)) g(s, k) = 0;
    for (auto t : p.loop("t", start(s), start(s) + width(s)))
      for (auto k : p.loop("k", d)) g(s, k) += exp(hs(t)) / z * x(t, k);
  }
  for (auto s : p.loop("s", spans)) {
    auto z = p.scalar<float>("z", 1);
    for (auto a : p.loop("a", max(s - ante, 0), s)) {
      auto dot = p.scalar<float>("dot", 0);
      for (auto k : p.loop("k", d)) dot += g(s, k) * g(a, k);
      z += exp(dot);
    }
    loss(s) = log(z);
  }
  return p.build();
}

/// A mixture of experts with top-2 gates and the loss that balances their load.
Program top2_moe() {
  ProgramBuilder p("top2_moe");
  auto n = p.size("n"), e = p.size("e"), d = p.size("d"), o = p.size("o");
  auto x = p.input<float>("x", {n, d});
  auto gate = p.input<float>("gate", {e, d});
  auto w = p.input<float>("w", {e, o, d});
  auto y = p.output<float>("y", {n, o});
  auto balance = p.output<float>("balance", {});
  auto load = p.local<float>("load", {e}), mean = p.local<float>("mean", {e});
  for (auto k : p.loop("k", e)) {
    load(k) = 0;
    mean(k) = 0;
  }
  for (auto i : p.loop("i", n)) {
    auto g = p.local<float>("g", {e});
    auto z = p.scalar<float>("z", 0);
    for (auto k : p.loop("k", e)) {
      auto s = p.scalar<float>("s", 0);
      for (auto j : p.loop("j", d)) s += gate(k, j) * x(i, j);
      g(k) = exp(s);
      z += g(k);
    }
    for (auto k : p.loop("k", e)) mean(k) += g(k) / z;
    auto best = p.local<int>("best", {2});
    for (auto r : p.loop("r", 2)) {
      best(r) = -1;
      for (auto k : p.loop("k", e))
        p.when(r == 0 || k != best(0), [&] {
          p.when(best(r) < 0, [&] { best(r) = k; }).otherwise([&] { p.when(g(k) > g(best(r)), [&] { best(r) = k; }); });
        });
    }
    load(best(0)) += 1;
    for (auto q : p.loop("q", o)) y(i, q) = 0;
    auto sum = p.scalar<float>("sum", 0);
    for (auto r : p.loop("r", 2)) p.when(best(r) >= 0, [&] { sum += g(best(r)); });
    for (auto r : p.loop("r", 2))
      p.when(best(r) >= 0, [&] {
        for (auto q : p.loop("q", o)) {
          auto s = p.scalar<float>("s", 0);
          for (auto j : p.loop("j", d)) s += w(best(r), q, j) * x(i, j);
          y(i, q) += g(best(r)) / sum * max(s, 0.0f);
        }
      });
  }
  balance() = 0;
  for (auto k : p.loop("k", e)) balance() += load(k) * mean(k) / cast<float>(n) / cast<float>(n);
  return p.build();
}

/// Principal neighbourhood aggregation: mean, max, min and deviation of neighbours, scaled by degree.
Program pna() {
  ProgramBuilder p("pna");
  auto nodes = p.size("nodes"), edges = p.size("edges"), d = p.size("d");
  auto first = p.input<std::int64_t>("first", {nodes + 1});
  auto src = p.input<int>("src", {edges});
  auto x = p.input<float>("x", {nodes, d}), e = p.input<float>("e", {edges, d});
  auto y = p.output<float>("y", {nodes, 8, d});
  p.csr(first, edges);
  p.in_range(src, 0, nodes);
  for (auto v : p.loop("v", nodes)) {
    auto deg = p.let("deg", cast<float>(first(v + 1) - first(v)));
    for (auto k : p.loop("k", d)) {
      auto s = p.scalar<float>("s", 0), ss = p.scalar<float>("ss", 0);
      auto hi = p.scalar<float>("hi", -10), lo = p.scalar<float>("lo", 10);
      for (auto j : p.loop("j", first(v), first(v + 1))) {
        auto m = p.let("m", x(src(j), k) * e(j, k) + x(v, k));
        s += m;
        ss += m * m;
        hi.max_with(m);
        lo.min_with(m);
      }
      auto mean = p.let("mean", s / max(deg, 1.0f));
      auto dev = p.let("dev", sqrt(max(ss / max(deg, 1.0f) - mean * mean, 0.0f) + 1e-2f));
      auto scale = p.let("scale", log(deg + 1));
      y(v, 0, k) = mean;
      y(v, 1, k) = hi;
      y(v, 2, k) = lo;
      y(v, 3, k) = dev;
      y(v, 4, k) = mean * scale;
      y(v, 5, k) = hi * scale;
      y(v, 6, k) = lo * scale;
      y(v, 7, k) = dev * scale;
    }
  }
  return p.build();
}

/// Packed sequences whose starts the program itself adds up: a masked mean and variance of each, then normalised.
Program packed_norm() {
  ProgramBuilder p("packed_norm");
  auto seqs = p.size("seqs"), most = p.size("most"), d = p.size("d");
  auto len = p.input<int>("len", {seqs});
  auto x = p.input<float>("x", {seqs * most, d});
  auto gain = p.input<float>("gain", {most});
  auto y = p.output<float>("y", {seqs * most, d});
  p.in_range(len, 0, most + 1);
  auto start = p.local<std::int64_t>("start", {seqs + 1});
  start(0) = 0;
  for (auto s : p.loop("s", seqs)) start(s + 1) = start(s) + len(s);
  for (auto [r, k] : p.loop({"r", seqs * most}, {"k", d})) y(r, k) = 0;
  for (auto s : p.loop("s", seqs))
    for (auto k : p.loop("k", d)) {
      auto sum = p.scalar<float>("sum", 0), sq = p.scalar<float>("sq", 1e-2f);
      for (auto r : p.loop("r", start(s), start(s + 1), {.at_most = {most}})) sum += x(r, k);
      auto mean = p.let("mean", sum / max(cast<float>(len(s)), 1.0f));
      for (auto r : p.loop("r", start(s), start(s + 1), {.at_most = {most}})) sq += (x(r, k) - mean) * (x(r, k) - mean);
      for (auto r : p.loop("r", start(s), start(s + 1), {.at_most = {most}}))
        y(r, k) = (x(r, k) - mean) / sqrt(sq / max(cast<float>(len(s)), 1.0f)) * gain(r - start(s));
    }
  return p.build();
}

/// Hierarchical softmax: the path from each word's leaf to the root of a tree, whose parents are data.
Program hier_softmax() {
  ProgramBuilder p("hier_softmax");
  auto n = p.size("n"), words = p.size("words"), d = p.size("d");
  auto leaf = p.input<int>("leaf", {n}), parent = p.input<int>("parent", {words}), side = p.input<int>("side", {words});
  auto h = p.input<float>("h", {n, d}), v = p.input<float>("v", {words, d});
  auto loss = p.output<float>("loss", {n});
  p.in_range(leaf, 0, words);
  p.in_range(parent, 0, words);
  p.in_range(side, 0, 2);
  for (auto i : p.loop("i", n)) {
    auto at = p.scalar<int>("at", leaf(i));
    loss(i) = 0;
    for (auto k : p.loop_while("k", 20, [&](auto) { return at > 0; })) {
      auto s = p.scalar<float>("s", 0);
      for (auto j : p.loop("j", d)) s += h(i, j) * v(parent(at), j);
      loss(i) += log1p(exp(select(side(at) == 1, -s, s)));
      at = min(parent(at), at - 1);
    }
  }
  return p.build();
}

/// Semi-Markov CRF: the log partition function over segments of at most `most` frames.
Program semi_crf() {
  ProgramBuilder p("semi_crf");
  auto b = p.size("b"), t = p.size("t"), c = p.size("c"), most = p.size("most");
  auto score = p.input<float>("score", {b, t, c});
  auto trans = p.input<float>("trans", {c, c});
  auto dur = p.input<float>("dur", {most, c});
  auto len = p.input<int>("len", {b});
  auto z = p.output<float>("z", {b});
  p.in_range(len, 1, t + 1);
  for (auto i : p.loop("i", b)) {
    auto cum = p.local<float>("cum", {t + 1, c}), alpha = p.local<float>("alpha", {t + 1, c});
    for (auto k : p.loop("k", c)) {
      cum(0, k) = 0;
      alpha(0, k) = 0;
      for (auto s : p.loop("s", t)) cum(s + 1, k) = cum(s, k) + score(i, s, k);
    }
    for (auto e : p.loop("e", 1, len(i) + 1))
      for (auto k : p.loop("k", c)) {
        auto m = p.scalar<float>("m", -1e30f), sum = p.scalar<float>("sum", 0);
        for (auto d : p.loop("d", 1, min(e, most) + 1))
          for (auto j : p.loop("j", c))
            m.max_with(alpha(e - d, j) + trans(j, k) + cum(e, k) - cum(e - d, k) + dur(d - 1, k));
        for (auto d : p.loop("d", 1, min(e, most) + 1))
          for (auto j : p.loop("j", c))
            sum += exp(alpha(e - d, j) + trans(j, k) + cum(e, k) - cum(e - d, k) + dur(d - 1, k) - m);
        alpha(e, k) = m + log(sum);
      }
    auto s = p.scalar<float>("s", 0);
    for (auto k : p.loop("k", c)) s += exp(alpha(len(i), k) - alpha(len(i), 0));
    z(i) = alpha(len(i), 0) + log(s);
  }
  return p.build();
}

/// Batch normalisation per domain, whose statistics run on in place; samples name their domain.
Program domain_bn() {
  ProgramBuilder p("domain_bn");
  auto n = p.size("n"), c = p.size("c"), hw = p.size("hw"), doms = p.size("doms");
  auto dom = p.input<int>("dom", {n});
  auto x = p.input<float>("x", {n, c, hw});
  auto gamma = p.input<float>("gamma", {doms, c}), beta = p.input<float>("beta", {doms, c});
  auto mean = p.inout<float>("mean", {doms, c}), var = p.inout<float>("var", {doms, c});
  auto y = p.output<float>("y", {n, c, hw});
  p.in_range(dom, 0, doms);
  auto s = p.local<float>("s", {doms, c}), ss = p.local<float>("ss", {doms, c});
  auto cnt = p.local<float>("cnt", {doms});
  for (auto g : p.loop("g", doms)) {
    cnt(g) = 0;
    for (auto k : p.loop("k", c)) {
      s(g, k) = 0;
      ss(g, k) = 0;
    }
  }
  for (auto i : p.loop("i", n)) {
    cnt(dom(i)) += hw;
    for (auto [k, j] : p.loop({"k", c}, {"j", hw})) {
      s(dom(i), k) += x(i, k, j);
      ss(dom(i), k) += x(i, k, j) * x(i, k, j);
    }
  }
  for (auto [g, k] : p.loop({"g", doms}, {"k", c}))
    p.when(cnt(g) > 0, [&] {
      auto m = p.let("m", s(g, k) / cnt(g));
      auto v = p.let("v", max(ss(g, k) / cnt(g) - m * m, 0.0f));
      s(g, k) = m;
      ss(g, k) = 1 / sqrt(v + 1e-2f);
      mean(g, k) = 0.9f * mean(g, k) + 0.1f * m;
      var(g, k) = 0.9f * var(g, k) + 0.1f * v * cnt(g) / max(cnt(g) - 1, 1.0f);
    });
  for (auto [i, k, j] : p.loop({"i", n}, {"k", c}, {"j", hw}))
    y(i, k, j) = (x(i, k, j) - s(dom(i), k)) * ss(dom(i), k) * gamma(dom(i), k) + beta(dom(i), k);
  return p.build();
}

/// Experts with a capacity: tokens are put into each expert's buffer in turn, those beyond it are dropped.
Program capacity_moe() {
  ProgramBuilder p("capacity_moe");
  auto n = p.size("n"), e = p.size("e"), cap = p.size("cap"), d = p.size("d");
  auto x = p.input<float>("x", {n, d}), gate = p.input<float>("gate", {n, e}), w = p.input<float>("w", {e, d, d});
  auto y = p.output<float>("y", {n, d});
  auto used = p.local<int>("used", {e}), expert = p.local<int>("expert", {n}), slot = p.local<int>("slot", {n});
  auto prob = p.local<float>("prob", {n});
  auto buffer = p.local<float>("buffer", {e, cap, d}), done = p.local<float>("done", {e, cap, d});
  for (auto k : p.loop("k", e)) {
    used(k) = 0;
    for (auto [c, j] : p.loop({"c", cap}, {"j", d})) buffer(k, c, j) = 0;
  }
  for (auto i : p.loop("i", n)) {
    auto z = p.scalar<float>("z", 0);
    auto best = p.scalar<int>("best", 0);
    for (auto k : p.loop("k", e)) {
      z += exp(gate(i, k));
      p.when(gate(i, k) > gate(i, best), [&] { best = k; });
    }
    expert(i) = best;
    prob(i) = exp(gate(i, best)) / z;
  }
  for (auto i : p.loop("i", n)) {
    slot(i) = used(expert(i));
    used(expert(i)) += 1;
    p.when(slot(i) < cap, [&] {
      for (auto j : p.loop("j", d)) buffer(expert(i), slot(i), j) = x(i, j);
    });
  }
  for (auto [k, c, o] : p.loop({"k", e}, {"c", cap}, {"o", d})) {
    done(k, c, o) = 0;
    for (auto j : p.loop("j", d)) done(k, c, o) += w(k, o, j) * buffer(k, c, j);
  }
  for (auto i : p.loop("i", n))
    for (auto j : p.loop("j", d)) {
      y(i, j) = x(i, j);
      p.when(slot(i) < cap, [&] { y(i, j) += prob(i) * tanh(done(expert(i), slot(i), j)); });
    }
  return p.build();
}

/// A ray through an occupancy grid, cell by cell, until it leaves or is opaque.
Program occupancy_march() {
  ProgramBuilder p("occupancy_march");
  auto rays = p.size("rays"), g = p.size("g"), most = p.size("most");
  auto org = p.input<float>("org", {rays, 2}), dir = p.input<float>("dir", {rays, 2});
  auto occ = p.input<int>("occ", {g, g});
  auto dens = p.input<float>("dens", {g, g}), col = p.input<float>("col", {g, g});
  auto c = p.output<float>("c", {rays});
  p.in_range(occ, 0, 2);
  for (auto r : p.loop("r", rays)) {
    auto norm = p.let("norm", sqrt(dir(r, 0) * dir(r, 0) + dir(r, 1) * dir(r, 1) + 1e-3f));
    auto x = p.scalar<float>("x", sigmoid(org(r, 0)) * g), y = p.scalar<float>("y", sigmoid(org(r, 1)) * g);
    auto t = p.scalar<float>("t", 1);
    c(r) = 0;
    for (auto k : p.loop_while("k", most, [&](auto) { return t > 1e-2f && x >= 0 && y >= 0 && x < g && y < g; })) {
      auto i = p.let("i", min(cast<int>(x), g - 1)), j = p.let("j", min(cast<int>(y), g - 1));
      p.when(occ(i, j) == 1, [&] {
        auto a = p.let("a", 1 - exp(-abs(dens(i, j)) * 0.5f));
        c(r) += t * a * col(i, j);
        t *= 1 - a;
      });
      x += 0.5f * dir(r, 0) / norm;
      y += 0.5f * dir(r, 1) / norm;
    }
  }
  return p.build();
}

}  // namespace

std::vector<Field> routing() {
  return {
      {{"span_pairs", "", span_pairs, {{"tokens", 4001}, {"spans", 6007}, {"d", 65}, {"ante", 51}}},
       {{{"tokens", 5}, {"spans", 4}, {"d", 2}, {"ante", 2}}, {{"tokens", 1}, {"spans", 1}, {"d", 1}, {"ante", 1}}}},
      {{"top2_moe", "", top2_moe, {{"n", 8009}, {"e", 17}, {"d", 65}, {"o", 67}}},
       {{{"n", 4}, {"e", 3}, {"d", 2}, {"o", 3}}, {{"n", 1}, {"e", 1}, {"d", 1}, {"o", 1}}}},
      {{"pna", "", pna, {{"nodes", 20011}, {"edges", 200023}, {"d", 33}}},
       {{{"nodes", 4}, {"edges", 9}, {"d", 2}}, {{"nodes", 1}, {"edges", 1}, {"d", 1}}}},
      {{"packed_norm", "", packed_norm, {{"seqs", 501}, {"most", 61}, {"d", 33}}},
       {{{"seqs", 3}, {"most", 4}, {"d", 2}}, {{"seqs", 1}, {"most", 1}, {"d", 1}}}},
      {{"hier_softmax", "", hier_softmax, {{"n", 10007}, {"words", 5003}, {"d", 33}}},
       {{{"n", 3}, {"words", 7}, {"d", 2}}, {{"n", 1}, {"words", 1}, {"d", 1}}}},
      {{"semi_crf", "", semi_crf, {{"b", 21}, {"t", 301}, {"c", 11}, {"most", 13}}},
       {{{"b", 2}, {"t", 5}, {"c", 2}, {"most", 3}}, {{"b", 1}, {"t", 1}, {"c", 1}, {"most", 1}}}},
      {{"domain_bn", "", domain_bn, {{"n", 513}, {"c", 65}, {"hw", 401}, {"doms", 5}}},
       {{{"n", 5}, {"c", 2}, {"hw", 3}, {"doms", 2}}, {{"n", 1}, {"c", 1}, {"hw", 1}, {"doms", 1}}}},
      {{"capacity_moe", "", capacity_moe, {{"n", 4001}, {"e", 17}, {"cap", 301}, {"d", 65}}},
       {{{"n", 7}, {"e", 3}, {"cap", 2}, {"d", 2}}, {{"n", 1}, {"e", 1}, {"cap", 1}, {"d", 1}}}},
      {{"occupancy_march", "", occupancy_march, {{"rays", 20011}, {"g", 101}, {"most", 301}}},
       {{{"rays", 4}, {"g", 5}, {"most", 9}}, {{"rays", 1}, {"g", 1}, {"most", 1}}}},
  };
}

}  // namespace loopgrad::fields
